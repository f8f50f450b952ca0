"""What `cpor fit` learns and every deciding command can use: one JSON file, versioned."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

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
from cpor.scene import Scene
from cpor.truth import TruthKind

PairCalibration = Annotated[
    TemperatureCalibrator | PlattCalibrator | IsotonicCalibrator | ScenePlattCalibrator,
    Field(discriminator="kind"),
]

_BUNDLED = Path(__file__).parent / "models"

PARTS = ("calibration", "fusion", "selection", "promise")
"""Disjoint parts of the labelled scenes, split by image, each for one purpose."""


Bundled: TypeAlias = Literal["geometry", "embedded"]
"""Models that come with the package: masks that are given and depth alone, or our own two networks."""


def bundled_model(kind: Bundled = "geometry") -> Path:
    """File of a model that comes with the package, fitted on simulated scenes (`dev`)."""
    return _BUNDLED / f"simulated_{kind}.json"


class GeometryNumbers(BaseModel):
    """`GeometrySettings` as they stand in the file; all of them, and nothing else."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, strict=True)

    rho: int
    sigma_z: float
    kappa_o: float
    kappa_c: float
    kappa_z: float
    o_star: float
    c_star: float
    b_cv: float
    min_readings: float


class FittedModel(VersionedModel):
    """Calibration, fusion and promised error rate, fitted on disjoint parts of labelled scenes.

    Attributes:
        scorer: Name of the semantic source it was fitted to; None where geometry was alone.
        truth: Which true relations it learnt.
        masks: Whose masks its scenes had; None where nobody said.
        geometry: Settings of the geometric evidence.
        calibration: For semantic scores; None where there were none.
        geometry_calibration: For geometric confidences.
        fusion: Of both sources.
        condition: For what lies on the target's chain; None where left out.
        rate: From action scores to success rates.
        promise: The promised error rate and its tau, or why there is none. Tau is a success rate where
            `rate` is there, else a score.
        p_unanswered: Share of the pairs without any answer that truly obstruct, to give as a prior to those
            who must act nevertheless; None where every pair had an answer.
        parts: The scenes of each part, by name.
        targets: The target asked for in each scene of the last two parts.
        reference: Features of the scenes of the last part, to tell drift from.
        seed: Of the split and of the targets.
    """

    kind: Literal["cpor-model"] = "cpor-model"
    version: Literal[1] = 1
    scorer: str | None
    truth: TruthKind = "occlusion"
    masks: str | None = None
    geometry: GeometryNumbers
    calibration: PairCalibration | None
    geometry_calibration: PairCalibration | None
    fusion: GatedFusion
    condition: GraphPlattCalibrator | None
    rate: ActionCalibrator | None
    promise: RiskPromise
    p_unanswered: float | None = None
    parts: dict[str, list[str]]
    targets: dict[str, int]
    reference: dict[str, list[float | None]]
    seed: int

    def pipeline(self, tau: float | None = None, *, fill_missing: bool = False) -> Pipeline:
        """The fitted stages.

        Args:
            tau: Act above this score. None: act as promised, or above 0.5 where nothing is promised.
            fill_missing: Whether a pair without any answer obstructs as often as such pairs did in the
                labelled scenes, instead of asking. The promise does not cover that.
        """
        threshold, on_rate = (0.5 if tau is None else tau), None
        if tau is None and self.promise.tau is not None:
            by_rate = self.rate is not None
            threshold, on_rate = (0.0, self.promise.tau) if by_rate else (self.promise.tau, None)
        return Pipeline(
            measure=measure_with(GeometrySettings(**self.geometry.model_dump())),
            calibrate=self.calibration,
            calibrate_geometry=self.geometry_calibration,
            fuse=self.fusion,
            condition=self.condition,
            rate=self.rate,
            tau=threshold,
            tau_success=on_rate,
            prior=self.p_unanswered if fill_missing else None,
        )

    def reason_not_covered(
        self, scene: Scene, pipeline: Pipeline, plain: bool = True, masks: str | None = None
    ) -> str | None:
        """Why the promise does not hold for a decision; None where it does.

        Args:
            scene: What is decided.
            pipeline: The stages that decide.
            plain: Whether the decision has no deadline and demands no certificate, as in the test.
            masks: Whose masks the scene has, where known.
        """
        if self.promise.tau is None:
            return self.promise.reason
        if (pipeline.tau, pipeline.tau_success) != (self.pipeline().tau, self.pipeline().tau_success):
            return "it was tested with another tau"
        if pipeline.method != "auto" or pipeline.prior is not None or not plain:
            return "it was tested without a prior, a deadline, a demand for certificates or another method"
        scorer = scene.semantic_scores.scorer if scene.semantic_scores else None
        if scorer != self.scorer or (scene.semantic_scores is None) != (self.calibration is None):
            return f"it was tested with the scores of {self.scorer or 'nobody'}, not of {scorer or 'nobody'}"
        if None not in (masks, self.masks) and masks != self.masks:
            return f"it was tested with masks of {self.masks!r}, not of {masks!r}"
        if scene.observation.depth is None and self.geometry_calibration is not None:
            return "it was tested with depth, and this scene has none"
        return None

    def check_drift(
        self, results: Sequence[PipelineResult | None], rng: np.random.Generator, level: float = 0.01
    ) -> DriftReport:
        """Whether new scenes still look like those the promise was made from.

        Args:
            results: What the pipeline said of the new scenes, one target each; None for an empty scene.
            rng: Draws the permutations.
            level: Probability of a false alarm when nothing has changed.
        """
        old = {name: np.array(values, np.float64) for name, values in self.reference.items()}
        return check_drift(old, scene_features(results), rng, level)


def scene_features(results: Sequence[PipelineResult | None]) -> dict[str, np.ndarray]:
    """What drift is told from: one number a scene for each feature. Shape (n,) each."""
    rows = []
    for result in results:
        if result is None:  # a scene without objects
            rows.append((np.nan, 0.0, 0.0, np.nan, 0.0))
            continue
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
