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


@pytest.mark.parametrize("seed", range(6))
def test_pieces_are_the_connected_pixels_of_a_bin(seed):
    rng = np.random.default_rng(seed)
    rows, cols = np.nonzero(rng.random(SHAPE) < 0.4)
    bins = rng.integers(0, 2, rows.size)
    piece, n = kernels.join_neighbours(rows, cols, bins, SHAPE[1])
    assert set(piece.tolist()) == set(range(n))
    for each in (0, 1):
        image = np.zeros(SHAPE, np.bool_)
        image[rows[bins == each], cols[bins == each]] = True
        wanted = ndimage.label(image, np.ones((3, 3)))[0][rows[bins == each], cols[bins == each]]
        together = {(int(a), int(b)) for a, b in zip(piece[bins == each], wanted, strict=True)}
        assert len(together) == len({a for a, _ in together}) == len({b for _, b in together})


def test_lines_go_through_their_pixels():
    along = np.arange(0.0, 40.0)
    rows, cols = np.rint(3.0 + 0.5 * along).astype(np.int64), np.rint(5.0 + along).astype(np.int64)
    angles = np.full(along.size, 2.0, np.float32)
    piece = np.zeros(along.size, np.int64)
    count, some, direction, spread, ends, gradient = kernels.fit_lines(piece, 1, rows, cols, angles)
    assert count.tolist() == [40] and some.tolist() == [0]
    assert direction == pytest.approx([np.arctan(0.5)], abs=0.01) and gradient == pytest.approx([2.0])
    assert spread[0] < 0.4 and np.allclose(ends[0], [[5.0, 3.0], [44.0, 22.5]], atol=0.6)


def test_pairs_continue_each_other_in_another_mask():
    ends = np.array(
        [[[0, 0], [10, 0]], [[16, 0.5], [30, 0]], [[16, 6], [30, 6]], [[60, 0], [70, 0]], [[12, 0], [15, 0]]],
        np.float64,
    )
    pairs, off, angle = kernels.pair_pieces(ends, np.zeros(5), np.array([1, 2, 2, 2, 1]), 2.0, 0.1, 16.0)
    assert sorted(map(tuple, pairs.tolist())) == [(0, 1), (1, 0), (1, 4), (4, 1)]
    assert (off <= 0.5).all() and not angle.any()
