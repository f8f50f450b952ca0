"""Nearness of pairs: counted by hand, and 0 where a mask is missing."""

import numpy as np
import pytest

from cpor.errors import InvalidSceneError
from cpor.evidence import geometric_evidence
from cpor.evidence.nearness import WithNearness, nearness
from cpor.scene import DetectedObject, MaskCrop, Observation, Scene


def bars(amodal_end=3):
    """Three bars in one row of 40 pixels: at 0 to 2, 8 to 9, 30 to 31; the first may reach further."""
    ids = np.zeros((30, 40), np.int32)
    ids[10, 0:3], ids[10, 8:10], ids[10, 30:32] = 1, 2, 3
    whole = np.zeros(ids.shape, bool)
    whole[10, 0:amodal_end] = True
    objects = (DetectedObject(1, MaskCrop.from_mask(whole)), DetectedObject(2), DetectedObject(3))
    return Scene(Observation(np.zeros((30, 40, 3), np.uint8)), objects, ids)


def test_distances_are_counted_from_the_amodal_mask_to_the_visible_one():
    near = nearness(bars())  # the diagonal has 50 pixels
    assert near[0].tolist() == [0.0, -6 / 50, -28 / 50]
    assert near[1].tolist() == [-6 / 50, 0.0, -21 / 50]
    hidden = nearness(bars(amodal_end=7))
    assert (
        hidden[0, 1] == -2 / 50 and hidden[1, 0] == -6 / 50
    )  # what hides is seen, what is hidden need not be


def test_an_object_without_a_mask_is_never_too_far():
    scene = bars()
    ids = np.where(scene.visible_ids == 3, 0, scene.visible_ids)
    lost = nearness(Scene(scene.observation, scene.objects, ids))
    assert lost[:, 2].tolist() == [0.0, 0.0, 0.0] and lost[2].tolist() == [0.0, 0.0, 0.0]
    with pytest.raises(InvalidSceneError, match="no masks"):
        nearness(Scene(scene.observation, scene.objects))


def test_a_measure_with_nearness_says_the_rest_as_before():
    plain, told = geometric_evidence(bars()), WithNearness(geometric_evidence)(bars())
    assert plain.nearness is None and np.array_equal(told.nearness, nearness(bars()))
    assert np.array_equal(told.state, plain.state)
    assert WithNearness(geometric_evidence).fingerprint is None
