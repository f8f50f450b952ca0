r"""How independent relations are (Assumption 1), and what a model that lets them be correlated changes.

    P(e) ~ 1[e acyclic] \prod_a p_a^{e_a} (1 - p_a)^{1 - e_a} \exp( \sum_k \theta_k \sum_{(a, b) of kind k} (e_a - p_a) (e_b - p_b) )

With theta = 0 it is the paper's posterior. theta is fitted by pseudo-likelihood, each half of the images with
the theta of the other half; acyclicity is left out of that fit.
"""  # noqa: E501

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np
from jaxtyping import Bool, Float, Int

from cpor.infer.local import reachable
from cpor.learn.bootstrap import Interval, compare_paired
from cpor.learn.logistic import LogisticCalibrator
from cpor.paper.cases import score_cases
from cpor.paper.paired import forced_action, is_right
from cpor.paper.probability_ablation import FUSED, at_stage, cross_fit
from cpor.paper.table import Figures, Row, Table
from cpor.paper.unobench import FusedScores, UnobenchCase
from cpor.relations import ObstructionPosterior
from cpor.scene import BlockedBy

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


COUPLED = KINDS[:3]
"""Opposite relations exclude each other already: two of them are a cycle."""

MOST_ENUMERATED = 13
"""Relations up to which all graphs are summed; beyond them 2^13 graphs are drawn."""

LEAST_EFFECTIVE = 200
"""Effective number of drawn graphs below which a case does not count."""

REFITS = 100
_STEPS = 30


Coupling: TypeAlias = tuple[Int[np.ndarray, " k"], Int[np.ndarray, " k"]]
"""Pairs of relations of one kind, as places in an array of relations."""


def fit_couplings(
    p: Float[np.ndarray, " n"],
    label: Bool[np.ndarray, " n"],
    pairs: Sequence[Coupling],
    weight: Float[np.ndarray, " n"],
) -> Float[np.ndarray, " k"]:
    """Maximum pseudo-likelihood: a logistic regression with the log-odds of p as offset. Shape (k,)."""
    x, offset = _fields(p, label, pairs), np.log(p) - np.log1p(-p)
    theta = np.zeros(len(pairs))
    for _ in range(_STEPS):
        q = 1.0 / (1.0 + np.exp(-(offset + x @ theta)))
        gradient = x.T @ (weight * (label - q))
        curvature = (x * (weight * q * (1.0 - q))[:, None]).T @ x + 1e-6 * np.eye(len(pairs))
        step = np.linalg.solve(curvature, gradient)
        theta += step
        if np.abs(step).max() < 1e-8:
            break
    return theta


def log_loss(
    p: Float[np.ndarray, " n"],
    label: Bool[np.ndarray, " n"],
    pairs: Sequence[Coupling],
    theta: Float[np.ndarray, " k"],
) -> Float[np.ndarray, " n"]:
    """Minus the log pseudo-likelihood of each relation, given all others. [nats] Shape (n,)."""
    z = np.log(p) - np.log1p(-p) + _fields(p, label, pairs) @ theta
    return np.asarray(np.logaddexp(0.0, np.where(label, -z, z)))


def _fields(p: np.ndarray, label: np.ndarray, pairs: Sequence[Coupling]) -> Float[np.ndarray, "n k"]:
    """What the related relations of each one say: sums of their residuals."""
    residual, n = label - p, len(p)
    sums = [
        np.bincount(a, residual[b], n) + np.bincount(b, residual[a], n) if len(a) else np.zeros(n)
        for a, b in pairs
    ]
    return np.stack(sums, axis=1)


def coupled_scores(
    posterior: ObstructionPosterior, couplings: Sequence[Mapping[str, float]], rng: np.random.Generator
) -> list[Float[np.ndarray, " n"]] | None:
    """q of every object under each model, from the same graphs; None where too few drawn ones count.

    Args:
        posterior: Relations of a scene.
        couplings: theta by kind, for each model; empty: relations are independent.
        rng: Random numbers for drawn graphs.
    """
    p = posterior.p_obstructs
    pairs = [BlockedBy(int(i), int(j)) for i, j in np.argwhere(p > 0.0)]
    blocked, blocker = np.array(pairs).T
    n, m, target = len(p), len(blocked), posterior.target_index
    prob = p[blocked, blocker]
    if m <= MOST_ENUMERATED:
        graphs = ((np.arange(1 << m)[:, None] >> np.arange(m)) & 1).astype(np.bool_)
    else:
        graphs = rng.random((1 << MOST_ENUMERATED, m)) < prob
    left = np.ones((len(graphs), n), np.bool_)
    for _ in range(n):  # take free objects away until only cycles are left
        kept = np.zeros_like(left)
        for a in range(m):
            kept[:, blocked[a]] |= graphs[:, a] & left[:, blocker[a]]
        left &= kept
    graphs = graphs[~left.any(axis=1)]
    obstructed = np.zeros((len(graphs), n), np.bool_)
    reached = np.zeros((len(graphs), n), np.bool_)
    reached[:, target] = True
    for a in range(m):
        obstructed[:, blocked[a]] |= graphs[:, a]
    for _ in range(n):
        for a in range(m):
            reached[:, blocker[a]] |= reached[:, blocked[a]] & graphs[:, a]
    free, residual = reached & ~obstructed, graphs - prob
    alone = graphs @ (np.log(prob) - np.log1p(-prob)) if m <= MOST_ENUMERATED else np.zeros(len(graphs))
    kinds = [[kind_of(a, b) for b in pairs] for a in pairs]
    scores = []
    for coupling in couplings:
        matrix = np.array([[coupling.get(kind or "", 0.0) for kind in row] for row in kinds])
        np.fill_diagonal(matrix, 0.0)
        log_weight = alone + 0.5 * ((residual @ matrix) * residual).sum(axis=1)
        weight = np.exp(log_weight - log_weight.max(initial=-np.inf))
        if m > MOST_ENUMERATED and weight.sum() ** 2 < LEAST_EFFECTIVE * (weight**2).sum():
            return None
        scores.append(np.asarray(weight @ free / weight.sum()))
    return scores


def kind_of(a: BlockedBy, b: BlockedBy) -> str | None:
    """How two relations of one scene are related; None: they share no object, or are opposite."""
    if a.blocked == b.blocked:
        return KINDS[0]
    if a.blocker == b.blocker:
        return KINDS[1]
    return KINDS[2] if (a.blocker == b.blocked) != (b.blocker == a.blocked) else None


def couplings_table(cases: tuple[UnobenchCase, ...], log: FusedScores, rng: np.random.Generator) -> Table:
    """theta by kind, the gain in log loss, and the first actions that it changes."""
    p, _ = calibrated(cases, log)
    image = np.array([case.image_id for case in cases])
    groups = image[log.case]
    pairs = related_rows(log, p)[: len(COUPLED)]
    _, rank = np.unique(groups, return_inverse=True)
    half = rank % 2 == 0
    theta = {fold: fit_couplings(p, log.label, pairs, (half != fold).astype(float)) for fold in (True, False)}
    loss = np.where(half, *(log_loss(p, log.label, pairs, theta[fold]) for fold in (True, False)))
    alone = log_loss(p, log.label, pairs, np.zeros(len(pairs)))
    gain = compare_paired(-alone, -loss, groups, rng)
    whole = fit_couplings(p, log.label, pairs, np.ones(len(p)))
    n_images = int(rank.max()) + 1
    drawn = [
        fit_couplings(
            p,
            log.label,
            pairs,
            np.bincount(rng.integers(n_images, size=n_images), minlength=n_images)[rank].astype(float),
        )
        for _ in range(REFITS)
    ]
    low, high = np.quantile(drawn, [0.025, 0.975], axis=0)
    rows = [
        Row(f"theta, {kind}", {"theta": t, "n": len(pair[0])}, {}, ci={"theta": Interval(a, b)})
        for kind, t, pair, a, b in zip(
            COUPLED, whole.tolist(), pairs, low.tolist(), high.tolist(), strict=True
        )
    ]
    rows.append(
        Row("gain in log loss of a relation", {"gain": gain.delta, "n": gain.n}, {}, ci={"gain": gain.ci})
    )
    side = {int(i): bool(h) for i, h in zip(groups, half, strict=True)}
    rows.append(_decisions(cases, log, p, theta, side, rng))
    notes = (
        "Gain and decisions: theta of the other half of the images. Only relations on the way from the "
        f"target enter; above {MOST_ENUMERATED} of them, {1 << MOST_ENUMERATED} graphs are drawn.",
        "First actions are forced. Corrections: wrong with independent relations, right with coupled ones.",
    )
    return Table("couplings", "Log-linear model with correlated relations", rows, notes)


def _decisions(
    cases: Sequence[UnobenchCase],
    log: FusedScores,
    p: Float[np.ndarray, " n"],
    theta: Mapping[bool, Float[np.ndarray, " k"]],
    side: Mapping[int, bool],
    rng: np.random.Generator,
) -> Row:
    before, after, images, changed, shift, n_lost = [], [], [], 0, 0.0, 0
    for case, whole in score_cases(cases, at_stage(log, p)):
        scene = None if whole is None else _what_matters(whole)
        if scene is None:
            continue
        fitted = dict(zip(COUPLED, theta[side[case.image_id]].tolist(), strict=True))
        scores = coupled_scores(scene, ({}, fitted), rng)
        if scores is None:
            n_lost += 1
            continue
        q, coupled = scores
        actions = [forced_action(scene, each) for each in scores]
        changed += actions[0] != actions[1]
        shift += float(np.abs(q - coupled).max())
        right = [float(is_right(action, case.top_objects)) for action in actions]
        before.append(right[0])
        after.append(right[1])
        images.append(case.image_id)
    found = compare_paired(np.array(before), np.array(after), np.array(images), rng)
    figures: Figures = {
        "n": found.n,
        "too_few_graphs": n_lost,
        "changed": changed,
        "corrections": found.corrections,
        "regressions": found.regressions,
        "right_before": float(np.mean(before)),
        "right_after": float(np.mean(after)),
        "delta": found.delta,
        "largest_change_of_q": shift / found.n,
    }
    return Row("first actions", figures, {}, ci={"delta": found.ci})


def _what_matters(scene: ObstructionPosterior) -> ObstructionPosterior | None:
    """The answered relations on the way from the target; None where there are none."""
    p = np.nan_to_num(scene.p_obstructs)
    members = np.sort(reachable(p, scene.target_index))
    if len(members) == 1:
        return None
    return ObstructionPosterior(
        [scene.objects[k] for k in members], scene.target, p[np.ix_(members, members)]
    )
