"""Masks that hold two objects, found by a second look."""

from dataclasses import replace

import numpy as np

from cpor.evidence import geometric_evidence
from cpor.evidence.merged import find_merged
from cpor.scene import DetectedObject, Observation, Scene


def scene(ids: np.ndarray) -> Scene:
    frame = Observation(np.zeros((*ids.shape, 3), np.uint8), np.ones(ids.shape, np.float32))
    return Scene(frame, tuple(DetectedObject(k) for k in np.unique(ids[ids > 0]).tolist()), ids)


def test_a_mask_with_two_objects_is_doubted_where_one_obstructs_the_other_or_nobody_knows():
    given = np.zeros((20, 40), np.int32)
    given[5:15, 2:22], given[5:15, 25:35] = 1, 2
    second = np.where(given == 2, 3, given).astype(np.int32)
    second[5:15, 12:22] = 2
    found = scene(second)
    measured = geometric_evidence(found)
    for p, expected in ((0.95, True), (0.5, False), (np.nan, True)):
        said = np.zeros((3, 3))
        said[0, 1] = p
        merged = find_merged(scene(given), found, replace(measured, p_geometry=said))
        assert merged.tolist() == [expected, False]
    # Objects of the second look that reach far beyond the mask, or take little of it, say nothing about it.
    said = np.full((3, 3), 0.95)
    for columns in (slice(20, 22), slice(12, 40)):
        other = np.where(given == 2, 3, given).astype(np.int32)
        other[5:15, columns] = 2
        other[0, 0] = 3
        told = replace(geometric_evidence(scene(other)), p_geometry=said)
        assert not find_merged(scene(given), scene(other), told)[0]
