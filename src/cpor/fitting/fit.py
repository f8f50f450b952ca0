"""Fit a model to labelled scenes in one go: calibration, fusion, conditioning, promised error rate.

Every purpose has a part of the scenes to itself, split by image: semantic and geometric calibration,
fusion, selection (conditioning on the chain, success rates, the taus to test), and the promise.
"""

import math
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from cpor.decision import Decision
from cpor.errors import FittingError, InvalidSettingError, SceneFileError, list_labels
from cpor.evidence import GeometrySettings
from cpor.evidence.learnt import GeometryKind, LearntGeometry
from cpor.evidence.nearness import WithNearness
from cpor.evidence.source import Source
from cpor.fitting.forced import ForcedDecision, force, outcomes
from cpor.fitting.labelled import LabelledScene, group_copies, split
from cpor.fitting.stages import (
    ReliabilityData,
    action_reliability,
    fit_band,
    fit_calibration,
    fit_coverage,
    fit_fusion,
    fit_selection,
    fit_unseen,
)
from cpor.learn.control import by_kind, check_levels, control_risk, count_executed, least_supported
from cpor.learn.modes import DEFAULT_MODE, LEAST_SCORE, MODES, Mode, ModeFigures, mode_tau, percent
from cpor.learn.tau_grid import choose_tau_grid
from cpor.model import PARTS, FittedModel, TestedWith, scene_features
from cpor.pipeline import PairBeliefs, Pipeline, measure_with
from cpor.scene import Scene
from cpor.sources import fingerprint
from cpor.truth import TruthKind


@dataclass(frozen=True)
class FitSettings:
    """What to fit, and what to promise.

    Attributes:
        alpha: Allowed rate of wrong actions among those executed.
        delta: Allowed probability, over the draw of the scenes, of a broken promise.
        seed: Random seed for the split and the targets.
        condition: Whether to fit the stage that conditions on the target's chain. It sharpens relations,
            but on 550 simulated scenes it cost right actions (0.78 instead of 0.88), so it is left out.
        geometry_kind: Geometric evidence by the paper's formula, by our network, or by both joined.
        truth: Which true relations to learn: what hides (as UNOBench labels), what stands in the way of
            lifting, or either, which is what an arm cares for.
        sources: Further sources of belief to calibrate and to weigh, beside geometry and semantic scores.
        untouched: Names of scenes that are kept for the promise: such as were not looked at while choosing
            anything. By default a part of all scenes, drawn at random.
        by_kind: Promise the rate in each kind of cases, each scene asked for a free and for a buried object.
        worked: Names of scenes from which objects were taken before: kinds of their own, with `by_kind`.
        coverage: Add candidates by nearness, so that at most this share of scenes lacks a true relation among
            them. None: the candidates are those that geometry or a scorer links.
    """

    alpha: float = 0.1
    delta: float = 0.1
    seed: int = 0
    condition: bool = False
    geometry_kind: GeometryKind = "paper"
    truth: TruthKind = "occlusion"
    sources: tuple[Source, ...] = ()
    untouched: frozenset[str] = frozenset()
    by_kind: bool = False
    worked: frozenset[str] = frozenset()
    coverage: float | None = None

    def __post_init__(self) -> None:
        check_levels(self.alpha, self.delta)
        if self.coverage is not None:
            check_levels(self.coverage, self.delta)
        if self.seed < 0:
            raise InvalidSettingError(f"seed is {self.seed}; give 0 or more")

    def raw_stages(self) -> Pipeline:
        """The stages before anything is fitted."""
        measure = measure_with(GeometrySettings(), self.geometry_kind)
        return Pipeline(WithNearness(measure) if self.coverage else measure, sources=self.sources)


@dataclass(frozen=True, eq=False)
class FitReport:
    """A fitted model and how reliable each stage is on scenes it was not fitted to.

    Attributes:
        model: The model.
        reliability: Reliability of each stage.
        n_empty: Scenes without objects, which teach nothing and were left out.
    """

    model: FittedModel
    reliability: tuple[ReliabilityData, ...]
    n_empty: int


def fit_model(
    scenes: Iterable[tuple[str, Scene]],
    settings: FitSettings | None = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> FitReport:
    """Fit a model to labelled scenes.

    Args:
        scenes: Names and scenes with masks and true relations; read one by one, and not kept.
        settings: What to fit and what to promise.
        progress: Told of each step: what is done, how much of it, out of how much.
    """
    settings = settings or FitSettings()
    raw = settings.raw_stages()
    read = [LabelledScene.read(name, scene, raw, settings.truth) for name, scene in scenes]
    return fit_labelled(read, settings, progress)


def fit_labelled(
    read: Sequence[LabelledScene],
    settings: FitSettings,
    progress: Callable[[str, int, int], None] | None = None,
) -> FitReport:
    """Fit a model to labelled scenes that were measured and scored before.

    Args:
        read: As `LabelledScene.read` gives them, measured as the settings say.
        settings: What to fit and what to promise.
        progress: Told of each step: what is done, how much of it, out of how much.
    """
    tell = progress or (lambda what, done, total: None)
    raw = settings.raw_stages()
    weights = _weights_of(raw)
    labelled = _with_objects(read)
    rng = np.random.default_rng(settings.seed)
    parts = split(labelled, rng, settings.untouched)

    fitted, reliability = fit_calibration(raw, parts)
    fitted, unseen = fit_unseen(fitted, parts)
    reliability += unseen
    tell("fitting", 1, 4)
    fitted, fused = fit_fusion(fitted, parts)
    reliability += fused
    if settings.coverage is not None:
        fitted = fit_coverage(fitted, parts, settings.coverage)
    band = None if settings.condition else fit_band(fitted, parts["selection"], settings.delta)
    tell("fitting", 2, 4)
    targets = {each.name: int(rng.choice(each.beliefs.ids)) for part in PARTS[2:] for each in parts[part]}
    fitted, chosen = fit_selection(fitted, parts["selection"], targets, settings.condition)
    score, wrong = outcomes(chosen)
    tell("fitting", 3, 4)
    levels = settings.alpha, settings.delta
    tested = [each.believed_by(fitted) for each in parts["promise"]]
    cases = force(fitted, [(each, targets[each.name]) for each in tested])
    counted, kind, kind_chosen = cases, list[str](), list[str]()
    if settings.by_kind or settings.worked:
        counted, kind = _forced_by_kind(fitted, tested, settings.worked, rng)
        kind_chosen = [_kind_of(each.scene, each.target, settings.worked) for each in chosen]
    grid = choose_tau_grid(score, wrong, *levels, n_calibration=len(counted), stratum=kind_chosen)
    reliability += action_reliability(fitted, cases)
    score, wrong = outcomes(counted)
    promise = control_risk(score, wrong, *levels, grid, kind)
    tell("fitting", 4, 4)
    tested_with = tested_with_of(labelled, fitted.sources)
    model = FittedModel(
        scorer=_scorer(labelled),
        truth=settings.truth,
        tested_with=tested_with,
        geometry=GeometrySettings(),
        geometry_kind=settings.geometry_kind,
        geometry_weights=weights,
        calibration=fitted.calibrate,
        fusion=fitted.fuse,
        coverage=fitted.coverage,
        band=band,
        condition=fitted.condition,
        rate=fitted.rate,
        promise=promise,
        modes=mode_figures(promise.tau if tested_with is not None else None, score, wrong),
        unseen=fitted.calibrate_unseen,
        most_disagreement=None if fitted.guard is None else fitted.guard.most_disagreement,
        most_mu=fitted.most_mu,
        p_unanswered=unanswered_rate(labelled),
        parts={part: [each.name for each in parts[part]] for part in PARTS},
        targets=targets,
        reference=reference_of(cases),
        setup=setup_of(tested),
        seed=settings.seed,
    )
    return FitReport(model.sealed(), tuple(reliability), len(read) - len(labelled))


def _with_objects(read: Sequence[LabelledScene]) -> list[LabelledScene]:
    """The scenes that show objects, near copies once; their names differ."""
    labelled = group_copies([each for each in read if each.beliefs.ids])
    if len({each.name for each in labelled}) < len(labelled):
        raise FittingError(
            "two scenes have the same name; rename one, since the model file lists scenes by name"
        )
    return labelled


def _weights_of(raw: Pipeline) -> str | None:
    """Fingerprint of the network that measures geometry; None for the paper's formula."""
    network = raw.measure.measure if isinstance(raw.measure, WithNearness) else raw.measure
    if not isinstance(network, LearntGeometry):
        return None
    if network.fallback is not None:
        raise FittingError(f"{network.fallback}; fit with --geometry paper")
    return network.fingerprint


def promise_by_stratum(
    model: FittedModel,
    read: Sequence[LabelledScene],
    settings: FitSettings,
    worked: Collection[str] = (),
    looks: int = 1,
) -> FittedModel:
    """The model with its stages and its threshold as they are, and the error rate of the worst kind of cases.

    Each scene is asked for one free object and for one buried one, both drawn at random. Free and buried
    targets are tested apart, and so are untouched and worked heaps where there are both. The rate is the
    largest of the exact upper bounds, in whole percent. It needs no correction for the number of kinds: for
    it to be too low, the bound of the one kind that errs most must be too low.

    Args:
        model: Neither its stages nor its threshold are chosen again, so all scenes serve the test.
        read: Scenes that nothing was fitted to or chosen on, measured as the model measures.
        settings: The confidence and the seed.
        worked: Names of scenes from which objects were taken before.
        looks: How many tests these scenes serve; each gets its share of delta.
    """
    labelled = group_copies([each for each in read if each.targets])
    rng = np.random.default_rng(settings.seed)
    stages = model.pipeline(tau=0.0)
    testing = [each.believed_by(stages) for each in {each.image: each for each in labelled}.values()]
    counted, kind = _forced_by_kind(stages, testing, worked, rng)
    score, wrong = outcomes(counted)
    tau = model.promise.tau if model.promise.tau is not None else LEAST_SCORE[DEFAULT_MODE]
    bounds = {
        name: least_supported(score[at], wrong[at], tau, settings.delta / looks) or 1.0
        for name, at in by_kind(kind, len(kind)).items()
    }
    worst = max(bounds, key=lambda name: bounds[name])
    rate = min(math.ceil(100.0 * bounds[worst]) / 100.0, 0.99)
    promise = control_risk(score, wrong, rate, settings.delta, np.array([tau]), kind)
    promise = promise.model_copy(
        update={"reason": f"tau {tau:.4g} was fixed beforehand; {worst} support {percent(bounds[worst])}"}
    )
    tested_with = tested_with_of(testing, stages.sources)
    targets = {each.name: int(rng.choice(each.targets)) for each in testing}
    cases = force(stages, [(each, targets[each.name]) for each in testing])
    selection = model.parts.get("selection", ())
    kept = {name: target for name, target in model.targets.items() if name in selection}
    return model.model_copy(
        update={
            "tested_with": tested_with,
            "promise": promise,
            "modes": mode_figures(promise.tau if tested_with is not None else None, score, wrong),
            "parts": {**model.parts, "promise": [each.name for each in testing]},
            "targets": kept | targets,
            "reference": reference_of(cases),
            "setup": setup_of(testing),
        }
    ).sealed()


def _forced_by_kind(
    stages: Pipeline, part: Sequence[LabelledScene], worked: Collection[str], rng: np.random.Generator
) -> tuple[list[ForcedDecision], list[str]]:
    """The forced decision for one free and one buried target of each scene, and their kinds."""
    asked, kinds = [], []
    for each in part:
        kind_of = {target: _kind_of(each, target, worked) for target in each.targets}
        for kind in sorted(set(kind_of.values()), reverse=True):
            asked.append(
                (each, int(rng.choice([target for target in each.targets if kind_of[target] == kind])))
            )
            kinds.append(kind)
    return force(stages, asked), kinds


def _kind_of(scene: LabelledScene, target: int, worked: Collection[str]) -> str:
    """Whether a target is free or buried, and where it matters, in what heap."""
    which = "buried" if any(pair.blocked == target for pair in scene.truth) else "free"
    heap = "worked" if scene.name in worked else "untouched"
    return f"{which} targets" + (f", {heap} heaps" if worked else "")


def unanswered_rate(labelled: Sequence[LabelledScene]) -> float | None:
    """How often pairs without any answer truly obstruct; half a count each way keeps it off 0 and 1."""
    missing = np.concatenate([each.label[np.isnan(each.beliefs.p_fused)] for each in labelled])
    return float((missing.sum() + 0.5) / (missing.size + 1.0)) if missing.size else None


def tested_with_of(labelled: Sequence[LabelledScene], sources: Sequence[Source]) -> TestedWith | None:
    """What made all masks and scores; None where it is not recorded, or where it is not the same for all."""
    others = {each.name: fingerprint(each) for each in sources}
    made = {
        None if each.sources is None else (each.sources.segmenter, each.sources.scorer) for each in labelled
    }
    both = made.pop() if len(made) == 1 else None
    if both is None or both[0] is None or (both[1] is None) != (_scorer(labelled) is None):
        return None
    known = {name: value for name, value in others.items() if value is not None}
    return TestedWith(segmenter=both[0], scorer=both[1], sources=known) if len(known) == len(others) else None


def mode_figures(
    promised: float | None, score: Float[np.ndarray, " n"], wrong: Bool[np.ndarray, " n"]
) -> dict[Mode, ModeFigures]:
    """What each mode that goes by the score alone would have done on the scenes of the promise."""
    modes = [mode for mode in MODES if mode != "robust"]
    taus = np.array([mode_tau(mode, promised) for mode in modes])
    acted, errors = count_executed(score, wrong, taus)
    return {
        mode: ModeFigures(tau=float(taus[k]), n=score.size, n_acted=int(acted[k]), n_wrong=int(errors[k]))
        for k, mode in enumerate(modes)
    }


def _scorer(labelled: Sequence[LabelledScene]) -> str | None:
    """The one source of the semantic scores; a promise made on a mixture would hold for none of them."""
    scorers = {None if each.semantic is None else each.semantic.scorer for each in labelled}
    if len(scorers) > 1:
        named = list_labels(sorted(str(scorer) for scorer in scorers))
        raise FittingError(
            f"the semantic scores come from different sources ({named}); fit one model for each"
        )
    return scorers.pop()


def setup_of(tested: Sequence[LabelledScene]) -> dict[str, list[float | None]]:
    """What another camera is told from, NaN as None."""
    figures: dict[str, list[float | None]] = {}
    for each in tested:
        for name, value in each.setup:
            figures.setdefault(name, []).append(None if np.isnan(value) else value)
    return figures


def reference_of(cases: Sequence[ForcedDecision]) -> dict[str, list[float | None]]:
    """What drift is told from, NaN as None."""
    seen = scene_features([(each.scene.beliefs, each.decision) for each in cases])
    return {name: [None if np.isnan(value) else float(value) for value in row] for name, row in seen.items()}


def decide_random_targets(
    model: FittedModel, scenes: Iterable[tuple[str, Scene]], rng: np.random.Generator
) -> list[tuple[PairBeliefs, Decision] | None]:
    """What a model says of each scene for one random target, whatever the threshold; None for an empty scene.

    Args:
        model: The model.
        scenes: Names and scenes with masks, and with scores where the model was fitted to some.
        rng: Draws the targets.
    """
    pipeline = model.pipeline(tau=0.0)
    results: list[tuple[PairBeliefs, Decision] | None] = []
    for name, scene in scenes:
        if scene.visible_ids is None:
            raise SceneFileError(f"{name} has no instances.png; the drift test needs scenes with masks")
        if not scene.ids:
            results.append(None)
            continue
        beliefs = pipeline.believe(scene)
        results.append((beliefs, pipeline.decide(pipeline.posterior(beliefs, int(rng.choice(scene.ids))))))
    return results
