"""Stages of a model that is there already, moved towards what a few labelled scenes say.

    theta = argmin  mean NLL(theta) + weight / (2 n_images) |theta - theta_prior|^2

The weight is chosen by cross-validation over images; infinity, the prior model itself, is among those tried.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np
from jaxtyping import Bool, Float
from scipy.optimize import minimize

from cpor.evidence.source import GEOMETRY
from cpor.fitting.labelled import LabelledScene, PairColumns, pair_columns
from cpor.learn.cross_validation import N_FOLDS, fold_of
from cpor.learn.gated import GatedFusion
from cpor.learn.logistic import Calibrator, LogisticCalibrator
from cpor.learn.scoring import nll
from cpor.model import FittedModel
from cpor.pipeline import Pipeline

WEIGHTS = (0.3, 3.0, 30.0, 300.0, math.inf)
"""Weights of the prior model that are tried, in pictures' worth of evidence; infinity leaves it as it is."""

Bounds: TypeAlias = tuple[float | None, float | None]


def choose_weight(prior: FittedModel, part: Sequence[LabelledScene]) -> float:
    """How much the prior model counts: the weight of least held-out NLL over the pictures of a part."""
    folds = folds_of(part)
    loss = []
    for weight in WEIGHTS:
        found = []
        for k, rest in enumerate(folds):
            pipeline = move(prior.pipeline(), [e for j, f in enumerate(folds) if j != k for e in f], weight)
            found.append(candidates(pipeline, rest))
        p, label = (np.concatenate(each) for each in zip(*found, strict=True))
        loss.append(nll(p, label))
    # Of equals the larger one, as the nearer to what was tested before.
    return max(w for w, value in zip(WEIGHTS, loss, strict=True) if value <= min(loss) + 1e-9)


def move(start: Pipeline, part: Sequence[LabelledScene], weight: float) -> Pipeline:
    """The stages of a pipeline, moved towards what the scenes of a part say."""
    if math.isinf(weight):
        return start
    pull = weight / len({each.image for each in part})
    pairs = pair_columns(part)
    pairs = pairs.where(pairs.known)
    calibrate = {name: _move_calibrator(name, stage, pairs, pull) for name, stage in start.calibrate.items()}
    moved = replace(start, calibrate=calibrate)
    if not isinstance(moved.fuse, GatedFusion):
        return moved
    later = pair_columns([each.believed_by(moved) for each in part])
    return replace(moved, fuse=_move_fusion(moved.fuse, later.where(later.known & later.sourced), pull))


def _move_calibrator(name: str, stage: Calibrator, pairs: PairColumns, pull: float) -> Calibrator:
    """The calibrator of one source, moved."""
    pairs = pairs.where(~np.isnan(pairs.score[name]))
    if not isinstance(stage, LogisticCalibrator) or not pairs.label.size:
        return stage
    plain = stage.sees == "score"  # then the slope itself moves, else its logarithm
    start = np.array([stage.slope, stage.bias] if plain else stage.theta)
    bounds: list[Bounds] = [(None, None)] * start.size
    # A few labels that geometry gets right by chance do not make it surer.
    steepest = stage.theta[0] if name == GEOMETRY else math.inf
    if plain:
        bounds[0] = 1e-2, stage.slope if name == GEOMETRY else None

    def with_numbers(theta: Float[np.ndarray, " k"]) -> LogisticCalibrator:
        numbers = tuple(theta.tolist())
        if plain:
            numbers = min(float(np.log(theta[0])), steepest), float(theta[1])
        return stage.model_copy(update={"theta": numbers})

    def predict(theta: Float[np.ndarray, " k"]) -> Float[np.ndarray, " n"]:
        return np.asarray(with_numbers(theta).apply(pairs.score[name], n_candidates=pairs.n_asked[name]))

    return with_numbers(_moved_numbers(predict, start, bounds, pairs.label, pull))


def _move_fusion(stage: GatedFusion, pairs: PairColumns, pull: float) -> GatedFusion:
    """The fusion, moved."""
    if not pairs.label.size:
        return stage
    names = list(stage.beta)

    def with_numbers(theta: Float[np.ndarray, " k"]) -> GatedFusion:
        gamma, *beta = theta.tolist()
        return stage.model_copy(update={"gamma": gamma, "beta": dict(zip(names, beta, strict=True))})

    def predict(theta: Float[np.ndarray, " k"]) -> Float[np.ndarray, " n"]:
        return with_numbers(theta).apply(pairs.p, pairs.gate)

    most = [weight if name == GEOMETRY else None for name, weight in stage.beta.items()]
    bounds: list[Bounds] = [(None, None), *((0.0, each) for each in most)]
    start = np.array([stage.gamma, *stage.beta.values()])
    return with_numbers(_moved_numbers(predict, start, bounds, pairs.label, pull))


def _moved_numbers(
    predict: Callable[[Float[np.ndarray, " k"]], Float[np.ndarray, " n"]],
    start: Float[np.ndarray, " k"],
    bounds: Sequence[Bounds],
    label: Bool[np.ndarray, " n"],
    pull: float,
) -> Float[np.ndarray, " k"]:
    """The numbers of a stage that fit the labels, drawn back to where they were."""

    def loss(theta: Float[np.ndarray, " k"]) -> float:
        p = np.clip(predict(theta), 1e-9, 1.0 - 1e-9)
        fit = -float(np.mean(np.where(label, np.log(p), np.log1p(-p))))
        return fit + 0.5 * pull * float(((theta - start) ** 2).sum())

    return np.asarray(minimize(loss, start, method="L-BFGS-B", bounds=bounds).x)


def candidates(
    stages: Pipeline, part: Sequence[LabelledScene]
) -> tuple[Float[np.ndarray, " n"], Bool[np.ndarray, " n"]]:
    """Fused probabilities of candidate pairs that labels are about, and whether each obstructs."""
    pairs = pair_columns([each.believed_by(stages) for each in part])
    pairs = pairs.where(pairs.known & (pairs.fused > 0.0))
    return pairs.fused, pairs.label


def folds_of(part: Sequence[LabelledScene]) -> list[list[LabelledScene]]:
    """The scenes in a few groups; a picture is in one of them."""
    image = np.array([each.image for each in part])
    fold = fold_of(image, min(N_FOLDS, np.unique(image).size))
    return [[e for e, f in zip(part, fold, strict=True) if f == k] for k in range(int(fold.max()) + 1)]
