"""Fit a model to the scenes of one lab, starting from a model that is there already.

A few labelled photographs cannot carry a fit from nothing. So each stage keeps its form, and its numbers move
from those of the prior model only as far as the scenes ask for (`moved_stages`).
Scenes are split by picture: one part to fit, the other to compare with the prior model and to promise from.
"""

import math
import zlib
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from cpor.errors import FittingError
from cpor.fitting.fit import FitSettings, mode_figures, reference_of, setup_of, tested_with_of
from cpor.fitting.forced import ForcedDecision, fit_rate, force, outcomes
from cpor.fitting.labelled import LabelledScene, group_copies
from cpor.fitting.moved_stages import candidates, choose_weight, folds_of, move
from cpor.learn.bootstrap import Interval, PairedComparison, bootstrap_mean, compare_paired
from cpor.learn.control import control_risk, least_supported
from cpor.learn.reliability import ece
from cpor.learn.scoring import nll
from cpor.learn.tau_grid import choose_tau_grid
from cpor.model import FittedModel
from cpor.pipeline import Pipeline

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
    labelled = group_copies([each for each in read if each.targets])
    fit, held = _split(labelled, drawn, np.random.default_rng(settings.seed))
    weight = choose_weight(prior, fit)
    own = move(prior.pipeline(), fit, weight)
    folds, cross = folds_of(fit), []  # decisions by fits that did not see the picture
    for k, part in enumerate(folds):
        others = [each for j, rest in enumerate(folds) if j != k for each in rest]
        cross += _forced(move(prior.pipeline(), others, weight), part, settings.seed)
    tell("fitting", 1, 3)
    cases = _forced(own, held, settings.seed)
    tell("fitting", 2, 3)
    model = _promise(prior, own, settings, fit, held, cross, cases)
    before = _forced(prior.pipeline(), held, settings.seed)
    right, was_right = (
        np.array([not np.isnan(case.score) and not case.wrong for case in each], np.float64)
        for each in (cases, before)
    )
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
            *outcomes(_one_each(cases)), float(_taus(cross, settings, len(held))[0]), settings.delta
        ),
    )


def _promise(
    prior: FittedModel,
    own: Pipeline,
    settings: FitSettings,
    fit: Sequence[LabelledScene],
    held: Sequence[LabelledScene],
    cross: Sequence[ForcedDecision],
    cases: Sequence[ForcedDecision],
) -> FittedModel:
    """The model of these stages, with what the held-out part lets promise."""
    first = _one_each(cases)
    score, wrong = outcomes(first)
    promise = control_risk(score, wrong, settings.alpha, settings.delta, _taus(cross, settings, len(held)))
    tested_with = tested_with_of([*fit, *held], own.sources)
    return prior.model_copy(
        update={
            "truth": settings.truth,
            "tested_with": tested_with,
            "calibration": own.calibrate,
            "fusion": own.fuse,
            "band": None,  # that of the prior was of other stages
            "rate": fit_rate(cross),
            "promise": promise,
            "modes": mode_figures(promise.tau if tested_with is not None else None, score, wrong),
            "parts": {"fit": [each.name for each in fit], "promise": [each.name for each in held]},
            "targets": {case.scene.name: case.target for case in first},
            "reference": reference_of(first),
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


def _forced(stages: Pipeline, scenes: Sequence[LabelledScene], seed: int) -> list[ForcedDecision]:
    """What is decided for the targets of scenes, whatever the threshold."""
    asked = []
    for each in scenes:
        seen = each.believed_by(stages)
        # The name seeds the draw as well: both models are asked for the same ones.
        rng = np.random.default_rng([seed, zlib.crc32(each.name.encode())])
        asked += [(seen, target) for target in rng.permutation(seen.targets)[:MOST_TARGETS].tolist()]
    return force(stages, asked)


def _one_each(cases: Sequence[ForcedDecision]) -> list[ForcedDecision]:
    """One case a scene: the first, which was drawn at random. Errors must be independent to be counted."""
    return list({case.scene.name: case for case in reversed(cases)}.values())[::-1]


def _taus(cross: Sequence[ForcedDecision], settings: FitSettings, n_held: int) -> Float[np.ndarray, " t"]:
    """Thresholds to test, chosen before the held-out part is looked at."""
    return choose_tau_grid(*outcomes(cross), settings.alpha, settings.delta, n_calibration=n_held)


def _figures(
    pipeline: Pipeline,
    held: Sequence[LabelledScene],
    right: Float[np.ndarray, " n"],
    image: np.ndarray,
    seed: int,
) -> LabFigures:
    p, label = candidates(pipeline, held)
    interval = bootstrap_mean(right, image, np.random.default_rng(seed))
    return LabFigures(float(right.mean()), interval, float(nll(p, label)), float(ece(p, label)))
