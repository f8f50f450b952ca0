"""Depth shadows are told from other holes and filled as the projector's rays allow; other holes stay."""

from dataclasses import replace

import numpy as np
import pytest

from cpor.evidence.geometry import geometric_evidence
from cpor.evidence.learnt import LearntGeometry
from cpor.evidence.shadows import fill_shadows, find_shadow
from cpor.gate.frame import check_frame
from cpor.gate.setup import setup_figures
from cpor.model import FittedModel, bundled_model
from cpor.promise import check_as_set_up
from cpor.scene import DetectedObject, Observation, Scene

FLOOR, FOCAL = 0.8, 300.0
BOXES = ((30, 80, 40, 90, 0.70), (100, 160, 60, 130, 0.66), (40, 120, 170, 230, 0.72))
"""First and end row, first and end column, depth of the top."""


def flat_boxes(width=320):
    depth, ids = np.full((200, width), FLOOR, np.float32), np.zeros((200, width), np.int32)
    for k, (top, bottom, left, right, z) in enumerate(BOXES, start=1):
        depth[top:bottom, left:right], ids[top:bottom, left:right] = z, k
    return depth, ids


def in_shadow(depth, baseline):
    """By marching along the ray from each point to a projector `baseline` to the left of the camera."""
    rows, cols = np.indices(depth.shape)
    x = cols * depth / FOCAL
    hidden = np.zeros(depth.shape, bool)
    for t in np.linspace(0.0, 0.6, 600)[1:]:
        z = depth * (1.0 - t)
        column = np.round(FOCAL * (x + t * (-baseline - x)) / z).astype(int)
        inside = (column >= 0) & (column < depth.shape[1])
        there = depth[rows, np.clip(column, 0, depth.shape[1] - 1)]
        hidden |= inside & (there < z - 0.004)
    return hidden


def scene_of(depth, ids):
    rgb = np.random.default_rng(0).integers(60, 200, (*depth.shape, 3), np.uint8)
    objects = tuple(DetectedObject(k) for k in range(1, int(ids.max()) + 1))
    return Scene(Observation(rgb, depth), objects, ids)


def with_shadow(baseline=0.2, turn=lambda image: image):
    depth, ids = flat_boxes()
    dark = in_shadow(depth, baseline)
    seen = np.where(dark, np.float32(np.nan), depth)
    return (
        turn(depth),
        turn(dark),
        scene_of(np.ascontiguousarray(turn(seen)), np.ascontiguousarray(turn(ids))),
    )


@pytest.mark.parametrize(
    ("turn", "axis", "after"),
    [
        (lambda image: image, 1, True),
        (lambda image: image[:, ::-1], 1, False),
        (lambda image: image.T, 0, True),
        (lambda image: image.T[::-1], 0, False),
    ],
)
@pytest.mark.parametrize("baseline", [0.1, 0.3])
def test_side_and_baseline_are_found_and_the_floor_is_filled_in(turn, axis, after, baseline):
    depth, dark, scene = with_shadow(baseline, turn)
    side = find_shadow(scene.observation.depth)
    assert (side.axis, side.after) == (axis, after)
    assert side.k == pytest.approx(baseline * FOCAL, rel=0.15)
    filled = fill_shadows(scene).shadows.observation.depth
    assert dark.sum() > 400 and np.array_equal(filled[~dark], depth[~dark])
    assert np.isfinite(filled[dark]).mean() > 0.9
    right = np.abs(filled - depth) < 0.002
    assert right[dark].mean() > 0.9


def test_nothing_is_changed_where_readings_are_lost_on_both_sides_of_every_edge():
    depth, ids = flat_boxes()
    step = np.zeros(depth.shape, bool)
    step[:, 1:] |= depth[:, 1:] != depth[:, :-1]
    for _ in range(4):
        step |= np.roll(step, 1, axis=1) | np.roll(step, -1, axis=1)
    scene = scene_of(np.where(step, np.float32(np.nan), depth), ids)
    assert find_shadow(scene.observation.depth) is None
    assert fill_shadows(scene) == (scene, scene) and fill_shadows(scene).holes is scene
    bare = replace(scene, observation=Observation(scene.observation.rgb))
    assert fill_shadows(bare).holes is bare
    assert fill_shadows(Scene(scene.observation)).holes.objects == ()


def test_a_dark_thing_without_readings_is_no_shadow():
    _, dark, scene = with_shadow()
    seen = np.array(scene.observation.depth)
    patch = np.s_[165:195, 10:60]  # far from every near surface
    seen[patch] = np.nan
    filled = fill_shadows(scene_of(seen, np.array(scene.visible_ids))).shadows.observation.depth
    assert np.isnan(filled[patch]).all() and np.isfinite(filled[dark]).mean() > 0.9


def test_other_holes_are_filled_for_relations_and_stay_unknown_for_what_may_hide_there():
    _, _, scene = with_shadow()
    seen = np.array(scene.observation.depth)
    seen[150:156, 80:110] = np.nan  # on the second box
    seen[100:112, 60:130] = np.nan  # at its edge, and beside it
    seen[94:100, 60:130] = np.nan
    seen[40:118, 170:230] = np.nan  # all but a strip of the third box
    shadows, holes = fill_shadows(scene_of(seen, np.array(scene.visible_ids)))
    assert np.isnan(shadows.observation.depth[150:156, 80:110]).all()
    filled = holes.observation.depth
    assert np.allclose(filled[150:156, 80:110], 0.66) and np.allclose(filled[100:112, 60:130], 0.66)
    assert np.isfinite(filled[94:100, 60:130]).all()
    assert np.isnan(filled[50:110, 180:220]).all(), "a strip does not tell what the rest is"
    cues = LearntGeometry()(scene_of(seen, np.array(scene.visible_ids))).unseen
    assert cues.ring_unread[1] == geometric_evidence(shadows).unseen.ring_unread[1] > 0.05
    assert geometric_evidence(holes).unseen.ring_unread[1] < cues.ring_unread[1]


def test_under_a_mask_that_swallows_its_shadow_nothing_is_filled_nearer_than_the_shadow_allows():
    _, dark, scene = with_shadow()
    ids = np.array(scene.visible_ids)
    ids[dark & (np.arange(320) < 170)] = 2  # the shadows of the first two boxes
    k = find_shadow(scene.observation.depth).k
    filled = fill_shadows(scene_of(np.array(scene.observation.depth), ids)).shadows.observation.depth
    there = dark & (ids == 2) & np.isfinite(filled)
    rows, cols = np.nonzero(there)
    assert rows.size > 200
    for row, col in zip(rows, cols, strict=True):
        before = scene.observation.depth[row, :col]
        horizon = np.nanmax(np.arange(col) + k / before)
        assert filled[row, col] >= k / (horizon - col + 2.0) - 1e-5  # 2 px of fringe
    assert (filled[there] > 0.67).mean() > 0.9, "not the top of the box that casts it"


def test_a_stray_reading_casts_no_shadow_and_fills_no_hole():
    _, dark, scene = with_shadow()
    seen = np.array(scene.observation.depth)
    rows, cols = np.nonzero(dark)
    for row, col, z in zip(rows[::97], cols[::97], np.tile([0.2, 79.0], rows.size), strict=False):
        seen[row, col] = z
    filled = fill_shadows(scene_of(seen, np.array(scene.visible_ids))).shadows.observation.depth
    new = np.isnan(seen) & np.isfinite(filled)
    assert new.sum() > 0.8 * dark.sum()
    assert ((filled[new] > 0.6) & (filled[new] < 0.85)).all()


def test_the_frame_says_what_was_filled_and_a_model_without_shadows_promises_nothing():
    _, _, scene = with_shadow()
    (check,) = (check for check in check_frame(scene.observation) if check.name == "depth_shadows")
    assert check.state == "pass" and "right of near surfaces" in check.says
    lit = scene_of(*flat_boxes())
    assert "depth_shadows" not in {check.name for check in check_frame(lit.observation)}
    model = FittedModel.load(bundled_model("embedded"))
    known = {name: None if np.isnan(value) else value for name, value in setup_figures(lit).items()}
    figures = {name: [value, 0.0] for name, value in known.items()}
    model = model.model_copy(update={"setup": figures})
    assert check_as_set_up(model, setup_figures(lit))[0].state == "pass"
    unread = model.setup["unread"] + [1.0]
    wider = model.model_copy(update={"setup": figures | {"unread": unread}})
    (doubt,) = check_as_set_up(wider, setup_figures(scene))
    assert doubt.state == "doubt" and "by its shadows" in doubt.says
    own = setup_figures(scene)["shadow"]
    fitted = wider.model_copy(update={"setup": wider.setup | {"shadow": [own, 0.0]}})
    assert check_as_set_up(fitted, setup_figures(scene))[0].state == "pass"
