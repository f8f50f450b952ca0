"""The stages in order, replaceable, and never "free to grasp" for want of an answer."""

from dataclasses import replace

import numpy as np
import pytest
from support.labelled import draw_labelled_scene
from support.layered import draw_layered_scene

from cpor import CporError, Defer, Grasp, ObstructionPosterior, Remove, decide
from cpor.evidence import PairState, geometric_evidence
from cpor.evidence.source import PairScores
from cpor.fitting.labelled import drop_objects
from cpor.learn.gated import MOST_DISAGREEMENT, SAW, GatedFusion, Guard, NaiveFusion, disagreement
from cpor.learn.logistic import LogisticCalibrator
from cpor.learn.unseen import UnseenCalibrator
from cpor.pipeline import UNSEEN, Pipeline, add_unseen
from cpor.scene import BlockedBy, DetectedObject, MaskCrop, Observation, Scene, SemanticScores


@pytest.fixture
def scene(rng):
    return draw_labelled_scene(rng)


def test_every_intermediate_result_is_kept(scene):
    pipeline, n = Pipeline(), len(scene.ids)
    said = pipeline.believe(scene)
    assert list(said.scores) == list(said.p) == ["semantic", "geometry"]
    for each in (*(s.score for s in said.scores.values()), *said.p.values(), said.p_fused):
        assert each.shape == (n, n)
    posterior = pipeline.posterior(said, scene.ids[0])
    assert posterior.target == scene.ids[0]
    assert pipeline.decide(posterior) == pipeline.run(scene, scene.ids[0])
    assert pipeline.success_rate(pipeline.decide(posterior)) is None


def test_fused_log_odds_by_hand(scene):
    # Pairs on which the sources contradict each other are not the fusion's alone.
    fusion = gated(-0.4, 0.7, 0.5)
    calibrate = {"semantic": LogisticCalibrator(theta=(float(np.log(0.8)), -0.5))}
    beliefs = Pipeline(calibrate=calibrate, fuse=fusion).believe(scene)
    said = beliefs.scores["semantic"].score

    def logit(p):
        return np.log(p / (1 - p))

    checked = 0
    for i, j in np.argwhere(beliefs.geometry.is_candidate & ~np.isnan(said)):
        semantic = 0.8 * logit(said[i, j]) - 0.5 - logit(0.3)
        geometric = logit(beliefs.geometry.p_geometry[i, j]) - logit(0.3)
        expected = -0.4 + 0.7 * semantic + 0.5 * beliefs.geometry.reliability[i, j] * geometric
        opposed = beliefs.p["geometry"][i, j] > max(SAW, beliefs.p["semantic"][i, j])
        unclipped = 1e-5 < beliefs.geometry.p_geometry[i, j] < 1 - 1e-5 and abs(semantic) < 10
        if unclipped and not opposed:
            assert logit(beliefs.p_fused[i, j]) == pytest.approx(expected, abs=1e-6)
            checked += 1
    assert checked > 3


class Cue:
    """Says one number of the pair of the first two objects, and nothing of the others."""

    name = "cue"

    def __init__(self, score, needed=None):
        self.value, self.needed = score, needed

    def score(self, scene):
        score = np.full((len(scene.ids), len(scene.ids)), np.nan)
        score[0, 1] = self.value
        return PairScores(score, None if self.needed is None else np.full(score.shape, self.needed))


def test_a_third_source_joins_the_fusion_and_leaves_other_pairs_alone(scene):
    for fuse in (NaiveFusion(), gated(-0.4, 0.7, 0.5, cue=0.9)):
        plain = Pipeline(fuse=fuse).believe(scene)
        for score in (0.02, 0.5, 0.98):
            found = Pipeline(fuse=fuse, sources=(Cue(score),)).believe(scene)
            changed = ~(
                (found.p_fused == plain.p_fused) | (np.isnan(found.p_fused) & np.isnan(plain.p_fused))
            )
            assert not changed[1:].any() and not changed[0, 2:].any()
            assert list(found.p) == ["semantic", "geometry", "cue"] and found.p["cue"][0, 1] == score
        assert found.p_fused[0, 1] > plain.p_fused[0, 1] or np.isnan(plain.p_fused[0, 1])


def test_a_third_source_that_needs_an_answer_and_has_none_is_no_answer(scene):
    plain = Pipeline().believe(scene).p_fused
    silent = Pipeline(sources=(Cue(np.nan),)).believe(scene).p_fused
    assert np.array_equal(silent, plain, equal_nan=True)
    asked = Pipeline(sources=(Cue(np.nan, needed=True),)).believe(scene).p_fused
    apart = plain == 0.0
    np.fill_diagonal(apart, False)
    assert apart.any() and np.isnan(asked[apart]).all() and not np.diagonal(asked).any()


def test_scores_of_a_source_are_never_dropped_in_silence(scene):
    pipeline = Pipeline(sources=(Cue(0.5),))
    with pytest.raises(ValueError, match="scores of the sources none; give cue"):
        pipeline.combine(pipeline.measure(scene), None)
    with pytest.raises(CporError, match="no weight for the source 'cue'"):
        replace(pipeline, fuse=GATED).believe(scene)


def test_without_the_guard_the_fusion_alone_decides(scene):
    sure = dict.fromkeys(scene.semantic_scores.scores, 0.001)
    scene = replace(scene, semantic_scores=SemanticScores(sure))
    kept, alone = (Pipeline(fuse=GATED, guard=guard).believe(scene) for guard in (Guard(), None))
    flat = {name: p.ravel() for name, p in alone.p.items()}
    gate = {"geometry": alone.geometry.reliability.ravel()}
    by_hand = GATED.apply(flat, gate).reshape(alone.p_fused.shape)
    answered = ~np.isnan(by_hand)
    assert np.array_equal(alone.p_fused[answered], by_hand[answered])
    raised = answered & (kept.p_fused > alone.p_fused)
    assert raised.any() and (kept.p_fused[raised] == kept.p["geometry"][raised]).all()


def test_a_stage_can_be_replaced(scene):
    measured = geometric_evidence(scene)
    beliefs = Pipeline(measure=lambda scene: measured).believe(replace(scene, semantic_scores=None))
    assert beliefs.geometry is measured
    assert not beliefs.scores["semantic"].asked.any()
    assert np.isnan(beliefs.p["semantic"]).all()


def test_three_states_survive_fusion(rng):
    for k in range(10):
        scene = draw_labelled_scene(rng, lost=0.5)
        beliefs = (Pipeline(fuse=GATED) if k % 2 else Pipeline()).believe(scene)
        semantic, geometry = beliefs.p["semantic"], beliefs.p["geometry"]
        sourced = ~np.isnan(semantic) | ~np.isnan(geometry)
        needed = beliefs.scores["semantic"].asked | (beliefs.geometry.state != PairState.NO_CONTACT)
        gap = disagreement(semantic.ravel(), geometry.ravel()).reshape(sourced.shape)
        contradict = gap > MOST_DISAGREEMENT
        assert not np.isnan(beliefs.p_fused[sourced & ~contradict]).any()
        assert np.isnan(beliefs.p_fused[contradict]).all()
        assert np.isnan(beliefs.p_fused[needed & ~sourced]).all()
        assert (beliefs.p_fused[~needed & ~sourced] == 0.0).all()


def gated(gamma, semantic, geometry, **others):
    beta = {"semantic": semantic, "geometry": geometry, **others}
    return GatedFusion(gamma=gamma, beta=beta, prior=0.3, penalty=0.0, objective=0.0)


GATED = gated(-0.6, 1.0, 1.0)


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
    pipeline = Pipeline(fuse=GATED)
    assert np.isnan(pipeline.believe(scene).p_fused[0, 1])
    assert pipeline.run(scene, 1).action == Defer("no_evidence")


def without_depth(scene: Scene) -> Scene:
    return replace(scene, observation=Observation(scene.observation.rgb, None, scene.observation.camera))


@pytest.mark.repeats
def test_no_depth_and_no_scores_is_no_answer(rng):
    deferred = 0
    for _ in range(10):
        scene = without_depth(draw_layered_scene(rng, (180, 240), 6))
        touching = Pipeline().believe(scene).geometry.is_unanswered
        for k, target in enumerate(scene.ids):
            action = Pipeline().run(scene, target).action
            if touching[k].any():
                assert action == Defer("no_evidence")
                deferred += 1
            else:
                assert action == Grasp(target)
    assert deferred > 10


def test_no_depth_but_scores_decides_from_scores(rng):
    scene = without_depth(draw_labelled_scene(rng, lost=0.0))
    assert not np.isnan(Pipeline().believe(scene).p_fused).any()


@pytest.mark.repeats
def test_a_failed_scorer_never_frees_the_target(rng):
    for _ in range(5):
        scene = draw_labelled_scene(rng, lost=0.0)
        failed = SemanticScores(dict.fromkeys(scene.semantic_scores.scores), "down")
        blind = without_depth(replace(scene, semantic_scores=failed))
        for k, target in enumerate(scene.ids):
            if Pipeline().believe(blind).scores["semantic"].asked[k].any():
                assert not isinstance(Pipeline().run(blind, target).action, Grasp)


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
    pipeline = Pipeline()
    beliefs = pipeline.believe(scene)
    decision = pipeline.decide(pipeline.posterior(beliefs, 5))
    assert set(decision.scores) == {*scene.ids, UNSEEN}  # those at the border may be cut
    assert beliefs.geometry.is_candidate.sum() > 1000


def hidden_target(share=0.97, occluded=True):
    """A target alone in the picture, most of it hidden by something that nobody segmented."""
    amodal = np.zeros((80, 100), bool)
    amodal[20:60, 20:80] = True
    visible = np.zeros((80, 100), np.int32)
    visible[20:60, 20 : 20 + max(round(60 * (1.0 - share)), 0)] = 1
    depth = np.full((80, 100), 0.8, np.float32)
    depth[amodal] = 0.6
    depth[visible == 1] = 0.7
    target = DetectedObject(1, MaskCrop.from_mask(amodal), occluded=occluded)
    return Scene(Observation(np.zeros((80, 100, 3), np.uint8), depth), (target,), visible)


@pytest.mark.parametrize("scene", [hidden_target(), hidden_target(occluded=None), hidden_target(share=1.0)])
def test_what_nobody_segmented_is_not_absent(scene):
    pipeline = Pipeline()
    beliefs = pipeline.believe(scene)
    assert np.isnan(beliefs.p_unseen[0])
    assert pipeline.posterior(beliefs, 1).objects == (1, UNSEEN)
    assert pipeline.run(scene, 1).action == Defer("no_evidence")


def test_a_learnt_unseen_blocker_is_named_and_never_acted_on():
    weights = {"before": 2.0, "level": 1.0, "unread": 1.0, "ring_before": 1.0, "flagged": 1.0}
    learnt = UnseenCalibrator(bias=-4.0, **weights, n=10, n_obstructed=5)
    pipeline = Pipeline(calibrate_unseen=learnt)
    decision = pipeline.run(hidden_target(), 1)
    assert decision.scores[UNSEEN] > 0.9
    assert decision.action == Defer("unseen_blocker")
    assert UNSEEN not in decision.blockers
    alone = hidden_target(share=0.0, occluded=None)
    free = pipeline.run(alone, 1)
    assert free.action == Grasp(1)
    assert free.scores[1] == pytest.approx(1.0 - pipeline.believe(alone).p_unseen[0])


def test_an_unseen_blocker_scales_each_score_and_changes_nothing_else(rng):
    p = rng.uniform(0.05, 0.95, (5, 5)) * (rng.random((5, 5)) < 0.6)
    np.fill_diagonal(p, 0.0)
    p_unseen = rng.uniform(0.0, 0.5, 5)
    known = ObstructionPosterior(range(1, 6), 1, p)
    before, after = decide(known), decide(add_unseen(known, p_unseen))
    for k, label in enumerate(known.objects):
        assert after.scores[label] == pytest.approx(before.scores[label] * (1.0 - p_unseen[k]), abs=1e-9)
    assert after.mu_target == pytest.approx(before.mu_target)
    assert add_unseen(known, np.zeros(5)) is known


@pytest.mark.repeats
def test_dropping_a_blocker_does_not_free_its_target(rng):
    """Masks of all direct blockers dropped: a target that truly is obstructed is not grasped."""
    grasped = dropped = 0
    for _ in range(15):
        scene = replace(draw_layered_scene(rng, (180, 240), 6), semantic_scores=None)
        for target in scene.ids:
            gone = {j for i, j in scene.true_occlusion.pairs if i == target}
            if gone and (scene.visible_ids == target).any():
                action = Pipeline().run(drop_objects(scene, gone), target).action
                grasped += isinstance(action, Grasp)
                dropped += 1
    assert dropped > 20
    assert grasped <= 0.1 * dropped


def test_one_reply_cannot_overrule_clear_geometry():
    """The blocker lies before half of the target; a scorer that says "no" of the pair changes nothing."""
    visible = np.zeros((80, 100), np.int32)
    visible[20:60, 20:40] = 1
    visible[20:60, 40:70] = 2
    amodal = np.zeros((80, 100), bool)
    amodal[20:60, 20:60] = True
    depth = np.full((80, 100), 0.8, np.float32)
    depth[visible == 1], depth[visible == 2] = 0.7, 0.6
    objects = (
        DetectedObject(1, MaskCrop.from_mask(amodal)),
        DetectedObject(2, MaskCrop.from_mask(visible == 2)),
    )
    scene = Scene(Observation(np.zeros((80, 100, 3), np.uint8), depth), objects, visible)
    assert Pipeline().run(scene, 1).action == Remove(2)
    for said in (1e-6, 0.001, 0.01, 0.1):
        fooled = replace(scene, semantic_scores=SemanticScores({BlockedBy(1, 2): said}, "fooled"))
        for fuse in (NaiveFusion(), GATED):
            action = Pipeline(fuse=fuse).run(fooled, 1).action
            assert not isinstance(action, Grasp)


def test_too_much_contradiction_is_not_acted_on():
    n = 9
    p = np.full((n, n), 0.4)
    np.fill_diagonal(p, 0.0)
    p[0] = 0.0
    p[0, 1] = 0.9
    posterior = ObstructionPosterior(range(1, n + 1), 1, p)
    decision = decide(posterior, tau=0.0)
    assert decision.mu_target > 0.99
    assert Pipeline(tau=0.0).decide(posterior).action == Defer("conflicting_evidence")
    assert Pipeline(tau=0.0, most_mu=1.0).decide(posterior).action == decision.action
