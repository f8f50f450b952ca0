"""Masks that tell of no hidden parts: our segmenter guesses them where it sees the same object."""

from dataclasses import replace

import numpy as np
import pytest

from cpor.decision import Defer
from cpor.io.scene_folder import read_scene_folder
from cpor.perception.segmenter import guess_hidden_parts
from cpor.serve.api.example_scenes import FOLDER
from cpor.system import System


@pytest.fixture(scope="module")
def whole():
    return read_scene_folder(FOLDER / "loose-bin")


def without_hidden_parts(scene):
    objects = tuple(replace(o, amodal=None) for o in scene.objects)
    return replace(scene, objects=objects, semantic_scores=None, sources=None)


def test_targets_can_be_decided_on_with_masks_of_what_shows(whole):
    system = System()
    view = system.look(without_hidden_parts(whole))
    assert "our segmenter's guess" in view.notes[-1]
    assert (view.seen.visible_ids == whole.visible_ids).all(), "what shows stays as it was given"
    guessed = [o for o in view.seen.objects if o.amodal is not None]
    assert len(guessed) >= len(whole.ids) / 2
    for obj in guessed:
        shown = whole.visible_ids == obj.id
        assert (obj.amodal.to_mask(shown.shape) >= shown).all(), "the whole holds what shows"
    answers = [system.decide(view, k) for k in whole.ids]
    assert any(not isinstance(each.action, Defer) for each in answers)
    assert all(each.promise is None for each in answers)


def test_what_has_its_hidden_parts_is_left_alone_and_nobody_is_asked(whole):
    def nobody():
        raise AssertionError

    assert guess_hidden_parts(whole, nobody) == (whole, "")
    nothing = replace(whole, objects=(), visible_ids=np.zeros_like(whole.visible_ids))
    assert guess_hidden_parts(nothing, nobody) == (nothing, "")
