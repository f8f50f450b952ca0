import numpy as np
import pytest
from scipy import ndimage
from support.layered import draw_layered_scene
from support.networks import three_rectangles

from cpor.evidence import PairState, geometric_evidence
from cpor.evidence.pair_crops import (
    CROP_SIZE,
    DEPTH_STEP,
    MARGIN,
    colour_crops,
    geometry_crops,
    near_pairs,
    unordered,
)
from cpor.scene import BlockedBy, DetectedObject, MaskCrop, Observation, Scene


def test_colour_crops_show_the_square_around_both():
    scene = three_rectangles()
    crop, far = colour_crops(scene.observation.rgb, scene.visible_ids, [(1, 2), (1, 3)])
    assert crop.shape == (5, 96, 96)
    # 1 and 2 fill columns 128 to 320, so the square is 192 * 1.2 = 230.4 px wide and a pixel of it 2.4 px.
    scale = 96 / 230.4
    for k in (1, 2):
        true = (scene.visible_ids == k).sum() * scale**2
        assert abs(crop[2 + k].sum() - true) < 0.08 * true
    cols = np.flatnonzero((crop[3] | crop[4]).any(axis=0))
    assert abs(cols[0] + cols[-1] + 1 - 96) <= 2, "centred"
    assert (crop[:3, crop[3] > 0].T == (200, 30, 30)).all(), "colours lie under their masks"
    assert far[3].any() and far[4].any()


def test_beyond_the_image_crops_are_black():
    ids = np.zeros((40, 200), np.int32)
    ids[:, :100], ids[:, 100:] = 1, 2
    crop = colour_crops(np.full((40, 200, 3), 90, np.uint8), ids, [(1, 2)])[0]
    assert not crop[:, :30].any() and not crop[:, -30:].any() and crop[0, 48, 48] == 90


def test_geometry_crops_hold_depth_around_the_pair_and_all_masks():
    ids = np.zeros((60, 120), np.int32)
    ids[20:40, 20:60], ids[20:40, 60:80], ids[50:55, 90:100] = 1, 2, 3
    whole = np.zeros_like(ids, dtype=bool)
    whole[20:40, 20:70] = True
    depth = np.full(ids.shape, 0.8, np.float32)
    depth[ids == 2] = 0.8 - 10 * DEPTH_STEP
    depth[:, 30] = np.nan
    objects = [DetectedObject(k, MaskCrop.from_mask(whole if k == 1 else ids == k)) for k in (1, 2, 3)]
    scene = Scene(Observation(np.zeros((60, 120, 3), np.uint8), depth), tuple(objects), ids)
    crop = geometry_crops(scene, [(1, 2)])[0]
    z, first, second, amodal_i, amodal_j, others = crop
    assert set(np.unique(z[first > 0]).tolist()) == {0, 128} and set(np.unique(z[second > 0])) == {138}
    assert ((amodal_i > 0) & (second > 0)).any() and (amodal_i >= first).all()
    assert np.array_equal(amodal_j, second) and not (others & (first | second)).any()
    blind = Scene(Observation(scene.observation.rgb), scene.objects, ids)
    assert not geometry_crops(blind, [(1, 2)])[0, 0].any()


def test_a_pair_is_asked_about_once():
    assert unordered([BlockedBy(2, 1), BlockedBy(1, 2), BlockedBy(3, 1)]) == [(1, 2), (1, 3)]


def test_pairs_worth_asking_are_near_or_hide_each_other(rng):
    assert near_pairs(three_rectangles()) == (BlockedBy(1, 2), BlockedBy(2, 1))
    scene = three_rectangles()
    whole = np.zeros((480, 640), dtype=bool)
    whole[100:400, 128:620] = True  # 1 goes on far under 3
    objects = (DetectedObject(1, MaskCrop.from_mask(whole)), *scene.objects[1:])
    assert BlockedBy(1, 3) in near_pairs(Scene(scene.observation, objects, scene.visible_ids))
    assert near_pairs(Scene(scene.observation)) == ()


def test_near_pairs_hold_all_that_geometry_calls_touching(rng):
    for _ in range(5):
        scene = draw_layered_scene(rng, (240, 320), 8)
        found = geometric_evidence(scene)
        touching = np.argwhere(found.state == PairState.CANDIDATE)
        pairs = {BlockedBy(found.ids[i], found.ids[j]) for i, j in touching}
        assert pairs <= set(near_pairs(scene, within=16))


def near_pairs_twin(scene, wholes, reach):
    """From masks of the whole image, each made wider."""
    pairs = set()
    for k, whole in wholes.items():
        reached = ndimage.maximum_filter(whole, size=2 * reach + 1, mode="constant")
        for other in set(np.unique(scene.visible_ids[reached]).tolist()) - {0, k}:
            pairs |= {BlockedBy(k, other), BlockedBy(other, k)}
    return tuple(sorted(pairs))


def sampled_twin(layers, around):
    """Layers of the whole image at the pixels of a square around a mask; 0 beyond the image."""
    rows, cols = np.nonzero(around)
    low, high = np.array([rows.min(), cols.min()]), np.array([rows.max(), cols.max()]) + 1
    side = (high - low).max() * (1.0 + MARGIN)
    corner = 0.5 * (low + high - side)
    steps = (np.arange(CROP_SIZE) + 0.5) * (side / CROP_SIZE)
    y, x = (np.floor(each + steps).astype(np.int64) for each in corner)
    inside = ((y >= 0) & (y < around.shape[0]))[:, None] & ((x >= 0) & (x < around.shape[1]))
    y, x = (np.clip(each, 0, most - 1) for each, most in zip((y, x), around.shape, strict=True))
    return np.where(inside, layers[:, y[:, None], x], 0), inside


@pytest.mark.parametrize("gaps", [0.0, 0.3, 1.0])
def test_kernels_agree_with_numpy(rng, gaps):
    scene = draw_layered_scene(rng, (120, 160), 7)
    ids, frame = scene.visible_ids, scene.observation
    depth = np.where(rng.random(ids.shape) < gaps, np.nan, frame.depth).astype(np.float32)
    scene = Scene(Observation(frame.rgb, depth), scene.objects, ids)
    shown = [o for o in scene.objects if (ids == o.id).any()]
    wholes = {o.id: (ids == o.id) | o.amodal.to_mask(ids.shape) for o in shown}
    assert near_pairs(scene, within=16) == near_pairs_twin(scene, wholes, 4)
    pairs = unordered(near_pairs(scene, within=16))
    assert len(pairs) > 3
    geometry, colour = geometry_crops(scene, pairs), colour_crops(frame.rgb, ids, pairs)
    for (i, j), told, seen in zip(pairs, geometry, colour, strict=True):
        first, second = ids == i, ids == j
        masks = np.stack([first, second, wholes[i], wholes[j], (ids > 0) & ~first & ~second])
        wanted, inside = sampled_twin(masks, wholes[i] | wholes[j])
        assert np.array_equal(told[1:], wanted)
        z, _ = sampled_twin(scene.observation.depth[None], wholes[i] | wholes[j])
        readings = z[0][(wanted[:2] > 0).any(axis=0) & np.isfinite(z[0])]
        if not readings.size:
            assert not told[0].any()
            continue
        steps = np.rint((np.median(readings) - z[0]) / DEPTH_STEP + 128.0)
        known = inside & np.isfinite(z[0])
        assert not told[0][~known].any() and told[0][known].min() >= 1
        assert np.abs(told[0][known] - np.clip(steps[known], 1, 255)).max() <= 1  # single precision
        layers = np.concatenate([frame.rgb.transpose(2, 0, 1), masks[:2]])
        assert np.array_equal(seen, sampled_twin(layers, first | second)[0])
