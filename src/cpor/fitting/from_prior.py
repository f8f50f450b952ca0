"""Fit a model to the scenes of one lab, starting from a model that is there already.

A few labelled photographs cannot carry a fit from nothing. So each stage keeps its form, and its numbers move
from those of the prior model only as far as the scenes ask for:

    theta = argmin  mean NLL(theta) + weight / (2 n_images) |theta - theta_prior|^2

The weight is chosen by cross-validation over images; infinity, the prior model itself, is among those tried.
Scenes are split by picture: one part to fit, the other to compare with the prior model and to promise from.
"""

import math
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Bool, Float
from scipy.optimize import minimize
from scipy.special import betaincinv

from cpor.calibration import (
    ActionCalibrator,
    CalibrationInputError,
    PlattCalibrator,
    ScenePlattCalibrator,
)
from cpor.calibration.cross_validation import N_FOLDS, fold_of
from cpor.decision import Decision, Defer
from cpor.fitting.fit import FitSettings, mode_figures, reference_of, setup_of, tested_with_of
from cpor.fitting.labelled import FittingError, LabelledScene, group_copies
from cpor.fitting.stages import outcomes
from cpor.fusion import GatedFusion
from cpor.inference.decide import decide_many
from cpor.metrics import nll
from cpor.metrics.bootstrap import Interval, PairedComparison, bootstrap_mean, compare_paired
from cpor.metrics.reliability import ece
from cpor.model import FittedModel
from cpor.pipeline import LEAST_RELIABILITY, UNSEEN, Pipeline
from cpor.risk.control import control_risk, count_executed
from cpor.risk.tau_grid import choose_tau_grid
from cpor.truth import is_wrong, right_actions

FIT_SHARE = 0.4
"""Share of the pictures that the stages are fitted to; the promise needs more, since it counts errors."""

FEWEST_IMAGES = 8
"""Fewer labelled pictures than this cannot fill two parts."""

WEIGHTS = (0.3, 3.0, 30.0, 300.0, math.inf)
"""Weights of the prior model that are tried, in pictures' worth of evidence; infinity leaves it as it is."""

MOVED: dict[type, tuple[tuple[str, float | None], ...]] = {
    PlattCalibrator: (("a", 1e-2), ("c", None)),
    ScenePlattCalibrator: (("alpha_0", None), ("alpha_n", None), ("c_0", None), ("c_n", None)),
    GatedFusion: (("gamma", None), ("beta_vlm", 0.0), ("beta_cv", 0.0)),
}
"""Numbers that move, with their least value; a stage of another kind stays as it is."""


@dataclass(frozen=True)
class LabFigures:
    """How a model does on the pictures that nothing was fitted to.

    Attributes:
        right: Share of the first actions that are right, whatever the threshold; every object asked for once.
        right_interval: Where that share lies among all scenes, pictures resampled.
        nll, ece: Of the fused probabilities of pairs.
    """

    right: float
    right_interval: Interval
    nll: float
    ece: float


@dataclass(frozen=True, eq=False)
class LabReport:
    """A model of one lab, compared with the one it started from.

    Attributes:
        model: The model.
        weight: How much the prior model counted, in pictures; infinity: all of it stays.
        n_fit, n_held_out: Pictures of each part.
        prior, own: Figures of both models on the held-out part.
        change: Right first actions of the new model against the prior one, case by case.
        supported: The least error rate that the held-out part supports at the first threshold tested, with
            the confidence asked for; None where nothing was executed there.
    """

    model: FittedModel
    weight: float
    n_fit: int
    n_held_out: int
    prior: LabFigures
    own: LabFigures
    change: PairedComparison
    supported: float | None


def fit_from_prior(
    read: Sequence[LabelledScene],
    prior: FittedModel,
    settings: FitSettings,
    drawn: Collection[str] | None = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> LabReport:
    """Fit a model to labelled scenes of one lab.

    Args:
        read: The scenes, measured and scored as the prior model's were.
        prior: The model to start from.
        settings: What to promise.
        drawn: Names of the scenes that were drawn at random; only these are tested on, since those that were
            chosen for what they teach are not like the others. None: all were, and some are taken.
        progress: Told of each step.
    """
    tell = progress or (lambda what, done, total: None)
    labelled = group_copies([each for each in read if each.beliefs.ids])
    rng = np.random.default_rng(settings.seed)
    fit, held = _split(labelled, drawn, rng)
    weight = choose_weight(prior, fit)
    own = move(prior.pipeline(), fit, weight)
    tell("fitting", 1, 3)
    score, wrong, rate = _cross_fitted(prior, fit, weight)
    levels = settings.alpha, settings.delta
    grid = choose_tau_grid(score, wrong, *levels, n_calibration=len(held))
    tell("fitting", 2, 3)
    targets = {each.name: int(rng.choice(each.beliefs.ids)) for each in held}
    tested = [each.believed_by(own) for each in held]
    posteriors = [own.posterior(each.beliefs, targets[each.name]) for each in tested]
    decisions = [own.settle(decision) for decision in decide_many(posteriors, tau=0.0)]
    score, wrong = outcomes(decisions, tested, targets)
    promise = control_risk(score, wrong, *levels, grid)
    tested_with = tested_with_of(labelled)
    model = prior.model_copy(
        update={
            "truth": settings.truth,
            "tested_with": tested_with,
            "calibration": own.calibrate,
            "geometry_calibration": own.calibrate_geometry,
            "fusion": own.fuse,
            "rate": rate,
            "promise": promise,
            "modes": mode_figures(promise.tau if tested_with is not None else None, score, wrong),
            "parts": {"fit": [each.name for each in fit], "promise": [each.name for each in held]},
            "targets": targets,
            "reference": reference_of(tested, posteriors, decisions),
            "setup": setup_of(tested),
            "seed": settings.seed,
        }
    )
    before, after = (_first_actions(pipeline, held) for pipeline in (prior.pipeline(), own))
    tell("fitting", 3, 3)
    return LabReport(
        model,
        weight,
        len({each.image for each in fit}),
        len({each.image for each in held}),
        _figures(prior.pipeline(), held, settings.seed),
        _figures(own, held, settings.seed),
        compare_paired(before[0], after[0], after[1], np.random.default_rng(settings.seed)),
        least_supported(score, wrong, float(grid[0]), settings.delta),
    )


def least_supported(
    score: Float[np.ndarray, " n"], wrong: Bool[np.ndarray, " n"], tau: float, delta: float
) -> float | None:
    """The error rate that is not exceeded with confidence 1 - delta at a threshold fixed before (exact)."""
    executed, errors = (int(each[0]) for each in count_executed(score, wrong, np.array([tau])))
    if not executed:
        return None
    return 1.0 if errors == executed else float(betaincinv(errors + 1, executed - errors, 1.0 - delta))


def choose_weight(prior: FittedModel, part: Sequence[LabelledScene]) -> float:
    """How much the prior model counts: the weight of least held-out NLL over the pictures of a part."""
    image = np.array([each.image for each in part])
    fold = fold_of(image, min(N_FOLDS, np.unique(image).size))
    loss = []
    for weight in WEIGHTS:
        p, label = [], []
        for k in range(int(fold.max()) + 1):
            pipeline = move(prior.pipeline(), [e for e, f in zip(part, fold, strict=True) if f != k], weight)
            rest = [each for each, f in zip(part, fold, strict=True) if f == k]
            for each in rest:
                some_p, some_label = _pairs(each.believed_by(pipeline))
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
    semantic = [(each.beliefs.score_semantic, each.beliefs.asked) for each in part]
    geometric = [(each.beliefs.geometry.p_geometry, _reliable(each)) for each in part]
    moved = replace(
        start,
        calibrate=_move_source(start.calibrate, semantic, label, pull),
        calibrate_geometry=_move_source(start.calibrate_geometry, geometric, label, pull),
    )
    if not isinstance(moved.fuse, GatedFusion):
        return moved
    later = [each.believed_by(moved).beliefs for each in part]
    p_vlm = np.concatenate([each.p_semantic.ravel() for each in later])
    p_cv = np.concatenate([each.p_geometry.ravel() for each in later])
    gate = np.concatenate([each.geometry.reliability.ravel() for each in later])
    there = ~(np.isnan(p_vlm) & np.isnan(p_cv))
    given: dict[str, Any] = {"p_vlm": p_vlm[there], "p_cv": p_cv[there], "reliability": gate[there]}
    fuse = _move_stage(moved.fuse, lambda stage: stage.apply(**given), label[there], pull)
    return replace(moved, fuse=fuse)


def _move_source(
    calibrator: Any,
    given: Sequence[tuple[np.ndarray, np.ndarray]],
    label: Bool[np.ndarray, " n"],
    pull: float,
) -> Any:
    """A calibrator moved; `given` are scores and which pairs were scored, for each scene."""
    score = np.concatenate([np.where(scored, value, np.nan).ravel() for value, scored in given])
    count = np.concatenate([np.full(scored.size, float(scored.sum())) for _, scored in given])
    there = ~np.isnan(score)
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

    bounds = [(low, None) for _, low in numbers]
    return with_numbers(np.asarray(minimize(loss, start, method="L-BFGS-B", bounds=bounds).x))


def _reliable(each: LabelledScene) -> Bool[np.ndarray, "n n"]:
    """Pairs of which geometry has an answer, as the pipeline has it."""
    geometry = each.beliefs.geometry
    return np.asarray(geometry.is_candidate & (geometry.reliability >= LEAST_RELIABILITY))


def _pairs(each: LabelledScene) -> tuple[Float[np.ndarray, " n"], Bool[np.ndarray, " n"]]:
    """Fused probabilities of candidate pairs, and whether each obstructs."""
    p = each.beliefs.p_fused
    there = ~np.isnan(p) & (p > 0.0)
    return p[there], each.label[there]


def _split(
    labelled: Sequence[LabelledScene], drawn: Collection[str] | None, rng: np.random.Generator
) -> tuple[list[LabelledScene], list[LabelledScene]]:
    """Scenes to fit to, and one scene a picture to test on."""
    pictures = list(dict.fromkeys(each.image for each in labelled))
    if len(pictures) < FEWEST_IMAGES:
        raise FittingError(
            f"{len(pictures)} labelled pictures are too few to fit and to test; label {FEWEST_IMAGES} or more"
        )
    if drawn is None:
        order = rng.permutation(len(pictures))
        to_test = {pictures[k] for k in order[math.ceil(FIT_SHARE * len(pictures)) :]}
    else:
        chosen = {each.image for each in labelled if each.name not in drawn}
        to_test = {picture for picture in pictures if picture not in chosen}
    fit = [each for each in labelled if each.image not in to_test]
    held = list({each.image: each for each in labelled if each.image in to_test}.values())
    if len({each.image for each in fit}) < 2 or len(held) < 2:
        raise FittingError("fitting and testing need two pictures each; label more of both kinds")
    return fit, held


def _cross_fitted(
    prior: FittedModel, part: Sequence[LabelledScene], weight: float
) -> tuple[Float[np.ndarray, " n"], Bool[np.ndarray, " n"], ActionCalibrator | None]:
    """Scores and outcomes of forced decisions for every object, by fits that did not see its picture.

    Also what they teach of success rates; None where they are too few.
    """
    image = np.array([each.image for each in part])
    fold = fold_of(image, min(N_FOLDS, np.unique(image).size))
    score, wrong, rated = [], [], []
    for k in range(int(fold.max()) + 1):
        pipeline = move(prior.pipeline(), [e for e, f in zip(part, fold, strict=True) if f != k], weight)
        for each in (e for e, f in zip(part, fold, strict=True) if f == k):
            for target, decision in _forced(pipeline, each):
                acts = not isinstance(decision.action, Defer)
                score.append(decision.scores[decision.action.obj] if acts else np.nan)  # type: ignore[union-attr]
                wrong.append(is_wrong(decision.action, target, each.truth))
                free = right_actions(target, each.truth)
                rated += [
                    (value, obj in free, obj == target, each.image)
                    for obj, value in decision.scores.items()
                    if acts and obj != UNSEEN
                ]
    rate = None
    if rated:
        values, right, is_target, group = (np.array(column) for column in zip(*rated, strict=True))
        for roles in (is_target.astype(bool), None):
            with suppress(CalibrationInputError):
                rate = ActionCalibrator.fit(values, right.astype(bool), is_target=roles, group=group)
                break
    return np.array(score), np.array(wrong, bool), rate


def _forced(pipeline: Pipeline, each: LabelledScene) -> list[tuple[int, Decision]]:
    """What is decided for every object of a scene, whatever the threshold."""
    beliefs = each.believed_by(pipeline).beliefs
    posteriors = [pipeline.posterior(beliefs, target) for target in beliefs.ids]
    forced = decide_many(posteriors, tau=0.0)
    return [(target, pipeline.settle(d)) for target, d in zip(beliefs.ids, forced, strict=True)]


def _first_actions(
    pipeline: Pipeline, held: Sequence[LabelledScene]
) -> tuple[Float[np.ndarray, " n"], np.ndarray]:
    """Whether the first action for every object of the scenes is right, and the picture of each."""
    right, image = [], []
    for each in held:
        for target, decision in _forced(pipeline, each):
            acts = not isinstance(decision.action, Defer)
            right.append(acts and not is_wrong(decision.action, target, each.truth))
            image.append(each.image)
    return np.array(right, np.float64), np.array(image)


def _figures(pipeline: Pipeline, held: Sequence[LabelledScene], seed: int) -> LabFigures:
    right, image = _first_actions(pipeline, held)
    pairs = [_pairs(each.believed_by(pipeline)) for each in held]
    p, label = np.concatenate([p for p, _ in pairs]), np.concatenate([y for _, y in pairs])
    interval = bootstrap_mean(right, image, np.random.default_rng(seed))
    return LabFigures(float(right.mean()), interval, float(nll(p, label)), float(ece(p, label)))
