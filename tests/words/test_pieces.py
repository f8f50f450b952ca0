"""Masks that show one thing: a toy in two pieces is one answer, or one doubt that is said."""

from dataclasses import replace

import numpy as np
import pytest

from cpor.scene import DetectedObject, MaskCrop, Observation, Scene
from cpor.semantics.grounder import ground_with
from cpor.words import description, pieces
from cpor.words.appearance import describe_objects
from cpor.words.grounding import AmbiguousRequest, Found, ground_words
from cpor.words.pieces import join_masks, read_masks

SHAPE = (240, 320)
RED, BLUE = (176, 32, 38), (36, 78, 168)


def a_box(top, left, high, wide):
    mask = np.zeros(SHAPE, np.bool_)
    mask[top : top + high, left : left + wide] = True
    return mask


@pytest.fixture(scope="module")
def scene():
    """1 and 2: halves of a red box, each of which knows the whole; 3: a blue box; 4: a red one far away."""
    whole = a_box(60, 40, 50, 90)
    masks = [a_box(60, 40, 50, 60), a_box(60, 100, 50, 30), a_box(60, 132, 50, 40), a_box(180, 250, 40, 40)]
    rgb, depth = np.full((*SHAPE, 3), 150, np.uint8), np.full(SHAPE, 0.9, np.float32)
    ids = np.zeros(SHAPE, np.int32)
    for k, (mask, paint) in enumerate(zip(masks, (RED, RED, BLUE, RED), strict=True), start=1):
        rgb[mask], depth[mask], ids[mask] = paint, 0.85, k
    wholes = [whole, whole, *masks[2:]]
    objects = [DetectedObject(k, MaskCrop.from_mask(mask)) for k, mask in enumerate(wholes, start=1)]
    return Scene(Observation(rgb, depth), tuple(objects), ids)


def without(scene, obj):
    ids = np.where(scene.visible_ids == obj, 0, scene.visible_ids).astype(np.int32)
    return replace(scene, objects=tuple(o for o in scene.objects if o.id != obj), visible_ids=ids)


def test_joined_masks_are_one_object_with_all_their_hidden_parts(scene):
    joined = join_masks(scene, [(1, 2)])
    assert joined.ids == (1, 3, 4)
    assert np.array_equal(joined.visible_ids == 1, np.isin(scene.visible_ids, (1, 2)))
    assert np.array_equal(joined.objects[0].amodal.to_mask(SHAPE), a_box(60, 40, 50, 90))


def test_only_masks_that_fit_together_are_read_as_one(scene):
    readings = read_masks(scene, describe_objects(scene))
    assert sum(each.p for each in readings) == pytest.approx(1.0)
    assert {group for each in readings for group in each.pieces.values()} == {(1, 2)}
    together = next(each for each in readings if each.pieces)
    assert together.p > 0.5 and set(together.looks) == {1, 3, 4}
    named = replace(scene, objects=tuple(replace(o, name=f"box {o.id}") for o in scene.objects))
    assert not any(each.pieces for each in read_masks(named, describe_objects(named)))


def test_the_larger_piece_is_taken_and_that_is_said(scene):
    told = ground_with(None, without(scene, 4), words="the red one")
    assert isinstance(told.meant, Found) and told.meant.id == 1 and told.meant.pieces == (1, 2)
    assert told.notes[0] == "1, 2 probably show one thing; I take 1."
    several = ground_words(scene, "the red one")
    assert isinstance(several, AmbiguousRequest) and 4 in {each.id for each in several.candidates}


@pytest.mark.parametrize(
    ("p", "says"), [(0.02, "Which one do you mean?"), (0.35, "1, 2 may be pieces of one thing.")]
)
def test_in_doubt_it_is_asked(scene, monkeypatch, p, says):
    weights = np.zeros(len(pieces.TOUCHING))
    weights[0] = np.log(p / (1.0 - p))
    monkeypatch.setattr(pieces, "TOUCHING", tuple(weights))
    monkeypatch.setattr(description, "_kept", {})
    asked = ground_words(join_masks(without(scene, 4), []), "the red one")
    assert isinstance(asked, AmbiguousRequest) and asked.question.endswith(says)
    assert [each.id for each in asked.candidates] == [1, 2]


def test_masks_with_which_nothing_fits_are_believed_less(scene, monkeypatch):
    """The halves are joined wrongly, and who asks for the small one means one of two things."""
    as_found, joined = scene, join_masks(scene, [(1, 2)])
    readings = [
        pieces.MaskReading(0.25, as_found, describe_objects(as_found), {}),
        pieces.MaskReading(0.75, joined, describe_objects(joined), {1: (1, 2)}),
    ]
    monkeypatch.setattr(description, "read_masks", lambda scene, looks: readings)
    monkeypatch.setattr(description, "_kept", {})
    asked = ground_words(scene, "the third red one from the left")
    assert isinstance(asked, AmbiguousRequest) and asked.candidates[0].id == 4
