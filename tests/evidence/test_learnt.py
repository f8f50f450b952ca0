import pickle
from dataclasses import replace

import numpy as np
import pytest
from support.layered import draw_layered_scene
from support.networks import write_area_network

from cpor.errors import InvalidSettingError
from cpor.evidence import PairState, geometric_evidence
from cpor.evidence.learnt import LearntGeometry, join_geometry, parse_geometry
from cpor.evidence.pair_crops import near_pairs
from cpor.scene import DetectedObject, Observation, Scene


@pytest.fixture(scope="module")
def learnt(tmp_path_factory):
    path = write_area_network(tmp_path_factory.mktemp("weights") / "geometry.onnx", 6, 1)
    return LearntGeometry(path, joined=False)


@pytest.fixture
def scene(rng):
    return draw_layered_scene(rng, (240, 320), 6, strength=0.0)


def test_near_pairs_are_answered_by_the_network_and_others_are_known_to_be_free(learnt, scene):
    found, paper = learnt(scene), geometric_evidence(scene)
    near = {(found.ids.index(p.blocked), found.ids.index(p.blocker)) for p in near_pairs(scene)}
    assert near, "some objects touch"
    for i in range(len(found.ids)):
        for j in range(len(found.ids)):
            if (i, j) in near:
                assert found.state[i, j] == PairState.CANDIDATE and 0.0 < found.p_geometry[i, j] < 1.0
                assert found.logit_geometry[i, j] == pytest.approx(-found.logit_geometry[j, i], abs=1e-4)
            elif not np.isnan(paper.hidden_overlap[i, j]):
                assert found.state[i, j] == PairState.NO_CONTACT and found.p_geometry[i, j] == 0.0
    assert np.array_equal(found.hidden_overlap, paper.hidden_overlap, equal_nan=True)
    assert found.state.flags.writeable is False


def test_the_relation_can_be_chosen(learnt, scene):
    either, hides = learnt(scene).logit_geometry, replace(learnt, kind="occlusion")(scene).logit_geometry
    assert np.allclose(either, 3.0 * hides, atol=1e-4, equal_nan=True) and np.isfinite(either).any()
    with pytest.raises(InvalidSettingError, match="unknown kind"):
        replace(learnt, kind="lift")


def test_without_depth_or_masks_there_is_no_answer(learnt, scene):
    blind = replace(scene, observation=Observation(scene.observation.rgb))
    found = learnt(blind)
    assert found.is_unanswered.any() and not found.is_candidate.any()
    assert np.isnan(found.p_geometry[found.is_unanswered]).all()
    depth = np.array(scene.observation.depth)
    poor = scene.objects[0].id
    depth[scene.visible_ids == poor] = np.nan
    half = learnt(replace(scene, observation=Observation(scene.observation.rgb, depth)))
    assert not half.is_candidate[0].any() and not half.is_candidate[:, 0].any()
    bare = tuple(DetectedObject(o.id) for o in scene.objects)
    assert not learnt(Scene(scene.observation, bare, scene.visible_ids)).is_candidate.any()


def test_where_the_weights_are_missing_the_formula_answers_and_says_so(scene, tmp_path):
    missing = LearntGeometry(tmp_path / "no.onnx")
    assert "no.onnx is not there" in missing.fallback
    assert np.array_equal(missing(scene).p_geometry, geometric_evidence(scene).p_geometry, equal_nan=True)


def test_joined_with_the_paper_it_is_another_measure(learnt, scene):
    joined = replace(learnt, joined=True)
    told, paper = joined(scene), geometric_evidence(scene)
    hides = replace(learnt, kind="occlusion")(scene).logit_geometry
    by_hand = join_geometry(paper, learnt(scene), hides)
    assert np.array_equal(told.p_geometry, by_hand.p_geometry, equal_nan=True)
    assert not np.array_equal(told.p_geometry, learnt(scene).p_geometry, equal_nan=True)
    assert joined.fingerprint != learnt.fingerprint, "a promise for one does not hold for the other"


def test_it_travels_to_another_process(learnt, scene):
    here = learnt(scene).p_geometry
    there = pickle.loads(pickle.dumps(learnt))(scene).p_geometry
    assert np.array_equal(here, there, equal_nan=True)


def test_kinds_of_geometry_are_known_by_name():
    assert parse_geometry("learnt") == "learnt"
    with pytest.raises(InvalidSettingError, match="paper, learnt, both"):
        parse_geometry("magic")
