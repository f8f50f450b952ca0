"""The stages in order, replaceable, and never "free to grasp" for want of an answer."""

from dataclasses import replace

import numpy as np
import pytest
from support.labelled import draw_labelled_scene
from support.layered import draw_layered_scene

from cpor import CporError, Defer, Grasp
from cpor.calibration import PlattCalibrator
from cpor.evidence import PairState
from cpor.fusion import GatedFusion
from cpor.pipeline import Pipeline
from cpor.scene import DetectedObject, MaskCrop, Observation, Scene, SemanticScores


@pytest.fixture
def scene(rng):
    return draw_labelled_scene(rng)


def test_every_intermediate_result_is_kept(scene):
    result = Pipeline().run(scene, scene.ids[0])
    n = len(scene.ids)
    for name in ("score_semantic", "p_semantic", "p_geometry", "p_fused"):
        assert getattr(result.beliefs, name).shape == (n, n)
    assert set(result.times_ms) == {"measure", "score", "calibrate", "fuse", "condition", "decide"}
    assert result.posterior.target == scene.ids[0]
    assert result.p_success is None


def test_fused_log_odds_by_hand(scene):
    fusion = GatedFusion(gamma=-0.4, beta_vlm=0.7, beta_cv=0.5, prior=0.3, penalty=0.0, objective=0.0)
    calibrator = PlattCalibrator(a=0.8, c=-0.5)
    beliefs = Pipeline(calibrate=calibrator, fuse=fusion).believe(scene)

    def logit(p):
        return np.log(p / (1 - p))

    checked = 0
    for i, j in np.argwhere(beliefs.geometry.is_candidate & ~np.isnan(beliefs.score_semantic)):
        semantic = 0.8 * logit(beliefs.score_semantic[i, j]) - 0.5 - logit(0.3)
        geometric = logit(beliefs.geometry.p_geometry[i, j]) - logit(0.3)
        expected = -0.4 + 0.7 * semantic + 0.5 * beliefs.geometry.reliability[i, j] * geometric
        if 1e-5 < beliefs.geometry.p_geometry[i, j] < 1 - 1e-5 and abs(semantic) < 10:  # not clipped
            assert logit(beliefs.p_fused[i, j]) == pytest.approx(expected, abs=1e-6)
            checked += 1
    assert checked > 3


def test_a_stage_can_be_replaced(scene):
    silent = Pipeline(score=lambda scene: None)
    beliefs = silent.believe(scene)
    assert not beliefs.asked.any()
    assert np.isnan(beliefs.p_semantic).all()


def test_three_states_survive_fusion(rng):
    for k in range(10):
        scene = draw_labelled_scene(rng, lost=0.5)
        beliefs = (Pipeline(fuse=GATED) if k % 2 else Pipeline()).believe(scene)
        sourced = ~np.isnan(beliefs.p_semantic) | ~np.isnan(beliefs.p_geometry)
        needed = beliefs.asked | (beliefs.geometry.state != PairState.NO_CONTACT)
        assert not np.isnan(beliefs.p_fused[sourced]).any()
        assert np.isnan(beliefs.p_fused[needed & ~sourced]).all()
        assert (beliefs.p_fused[~needed & ~sourced] == 0.0).all()


GATED = GatedFusion(gamma=-0.6, beta_vlm=1.0, beta_cv=1.0, prior=0.3, penalty=0.0, objective=0.0)


@pytest.mark.parametrize("readings", [0, 1])
def test_a_target_without_depth_of_its_own_is_not_free(readings):
    """A glass shows no depth; the box over half of it does: the pair touches, and nobody can say more."""
    visible = np.zeros((80, 80), np.int32)
    visible[20:60, 20:60] = 1
    visible[20:60, 40:70] = 2
    amodal = np.zeros((80, 80), bool)
    amodal[20:60, 20:60] = True
    depth = np.full((80, 80), 0.8, np.float32)
    depth[visible == 2] = 0.6
    depth[visible == 1] = np.nan
    depth.flat[np.flatnonzero(visible == 1)[:readings]] = 0.8
    box = DetectedObject(2, MaskCrop.from_mask(visible == 2))
    glass = DetectedObject(1, MaskCrop.from_mask(amodal))
    scene = Scene(Observation(np.zeros((80, 80, 3), np.uint8), depth), (glass, box), visible)
    result = Pipeline(fuse=GATED).run(scene, 1)
    assert np.isnan(result.beliefs.p_fused[0, 1])
    assert result.decision.action == Defer("no_evidence")


def without_depth(scene: Scene) -> Scene:
    return replace(scene, observation=Observation(scene.observation.rgb, None, scene.observation.camera))


def test_no_depth_and_no_scores_is_no_answer(rng):
    deferred = 0
    for _ in range(10):
        scene = without_depth(draw_layered_scene(rng, (180, 240), 6))
        touching = Pipeline().believe(scene).geometry.is_unanswered
        for k, target in enumerate(scene.ids):
            action = Pipeline().run(scene, target).decision.action
            if touching[k].any():
                assert action == Defer("no_evidence")
                deferred += 1
            else:
                assert action == Grasp(target)
    assert deferred > 10


def test_no_depth_but_scores_decides_from_scores(rng):
    scene = without_depth(draw_labelled_scene(rng, lost=0.0))
    assert not np.isnan(Pipeline().believe(scene).p_fused).any()


def test_a_failed_scorer_never_frees_the_target(rng):
    for _ in range(5):
        scene = draw_labelled_scene(rng, lost=0.0)
        failed = SemanticScores(dict.fromkeys(scene.semantic_scores.scores), "down")
        blind = without_depth(replace(scene, semantic_scores=failed))
        for k, target in enumerate(scene.ids):
            if Pipeline().believe(blind).asked[k].any():
                assert not isinstance(Pipeline().run(blind, target).decision.action, Grasp)


def test_unknown_target_is_named(scene):
    with pytest.raises(CporError, match="unknown object 999"):
        Pipeline().run(scene, 999)


def test_three_hundred_objects(rng):
    rows, cols = np.indices((300, 300))
    visible = ((rows // 15) * 20 + cols // 15 + 1).astype(np.int32)
    visible[visible > 300] = 0
    scene = Scene(
        Observation(np.zeros((300, 300, 3), np.uint8), np.full((300, 300), 0.7, np.float32)),
        tuple(DetectedObject(k, MaskCrop.from_mask(visible == k)) for k in range(1, 301)),
        visible,
    )
    result = Pipeline().run(scene, 5)
    assert set(result.decision.scores) == set(scene.ids)
    assert result.beliefs.geometry.is_candidate.sum() > 1000
