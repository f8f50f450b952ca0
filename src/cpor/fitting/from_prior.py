"""Fit a model to the scenes of one lab, starting from a model that is there already.

A few labelled photographs cannot carry a fit from nothing. So each stage keeps its form, and its numbers move
from those of the prior model only as far as the scenes ask for (`moved_stages`).
Scenes are split by picture: one part to fit, the other to compare with the prior model and to promise from.
"""

import math
import zlib
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from cpor.decision import Decision, Defer
from cpor.errors import FittingError
from cpor.fitting.fit import FitSettings, mode_figures, reference_of, setup_of, tested_with_of
from cpor.fitting.labelled import LabelledScene, group_copies
from cpor.fitting.moved_stages import choose_weight, folds_of, move, pairs_of
from cpor.infer.decide import decide_many
from cpor.learn.action import ActionCalibrator
from cpor.learn.bootstrap import Interval, PairedComparison, bootstrap_mean, compare_paired
from cpor.learn.control import control_risk, least_supported
from cpor.learn.reliability import ece
from cpor.learn.scoring import nll
from cpor.learn.tau_grid import choose_tau_grid
from cpor.model import FittedModel
from cpor.pipeline import UNSEEN, Pipeline
from cpor.relations import ObstructionPosterior
from cpor.truth import is_wrong, right_actions

FIT_SHARE = 0.4
"""Share of the pictures that the stages are fitted to; the promise needs more, since it counts errors."""

FEWEST_IMAGES = 8
"""Fewer labelled pictures than this cannot fill two parts."""

MOST_TARGETS = 6
"""Objects of a scene that are asked for, drawn at random: more of them cost time and tell little more."""


@dataclass(frozen=True)
class LabFigures:
    """How a model does on the pictures that nothing was fitted to.

    Attributes:
        right: Share of the first actions that are right, whatever the threshold.
        right_interval: Where that share lies among all scenes, pictures resampled.
        nll, ece: Figures of the fused probabilities of pairs.
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


@dataclass(frozen=True, eq=False)
class _Case:
    """A forced decision for one target of a labelled scene."""

    scene: LabelledScene
    target: int
    posterior: ObstructionPosterior
    decision: Decision

    @property
    def acts(self) -> bool:
        return not isinstance(self.decision.action, Defer)

    @property
    def score(self) -> float:
        """Score of its action; NaN: no answer."""
        action = self.decision.action
        return math.nan if isinstance(action, Defer) else self.decision.scores[action.obj]

    @property
    def wrong(self) -> bool:
        return is_wrong(self.decision.action, self.target, self.scene.truth)

    @property
    def right(self) -> bool:
        return self.acts and not self.wrong


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
    fit, held, weight, own, cross = _fit(read, prior, settings, drawn)
    tell("fitting", 1, 3)
    cases = _forced(own, held, settings.seed)
    tell("fitting", 2, 3)
    model = _promise(prior, own, settings, fit, held, cross, cases)
    before = _forced(prior.pipeline(), held, settings.seed)
    right, was_right = (np.array([case.right for case in each], np.float64) for each in (cases, before))
    image = np.array([case.scene.image for case in cases])
    tell("fitting", 3, 3)
    return LabReport(
        model,
        weight,
        len({each.image for each in fit}),
        len({each.image for each in held}),
        _figures(prior.pipeline(), held, was_right, image, settings.seed),
        _figures(own, held, right, image, settings.seed),
        compare_paired(was_right, right, image, np.random.default_rng(settings.seed)),
        least_supported(
            *_outcomes(_one_each(cases)), float(_taus(cross, settings, len(held))[0]), settings.delta
        ),
    )


def fit_models_from_prior(
    read: Sequence[LabelledScene], prior: FittedModel, alphas: Sequence[float], delta: float, seed: int
) -> list[FittedModel]:
    """The models of `fit_from_prior` for several promises, without figures that compare them; fitted once."""
    settings = [FitSettings(alpha, delta, seed) for alpha in alphas]
    fit, held, _, own, cross = _fit(read, prior, settings[0], None)
    cases = _forced(own, held, seed, most=1)
    return [_promise(prior, own, each, fit, held, cross, cases) for each in settings]


def _fit(
    read: Sequence[LabelledScene],
    prior: FittedModel,
    settings: FitSettings,
    drawn: Collection[str] | None,
) -> tuple[list[LabelledScene], list[LabelledScene], float, Pipeline, list[_Case]]:
    """Both parts, the weight, the stages, and decisions forced from fits that did not see the picture."""
    labelled = group_copies([each for each in read if each.targets])
    fit, held = _split(labelled, drawn, np.random.default_rng(settings.seed))
    weight = choose_weight(prior, fit)
    cross = []
    for k, part in enumerate(folds_of(fit)):
        others = [each for j, rest in enumerate(folds_of(fit)) if j != k for each in rest]
        pipeline = move(prior.pipeline(), others, weight)
        cross += _forced(pipeline, part, settings.seed)
    return fit, held, weight, move(prior.pipeline(), fit, weight), cross


def _promise(
    prior: FittedModel,
    own: Pipeline,
    settings: FitSettings,
    fit: Sequence[LabelledScene],
    held: Sequence[LabelledScene],
    cross: Sequence[_Case],
    cases: Sequence[_Case],
) -> FittedModel:
    """The model of these stages, with what the held-out part lets promise."""
    first = _one_each(cases)
    score, wrong = _outcomes(first)
    promise = control_risk(score, wrong, settings.alpha, settings.delta, _taus(cross, settings, len(held)))
    tested_with = tested_with_of([*fit, *held], own.sources)
    return prior.model_copy(
        update={
            "truth": settings.truth,
            "tested_with": tested_with,
            "calibration": own.calibrate,
            "fusion": own.fuse,
            "band": None,  # that of the prior was of other stages
            "rate": _rate(cross),
            "promise": promise,
            "modes": mode_figures(promise.tau if tested_with is not None else None, score, wrong),
            "parts": {"fit": [each.name for each in fit], "promise": [each.name for each in held]},
            "targets": {case.scene.name: case.target for case in first},
            "reference": reference_of(
                [case.scene for case in first],
                [case.posterior for case in first],
                [case.decision for case in first],
            ),
            "setup": setup_of([case.scene for case in first]),
            "seed": settings.seed,
        }
    ).sealed()


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


def _forced(
    pipeline: Pipeline, scenes: Sequence[LabelledScene], seed: int, most: int = MOST_TARGETS
) -> list[_Case]:
    """What is decided for the targets of scenes, whatever the threshold."""
    cases = []
    for each in scenes:
        seen = each.believed_by(pipeline)
        # The name seeds the draw as well: both models are asked for the same ones.
        rng = np.random.default_rng([seed, zlib.crc32(each.name.encode())])
        targets = rng.permutation(seen.targets)[:most].tolist()
        posteriors = [pipeline.posterior(seen.beliefs, target) for target in targets]
        for target, posterior, decision in zip(
            targets, posteriors, decide_many(posteriors, tau=0.0), strict=True
        ):
            cases.append(_Case(seen, target, posterior, pipeline.settle(decision)))
    return cases


def _outcomes(cases: Sequence[_Case]) -> tuple[Float[np.ndarray, " n"], Bool[np.ndarray, " n"]]:
    return np.array([case.score for case in cases]), np.array([case.wrong for case in cases], bool)


def _one_each(cases: Sequence[_Case]) -> list[_Case]:
    """One case a scene: the first, which was drawn at random. Errors must be independent to be counted."""
    return list({case.scene.name: case for case in reversed(cases)}.values())[::-1]


def _taus(cross: Sequence[_Case], settings: FitSettings, n_held: int) -> Float[np.ndarray, " t"]:
    """Thresholds to test, chosen before the held-out part is looked at."""
    return choose_tau_grid(*_outcomes(cross), settings.alpha, settings.delta, n_calibration=n_held)


def _rate(cases: Sequence[_Case]) -> ActionCalibrator | None:
    """What forced decisions teach of success rates; None where they are too few."""
    rated = [
        (value, obj in right_actions(case.target, case.scene.truth), obj == case.target, case.scene.image)
        for case in cases
        for obj, value in case.decision.scores.items()
        if case.acts and obj != UNSEEN
    ]
    if not rated:
        return None
    values, right, is_target, group = (np.array(column) for column in zip(*rated, strict=True))
    for roles in (is_target.astype(bool), None):
        with suppress(FittingError):
            return ActionCalibrator.fit(values, right.astype(bool), is_target=roles, group=group)
    return None


def _figures(
    pipeline: Pipeline,
    held: Sequence[LabelledScene],
    right: Float[np.ndarray, " n"],
    image: np.ndarray,
    seed: int,
) -> LabFigures:
    pairs = [pairs_of(each.believed_by(pipeline)) for each in held]
    p, label = np.concatenate([p for p, _ in pairs]), np.concatenate([y for _, y in pairs])
    interval = bootstrap_mean(right, image, np.random.default_rng(seed))
    return LabFigures(float(right.mean()), interval, float(nll(p, label)), float(ece(p, label)))
