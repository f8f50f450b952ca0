"""What holds from one frame to the next: identities, semantic scores, failed attempts; and what does not."""

from dataclasses import replace

import numpy as np
import pytest
from support.box_table import Box, BoxTable, TableMasks, stack
from support.plain_system import plain_system

from cpor.learn.graph_features import CONDITIONS
from cpor.learn.logistic import LogisticCalibrator
from cpor.pipeline import Pipeline
from cpor.robot.cycle import LoopSettings
from cpor.robot.loop import retrieve
from cpor.scene import BlockedBy, MaskCrop, SemanticScores
from cpor.semantics.scorer import RelationScorer, ScoredPairs, touching_pairs
from cpor.tracking.identity import identify
from cpor.tracking.looks import is_unchanged, look_at, overlap
from cpor.tracking.memory import Memory
from cpor.tracking.target import Track
from cpor.words.grounding_answers import Request

TOUCHING = {BlockedBy(1, 2), BlockedBy(2, 1), BlockedBy(2, 3), BlockedBy(3, 2)}


def see(boxes, rng=None):
    table = BoxTable(dict(boxes))
    return TableMasks(table, rng).segment(table.observe())


def recognised(before, now):
    """The old id of each object that is recognised."""
    who = identify(look_at(before), look_at(now), now, before)
    return {k: match.known for k, match in who.same.items()}


class Oracle(RelationScorer):
    """A semantic source that knows the stack, and counts what it was asked."""

    name = "oracle"

    def __init__(self, silent=()):
        self.asked, self.silent = [], set(silent)

    def score(self, scene, pairs):
        self.asked.append(set(pairs))
        heights = {k: np.nanmin(scene.observation.depth[scene.visible_ids == k]) for k in scene.ids}
        scores = {p: 0.9 if heights[p.blocker] < heights[p.blocked] else 0.1 for p in pairs}
        return ScoredPairs({p: None if p in self.silent else s for p, s in scores.items()}, self.name)


class Quoting(RelationScorer):
    """Says what it was told to, else 0.1."""

    name = "once"

    def __init__(self, said):
        self.said, self.asked = said, []

    def score(self, scene, pairs):
        self.asked.append(pairs)
        return ScoredPairs({p: self.said.get(p, 0.1) for p in pairs}, self.name)


def test_touching_pairs_are_those_in_contact():
    assert set(touching_pairs(see(stack()))) == TOUCHING


def learn(memory, scores, scorer="once"):
    """The memory with the scores of its last look, and what is believed of it."""
    return memory.learn(Pipeline().believe(memory.frame), SemanticScores(scores, scorer))


def test_a_second_look_at_the_same_scene_asks_nothing_and_keeps_gate_calibration_and_notes():
    oracle, table = Oracle(), BoxTable()
    system = plain_system(TableMasks(table), oracle)
    first, second = system.follow([table.observe(), table.observe()], 1)
    assert oracle.asked == [TOUCHING]
    assert second.view.semantic.scores == first.view.semantic.scores
    assert first.view.kept == frozenset() and second.view.kept == TOUCHING
    assert any("4 pairs are from earlier looks" in note for note in second.notes)
    assert [c.name for c in second.checks] == [c.name for c in first.checks]
    assert second.scores == pytest.approx(first.scores, abs=1e-3)


def test_a_scorer_that_costs_nothing_is_asked_about_every_pair_anew():
    oracle, table = Oracle(), BoxTable()
    oracle.is_free = True
    list(plain_system(TableMasks(table), oracle).follow([table.observe(), table.observe()], 1))
    assert oracle.asked == [TOUCHING, TOUCHING]


def test_only_pairs_with_a_changed_object_are_asked_again_in_the_loop():
    oracle, table = Oracle(), BoxTable()
    boxes = table.boxes
    boxes[5] = Box((80, 92), (2, 30), 0.05, (30, 200, 200))
    boxes[6] = Box((84, 96), (22, 50), 0.10, (200, 30, 200))
    result = retrieve(table, plain_system(TableMasks(table), oracle), 1)
    assert result.retrieved and table.log[1:4] == ["remove 3", "remove 2", "grasp 1"]
    apart = {BlockedBy(5, 6), BlockedBy(6, 5)}
    assert oracle.asked[0] == TOUCHING | apart
    # Taking 3 uncovers 2: its pair with 1 is new, that of 5 and 6 is not; taking 2 leaves no new pair.
    assert oracle.asked[1:] == [{BlockedBy(1, 2), BlockedBy(2, 1)}]
    kept = {(b.blocked, b.blocker) for b in result.cycles[1].beliefs if b.carried}
    assert kept == apart


def test_carried_scores_reach_the_decision():
    table = BoxTable(misses={3: 1})
    once = Quoting({BlockedBy(1, 2): 0.8, BlockedBy(2, 3): 0.7})
    result = retrieve(table, plain_system(TableMasks(table), once), 1)
    first, second = result.cycles[:2]
    assert first.outcome.kind == "missed" and second.unchanged == {1, 2, 3, 4}
    scores = {(b.blocked, b.blocker): b.sources["semantic"].score for b in second.beliefs}
    assert scores[1, 2] == 0.8 and scores[2, 3] == 0.7
    assert all(b.carried for b in second.beliefs) and len(once.asked[0]) == 4
    assert second.action == first.action
    assert second.decision.scores == pytest.approx(first.decision.scores, abs=1e-6)


def test_a_pair_without_answer_is_asked_again():
    oracle = Oracle(silent={BlockedBy(1, 2)})
    table = BoxTable(misses={3: 1})
    signed = LoopSettings(sign_off_prior="a test on a table of boxes")
    retrieve(table, plain_system(TableMasks(table), oracle, prior=0.5), 1, signed)
    assert oracle.asked[1] == {BlockedBy(1, 2)}


def test_what_was_scored_anew_is_not_called_carried():
    table = BoxTable(misses={3: 1})

    anew = Quoting({})
    anew.is_free = True
    result = retrieve(table, plain_system(TableMasks(table), anew), 1)
    assert result.cycles[1].unchanged == {1, 2, 3, 4}
    assert not any(b.carried for cycle in result.cycles for b in cycle.beliefs)


def test_scores_of_another_scorer_are_not_kept():
    table = BoxTable()
    first, second = plain_system(TableMasks(table), Oracle()), plain_system(TableMasks(table), Quoting({}))
    track = Track(Request(1))
    view = first.find(track, first.look(table.observe()))
    first.decide(view, 1)
    track.memory = view.memory
    again = second.find(track, second.look(table.observe()))
    assert second.decide(again, 1).view.kept == frozenset()


def test_what_was_conditioned_on_the_target_is_never_carried():
    k = len(CONDITIONS)
    theta = (0.0, *[0.0] * k, -1.5, *[0.0] * k)  # shifts every pair by -1.5 in log-odds
    chain = LogisticCalibrator(sees="graph", theta=theta, mean=(0.0,) * k, scale=(1.0,) * k)
    scorer = Quoting({BlockedBy(1, 2): 0.8, BlockedBy(2, 3): 0.7})
    table = BoxTable(misses={3: 2})
    system = plain_system(TableMasks(table), scorer)
    system.parts.pipeline_for = lambda semantic: Pipeline(condition=chain)
    result = retrieve(table, system, 1)
    first, second = ({(b.blocked, b.blocker): b for b in cycle.beliefs} for cycle in result.cycles[:2])
    assert first[1, 2].p < first[1, 2].p_fused  # this target's number is another one
    # Had it been carried, the shift would have been applied twice.
    assert second[1, 2].carried and second[1, 2].sources["semantic"].score == 0.8
    assert second[1, 2].p == first[1, 2].p and second[1, 2].p_fused == first[1, 2].p_fused
    assert result.cycles[1].scene.semantic_scores.scores[BlockedBy(1, 2)] == 0.8


def test_ids_and_scores_stay_with_objects_whose_numbers_change(rng):
    first = see(stack())
    memory = learn(Memory().carry_to(first), {BlockedBy(1, 2): 0.6})
    after = memory.carry_to(see(stack(), rng))
    assert after.scores == {BlockedBy(1, 2): 0.6} and after.frame.ids == (1, 2, 3, 4)


@pytest.mark.parametrize(("raised", "same"), [(0.003, True), (0.007, False)])
def test_a_change_of_depth_is_a_change(raised, same):
    boxes = stack()
    before = look_at(see(boxes))[4]
    boxes[4] = replace(boxes[4], top=boxes[4].top + raised)
    assert is_unchanged(before, look_at(see(boxes))[4]) is same


def test_slow_drift_is_a_change():
    boxes = stack()
    memory = Memory().carry_to(see(boxes))
    unchanged = []
    for _ in range(3):
        boxes[1] = replace(boxes[1], top=boxes[1].top + 0.002)
        memory = memory.carry_to(see(boxes))
        unchanged.append(1 in memory.unchanged)
    assert unchanged == [True, True, False]


def test_failures_stay_with_an_unchanged_object_only():
    boxes = stack()
    memory = Memory().carry_to(see(boxes)).failed(3).failed(3).failed(4)
    boxes[3] = boxes[3].moved(6, 0)
    after = memory.carry_to(see(boxes))
    assert after.known[3].failures == 0 and after.known[4].failures == 1


def test_failures_are_forgotten_when_a_near_object_goes_and_not_when_a_far_one_does():
    boxes = stack()
    memory = Memory().carry_to(see(boxes)).failed(3)
    del boxes[4]
    memory = memory.carry_to(see(boxes))
    assert memory.known[3].failures == 1
    boxes[2] = boxes[2].moved(-20, -30)
    assert memory.carry_to(see(boxes)).known[3].failures == 0


def test_an_object_that_was_taken_is_not_seen_in_another_like_it(rng):
    boxes = stack()
    memory = Memory().carry_to(see(boxes)).taken(3)
    boxes[3] = boxes[3].moved(-25, 8)
    after = memory.carry_to(see(boxes, rng))
    assert 3 not in after.known and 3 in after.lost


def test_an_uncovered_object_is_recognised_by_its_place(rng):
    boxes = {1: Box((20, 60), (20, 60), 0.04, (90, 160, 40)), 2: Box((10, 70), (26, 90), 0.06, (80, 150, 60))}
    first = see(boxes)
    del boxes[2]
    second = see(boxes, rng)
    assert recognised(first, second) == {second.ids[0]: 1}


def test_unique_names_are_followed_across_the_table_and_clashing_ones_never_matched(rng):
    boxes = {1: Box((20, 40), (20, 40), 0.04, (200, 30, 30), "red mug")}
    first = see(boxes)
    boxes[1] = boxes[1].moved(40, 60)
    assert list(recognised(first, see(boxes, rng)).values()) == [1]
    boxes[1] = replace(stack()[1], rows=(20, 40), cols=(20, 40), name="red can")
    assert recognised(first, see(boxes, rng)) == {}


def test_two_moved_objects_alike_are_in_doubt_and_it_is_said(rng):
    boxes = {k: Box((10 + 20 * k, 25 + 20 * k), (20, 40), 0.04, (200, 30 + k, 30)) for k in (1, 2)}
    first = see(boxes)
    moved = see({k: box.moved(0, 50) for k, box in boxes.items()}, rng)
    who = identify(look_at(first), look_at(moved), moved, first)
    assert all(match.p == pytest.approx(0.5, abs=0.01) for match in who.same.values())
    assert sum("probably the same" in event for event in who.events) == 2


def test_overlap_of_masks():
    a = MaskCrop.from_mask(Box((0, 10), (0, 10), 0.0, (0, 0, 0)).mask())
    b = MaskCrop.from_mask(Box((0, 10), (5, 15), 0.0, (0, 0, 0)).mask())
    empty = MaskCrop(0, 0, np.zeros((0, 0), np.bool_))
    assert overlap(a, b) == pytest.approx(50 / 150) and overlap(a, a) == 1.0 and overlap(a, empty) == 0.0


def test_what_shows_as_before_is_still_there_though_nobody_finds_it():
    first = see(stack())
    shown = first.visible_ids == first.ids[0]
    missed = replace(first, objects=first.objects[1:], visible_ids=np.where(shown, 0, first.visible_ids))
    memory = Memory().carry_to(first)
    now = memory.carry_to(missed)
    assert now.frame.ids == first.ids and (now.frame.visible_ids == first.visible_ids).all()
    assert now.made_here == set() and "not found by itself" in now.events[0]
    gone = replace(missed.observation, depth=missed.observation.depth + np.float32(0.1) * shown)
    assert memory.carry_to(replace(missed, observation=gone)).frame.ids == missed.ids, "the floor shows"
    repainted = missed.observation.rgb.copy()
    repainted[shown] ^= 0x80
    other = replace(missed.observation, rgb=repainted)
    assert memory.carry_to(replace(missed, observation=other)).frame.ids == missed.ids, (
        "another thing lies there"
    )
    taken = memory.taken(first.ids[0]).carry_to(missed)
    assert taken.frame.ids == missed.ids, "the robot took it"
