"""Fit a model to labelled scenes in one go: calibration, fusion, conditioning, promised error rate.

Every purpose has a part of the scenes to itself, split by image: semantic and geometric calibration,
fusion, selection (conditioning on the chain, success rates, the taus to test), and the promise.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from cpor.evidence import GeometrySettings
from cpor.fitting.labelled import LabelledScene, split
from cpor.fitting.stages import (
    ReliabilityData,
    action_reliability,
    fit_calibration,
    fit_fusion,
    fit_selection,
    outcomes,
)
from cpor.model import PARTS, FittedModel, geometry_as_numbers, scene_features
from cpor.pipeline import Pipeline, measure_with
from cpor.risk import choose_tau_grid, control_risk
from cpor.scene import Scene


@dataclass(frozen=True)
class FitSettings:
    """What to fit, and what to promise.

    Attributes:
        alpha: Allowed rate of wrong actions among those executed.
        delta: Allowed probability, over the draw of the scenes, of a broken promise.
        seed: Of the split and of the targets.
        condition: Whether to fit the stage that conditions on the target's chain.
        geometry: Settings of the geometric evidence.
    """

    alpha: float = 0.1
    delta: float = 0.1
    seed: int = 0
    condition: bool = True
    geometry: GeometrySettings = field(default_factory=GeometrySettings)


@dataclass(frozen=True, eq=False)
class FitReport:
    """A fitted model and how reliable each stage is on scenes it was not fitted to."""

    model: FittedModel
    reliability: tuple[ReliabilityData, ...]


def fit_model(
    scenes: Mapping[str, Scene],
    settings: FitSettings | None = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> FitReport:
    """Fit a model to labelled scenes.

    Args:
        scenes: Scenes with masks and true occlusion relations, by name; one image each.
        settings: What to fit and what to promise.
        progress: Told of each step: what is done, how much of it, out of how much.
    """
    settings = settings or FitSettings()
    tell = progress or (lambda what, done, total: None)
    raw = Pipeline(measure=measure_with(settings.geometry))
    labelled = []
    for k, (name, scene) in enumerate(scenes.items()):
        labelled.append(LabelledScene.read(name, scene, raw))
        tell("measuring", k + 1, len(scenes))
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
    forced = replace(fitted, tau=0.0)
    results = [forced.run(each.scene, targets[each.name]) for each in parts["promise"]]
    decisions = [result.decision for result in results]
    confidence, wrong = outcomes(fitted, decisions, parts["promise"], targets)
    promise = control_risk(confidence, wrong, *levels, grid)
    reliability += action_reliability(fitted, decisions, wrong)
    tell("fitting", 4, 4)
    features = scene_features(results)
    scorers = {each.scene.semantic_scores.scorer for each in labelled if each.scene.semantic_scores}
    model = FittedModel(
        scorer=", ".join(sorted(str(scorer) for scorer in scorers)) or None,
        geometry=geometry_as_numbers(settings.geometry),
        calibration=fitted.calibrate,
        geometry_calibration=fitted.calibrate_geometry,
        fusion=fitted.fuse,
        condition=fitted.condition,
        rate=fitted.rate,
        promise=promise,
        parts={part: [each.name for each in parts[part]] for part in PARTS},
        targets=targets,
        reference={
            name: [None if np.isnan(value) else float(value) for value in values]
            for name, values in features.items()
        },
        seed=settings.seed,
    )
    return FitReport(model, tuple(reliability))
