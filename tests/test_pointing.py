"""Pointing at something that no mask shows: it is looked at more closely, never taken for its neighbour."""

from dataclasses import replace

import numpy as np
import pytest
from support.faint_object import faint_object

from cpor.perception.mask_files import GivenMasks
from cpor.perception.segmenter import PointSegmenter
from cpor.robot.carry_over import Memory
from cpor.robot.follow import PointedAt, Pursuit, find_as_asked
from cpor.robot.follow_frames import follow
from cpor.scene import PixelPoint
from cpor.system import System, make_segmenter
from cpor.words.grounding import NotFound


@pytest.fixture(scope="module")
def pointed():
    scene, target, point = faint_object()
    system = System()
    return system, system.look(scene.observation), scene.visible_ids == target, point


def test_what_was_too_faint_counts_once_it_is_pointed_at(pointed):
    system, view, truth, point = pointed
    assert view.seen.visible_ids[int(point.y), int(point.x)] == 0
    answer = system.decide(view, point=point)
    assert answer.target == max(view.seen.ids) + 1
    found = answer.view.seen.visible_ids == answer.target
    assert (found & truth).sum() > 0.5 * (found | truth).sum()
    same = np.where(found, 0, answer.view.seen.visible_ids)
    assert (same == view.seen.visible_ids).all(), "nobody loses a pixel"
    assert answer.promise is None and "told where to look" in answer.notes[-1]
    assert any("faintly" in note for note in answer.notes)
    again = system.decide(answer.view, answer.target)
    assert again.decision == answer.decision


def test_a_folder_of_frames_is_followed_from_there(pointed):
    system, view, _, point = pointed
    first, second = follow(system, [view, view], point=point)
    assert first.target == max(view.seen.ids) + 1
    assert second.target == first.target, "it shows as before, so it is still there"
    assert any("was not found by itself" in note for note in second.notes) and second.promise is None


@pytest.mark.parametrize("masks", ["given", "own"])
def test_where_nothing_is_seen_it_is_said_and_nothing_is_guessed(pointed, masks):
    system, view, _, point = pointed
    if masks == "own":
        point = PixelPoint(2.0, 2.0)  # the floor beside the bin
        assert isinstance(make_segmenter("embedded"), PointSegmenter)
    else:
        system, view = System(), System().look(view.seen)
    answer = system.decide(view, point=point)
    assert answer.decision is None and isinstance(answer.meant, NotFound)
    assert "No object was found at" in answer.question and "Nearest to it" in answer.question


def test_the_loop_looks_closer_at_a_pixel_too_and_follows_what_it_finds(pointed):
    _, view, truth, point = pointed
    segmenter, finder = make_segmenter("embedded"), find_as_asked(None, point, None)
    pursuit = Pursuit(finder, ids_are_kept=False)
    seen = segmenter.segment(view.seen.observation)
    target, memory = pursuit.look_for(Memory(), seen, segmenter, is_first=True)
    found = memory.frame.visible_ids == target
    assert (found & truth).sum() > 0.5 * (found | truth).sum()
    assert memory.made_here == set() and "faintly" in memory.events[-1]
    later = replace(seen, observation=replace(seen.observation))
    again, memory = pursuit.look_for(memory, later, segmenter, is_first=False)
    assert again == target and finder(later) is None
    blind, memory = Pursuit(PointedAt(point), False).look_for(Memory(), seen, GivenMasks(seen), True)
    assert blind is None and memory.frame.ids == seen.ids
