"""Stages of a model that is there already, moved towards what a few labelled scenes say.

    theta = argmin  mean NLL(theta) + weight / (2 n_images) |theta - theta_prior|^2

The weight is chosen by cross-validation over images; infinity, the prior model itself, is among those tried.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from jaxtyping import Bool, Float
from scipy.optimize import minimize

from cpor.calibration import PlattCalibrator, ScenePlattCalibrator
from cpor.calibration.cross_validation import N_FOLDS, fold_of
from cpor.fitting.labelled import LabelledScene
from cpor.fusion import GatedFusion
from cpor.metrics import nll
from cpor.model import FittedModel
from cpor.pipeline import LEAST_RELIABILITY, Pipeline

WEIGHTS = (0.3, 3.0, 30.0, 300.0, math.inf)
"""Weights of the prior model that are tried, in pictures' worth of evidence; infinity leaves it as it is."""

MOVED: dict[type, tuple[tuple[str, float | None], ...]] = {
    PlattCalibrator: (("a", 1e-2), ("c", None)),
    ScenePlattCalibrator: (("alpha_0", None), ("alpha_n", None), ("c_0", None), ("c_n", None)),
    GatedFusion: (("gamma", None), ("beta_vlm", 0.0), ("beta_cv", 0.0)),
}
"""Numbers that move, with their least value; a stage of another kind stays as it is."""

NOT_SURER = ("a", "beta_cv")
"""Numbers that may only fall: the slope of Platt scaling, which geometry has, and the weight of geometry.

A few labels that it gets right by chance do not make it surer.
"""


def choose_weight(prior: FittedModel, part: Sequence[LabelledScene]) -> float:
    """How much the prior model counts: the weight of least held-out NLL over the pictures of a part."""
    folds = folds_of(part)
    loss = []
    for weight in WEIGHTS:
        p, label = [], []
        for k, rest in enumerate(folds):
            pipeline = move(prior.pipeline(), [e for j, f in enumerate(folds) if j != k for e in f], weight)
            for each in rest:
                some_p, some_label = pairs_of(each.believed_by(pipeline))
                p.append(some_p)
                label.append(some_label)
        loss.append(nll(np.concatenate(p), np.concatenate(label)))
    # Of equals the larger one, as the nearer to what was tested before.
    return max(w for w, value in zip(WEIGHTS, loss, strict=True) if value <= min(loss) + 1e-9)


def move(start: Pipeline, part: Sequence[LabelledScene], weight: float) -> Pipeline:
    """The stages of a pipeline, moved towards what the scenes of a part say."""
    if math.isinf(weight):
        return start
    pull = weight / len({each.image for each in part})
    label = np.concatenate([each.label.ravel() for each in part])
    known = np.concatenate([each.known.ravel() for each in part])
    semantic = [(each.beliefs.score_semantic, each.beliefs.asked) for each in part]
    geometric = [(each.beliefs.geometry.p_geometry, _reliable(each)) for each in part]
    moved = replace(
        start,
        calibrate=_move_source(start.calibrate, semantic, label, known, pull),
        calibrate_geometry=_move_source(start.calibrate_geometry, geometric, label, known, pull),
    )
    if not isinstance(moved.fuse, GatedFusion):
        return moved
    later = [each.believed_by(moved).beliefs for each in part]
    p_vlm = np.concatenate([each.p_semantic.ravel() for each in later])
    p_cv = np.concatenate([each.p_geometry.ravel() for each in later])
    gate = np.concatenate([each.geometry.reliability.ravel() for each in later])
    there = known & ~(np.isnan(p_vlm) & np.isnan(p_cv))
    given: dict[str, Any] = {"p_vlm": p_vlm[there], "p_cv": p_cv[there], "reliability": gate[there]}
    fuse = _move_stage(moved.fuse, lambda stage: stage.apply(**given), label[there], pull)
    return replace(moved, fuse=fuse)


def _move_source(
    calibrator: Any,
    given: Sequence[tuple[np.ndarray, np.ndarray]],
    label: Bool[np.ndarray, " n"],
    known: Bool[np.ndarray, " n"],
    pull: float,
) -> Any:
    """A calibrator moved; `given` are scores and which pairs were scored, for each scene."""
    score = np.concatenate([np.where(scored, value, np.nan).ravel() for value, scored in given])
    count = np.concatenate([np.full(scored.size, float(scored.sum())) for _, scored in given])
    there = known & ~np.isnan(score)
    if calibrator is None or not there.any():
        return calibrator
    return _move_stage(
        calibrator, lambda stage: stage.apply(score[there], n_candidates=count[there]), label[there], pull
    )


def _move_stage(
    stage: Any, predict: Callable[[Any], Float[np.ndarray, " n"]], label: Bool[np.ndarray, " n"], pull: float
) -> Any:
    """The stage whose numbers fit the labels, drawn back to where they were; as it was for other kinds."""
    numbers = MOVED.get(type(stage))
    if numbers is None or not label.size:
        return stage
    names = [name for name, _ in numbers]
    start = np.array([getattr(stage, name) for name in names])

    def with_numbers(theta: Float[np.ndarray, " k"]) -> Any:
        return stage.model_copy(update=dict(zip(names, theta.tolist(), strict=True)))

    def loss(theta: Float[np.ndarray, " k"]) -> float:
        p = np.clip(predict(with_numbers(theta)), 1e-9, 1.0 - 1e-9)
        fit = -float(np.mean(np.where(label, np.log(p), np.log1p(-p))))
        return fit + 0.5 * pull * float(((theta - start) ** 2).sum())

    bounds = [(low, getattr(stage, name) if name in NOT_SURER else None) for name, low in numbers]
    return with_numbers(np.asarray(minimize(loss, start, method="L-BFGS-B", bounds=bounds).x))


def _reliable(each: LabelledScene) -> Bool[np.ndarray, "n n"]:
    """Pairs of which geometry has an answer, as the pipeline has it."""
    geometry = each.beliefs.geometry
    return np.asarray(geometry.is_candidate & (geometry.reliability >= LEAST_RELIABILITY))


def pairs_of(each: LabelledScene) -> tuple[Float[np.ndarray, " n"], Bool[np.ndarray, " n"]]:
    """Fused probabilities of candidate pairs that labels are about, and whether each obstructs."""
    p = each.beliefs.p_fused
    there = each.known & ~np.isnan(p) & (p > 0.0)
    return p[there], each.label[there]


def folds_of(part: Sequence[LabelledScene]) -> list[list[LabelledScene]]:
    """The scenes in a few groups; a picture is in one of them."""
    image = np.array([each.image for each in part])
    fold = fold_of(image, min(N_FOLDS, np.unique(image).size))
    return [[e for e, f in zip(part, fold, strict=True) if f == k] for k in range(int(fold.max()) + 1)]
