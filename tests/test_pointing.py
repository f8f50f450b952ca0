"""Pointing at something that no mask shows: it is looked at more closely, never taken for its neighbour."""

from dataclasses import replace

import numpy as np
import pytest
from support.faint_object import faint_object

from cpor.perception.segmenter import PointSegmenter, make_segmenter
from cpor.scene import PixelPoint
from cpor.system import System
from cpor.tracking.target import Track
from cpor.words.grounding import NotFound
from cpor.words.grounding_answers import Request


@pytest.fixture(scope="module")
def pointed():
    scene, target, point = faint_object()
    system = System()
    return system, system.look(scene.observation), scene.visible_ids == target, point


def test_what_was_too_faint_counts_once_it_is_pointed_at(pointed):
    system, view, truth, point = pointed
    assert view.seen.visible_ids[int(point.y), int(point.x)] == 0
    answer = system.decide(view, point)
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
    first, second = system.follow([view, view], point)
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
    answer = system.decide(view, point)
    assert answer.decision is None and isinstance(answer.meant, NotFound)
    assert "No object was found at" in answer.question and "Nearest to it" in answer.question


def test_the_loop_looks_closer_at_a_pixel_too_and_follows_what_it_finds(pointed):
    system, view, truth, point = pointed
    track = Track(Request(point=point))
    found = system.find(track, view)
    shown = found.seen.visible_ids == track.target
    assert (shown & truth).sum() > 0.5 * (shown | truth).sum()
    assert track.memory.made_here == set() and "faintly" in found.notes[-1]
    later = system.find(track, system.look(replace(view.seen.observation)))
    assert track.seen and later.seen.visible_ids[int(point.y), int(point.x)] == track.target
    given, blind = System("given"), Track(Request(point=point))
    assert given.find(blind, given.look(view.seen)).seen.ids == view.seen.ids and not blind.seen
