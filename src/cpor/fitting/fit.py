"""Fit a model to labelled scenes in one go: calibration, fusion, conditioning, promised error rate.

Every purpose has a part of the scenes to itself, split by image: semantic and geometric calibration,
fusion, selection (conditioning on the chain, success rates, the taus to test), and the promise.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field

import numpy as np

from cpor.decision import Decision
from cpor.errors import InvalidSettingError, list_labels
from cpor.evidence import GeometrySettings
from cpor.fitting.labelled import FittingError, LabelledScene, split
from cpor.fitting.stages import (
    ReliabilityData,
    action_reliability,
    fit_calibration,
    fit_fusion,
    fit_selection,
    outcomes,
)
from cpor.inference.decide import decide_many
from cpor.model import PARTS, FittedModel, GeometryNumbers, scene_features
from cpor.pipeline import Pipeline, PipelineResult, measure_with
from cpor.relations import ObstructionPosterior
from cpor.risk import choose_tau_grid, control_risk
from cpor.risk.binomial import check_levels
from cpor.scene import Scene
from cpor.truth import TruthKind


@dataclass(frozen=True)
class FitSettings:
    """What to fit, and what to promise.

    Attributes:
        alpha: Allowed rate of wrong actions among those executed.
        delta: Allowed probability, over the draw of the scenes, of a broken promise.
        seed: Of the split and of the targets.
        condition: Whether to fit the stage that conditions on the target's chain. It sharpens relations,
            but on 550 simulated scenes it cost right actions (0.78 instead of 0.88), so it is left out.
        geometry: Settings of the geometric evidence.
        truth: Which true relations to learn: what hides (as UNOBench labels), what stands in the way of
            lifting, or either, which is what an arm cares for.
        masks: Whose masks the scenes have, for the model to say; None where that does not matter.
    """

    alpha: float = 0.1
    delta: float = 0.1
    seed: int = 0
    condition: bool = False
    geometry: GeometrySettings = field(default_factory=GeometrySettings)
    truth: TruthKind = "occlusion"
    masks: str | None = None

    def __post_init__(self) -> None:
        check_levels(self.alpha, self.delta)
        if self.seed < 0:
            raise InvalidSettingError(f"seed is {self.seed}; give 0 or more")


@dataclass(frozen=True, eq=False)
class FitReport:
    """A fitted model and how reliable each stage is on scenes it was not fitted to.

    Attributes:
        model: The model.
        reliability: Of each stage.
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
    tell = progress or (lambda what, done, total: None)
    raw = Pipeline(measure=measure_with(settings.geometry))
    read = [LabelledScene.read(name, scene, raw, settings.truth) for name, scene in scenes]
    labelled = [each for each in read if each.beliefs.ids]
    if len({each.name for each in labelled}) < len(labelled):
        raise FittingError("two scenes have the same name; the model file tells them by name, so rename one")
    rng = np.random.default_rng(settings.seed)
    parts = split(labelled, rng)

    fitted, reliability = fit_calibration(raw, parts)
    tell("fitting", 1, 4)
    fitted, fused = fit_fusion(fitted, parts)
    reliability += fused
    tell("fitting", 2, 4)
    targets = {each.name: int(rng.choice(each.beliefs.ids)) for part in PARTS[2:] for each in parts[part]}
    fitted, chosen = fit_selection(fitted, parts["selection"], targets, settings.condition)
    confidence, wrong = outcomes(fitted, chosen, parts["selection"], targets)
    tell("fitting", 3, 4)
    levels = settings.alpha, settings.delta
    grid = choose_tau_grid(confidence, wrong, *levels, n_calibration=len(parts["promise"]))
    tested = [each.believed_by(fitted) for each in parts["promise"]]
    posteriors = [fitted.posterior(each.beliefs, targets[each.name]) for each in tested]
    decisions = decide_many(posteriors, tau=0.0)
    confidence, wrong = outcomes(fitted, decisions, tested, targets)
    promise = control_risk(confidence, wrong, *levels, grid)
    reliability += action_reliability(fitted, decisions, wrong)
    tell("fitting", 4, 4)
    model = FittedModel(
        scorer=_scorer(labelled),
        truth=settings.truth,
        masks=settings.masks,
        geometry=GeometryNumbers(**asdict(settings.geometry)),
        calibration=fitted.calibrate,
        geometry_calibration=fitted.calibrate_geometry,
        fusion=fitted.fuse,
        condition=fitted.condition,
        rate=fitted.rate,
        promise=promise,
        p_unanswered=_unanswered_rate(labelled),
        parts={part: [each.name for each in parts[part]] for part in PARTS},
        targets=targets,
        reference=_reference(tested, posteriors, decisions),
        seed=settings.seed,
    )
    return FitReport(model, tuple(reliability), len(read) - len(labelled))


def _unanswered_rate(labelled: Sequence[LabelledScene]) -> float | None:
    """How often pairs without any answer truly obstruct; half a count each way keeps it off 0 and 1."""
    missing = np.concatenate([each.label[np.isnan(each.beliefs.p_fused)] for each in labelled])
    return float((missing.sum() + 0.5) / (missing.size + 1.0)) if missing.size else None


def _scorer(labelled: Sequence[LabelledScene]) -> str | None:
    """The one source of the semantic scores; a promise made on a mixture would hold for none of them."""
    scorers = {None if each.semantic is None else each.semantic.scorer for each in labelled}
    if len(scorers) > 1:
        named = list_labels(sorted(str(scorer) for scorer in scorers))
        raise FittingError(
            f"the semantic scores come from different sources ({named}); fit one model for each"
        )
    return scorers.pop()


def _reference(
    tested: Sequence[LabelledScene], posteriors: Sequence[ObstructionPosterior], decisions: Sequence[Decision]
) -> dict[str, list[float | None]]:
    """What drift is told from, NaN as None."""
    results = [
        PipelineResult(each.beliefs, posterior, decision, None, {})
        for each, posterior, decision in zip(tested, posteriors, decisions, strict=True)
    ]
    return {
        name: [None if np.isnan(value) else float(value) for value in values]
        for name, values in scene_features(results).items()
    }
