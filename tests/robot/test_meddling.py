"""Nothing is believed that was not seen again: drops, meddlers, a bumped camera, a lost target."""

from dataclasses import replace

import numpy as np
import pytest
from support.box_table import TABLE_M, Box, BoxTable, TableMasks, stack
from support.faulty_table import TARGET, grasp_at_once
from support.meddling import MEDDLINGS, DroppingTable, drop, meddle
from support.plain_system import Deciding

import cpor
from cpor.decision import Grasp
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


def test_drops_are_never_taken_for_deliveries():
    """A sample of benchmarks/evidence_meddling.py."""
    for seed in range(25):
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
