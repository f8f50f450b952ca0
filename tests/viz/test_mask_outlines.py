import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from cpor.viz.mask_outlines import MOST_OUTLINES, MOST_POINTS, trace_mask


def fill(outlines, shape):
    """Pixels whose middle an odd number of outlines surround."""
    rows, cols = np.mgrid[: shape[0], : shape[1]] + 0.5
    inside = np.zeros(shape, bool)
    for outline in outlines:
        ends = np.roll(np.array(outline), -1, axis=0)
        for (x0, y0), (x1, y1) in zip(outline, ends, strict=True):
            if y0 != y1:
                crosses = (rows >= min(y0, y1)) & (rows < max(y0, y1))
                inside ^= crosses & (x0 + (rows - y0) * (x1 - x0) / (y1 - y0) > cols)
    return inside


def disk(shape, centre, radius):
    rows, cols = np.mgrid[: shape[0], : shape[1]]
    return (rows - centre[0]) ** 2 + (cols - centre[1]) ** 2 <= radius**2


def test_a_rectangle_is_its_four_corners():
    mask = np.zeros((10, 12), bool)
    mask[2:5, 3:9] = True
    (outline,) = trace_mask(mask)
    assert set(outline) == {(3.0, 2.0), (9.0, 2.0), (9.0, 5.0), (3.0, 5.0)}


def test_a_crop_is_moved_to_its_place():
    (outline,) = trace_mask(np.ones((2, 3), bool), top=10, left=20)
    assert set(outline) == {(20.0, 10.0), (23.0, 10.0), (23.0, 12.0), (20.0, 12.0)}


def test_a_hole_is_an_outline_of_its_own():
    mask = disk((60, 60), (30, 30), 25) & ~disk((60, 60), (30, 30), 10)
    outlines = trace_mask(mask)
    assert len(outlines) == 2
    wrong = fill(outlines, mask.shape) ^ mask
    assert wrong.sum() < 0.1 * mask.sum()
    assert not fill(outlines, mask.shape)[30, 30]


def test_nothing_has_no_outline():
    assert trace_mask(np.zeros((4, 4), bool)) == []
    assert trace_mask(np.zeros((0, 0), bool)) == []


@settings(max_examples=150, deadline=None)
@given(hnp.arrays(bool, st.tuples(st.integers(1, 9), st.integers(1, 9))))
def test_pixels_further_inside_than_the_tolerance_stay_inside(mask):
    # Blown up by 4, every pixel's middle is two pixels from an edge: further than any outline may stray.
    large = np.kron(mask, np.ones((4, 4), bool))
    outlines = trace_mask(large)
    if len(outlines) < MOST_OUTLINES:
        middles = np.zeros_like(large)
        middles[2::4, 2::4] = True
        assert (fill(outlines, large.shape)[middles] == large[middles]).all()


def test_error_is_a_pixel_at_most():
    mask = disk((200, 200), (100, 100), 80.3)
    (outline,) = trace_mask(mask)
    assert len(outline) < 80
    distance = np.hypot(*(np.array(outline) - 100.5).T)
    assert np.abs(distance - 80.3).max() < 1.5


@pytest.mark.parametrize("share", [0.3, 0.5])
def test_noise_is_bounded(rng, share):
    outlines = trace_mask(rng.random((300, 400)) < share)
    assert len(outlines) <= MOST_OUTLINES
    assert max(map(len, outlines)) <= MOST_POINTS
