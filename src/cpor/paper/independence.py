"""How independent relations are: residual correlations of pairs that share an object (Assumption 1)."""

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from cpor.learn.bootstrap import Interval
from cpor.learn.logistic import LogisticCalibrator
from cpor.paper.fitted_stages import FUSED, cross_fit
from cpor.paper.table import Row, Table
from cpor.paper.unobench import FusedScores, UnobenchCase

CLIP = 1e-3
"""Probabilities are clipped to [CLIP, 1 - CLIP]: one surprise must not decide."""

RESAMPLES = 300
KINDS = ("same blocked object", "same blocker", "chain", "opposite")


def independence_table(cases: tuple[UnobenchCase, ...], log: FusedScores, rng: np.random.Generator) -> Table:
    """Correlation of (label - p) / sqrt(p (1 - p)) over pairs of relations of one case, images resampled.

    Args:
        cases: The truth.
        log: With sources, p is cross-fitted by image; else Platt scaling of the log itself.
        rng: Random numbers of the bootstrap.
    """
    p, fit = calibrated(cases, log)
    residual = (log.label - p) / np.sqrt(p * (1.0 - p))
    image = np.array([case.image_id for case in cases])[log.case]
    rows = []
    for kind, (first, second) in zip(KINDS, related_rows(log, p), strict=True):
        a, b = residual[first], residual[second]
        low, high = _interval(a, b, image[first], rng)
        found = {"correlation": _correlation(a, b, np.ones(len(a))), "n": len(a)}
        rows.append(Row(kind, found, {}, ci={"correlation": Interval(low, high)}))
    notes = (
        fit,
        "0 where relations are independent given p. Labels of the released log say whether a relation lies "
        "on the target's paths, which ties relations of one object to each other.",
    )
    return Table("independence", "Residual correlations of relations", rows, notes)


def calibrated(cases: tuple[UnobenchCase, ...], log: FusedScores) -> tuple[Float[np.ndarray, " n"], str]:
    """Probability of each row, clipped, and how it was fitted."""
    if log.sources:
        p, fit = cross_fit(cases, log)[FUSED], "Calibrated and fused, cross-fitted by image."
    else:
        p = LogisticCalibrator.fit(log.p, log.label).apply(log.p)
        fit = "Platt scaling fitted to the log itself."
    return np.clip(p, CLIP, 1.0 - CLIP), fit


def related_rows(log: FusedScores, p: Float[np.ndarray, " n"]) -> list[tuple[np.ndarray, np.ndarray]]:
    """Rows of each kind of pair of relations, by KINDS."""
    # As decoding takes them: no self-loops, and of duplicates, such as pieces of one object, the likeliest.
    order = np.argsort(-np.nan_to_num(p), kind="stable")
    named = np.stack([log.case, log.blocked, log.blocker], axis=1)[order]
    kept = np.sort(order[np.unique(named, axis=0, return_index=True)[1]])
    by_case: dict[int, list[int]] = defaultdict(list)
    for k in kept[log.blocked[kept] != log.blocker[kept]].tolist():
        by_case[int(log.case[k])].append(k)
    found: list[list[tuple[int, int]]] = [[] for _ in KINDS]
    for rows in by_case.values():
        u, v = (np.array(rows)[side] for side in np.triu_indices(len(rows), 1))
        blocked, blocker = log.blocked, log.blocker
        there, back = blocker[u] == blocked[v], blocker[v] == blocked[u]
        kinds = (
            blocked[u] == blocked[v],
            (blocker[u] == blocker[v]) & (blocked[u] != blocked[v]),
            there ^ back,
            there & back,
        )
        for each, holds in zip(found, kinds, strict=True):
            each.extend(zip(u[holds].tolist(), v[holds].tolist(), strict=True))
    sides = [np.array(each, np.int64).reshape(-1, 2) for each in found]
    return [(each[:, 0], each[:, 1]) for each in sides]


def _correlation(
    a: Float[np.ndarray, " n"], b: Float[np.ndarray, " n"], weight: Float[np.ndarray, " n"]
) -> float:
    scale = np.sqrt((weight * a * a).sum() * (weight * b * b).sum())
    return float((weight * a * b).sum() / scale) if scale else 0.0


def _interval(
    a: Float[np.ndarray, " n"], b: Float[np.ndarray, " n"], image: Sequence[int], rng: np.random.Generator
) -> tuple[float, float]:
    images, place = np.unique(np.asarray(image), return_inverse=True)
    if not len(images):
        return 0.0, 0.0
    drawn = [
        _correlation(
            a, b, np.bincount(rng.integers(len(images), size=len(images)), minlength=len(images))[place]
        )
        for _ in range(RESAMPLES)
    ]
    low, high = np.quantile(drawn, [0.025, 0.975]).tolist()
    return low, high
