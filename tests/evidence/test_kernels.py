"""Kernels against plain NumPy twins that work on whole masks, pair by pair."""

import math

import numpy as np
import pytest
from scipy import ndimage

from cpor.evidence import _kernels

NO_DEPTH = np.zeros((0, 0), dtype=np.float32)


def half_widths(rho):
    return np.array([math.isqrt(rho**2 - k**2) for k in range(rho + 1)])


BOUNDS = np.array([[0.5, 0.8], [0.4, 0.8]])


def count_contacts_twin(i, amodal, index_image, depth, rho, n):
    """Counts of row i from full masks and a distance transform; and of pixels that show nobody."""
    whole = amodal | (index_image == i)
    ring = (ndimage.distance_transform_edt(~whole) <= rho) & ~whole if whole.any() else whole
    hidden = whole & (index_image != i)
    reads = np.isfinite(depth) if depth.size else np.zeros(whole.shape, dtype=bool)
    counts = np.zeros((3, n), dtype=np.int64)
    for j in range(n):
        shows = index_image == j
        counts[0, j] = (hidden & shows).sum()
        counts[1, j] = (ring & shows).sum()
        counts[2, j] = ((hidden | ring) & shows & reads).sum()
    z = depth if depth.size else np.full(whole.shape, np.nan)
    unowned = []
    for part, (near, far) in zip((hidden, ring), BOUNDS, strict=True):
        bands = [z < near, (z >= near) & (z <= far), z > far, np.isnan(z)]
        unowned.append([(part & (index_image < 0) & band).sum() for band in bands])
    return whole.sum(), ring.sum(), counts, unowned


def random_image(rng, shape, n):
    """Blocks of objects on background, and depth with gaps."""
    coarse = rng.integers(-1, n, [-(-s // 5) for s in shape])
    index_image = np.kron(coarse, np.ones((5, 5)))[: shape[0], : shape[1]].astype(np.int32)
    depth = rng.uniform(0.3, 1.0, shape).astype(np.float32)
    depth[rng.random(shape) < 0.3] = np.nan
    return index_image, depth


@pytest.mark.parametrize("shape", [(40, 55), (1, 30), (30, 1), (1, 1)])
def test_survey_agrees_with_numpy(shape):
    rng = np.random.default_rng(1)
    n = 4
    index_image, depth = random_image(rng, shape, n)
    ids = np.array([3, 4, 8, 20])
    visible_ids = np.where(index_image >= 0, ids[index_image], 0).astype(np.int32)
    index_of_id = np.full(21, -1, dtype=np.int32)
    index_of_id[ids] = np.arange(n)
    got_image, area, readings, box = _kernels.survey_visible(visible_ids, index_of_id, depth, n)
    assert np.array_equal(got_image, index_image)
    for i in range(n):
        mask = index_image == i
        assert area[i] == mask.sum()
        assert readings[i] == (mask & np.isfinite(depth)).sum()
        if mask.any():
            rows, cols = np.nonzero(mask)
            assert box[i].tolist() == [rows.min(), rows.max() + 1, cols.min(), cols.max() + 1]
        else:
            assert box[i].tolist() == [shape[0], 0, shape[1], 0]
    assert _kernels.survey_visible(visible_ids, index_of_id, NO_DEPTH, n)[2].sum() == 0


def test_gathered_readings_agree_with_numpy():
    index_image, depth = random_image(np.random.default_rng(2), (33, 47), 5)
    expected = [depth[(index_image == i) & np.isfinite(depth)] for i in range(5)]
    readings = np.array([e.size for e in expected])
    assert np.array_equal(_kernels.gather_readings(index_image, depth, readings), np.concatenate(expected))


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("rho", [0, 1, 3, 8])
def test_contacts_agree_with_numpy(seed, rho):
    rng = np.random.default_rng(seed)
    shape, n = (37, 52), 5
    index_image, depth = random_image(rng, shape, n)
    if seed % 3 == 0:
        depth = NO_DEPTH
    for i in range(n):
        # Any mask, not only one that contains the visible part: segmenters are not consistent.
        top, left = rng.integers(0, 30, 2)
        crop = rng.random((rng.integers(1, 8), rng.integers(1, 20))) < 0.7
        amodal = np.zeros(shape, dtype=bool)
        amodal[top : top + crop.shape[0], left : left + crop.shape[1]] = crop
        _, _, _, box = _kernels.survey_visible(index_image + 1, np.arange(-1, n, dtype=np.int32), depth, n)
        counts = np.zeros((3, n), dtype=np.int64)
        unowned = np.zeros((2, 4), dtype=np.int64)
        area, ring_area = _kernels.count_contacts(
            i, crop, top, left, box[i], index_image, depth, half_widths(rho), BOUNDS, *counts, unowned
        )
        twin_area, twin_ring, twin_counts, twin_unowned = count_contacts_twin(
            i, amodal, index_image, depth, rho, n
        )
        assert (area, ring_area) == (twin_area, twin_ring)
        assert np.array_equal(counts, twin_counts)
        assert np.array_equal(unowned, twin_unowned)
