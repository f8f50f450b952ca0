"""Kernels of the search for lines against SciPy and NumPy on whole pictures."""

import numpy as np
import pytest
from scipy import ndimage

from cpor.evidence import _line_kernels as kernels
from cpor.evidence.crossing import FILTER

SHAPE = (37, 52)


def test_gradients_are_those_of_the_smoothed_picture():
    rgb = np.random.default_rng(1).integers(0, 256, (*SHAPE, 3), np.uint8)
    whole = np.concatenate([FILTER[:0:-1], FILTER]) / 256.0
    smooth = rgb.astype(np.float64)
    for axis in (0, 1):
        smooth = ndimage.correlate1d(smooth, whole, axis)
    down, across = np.zeros_like(smooth), np.zeros_like(smooth)
    down[1:-1] = 0.5 * (smooth[2:] - smooth[:-2])
    across[:, 1:-1] = 0.5 * (smooth[:, 2:] - smooth[:, :-2])
    channel = (down**2 + across**2).argmax(axis=2)[..., None]
    expected = (np.take_along_axis(each, channel, 2)[1:-1, 1:-1, 0] for each in (down, across))
    found = kernels.colour_gradients(rgb.reshape(SHAPE[0], -1), FILTER)
    for got, wanted in zip(found, expected, strict=True):
        assert np.allclose(got[1:-1, 1:-1], wanted, atol=1e-4)
        assert not got[[0, -1]].any() and not got[:, [0, -1]].any()


def test_marked_are_the_squares_around_changes_of_the_object():
    ids = np.kron(np.random.default_rng(2).integers(0, 3, (5, 7)), np.ones((9, 9), np.int32)).astype(np.int32)
    outline = np.zeros(ids.shape, np.bool_)
    outline[:, :-1] |= ids[:, 1:] != ids[:, :-1]
    outline[:-1] |= ids[1:] != ids[:-1]
    assert np.array_equal(kernels.mark_outlines(ids, 2), ndimage.maximum_filter(outline, 5))


def test_edge_pixels_are_largest_along_their_gradient():
    rng = np.random.default_rng(4)
    down, across = (ndimage.gaussian_filter(rng.normal(0, 9, SHAPE), 1.0).astype(np.float32) for _ in "yx")
    outline = rng.random(SHAPE) < 0.1
    size = down**2 + across**2
    wanted = []
    for r, c in np.ndindex(SHAPE):
        if 0 < r < SHAPE[0] - 1 and 0 < c < SHAPE[1] - 1 and not outline[r, c] and size[r, c] > 4.0:
            angle = np.arctan2(down[r, c], across[r, c])
            dy, dx = round(np.sin(angle)), round(np.cos(angle))
            if size[r, c] >= size[r + dy, c + dx] and size[r, c] > size[r - dy, c - dx]:
                wanted.append((r, c, angle))
    assert len(wanted) > 50
    assert np.allclose(np.transpose(kernels.find_crests(down, across, outline, 2.0)), wanted)


def test_votes_find_the_line_of_both_sides_of_a_strap():
    along = np.arange(5.0, 45.0)
    normal = np.array([np.cos(0.6), np.sin(0.6)])
    pixels = [
        np.rint(offset * normal + t * np.array([-normal[1], normal[0]])).astype(np.int64)
        for offset in (25.0, 32.0)
        for t in along
    ]
    cols, rows = np.transpose(pixels)
    angles = np.repeat([0.6, 0.6 - np.pi], along.size) + np.tile([-0.03, 0.03], along.size)
    angle, offset = kernels.vote_lines(rows, cols, angles, (70, 70), 512, 1.5, 6, 30, 6)
    assert angle.size == 2
    assert sorted(np.cos(angle - 0.6).round(2).tolist()) == [-1.0, 1.0]
    assert sorted((offset * np.cos(angle - 0.6)).tolist()) == pytest.approx([25.0, 32.0], abs=2.0)


def test_a_line_is_read_in_pieces_of_one_object():
    """Along a column, so that each step is a row."""
    rng = np.random.default_rng(9)
    ids = np.repeat([1, 0, 2], [20, 10, 30])[:, None].repeat(40, axis=1).astype(np.int32)
    ids[35:38, 24] = 3
    rgb = rng.integers(0, 256, (60, 40, 3), np.uint8)
    edge = np.full(ids.shape, np.nan, np.float32)
    edge[2:15, 20] = 0.1
    edge[15:18, 20] = np.pi  # the other way
    edge[40:50, 21] = -0.2
    outline = kernels.mark_outlines(ids, 2)
    asides = np.array([2.0, 4.0])
    shown, counts, colours = kernels.read_line(0.0, 20.0, edge, rgb, ids, outline, 0.3, asides, 12)
    assert shown.tolist() == ids[1:59, 20].tolist()
    wanted = []
    off = np.flatnonzero(~outline[1:59, 20])
    for run in np.split(off, np.flatnonzero(np.diff(off) > 1) + 1):
        for first in range(run[0], run[-1] + 1, 12):
            rows = 1 + np.arange(first, min(first + 12, run[-1] + 1))
            label = ids[rows[0], 20]
            on = np.any([np.cos(edge[rows, c]) > np.cos(0.3) for c in (19, 20, 21)], axis=0).sum()
            read = rows[(ids[rows, 16] == label) & (ids[rows, 24] == label)]
            wanted.append((first, first + rows.size, label, rows.size, on, read.size))
            for d, far in enumerate((2, 4)):
                both = [rgb[read, 20 - far].mean(axis=0), rgb[read, 20 + far].mean(axis=0)]
                assert np.allclose(colours[d, len(wanted) - 1], both)
    assert counts.tolist() == [list(map(int, each)) for each in wanted]
    assert len(wanted) == 6 and sum(each[4] for each in wanted) == 23 and (counts[:, 5] < counts[:, 3]).any()


def test_a_film_is_fitted_to_the_pieces_that_agree():
    rng = np.random.default_rng(10)
    before = rng.uniform(10, 200, (6, 3))
    behind = 0.85 * before + 0.15 * 230.0 + rng.normal(0, 0.5, before.shape)
    behind[4] = before[4] - 40.0
    weight = rng.integers(8, 25, 6)
    colours = np.stack([before, behind], axis=1)
    kept, h, c = kernels.fit_film(colours, weight, 240.0, 2.0, 0.6)
    assert kept.tolist() == [True] * 4 + [False, True]
    w, a = np.repeat(weight[kept], 3), before[kept].ravel()
    rows = np.vstack(
        [np.stack([np.ones(a.size), -a], 1) * np.sqrt(w)[:, None], np.sqrt(2.0) * np.array([1, -240.0])]
    )
    right = np.append(np.sqrt(w) * (behind[kept].ravel() - a), 0.0)
    (q, share), *_ = np.linalg.lstsq(rows, right)
    assert (h, c) == pytest.approx((share, q / share)) and h == pytest.approx(0.15, abs=0.01)


def test_a_rod_has_one_colour_behind_all_pieces_that_agree():
    colours = np.array(
        [[[10, 20, 30], [90, 80, 85]], [[200, 190, 10], [94, 78, 88]], [[60, 60, 60], [20, 130, 140]]]
    )
    kept = kernels.fit_opaque(colours.astype(float), np.array([20, 20, 9]), 0.25)
    assert kept.tolist() == [True, True, False]
