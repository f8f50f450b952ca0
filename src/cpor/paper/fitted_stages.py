"""The paper's pipeline stage by stage on a log with raw scores and geometry, cross-fitted by image.

Tables prob-ablation, cpor-ablation (panel A) and cross-vlm come from here. Half of the images are fitted to
(half of these for calibrators, half for fusion), the other half is measured, and the other way round.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from cpor.errors import InvalidSettingError, list_labels
from cpor.evidence.source import GEOMETRY, SEMANTIC
from cpor.learn.gated import GatedFusion, NaiveFusion
from cpor.learn.isotonic import IsotonicCalibrator
from cpor.learn.logistic import LogisticCalibrator
from cpor.paper.unobench import SOURCE_COLUMNS, FusedScores, UnobenchCase

METHODS = ("temperature", "platt", "isotonic", "adaptive-platt")
PENALTY = 1.0
"""lambda_cal of the paper's semantic calibrator."""

FUSED = "adaptive-platt + fusion"
"""The stage whose probabilities the paper decides from."""

Calibrator = LogisticCalibrator | IsotonicCalibrator
Stages = Mapping[str, Float[np.ndarray, " n"]]


class FittedStages(NamedTuple):
    """Calibrators by method, and the fusion fitted on top of each."""

    calibrators: Mapping[str, Calibrator]
    fusions: Mapping[str, GatedFusion]


def folds_of(cases: tuple[UnobenchCase, ...], log: FusedScores) -> Bool[np.ndarray, "2 n"]:
    """Two bits of each row by its image: which half of the images, and which half of that. Shape (2, n)."""
    distinct, rank = np.unique([case.image_id for case in cases], return_inverse=True)
    if len(distinct) < 4:
        raise InvalidSettingError(
            f"the truth has {len(distinct)} images; cross-fitting calibrators and fusion needs at least 4"
        )
    place = rank[log.case]
    return np.array([place % 2 == 0, place // 2 % 2 == 0])


def fit_stages(
    log: FusedScores, calibrate: Bool[np.ndarray, " n"], fuse: Bool[np.ndarray, " n"]
) -> FittedStages:
    """Fit every calibrator on some rows and a fusion for each on others.

    Args:
        log: With raw scores, counts, geometry and reliability.
        calibrate: Rows for the calibrators. Shape (n,).
        fuse: Rows for the fusions. Shape (n,).
    """
    score, count, geometry, gate = _columns(log)
    label = log.label
    fitted: dict[str, Calibrator] = {
        "temperature": LogisticCalibrator.fit(score[calibrate], label[calibrate], with_bias=False),
        "platt": LogisticCalibrator.fit(score[calibrate], label[calibrate]),
        "isotonic": IsotonicCalibrator.fit(score[calibrate], label[calibrate]),
        "adaptive-platt": LogisticCalibrator.fit(
            score[calibrate],
            label[calibrate],
            sees="scene",
            n_candidates=count[calibrate],
            penalty=PENALTY,
        ),
    }
    fusions = {
        name: GatedFusion.fit(
            label[fuse],
            {SEMANTIC: each.apply(score[fuse], n_candidates=count[fuse]), GEOMETRY: geometry[fuse]},
            {GEOMETRY: gate[fuse]},
            penalty=0.0,
        )
        for name, each in fitted.items()
    }
    return FittedStages(fitted, fusions)


def apply_stages(
    fitted: FittedStages, log: FusedScores, rows: Bool[np.ndarray, " n"], prior: float | None = None
) -> Stages:
    """Probabilities of some rows at every stage.

    Args:
        fitted: The stages.
        log: As in `fit_stages`.
        rows: Which rows. Shape (n,).
        prior: Base rate of this log's candidate pool; None: that of the fit.
    """
    score, count, geometry, gate = (column[rows] for column in _columns(log))
    stages = {"raw": score}
    for name, each in fitted.calibrators.items():
        p = stages[name] = each.apply(score, n_candidates=count)
        fusion = fitted.fusions[name]
        both = {SEMANTIC: p, GEOMETRY: geometry}
        stages[f"{name} + fusion"] = fusion.apply(both, {GEOMETRY: gate}, prior)
    stages["adaptive-platt + naive fusion"] = NaiveFusion().apply(
        {SEMANTIC: stages["adaptive-platt"], GEOMETRY: geometry}
    )
    return stages


def cross_fit(
    cases: tuple[UnobenchCase, ...], reference: FusedScores, log: FusedScores | None = None
) -> Stages:
    """Probabilities at every stage, each from stages fitted to the other half of the images.

    Args:
        cases: The truth.
        reference: The log that calibrators and weights are fitted to.
        log: Another scorer's log of the same cases: nothing is fitted to it, and only the base rate of its
            candidate pool enters. None: the reference itself.
    """
    half, quarter = folds_of(cases, reference)
    target = reference if log is None else log
    side = half if log is None else folds_of(cases, target)[0]
    found: dict[str, Float[np.ndarray, " n"]] = {}
    for fold in (True, False):
        fit = half != fold
        stages = fit_stages(reference, fit & quarter, fit & ~quarter)
        rows = side == fold
        # The pool's base rate comes from the images that nothing is measured on.
        prior = None if log is None else float(target.label[~rows].mean())
        for name, p in apply_stages(stages, target, rows, prior).items():
            found.setdefault(name, np.full(len(target), np.nan))[rows] = p
    return found


def at_stage(log: FusedScores, p: Float[np.ndarray, " n"]) -> FusedScores:
    """The log with other probabilities."""
    return replace(log, p=p)


def _columns(log: FusedScores) -> tuple[Float[np.ndarray, " n"], ...]:
    if not log.sources:
        raise InvalidSettingError(
            "the log has fused scores alone. The stages before fusion need the columns "
            f"{list_labels(SOURCE_COLUMNS)}"
        )
    return tuple(log.sources[name] for name in SOURCE_COLUMNS)
