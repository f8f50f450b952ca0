"""Nothing is believed that was not seen again: drops, meddlers, a bumped camera, a lost target."""

from dataclasses import replace

import numpy as np
import pytest
from support.box_table import TABLE_M, Box, BoxTable, TableMasks, stack
from support.faulty_table import TARGET, grasp_at_once
from support.meddling import MEDDLINGS, DroppingTable, MergingMasks, drop, meddle
from support.plain_system import Deciding

import cpor
from cpor.decision import Grasp, Remove
from cpor.robot.cycle import LoopSettings
from cpor.robot.fresh import camera_shift, what_changed


@pytest.mark.parametrize("felt", [None, True])
def test_a_target_that_falls_back_on_another_side_is_not_retrieved(felt):
    table = DroppingTable({1: stack()[1], 4: stack()[4]}, felt=felt)
    take = table._take

    def falls(scene, obj, verb):
        outcome = take(scene, obj, verb)
        table.boxes[1] = Box((60, 84), (80, 110), 0.03, (60, 60, 200))
        return outcome

    table._take = falls
    result = cpor.retrieve(table, Deciding(TableMasks(table), grasp_at_once), 1, LoopSettings(budget=1))
    assert result.ended == "unconfirmed"
    assert "was not there before" in result.detail


def remove_2_first(ids, target):
    action = Remove(2) if 2 in ids else Grasp(target)
    return replace(grasp_at_once(ids, target), action=action)


def fetch(boxes, meanwhile, masks=TableMasks, **settings):
    """One run on a table; something else happens as the robot acts."""
    table = BoxTable(boxes)
    take = table._take

    def taking(scene, obj, verb):
        outcome = take(scene, obj, verb)
        meanwhile(table)
        return outcome

    table._take = taking
    system = Deciding(masks(table), remove_2_first)
    return table, cpor.retrieve(table, system, 1, LoopSettings(**{"budget": 1} | settings))


def test_a_target_that_falls_into_its_own_place_with_another_face_up_is_not_retrieved():
    def falls(table):
        table.boxes[1] = Box((22, 58), (22, 58), 0.02, (60, 60, 200))

    _, result = fetch({1: stack()[1], 4: stack()[4]}, falls)
    assert result.ended == "unconfirmed" and "was not there before" in result.detail


def test_a_target_that_falls_under_the_mask_of_another_object_is_not_retrieved():
    table = DroppingTable({1: stack()[1], 4: stack()[4]}, how="under a mask")
    system = Deciding(MergingMasks(table), grasp_at_once)
    result = cpor.retrieve(table, system, 1, LoopSettings(budget=1))
    assert result.ended == "unconfirmed" and "has grown" in result.detail


def test_another_object_that_is_pushed_aside_does_not_hide_a_delivery():
    def pushes(table):
        table.boxes[5] = table.boxes[5].moved(7, 5)

    boxes = {1: stack()[1], 4: stack()[4], 5: Box((60, 84), (70, 100), 0.05, (30, 30, 200))}
    assert fetch(boxes, pushes)[1].retrieved


class LateMasks(TableMasks):
    """A segmenter that finds box 5 only once the target does not cover it."""

    def segment(self, observation):
        scene = super().segment(observation)
        if 1 not in self.table.boxes:
            return scene
        ids = np.where(scene.visible_ids == 5, 0, scene.visible_ids)
        return replace(scene, visible_ids=ids, objects=tuple(o for o in scene.objects if o.id != 5))


def test_what_showed_beside_the_target_before_comes_to_light():
    below = Box((20, 60), (36, 72), 0.02, (30, 30, 200))
    boxes = {1: stack()[1], 4: stack()[4], 5: below}
    assert fetch(boxes, lambda table: None, LateMasks)[1].retrieved


BELOW = Box((30, 50), (30, 50), 0.02, (30, 30, 200))


@pytest.mark.parametrize(
    ("below", "ended"),
    [
        (BELOW, "retrieved"),
        (replace(BELOW, colour=(200, 45, 30)), "unconfirmed"),  # as red as the target
        (replace(BELOW, rows=(22, 58), cols=(22, 58)), "unconfirmed"),  # as long as the target
        (replace(BELOW, rows=(50, 70)), "unconfirmed"),  # half of it where nothing was
        (replace(BELOW, top=0.06), "unconfirmed"),  # above the target's place
        (replace(BELOW, rows=(30, 42), cols=(30, 42), colour=(200, 45, 30)), "retrieved"),  # a tenth of it
    ],
)
def test_what_the_target_hid_comes_to_light_if_it_is_too_short_to_be_the_target_and_unlike_it(below, ended):
    def bares(table):
        table.boxes[5] = below

    _, result = fetch({1: stack()[1], 4: stack()[4]}, bares)
    assert result.ended == ended


def test_an_object_of_an_earlier_look_may_come_to_light():
    """Box 5 shows in the first look, then the target rolls over it."""
    table = BoxTable({1: stack()[1], 4: stack()[4], 5: Box((66, 84), (26, 52), 0.02, (30, 30, 200))})
    table.misses = {1: 1}
    take = table._take

    def rolls(scene, obj, verb):
        outcome = take(scene, obj, verb)
        if outcome.kind == "missed":
            table.boxes[1] = table.boxes[1].moved(35, 0)
        return outcome

    table._take = rolls
    masks = TableMasks(table)
    system = Deciding(masks, grasp_at_once)
    find = masks.find(stack()[1].colour)
    result = cpor.retrieve(table, system, find, LoopSettings(budget=2))
    assert result.actions == 2 and result.retrieved


def test_a_removal_after_which_a_thing_is_too_many_doubts_a_target_that_does_not_show_as_before():
    boxes = {1: stack()[1], 2: stack()[2], 4: stack()[4]}

    def slips(table):
        if table.log[-1] == "remove 2":
            table.boxes[1] = Box((50, 88), (80, 118), 0.04, (200, 30, 30))  # the target, or another one?
            table.boxes[8] = Box((6, 24), (20, 50), 0.03, (60, 60, 200))

    _, result = fetch(boxes, slips, budget=3)
    assert result.ended == "deferred" and result.actions == 1
    assert any(
        "object 2 was removed, as the robot says, but a thing is seen" in n for n in result.cycles[1].notes
    )


def test_a_removal_that_falls_back_does_not_doubt_a_target_that_shows_as_before():
    boxes = {1: stack()[1], 2: stack()[2], 4: stack()[4]}

    def falls(table):
        if table.log[-1] == "remove 2":
            table.boxes[8] = Box((66, 84), (84, 114), 0.03, (60, 60, 200))

    _, result = fetch(boxes, falls, budget=3)
    assert result.retrieved


def test_drops_are_never_taken_for_deliveries():
    for seed in range(30):
        _, result, shown = drop(seed)
        assert not result.retrieved, f"drop {seed}: {shown} px of the target show"


@pytest.mark.parametrize("kind", MEDDLINGS)
def test_a_meddler_does_not_make_the_robot_take_another_thing(kind):
    for seed in range(5):
        table, result = meddle(kind, seed)
        assert set(table.taken) <= {TARGET}, f"{kind} {seed}: took {table.taken}"
        assert any("not sent" in note for c in result.cycles for note in c.notes)


def test_the_fresh_look_comes_after_the_answer_of_a_person():
    table = BoxTable({1: stack()[1], 4: stack()[4]})

    def answer(cycle):
        table.boxes[1], table.boxes[4] = (
            replace(table.boxes[1], rows=(5, 18), cols=(100, 120)),
            replace(table.boxes[4], rows=(20, 60), cols=(20, 60)),
        )
        return Grasp(1)

    from robot.test_loop import always_defer

    system = Deciding(TableMasks(table), always_defer)
    settings = LoopSettings(max_deferrals=1, budget=1)
    answers = iter([answer])
    result = cpor.retrieve(table, system, 1, settings, ask=lambda c: next(answers, lambda c: None)(c))
    assert 4 in table.boxes and result.actions == 0
    assert any("not sent: something changed at object" in note for note in result.cycles[0].notes)


def test_a_camera_that_is_bumped_between_two_looks_ends_the_run():
    table = BoxTable({k: stack()[k] for k in (1, 4)}, misses={1: 1})
    observe = table.observe

    def bumped():
        frame = observe()
        if "grasp 1" not in table.log:
            return frame
        rgb, depth = np.full_like(frame.rgb, 90), np.full_like(frame.depth, TABLE_M)
        rgb[12:, 12:], depth[12:, 12:] = frame.rgb[:-12, :-12], frame.depth[:-12, :-12]
        return replace(frame, rgb=rgb, depth=depth)

    table.observe = bumped
    result = cpor.retrieve(table, Deciding(TableMasks(table), grasp_at_once), 1)
    assert result.ended == "fault" and "camera seems to have been moved" in result.detail
    assert result.actions == 1


def test_two_looks_at_the_same_heap_differ_in_nothing():
    table = BoxTable()
    masks = TableMasks(table)
    first, second = masks.segment(table.observe()), table.observe()
    assert what_changed(first, second, frozenset({1})) is None
    assert camera_shift(first.observation, second) is None


def with_holes(frame, share, seed):
    """A frame that lacks single depth readings, and has the noise of a camera."""
    rng = np.random.default_rng(seed)
    depth = frame.depth + rng.normal(0.0, 0.002, frame.shape).astype(np.float32)
    depth[rng.random(frame.shape) < share] = np.nan
    return replace(frame, depth=depth)


def test_a_change_of_the_same_colour_shows_between_missing_readings():
    table = BoxTable()
    scene = TableMasks(table).segment(table.observe())
    then = replace(scene, observation=with_holes(scene.observation, 0.05, 1))
    raised = scene.observation.depth - np.float32(0.1) * (scene.visible_ids == 1)
    now = with_holes(replace(scene.observation, depth=raised), 0.05, 2)
    assert what_changed(then, now, frozenset({1})) == "something changed at object 1"


@pytest.mark.parametrize("share", [0.0, 0.05, 0.3, 0.9])
def test_missing_readings_are_no_change(share):
    table = BoxTable()
    scene = TableMasks(table).segment(table.observe())
    for seed in range(5):
        then = replace(scene, observation=with_holes(scene.observation, share, seed))
        assert what_changed(then, with_holes(scene.observation, share, seed + 100), frozenset({1})) is None


def test_a_target_that_is_lost_is_asked_for():
    table = BoxTable({1: stack()[1], 4: stack()[4]}, rolls_away={1: 1}, misses={1: 1})
    answers = iter([Grasp(4)])
    system = Deciding(TableMasks(table), grasp_at_once)
    result = cpor.retrieve(table, system, 1, ask=lambda cycle: next(answers, None))
    assert result.retrieved and 4 not in table.boxes
    assert any("a person said that object 4 is the target" in n for c in result.cycles for n in c.notes)
