import pickle
from types import SimpleNamespace

import numpy as np
import pytest
from support.layered import draw_layered_scene
from support.networks import three_rectangles, write_area_scorer

from cpor.errors import InputFileError, InvalidSettingError
from cpor.evidence.pair_crops import near_pairs
from cpor.scene import BlockedBy, DetectedObject, Scene
from cpor.semantics.config import ScorerConfig
from cpor.semantics.embedded import EmbeddedScorer, build
from cpor.semantics.scorer import RelationScorer, ScorerError, score_scene


@pytest.fixture(scope="module")
def scorer(tmp_path_factory):
    return EmbeddedScorer(write_area_scorer(tmp_path_factory.mktemp("weights") / "scorer.onnx"))


def test_every_pair_gets_a_score_and_the_order_matters(scorer):
    assert isinstance(scorer, RelationScorer)
    pairs = [BlockedBy(1, 2), BlockedBy(2, 1), BlockedBy(1, 3)]
    said = scorer.score(three_rectangles(), pairs)
    assert list(said.scores) == pairs and said.scorer == "embedded tiny"
    # This network thinks that the larger is in the way.
    assert said.scores[BlockedBy(1, 2)] < 0.5 < said.scores[BlockedBy(2, 1)]
    assert said.scores[BlockedBy(1, 2)] + said.scores[BlockedBy(2, 1)] == pytest.approx(1.0, abs=1e-6)


def test_what_shows_nowhere_gets_no_answer(scorer):
    said = scorer.score(three_rectangles(), [BlockedBy(1, 4), BlockedBy(1, 2)])
    assert said.unanswered == (BlockedBy(1, 4),) and "shows nowhere" in said.problems[0]
    unsegmented = Scene(three_rectangles().observation, (DetectedObject(1), DetectedObject(2)))
    assert scorer.score(unsegmented, [BlockedBy(1, 2)]).scores == {BlockedBy(1, 2): None}


def test_depth_makes_no_difference(scorer):
    pairs = near_pairs(three_rectangles())
    seen = scorer.score(three_rectangles(np.full((480, 640), 0.8, np.float32)), pairs)
    assert seen.scores == scorer.score(three_rectangles(), pairs).scores


def test_a_batch_gives_what_single_questions_give(scorer, rng):
    scene = draw_layered_scene(rng, (240, 320), 14, strength=0.0)
    pairs = [BlockedBy(i, j) for i in scene.ids for j in scene.ids if i != j]
    assert len(pairs) > 128, "more than one batch"
    together = scorer.score(scene, pairs).scores
    for pair in pairs[::17]:
        alone = scorer.score(scene, [pair]).scores[pair]
        assert alone == together[pair] or alone == pytest.approx(together[pair], abs=1e-6)


def test_a_whole_scene_is_scored_as_the_pipeline_wants_it(scorer):
    scores = score_scene(scorer, three_rectangles())
    assert set(scores.scores) == {BlockedBy(1, 2), BlockedBy(2, 1)} and scores.scorer == "embedded tiny"


def test_it_travels_to_another_process(scorer):
    pairs = [BlockedBy(1, 2)]
    here = scorer.score(three_rectangles(), pairs)
    assert pickle.loads(pickle.dumps(scorer)).score(three_rectangles(), pairs) == here


def test_configurations_make_it(tmp_path):
    path = write_area_scorer(tmp_path / "mine.onnx")
    assert build(ScorerConfig(kind="embedded")) == EmbeddedScorer()
    assert build(ScorerConfig(kind="embedded", options={"path": str(path)})).name == "embedded tiny"
    with pytest.raises(ScorerError, match="unknown option"):
        build(ScorerConfig(kind="embedded", options={"file": "x"}))
    missing = build(ScorerConfig(kind="embedded", options={"path": str(tmp_path / "no.onnx")}))
    with pytest.raises(InputFileError, match=r"no\.onnx cannot be read"):
        missing.score(three_rectangles(), [BlockedBy(1, 2)])


def test_scores_of_another_device_have_another_fingerprint(scorer):
    other = build(ScorerConfig(kind="embedded", options={"path": str(scorer.path), "device": "cuda"}))
    assert (other.path, other.device) == (scorer.path, "cuda")
    here = other._session
    assert other.fingerprint == scorer.fingerprint, "the CPU stands in"
    other = EmbeddedScorer(scorer.path, "cuda")
    other.__dict__["_session"] = SimpleNamespace(
        get_providers=lambda: ["CUDAExecutionProvider"], get_modelmeta=here.get_modelmeta
    )
    assert other.fingerprint != scorer.fingerprint
    with pytest.raises(InvalidSettingError, match="cpu, cuda"):
        EmbeddedScorer(scorer.path, "gpu")
