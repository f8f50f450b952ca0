import pickle

import numpy as np
import pytest
from support.layered import draw_layered_scene
from support.networks import paint, write_area_scorer

from cpor.evidence.pair_crops import near_pairs
from cpor.perception.network_file import WeightsError
from cpor.scene import BlockedBy, DetectedObject, MaskCrop, Observation, Scene
from cpor.semantics.config import ScorerConfig
from cpor.semantics.embedded import EmbeddedScorer, build
from cpor.semantics.scorer import RelationScorer, ScorerError, score_scene

SHAPE = (480, 640)
BOXES = {"red": (0.2, 0.2, 0.5, 0.4), "blue": (0.3, 0.4, 0.4, 0.5), "green": (0.8, 0.8, 0.9, 0.95)}


def make_scene(depth=None):
    """Three rectangles; 4 shows nowhere."""
    ids = np.zeros(SHAPE, np.int32)
    for k, (top, left, bottom, right) in enumerate(BOXES.values(), start=1):
        ids[round(top * 480) : round(bottom * 480), round(left * 640) : round(right * 640)] = k
    objects = [DetectedObject(k, MaskCrop.from_mask(ids == k)) for k in (1, 2, 3)]
    return Scene(Observation(paint(SHAPE, **BOXES), depth), (*objects, DetectedObject(4)), ids)


@pytest.fixture(scope="module")
def scorer(tmp_path_factory):
    return EmbeddedScorer(write_area_scorer(tmp_path_factory.mktemp("weights") / "scorer.onnx"))


def test_every_pair_gets_a_score_and_the_order_matters(scorer):
    assert isinstance(scorer, RelationScorer)
    pairs = [BlockedBy(1, 2), BlockedBy(2, 1), BlockedBy(1, 3)]
    said = scorer.score(make_scene(), pairs)
    assert list(said.scores) == pairs and said.scorer == "embedded tiny"
    # This network thinks that the larger is in the way.
    assert said.scores[BlockedBy(1, 2)] < 0.5 < said.scores[BlockedBy(2, 1)]
    assert said.scores[BlockedBy(1, 2)] + said.scores[BlockedBy(2, 1)] == pytest.approx(1.0, abs=1e-6)


def test_what_shows_nowhere_gets_no_answer(scorer):
    said = scorer.score(make_scene(), [BlockedBy(1, 4), BlockedBy(1, 2)])
    assert said.unanswered == (BlockedBy(1, 4),) and "shows nowhere" in said.problems[0]
    unsegmented = Scene(make_scene().observation, (DetectedObject(1), DetectedObject(2)))
    assert scorer.score(unsegmented, [BlockedBy(1, 2)]).scores == {BlockedBy(1, 2): None}


def test_depth_makes_no_difference(scorer):
    pairs = near_pairs(make_scene())
    seen = scorer.score(make_scene(np.full(SHAPE, 0.8, np.float32)), pairs)
    assert seen.scores == scorer.score(make_scene(), pairs).scores


def test_a_batch_gives_what_single_questions_give(scorer, rng):
    scene = draw_layered_scene(rng, (240, 320), 14, strength=0.0)
    pairs = [BlockedBy(i, j) for i in scene.ids for j in scene.ids if i != j]
    assert len(pairs) > 128, "more than one batch"
    together = scorer.score(scene, pairs).scores
    for pair in pairs[::17]:
        alone = scorer.score(scene, [pair]).scores[pair]
        assert alone == together[pair] or alone == pytest.approx(together[pair], abs=1e-6)


def test_a_whole_scene_is_scored_as_the_pipeline_wants_it(scorer):
    scores = score_scene(scorer, make_scene())
    assert set(scores.scores) == {BlockedBy(1, 2), BlockedBy(2, 1)} and scores.scorer == "embedded tiny"


def test_it_travels_to_another_process(scorer):
    pairs = [BlockedBy(1, 2)]
    here = scorer.score(make_scene(), pairs)
    assert pickle.loads(pickle.dumps(scorer)).score(make_scene(), pairs) == here


def test_configurations_make_it(tmp_path):
    path = write_area_scorer(tmp_path / "mine.onnx")
    assert build(ScorerConfig(kind="embedded")) == EmbeddedScorer()
    assert build(ScorerConfig(kind="embedded", options={"path": str(path)})).name == "embedded tiny"
    with pytest.raises(ScorerError, match="unknown option"):
        build(ScorerConfig(kind="embedded", options={"file": "x"}))
    missing = build(ScorerConfig(kind="embedded", options={"path": str(tmp_path / "no.onnx")}))
    with pytest.raises(WeightsError, match=r"no\.onnx cannot be read"):
        missing.score(make_scene(), [BlockedBy(1, 2)])
