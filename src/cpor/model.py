"""What `cpor fit` learns and every deciding command can use: one JSON file, versioned."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from cpor.calibration import (
    ActionCalibrator,
    GraphPlattCalibrator,
    IsotonicCalibrator,
    PlattCalibrator,
    ScenePlattCalibrator,
    TemperatureCalibrator,
)
from cpor.calibration.versioned import VersionedModel
from cpor.decision import Defer
from cpor.evidence import GeometrySettings
from cpor.fusion import GatedFusion
from cpor.pipeline import Pipeline, PipelineResult, measure_with
from cpor.risk import DriftReport, RiskPromise, check_drift

PairCalibration = Annotated[
    TemperatureCalibrator | PlattCalibrator | IsotonicCalibrator | ScenePlattCalibrator,
    Field(discriminator="kind"),
]

PARTS = ("calibration", "fusion", "selection", "promise")
"""Disjoint parts of the labelled scenes, split by image, each for one purpose."""


class FittedModel(VersionedModel):
    """Calibration, fusion and promised error rate, fitted on disjoint parts of labelled scenes.

    Attributes:
        scorer: Name of the semantic source it was fitted to; None where geometry was alone.
        geometry: Settings of the geometric evidence.
        calibration: For semantic scores; None where there were none.
        geometry_calibration: For geometric confidences.
        fusion: Of both sources.
        condition: For what lies on the target's chain; None where left out.
        rate: From action scores to success rates.
        promise: The promised error rate and its tau, or why there is none. Tau is a success rate where
            `rate` is there, else a score.
        parts: The scenes of each part, by name.
        targets: The target asked for in each scene of the last two parts.
        reference: Features of the scenes of the last part, to tell drift from.
        seed: Of the split and of the targets.
    """

    kind: Literal["cpor-model"] = "cpor-model"
    version: Literal[1] = 1
    scorer: str | None
    geometry: dict[str, float]
    calibration: PairCalibration | None
    geometry_calibration: PairCalibration | None
    fusion: GatedFusion
    condition: GraphPlattCalibrator | None
    rate: ActionCalibrator | None
    promise: RiskPromise
    parts: dict[str, list[str]]
    targets: dict[str, int]
    reference: dict[str, list[float | None]]
    seed: int

    def pipeline(self, tau: float | None = None) -> Pipeline:
        """The fitted stages.

        Args:
            tau: Act above this score. None: act as promised, or above 0.5 where nothing is promised.
        """
        settings = {name: int(value) if name == "rho" else value for name, value in self.geometry.items()}
        threshold, on_rate = (0.5 if tau is None else tau), None
        if tau is None and self.promise.tau is not None:
            by_rate = self.rate is not None
            threshold, on_rate = (0.0, self.promise.tau) if by_rate else (self.promise.tau, None)
        return Pipeline(
            measure=measure_with(GeometrySettings(**settings)),  # type: ignore[arg-type]
            calibrate=self.calibration,
            calibrate_geometry=self.geometry_calibration,
            fuse=self.fusion,
            condition=self.condition,
            rate=self.rate,
            tau=threshold,
            tau_success=on_rate,
        )

    def check_drift(
        self, results: Sequence[PipelineResult], rng: np.random.Generator, level: float = 0.01
    ) -> DriftReport:
        """Whether new scenes still look like those the promise was made from.

        Args:
            results: What the pipeline said of the new scenes, one target each.
            rng: Draws the permutations.
            level: Probability of a false alarm when nothing has changed.
        """
        old = {name: np.array(values, np.float64) for name, values in self.reference.items()}
        return check_drift(old, scene_features(results), rng, level)


def geometry_as_numbers(settings: GeometrySettings) -> dict[str, float]:
    """Settings as they go into the file."""
    return {name: float(value) for name, value in asdict(replace(settings)).items()}


def scene_features(results: Sequence[PipelineResult]) -> dict[str, np.ndarray]:
    """What drift is told from: one number a scene for each feature. Shape (n,) each."""
    rows = []
    for result in results:
        p = result.beliefs.p_fused
        candidates = p[(p > 0.0) & ~np.isnan(p)]
        missing = isinstance(result.decision.action, Defer) and result.decision.action.reason == "no_evidence"
        best = np.nan if missing else max(result.decision.scores.values())
        rows.append(
            (
                best,
                float(len(result.beliefs.ids)),
                float(candidates.size),
                float(candidates.mean()) if candidates.size else np.nan,
                float(np.isnan(p).sum()),
            )
        )
    names = ("best_score", "n_objects", "n_candidates", "mean_p", "n_unanswered")
    table = np.array(rows, np.float64).reshape(len(rows), len(names))
    return {name: table[:, k] for k, name in enumerate(names)}
