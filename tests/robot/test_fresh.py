"""Two looks are compared: a bumped camera, and what changed between them."""

from dataclasses import replace

import numpy as np
import pytest
from support.box_table import TABLE_M, BoxTable, TableMasks, stack
from support.faulty_table import grasp_at_once
from support.plain_system import Deciding

import cpor
from cpor.robot.fresh import camera_shift, what_changed


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
