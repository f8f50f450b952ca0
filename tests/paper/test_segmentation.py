import time

import numpy as np
import pytest
from scipy import ndimage
from support.layered import draw_layered_scene

from cpor.errors import InvalidSceneError
from cpor.paper.segmentation import Prf, frame_quality, intersections, mask_quality, measure_masks
from cpor.scene import DetectedObject, MaskCrop, Observation, Scene

SHAPE = (40, 60)


def rectangle(top, left, bottom, right, shape=SHAPE):
    mask = np.zeros(shape, dtype=bool)
    mask[top:bottom, left:right] = True
    return mask


def figures(*qualities):
    """Means over frames and objects."""
    named = [(str(k), quality) for k, quality in enumerate(qualities)]
    return {name: each.value for name, each in measure_masks(named, np.random.default_rng(0)).items()}


def list_of(*masks):
    return list(masks)


def scene_of(visible, amodal=None, occluded=None):
    """A scene of masks that exclude each other, ids 1, 2, 3, …"""
    ids = np.zeros(visible[0].shape if visible else SHAPE, np.int32)
    for k, mask in enumerate(visible, start=1):
        ids[mask] = k
    objects = [
        DetectedObject(
            k + 1,
            MaskCrop.from_mask(amodal[k]) if amodal else None,
            occluded=None if occluded is None else occluded[k],
        )
        for k in range(len(visible))
    ]
    return Scene(Observation(np.zeros((*ids.shape, 3), np.uint8)), tuple(objects), ids)


def test_overlap_by_hand():
    # 10 x 10 found as 10 x 8 of it and 10 x 2 beside it; a second one is missed; a third is nothing.
    true = list_of(rectangle(0, 0, 10, 10), rectangle(20, 20, 30, 30))
    found = list_of(rectangle(0, 2, 10, 12), rectangle(35, 50, 39, 55))
    quality = mask_quality(found, true, SHAPE)
    p, r = 80 / 120, 80 / 200
    assert quality.overlap == pytest.approx(Prf(p, r, 2 * p * r / (p + r)))
    assert quality.f_75 == 0.5  # F of the pair is 160 / 200


def test_f_75_needs_more_than_three_quarters():
    true = list_of(rectangle(0, 0, 10, 40))
    assert mask_quality(list_of(rectangle(0, 0, 10, 24)), true, SHAPE).f_75 == 0.0  # F = 480 / 640
    assert mask_quality(list_of(rectangle(0, 0, 10, 25)), true, SHAPE).f_75 == 1.0


def test_boundary_by_hand():
    # The rim of a 10 x 10 square has 36 pixels. The diagonal of 40 x 60 is 72.1 px, so that the tolerance
    # rounds up to 1 px; the square is found 3 px beside its place.
    true, found = list_of(rectangle(10, 10, 20, 20)), list_of(rectangle(10, 13, 20, 23))
    quality = mask_quality(found, true, SHAPE)
    rim_t = [(r, c) for r in range(10, 20) for c in range(10, 20) if r in (10, 19) or c in (10, 19)]
    rim_p = [(r, c + 3) for r, c in rim_t]
    near = sum(min(np.hypot(r - y, c - x) for y, x in rim_t) <= 1.0 for r, c in rim_p)
    assert 0 < near < len(rim_p) == 36
    assert quality.boundary == pytest.approx(Prf(near / 36, near / 36, near / 36))


def test_the_border_of_the_image_is_no_boundary():
    whole = list_of(np.ones(SHAPE, dtype=bool))
    left = list_of(rectangle(0, 0, 40, 30))
    # Only the right side of the left half is a boundary: 40 px, and the whole image has none.
    assert mask_quality(left, left, SHAPE).boundary == Prf(1.0, 1.0, 1.0)
    assert mask_quality(left, whole, SHAPE).boundary == Prf(0.0, 0.0, 0.0)


def test_nothing_there_and_nothing_found():
    one = list_of(rectangle(0, 0, 5, 5))
    assert mask_quality([], [], SHAPE).overlap == Prf(1.0, 1.0, 1.0)
    assert mask_quality(one, [], SHAPE).overlap == Prf(0.0, 1.0, 0.0)
    missed = mask_quality([], one, SHAPE)
    assert missed.overlap == missed.boundary == Prf(1.0, 0.0, 0.0) and missed.f_75 == 0.0


def test_assignment_is_the_best_of_all_and_not_greedy():
    true = list_of(rectangle(0, 0, 10, 20), rectangle(0, 20, 10, 30))
    # The first found mask overlaps both; only with the second true one left to it is the other matched too.
    found = list_of(rectangle(0, 8, 10, 30), rectangle(0, 0, 10, 12))
    shared = intersections(found, true)
    f = 2 * shared / (np.array([[220], [120]]) + np.array([[200, 100]]))
    assert f[0, 0] == pytest.approx(240 / 420) and f[0, 1] == pytest.approx(200 / 320)
    assert mask_quality(found, true, SHAPE).overlap.recall == pytest.approx((100 + 120) / 300)


def test_shared_pixels_agree_with_whole_masks(rng):
    a, b = ([rng.random(SHAPE) < 0.1 for _ in range(4)] for _ in range(2))
    for mask in (*a, *b):
        mask[: rng.integers(10), :] = False
        mask[:, rng.integers(30, 60) :] = False
    want = [[(m & n).sum() for n in b] for m in a]
    assert intersections(list_of(*a), list_of(*b)).tolist() == want


def test_amodal_invisible_and_flags_by_hand():
    # A 10 x 20 object of which the right half is hidden; the guess reaches 15 of 20 columns.
    blocker = rectangle(0, 10, 20, 30)
    hidden_true, hidden_found = rectangle(0, 0, 10, 20), rectangle(0, 0, 10, 15)
    shown = hidden_true & ~blocker
    true = scene_of([shown, blocker], [hidden_true, blocker])
    found = scene_of([shown, blocker], [hidden_found, blocker], [True, True])
    quality = frame_quality(found, true)
    first, second = quality.matches
    assert (first.visible_iou, first.hidden_share, first.amodal_iou) == (1.0, 0.5, 0.75)
    assert first.invisible_iou == 0.5 and first.flag_right
    assert second.invisible_iou is None and not second.flag_right
    assert quality.invisible.overlap == pytest.approx(Prf(1.0, 0.5, 2 / 3))
    assert quality.amodal.overlap == pytest.approx(Prf(1.0, 550 / 600, 2 * 550 / 1150))
    found = figures(quality)
    assert [found[name] for name in ("recall", "precision", "occlusion_accuracy")] == [1.0, 1.0, 0.5]
    assert found["amodal_iou"] == 0.875 and found["amodal_iou_much_hidden"] == 0.75


def test_a_missed_hidden_object_counts_as_zero_in_the_strict_mean():
    blocker = rectangle(0, 10, 20, 30)
    hidden = rectangle(0, 0, 10, 20)
    true = scene_of([hidden & ~blocker, blocker], [hidden, blocker])
    found = scene_of([blocker], [blocker], [False])
    told = figures(frame_quality(found, true))
    assert told["amodal_iou_much_hidden"] is None and told["amodal_iou_much_hidden_all"] == 0.0
    assert told["recall"] == 0.5 and told["precision"] == 1.0


def test_no_amodal_prediction_is_wrong_and_no_amodal_truth_is_not_judged():
    shown = rectangle(0, 0, 10, 10)
    known, unknown = scene_of([shown], [shown]), scene_of([shown])
    quality = frame_quality(unknown, known)
    assert quality.matches[0].amodal_iou == 0.0 and quality.amodal.overlap.recall == 0.0
    assert frame_quality(known, unknown).amodal is None
    assert figures(frame_quality(known, unknown))["amodal_iou"] is None


def test_frames_are_averaged_and_objects_pooled():
    a, b = rectangle(0, 0, 10, 10), rectangle(20, 20, 30, 30)
    good, poor = frame_quality(scene_of([a]), scene_of([a])), frame_quality(scene_of([]), scene_of([a, b]))
    told = figures(good, poor)
    assert told["visible overlap f1"] == 0.5 and told["recall"] == pytest.approx(1 / 3)
    assert told["precision"] == 1.0 and good.n_true + poor.n_true == 3


def test_scenes_that_cannot_be_compared_are_refused():
    a = scene_of([rectangle(0, 0, 5, 5)])
    with pytest.raises(InvalidSceneError, match="same size"):
        frame_quality(a, scene_of([rectangle(0, 0, 5, 5, (10, 10))]))
    with pytest.raises(InvalidSceneError, match="visible masks"):
        frame_quality(Scene(a.observation), a)
    with pytest.raises(InvalidSceneError, match="at least one"):
        figures()


def boundary_by_dilation(found, true, radius):
    """The benchmarks' way: dilated boundary images."""
    disk = np.hypot(*np.mgrid[-radius : radius + 1, -radius : radius + 1]) <= radius
    rims = [m & ~ndimage.binary_erosion(m, border_value=1) for m in (found, true)]
    wide = [ndimage.binary_dilation(rim, disk) for rim in rims]
    return (rims[0] & wide[1]).sum() / rims[0].sum(), (rims[1] & wide[0]).sum() / rims[1].sum()


def test_boundary_agrees_with_dilated_images(rng):
    for _ in range(10):
        true = ndimage.gaussian_filter(rng.standard_normal((120, 160)), 9) > 0.02
        found = np.roll(true, rng.integers(-4, 5, 2), axis=(0, 1))
        quality = mask_quality(list_of(found), list_of(true), true.shape, tolerance=0.01)
        assert quality.boundary[:2] == pytest.approx(boundary_by_dilation(found, true, 2))


def test_a_frame_takes_little_time(rng, evidence):
    true = draw_layered_scene(rng, (480, 640), 20, strength=0.0)
    found = Scene(true.observation, true.objects, np.roll(true.visible_ids, 2, axis=1))
    start = time.process_time()
    quality = frame_quality(found, true)
    spent = 1e3 * (time.process_time() - start)
    assert quality.n_true >= 12
    evidence("fast", "all mask metrics of a 640x480 frame, 20 objects", "", f"{spent:.0f} ms")
