"""Every hidden pixel has a known owner, or is evidence of something that nobody segmented."""

from dataclasses import replace

import numpy as np
import pytest

from cpor.evidence import geometric_evidence
from cpor.evidence.unseen import surface_bounds
from cpor.scene import DetectedObject, MaskCrop, Observation, Scene

SHAPE = (80, 100)
TABLE, TARGET, BLOCKER = 0.80, 0.70, 0.60


def half_hidden(hidden_depth=BLOCKER, left=20, occluded=None, known_blocker=False):
    """A target of 40 x 40 pixels whose right half does not show; what depth says there is given."""
    amodal = np.zeros(SHAPE, bool)
    amodal[20:60, left : left + 40] = True
    visible = np.zeros(SHAPE, np.int32)
    visible[20:60, left : left + 20] = 1
    depth = np.full(SHAPE, TABLE, np.float32)
    depth[amodal] = hidden_depth
    depth[visible == 1] = TARGET
    objects = [DetectedObject(1, MaskCrop.from_mask(amodal), occluded=occluded)]
    if known_blocker:
        visible[20:60, left + 20 : left + 40] = 2
        objects.append(DetectedObject(2, MaskCrop.from_mask(visible == 2)))
    return Scene(Observation(np.zeros((*SHAPE, 3), np.uint8), depth), tuple(objects), visible)


def unseen(scene):
    return geometric_evidence(scene).unseen


@pytest.mark.parametrize(
    ("z", "cue"), [(BLOCKER, "before"), (TARGET, "level"), (TABLE, "behind"), (np.nan, "unread")]
)
def test_a_hidden_half_goes_where_depth_says(z, cue):
    found = unseen(half_hidden(z))
    for name in ("before", "level", "behind", "unread"):
        assert getattr(found, name)[0] == (0.5 if name == cue else 0.0)


def test_depth_behind_the_object_means_a_mask_too_large_and_nothing_else():
    assert unseen(half_hidden(TABLE)).strict_p()[0] == 0.0
    for z in (BLOCKER, TARGET, np.nan):
        assert np.isnan(unseen(half_hidden(z)).strict_p()[0])


def test_a_known_owner_explains_what_is_hidden():
    found = unseen(half_hidden(known_blocker=True))
    assert found.before[0] == 0.0 and not found.flagged[0]
    assert found.strict_p()[0] == 0.0


def test_a_flag_that_no_known_object_accounts_for_is_no_answer():
    assert unseen(half_hidden(TABLE, occluded=True)).flagged[0]
    assert not unseen(half_hidden(TABLE, occluded=False)).flagged[0]
    assert not unseen(half_hidden(known_blocker=True, occluded=True)).flagged[0]


def test_no_pixel_and_the_image_border_are_no_answer():
    scene = half_hidden(TABLE)
    gone = replace(scene, visible_ids=np.zeros(SHAPE, np.int32))
    assert np.isnan(unseen(gone).strict_p()[0])
    assert np.isnan(unseen(half_hidden(TABLE, left=0)).strict_p()[0])


def test_without_amodal_mask_depth_around_it_must_speak():
    scene = replace(half_hidden(TABLE), objects=(DetectedObject(1),))
    assert unseen(scene).strict_p()[0] == 0.0
    blind = replace(scene, observation=Observation(scene.observation.rgb))
    assert np.isnan(unseen(blind).strict_p()[0])
    beside = replace(half_hidden(BLOCKER), objects=(DetectedObject(1),))
    assert np.isnan(unseen(beside).strict_p()[0])


def test_surface_bounds_by_hand():
    z = np.linspace(0.5, 0.6, 101, dtype=np.float32)
    assert surface_bounds(z) == pytest.approx(np.array([[0.545, 0.600], [0.500, 0.600]]), abs=1e-6)
    assert np.isnan(surface_bounds(z[:0])).all()
