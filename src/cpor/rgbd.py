"""From an RGB-D frame and a request to a decision, with nothing configured: our two networks and their model.

segment    the frame        -> objects with visible and amodal masks   (the embedded segmenter)
ground     the request      -> the object that is meant, or a question
decide     objects, target  -> the pipeline's stages, relations scored by the embedded scorer
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace

from cpor.model import FittedModel, bundled_model
from cpor.perception.grounding import Found, Grounding
from cpor.perception.onnx_segmenter import OnnxSegmenter
from cpor.perception.segmenter import Segmenter
from cpor.pipeline import Pipeline, PipelineResult
from cpor.scene import Observation, PixelPoint, Scene
from cpor.semantics.embedded import EmbeddedScorer
from cpor.semantics.grounder import Grounder, ground_with


@dataclass(frozen=True, eq=False)
class RgbdResult:
    """What came of a frame and a request.

    Attributes:
        scene: The objects found.
        meant: Which of them is meant: `Found`, `AmbiguousRequest` (ask its question) or `NotFound`.
        result: The decision and everything on the way to it; None where it is not clear what is meant.
        times_ms: Time of each stage. [ms]
        notes: What to know of how it was told which object is meant.
    """

    scene: Scene
    meant: Grounding
    result: PipelineResult | None
    times_ms: Mapping[str, float]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class RgbdPipeline:
    """A segmenter before the stages of a pipeline.

    Attributes:
        segmenter: Finds the objects.
        pipeline: Decides.
        grounder: Is asked which object words mean; None: our word judge tells.
    """

    segmenter: Segmenter
    pipeline: Pipeline
    grounder: Grounder | None = None

    def run(
        self,
        observation: Observation,
        words: str | None = None,
        *,
        target: int | None = None,
        point: PixelPoint | None = None,
    ) -> RgbdResult:
        """Decide for one frame; the object is asked for in one of three ways.

        Args:
            observation: The frame, of any size; depth may be missing.
            words: Such as "the red mug".
            target: Id of an object, as an earlier run on the same frame gave it.
            point: A pixel that shows the object.

        Raises:
            InvalidSettingError: It is asked for in several ways, or in none.
        """
        ticks = [time.perf_counter()]
        scene = replace(self.segmenter.segment(observation), request=words)
        ticks.append(time.perf_counter())
        told = ground_with(self.grounder, scene, target, point, words)
        meant = told.meant
        ticks.append(time.perf_counter())
        times = {"segment": 1e3 * (ticks[1] - ticks[0]), "ground": 1e3 * (ticks[2] - ticks[1])}
        if not isinstance(meant, Found):
            return RgbdResult(scene, meant, None, times, told.notes)
        result = self.pipeline.run(scene, meant.id)
        return RgbdResult(scene, meant, result, times | dict(result.times_ms), told.notes)


def rgbd_pipeline(
    tau: float | None = None, *, fill_missing: bool = False, grounder: Grounder | None = None
) -> RgbdPipeline:
    """The pipeline that comes with the package: our segmenter, our scorer, the model fitted to both.

    The networks are read when first used.

    Args:
        tau: Act above this score. None: act as the model promises.
        fill_missing: Whether a pair without any answer obstructs as often as such pairs did in the labelled
            scenes, instead of asking. The promise does not cover that.
        grounder: Is asked which object words mean, such as a VLM's scorer; None: our word judge tells.
    """
    model = FittedModel.load(bundled_model("embedded"))
    return RgbdPipeline(OnnxSegmenter(), scoring_pipeline(model, tau, fill_missing=fill_missing), grounder)


def scoring_pipeline(
    model: FittedModel,
    tau: float | None = None,
    *,
    fill_missing: bool = False,
    scorer: EmbeddedScorer | None = None,
) -> Pipeline:
    """The stages of a model; one fitted to scores of the embedded scorer has every scene scored by it.

    Args:
        model: The model.
        tau: See `FittedModel.pipeline`.
        fill_missing: Likewise.
        scorer: The scorer; ours by default.
    """
    pipeline = model.pipeline(tau, fill_missing=fill_missing)
    if model.calibration is None:
        return pipeline
    return replace(pipeline, score=(scorer or EmbeddedScorer()).score_near)
