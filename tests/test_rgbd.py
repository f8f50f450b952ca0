"""From a frame and a request to a decision, in Python, with nothing configured and with tiny networks."""

import numpy as np
import pytest
from support.networks import paint, write_area_scorer, write_colour_segmenter

import cpor
from cpor.data.scene_folder import read_scene_folder
from cpor.model import FittedModel, bundled_model
from cpor.perception.grounding import AmbiguousRequest, Found, NotFound
from cpor.perception.onnx_segmenter import OnnxSegmenter
from cpor.pipeline import Pipeline
from cpor.rgbd import RgbdPipeline, scoring_pipeline
from cpor.scene import Observation, PixelPoint
from cpor.semantics.embedded import EmbeddedScorer

BOXES = {"red": (0.1, 0.1, 0.5, 0.4), "green": (0.15, 0.42, 0.6, 0.7), "blue": (0.55, 0.2, 0.9, 0.5)}


@pytest.fixture
def eyes(tmp_path):
    scorer = EmbeddedScorer(write_area_scorer(tmp_path / "scorer.onnx"))
    return RgbdPipeline(
        OnnxSegmenter(write_colour_segmenter(tmp_path / "segmenter.onnx")), Pipeline(score=scorer.score_near)
    )


def frame(**boxes):
    rgb = paint((240, 320), **boxes)
    return Observation(rgb, np.where((rgb == 120).all(axis=-1), 0.8, 0.75).astype(np.float32))


def test_words_points_and_ids_lead_to_the_same_decision(eyes):
    by_words = eyes.run(frame(**BOXES), "the green one")
    assert isinstance(by_words.meant, Found)
    assert by_words.result.beliefs.scorer == "embedded tiny"
    by_point = eyes.run(frame(**BOXES), point=PixelPoint(180.0, 80.0))
    by_id = eyes.run(frame(**BOXES), target=by_words.meant.id)
    assert by_point.result.decision == by_words.result.decision == by_id.result.decision
    assert {"segment", "ground", "measure", "score", "decide"} <= set(by_words.times_ms)


def test_what_is_not_clear_is_not_decided(eyes):
    several = eyes.run(frame(**BOXES), "the box")
    assert isinstance(several.meant, AmbiguousRequest) and several.result is None
    nothing = eyes.run(frame(), "the red box")
    assert isinstance(nothing.meant, NotFound) and nothing.result is None
    with pytest.raises(cpor.CporError, match="one way only"):
        eyes.run(frame(**BOXES), "the red box", target=1)


def test_without_depth_it_still_decides_from_what_the_scorer_says(eyes):
    blind = Observation(frame(**BOXES).rgb)
    answer = eyes.run(blind, "the red one")
    assert answer.result is not None and answer.result.beliefs.asked.any()


def test_nothing_needs_to_be_configured():
    scene = read_scene_folder("examples/scenes/sim/scene_00007")
    answer = cpor.rgbd_pipeline(tau=0.0).run(scene.observation, scene.request)
    assert isinstance(answer.meant, Found)
    assert answer.result.beliefs.scorer == FittedModel.load(bundled_model("embedded")).scorer
    again = cpor.rgbd_pipeline(tau=0.0).run(scene.observation, scene.request)
    assert again.result.decision == answer.result.decision


def test_a_model_without_scores_asks_nobody():
    model = FittedModel.load(bundled_model("geometry"))
    assert scoring_pipeline(model).score is not None
    scene = read_scene_folder("examples/scenes/sim/scene_00000")
    assert scoring_pipeline(model).believe(scene).scorer is None
