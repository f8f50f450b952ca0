import pickle

import numpy as np
import pytest
from support.layered import draw_layered_scene
from support.networks import paint, write_area_scorer

from cpor.perception.network_file import WeightsError
from cpor.scene import BlockedBy, DetectedObject, MaskCrop, Observation, Scene
from cpor.semantics.config import ScorerConfig
from cpor.semantics.crops import near_pairs, pair_crops
from cpor.semantics.embedded import EmbeddedScorer, build
from cpor.semantics.scorer import RelationScorer, ScorerError

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
    scores = scorer.score_near(make_scene())
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


def test_crops_show_the_square_around_both():
    scene = make_scene()
    crop, swapped, far = pair_crops(
        scene.observation.rgb, scene.visible_ids, [BlockedBy(1, 2), BlockedBy(2, 1), BlockedBy(1, 3)]
    )
    assert crop.shape == (96, 96, 5) and np.array_equal(swapped, crop[..., [0, 1, 2, 4, 3]])
    # 1 and 2 fill columns 128 to 320, so the square is 192 * 1.3 = 249.6 px wide and a pixel of it 2.6 px.
    scale = 96 / 249.6
    assert (crop[..., 3] > 127).sum() == pytest.approx((scene.visible_ids == 1).sum() * scale**2, rel=0.03)
    assert (crop[..., 4] > 127).sum() == pytest.approx((scene.visible_ids == 2).sum() * scale**2, rel=0.08)
    middle = np.argwhere((crop[..., 3] > 127) | (crop[..., 4] > 127))
    assert abs(middle[:, 1].min() + middle[:, 1].max() + 1 - 96) <= 2, "centred"
    inside = crop[crop[..., 3] == 255]
    assert (abs(inside[:, :3].astype(int) - (200, 30, 30)) <= 1).all(), "colours lie under their masks"
    assert (far[..., 3].max(), far[..., 4].max()) == (255, 255)


def test_beyond_the_image_crops_are_black():
    ids = np.zeros((40, 200), np.int32)
    ids[:, :100], ids[:, 100:] = 1, 2
    crop = pair_crops(np.full((40, 200, 3), 90, np.uint8), ids, [BlockedBy(1, 2)])[0]
    assert not crop[:30].any() and not crop[-30:].any() and crop[48, 48, 0] == 90


def test_pairs_worth_asking_are_near_or_hide_each_other(rng):
    assert near_pairs(make_scene()) == (BlockedBy(1, 2), BlockedBy(2, 1))
    scene = make_scene()
    whole = np.zeros(SHAPE, dtype=bool)
    whole[100:400, 128:620] = True  # 1 goes on far under 3
    objects = (DetectedObject(1, MaskCrop.from_mask(whole)), *scene.objects[1:])
    assert BlockedBy(1, 3) in near_pairs(Scene(scene.observation, objects, scene.visible_ids))
    assert near_pairs(Scene(scene.observation)) == ()


def test_near_pairs_hold_all_that_geometry_calls_touching(rng):
    from cpor.evidence import PairState, geometric_evidence

    for _ in range(5):
        scene = draw_layered_scene(rng, (240, 320), 8)
        found = geometric_evidence(scene)
        touching = np.argwhere(found.state == PairState.CANDIDATE)
        pairs = {BlockedBy(found.ids[i], found.ids[j]) for i, j in touching}
        assert pairs <= set(near_pairs(scene, within=16))
