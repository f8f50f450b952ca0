"""Whether edges found in one picture lie where another picture has edges, on a small copy of both.

Strength of an edge: its gradient over the mean gradient around it, so that 1 is no better than chance.
`here`: mean strength under the edges of the other picture, at the best shift of at most NEAR.
`elsewhere`: the best mean strength with the edges shifted farther away.
"""

import functools
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float32, Int32, UInt8
from numpy.lib.stride_tricks import sliding_window_view
from scipy import ndimage

WORK_WIDTH = 160
"""Pictures are brought to about this width: 4 px of a 640 px wide picture become one. [px]"""

NEAR = 2
"""Registration may be off by this much: 8 px at 640, the worst of the photographs we have. [work px]"""

REACH = 10
"""Shifts up to this are tried: 40 px at 640. [work px]"""

APART = 3
"""Shifts beyond this count as elsewhere. [work px]"""

DEPTH_STEP = 0.03
"""A depth edge is a step of this share of the distance: at 0.01, noise of a Kinect makes most of them."""

HOLE = 2
"""A depth edge may hide in a hole this wide: sensors lose readings there. [work px]"""

GREY_NOISE = 4.0
"""Gradients of this size are noise: keeps the strength in even areas near 0. [levels]"""

FEW = 0.05
"""Likewise for a map of yes and no: the share of edges that is next to none."""


class Edges(NamedTuple):
    """Edges between left and right neighbours and between upper and lower ones. Shape (h, w) each."""

    across: np.ndarray
    down: np.ndarray


@dataclass(frozen=True)
class Agreement:
    """How well edges fit; the head of this module says what the figures are.

    Attributes:
        count: Edge pixels compared.
        shift: By which they fit best, in pixels of the full picture: right, down. [px]
    """

    here: float
    elsewhere: float
    count: int
    shift: tuple[int, int]


def work_factor(shape: tuple[int, int]) -> int:
    """Pixels of the picture per pixel of the small copy."""
    return max(1, round(shape[1] / WORK_WIDTH))


def colour_strength(rgb: UInt8[np.ndarray, "h w 3"]) -> Edges:
    """Strength of the colour edges of a picture, at work size."""
    factor = work_factor(rgb.shape[:2])
    sums = _over_squares(np.add, rgb.astype(np.uint32), factor)
    small = sums.astype(np.float32) / np.float32(factor * factor)
    across = np.zeros(small.shape[:2], np.float32)
    down = np.zeros_like(across)
    for channel in np.moveaxis(small, 2, 0):
        np.maximum(across[:, 1:-1], np.abs(channel[:, 2:] - channel[:, :-2]), out=across[:, 1:-1])
        np.maximum(down[1:-1], np.abs(channel[2:] - channel[:-2]), out=down[1:-1])
    return Edges(_over_surroundings(across, GREY_NOISE), _over_surroundings(down, GREY_NOISE))


def edge_strength(edges: Edges) -> Edges:
    """The same for edges that are there or not."""
    return Edges(*(_over_surroundings(each.astype(np.float32), FEW) for each in edges))


def depth_edges(depth: Float32[np.ndarray, "h w"], step: float = DEPTH_STEP) -> Edges:
    """Where depth jumps by at least a share `step` of the distance, on the nearer side, at work size."""
    small = _over_squares(np.fmin, depth, work_factor(depth.shape))  # the nearest reading of each square
    return Edges(_depth_steps(small, step), _depth_steps(small.T, step).T)


def mask_edges(ids: Int32[np.ndarray, "h w"]) -> Edges:
    """Where the ids of neighbours differ, at work size."""
    small = shrink_ids(ids)
    across = np.zeros(small.shape, np.bool_)
    down = np.zeros_like(across)
    across[:, :-1] = small[:, 1:] != small[:, :-1]
    down[:-1] = small[1:] != small[:-1]
    return Edges(across, down)


def shrink_ids(ids: Int32[np.ndarray, "h w"]) -> Int32[np.ndarray, "h w"]:
    """Every so manieth id, the same pixels as the small copies of the pictures."""
    factor = work_factor(ids.shape)
    rows, cols = (size // factor * factor for size in ids.shape)
    return ids[factor // 2 : rows : factor, factor // 2 : cols : factor]


def compare_edges(edges: Edges, strength: Edges, factor: int) -> Agreement | None:
    """How strong one picture is (`strength`) under the edges of another; None: nothing to compare."""
    offsets = np.arange(-REACH, REACH + 1)
    total, count = np.zeros((offsets.size, offsets.size)), 0
    if min(edges.across.shape) < offsets.size:
        return None
    for edge, field in zip(edges, strength, strict=True):
        rows, cols = np.nonzero(edge[REACH:-REACH, REACH:-REACH])
        total += sliding_window_view(field, total.shape)[rows, cols].sum(axis=0)
        count += rows.size
    if count == 0:
        return None
    mean = total / count
    length = np.maximum(np.abs(offsets)[:, None], np.abs(offsets))
    near, far = length <= NEAR, length > APART
    row, col = np.unravel_index(int(mean.argmax()), mean.shape)
    shift = (int(offsets[col]) * factor, int(offsets[row]) * factor)
    return Agreement(float(mean[near].max()), float(mean[far].max()), count, shift)


def _over_surroundings(gradient: Float32[np.ndarray, "h w"], floor: float) -> Float32[np.ndarray, "h w"]:
    around: np.ndarray = ndimage.uniform_filter(gradient, 2 * REACH + 1)
    return gradient / (around + np.float32(floor))


def _over_squares(join: np.ufunc, picture: np.ndarray, factor: int) -> np.ndarray:
    """All of each square in one; whole strips at a time, which is several times as fast as `reduce`."""
    rows, cols = (size // factor * factor for size in picture.shape[:2])
    bands = functools.reduce(join, (picture[k:rows:factor] for k in range(factor)))
    return np.asarray(functools.reduce(join, (bands[:, k:cols:factor] for k in range(factor))))


def _depth_steps(depth: Float32[np.ndarray, "h w"], step: float) -> Bool[np.ndarray, "h w"]:
    """Readings far nearer than the next one to their left or right, at most HOLE empty pixels away."""
    found = np.zeros(depth.shape, np.bool_)
    empty = np.isnan(depth)
    for gap in range(1, HOLE + 2):
        left, right = depth[:, :-gap], depth[:, gap:]
        between = np.ones(left.shape, np.bool_)
        for k in range(1, gap):
            between &= empty[:, k : k + left.shape[1]]
        # Comparing with NaN is false: no reading, no step.
        found[:, :-gap] |= between & (right > (1.0 + step) * left)
        found[:, gap:] |= between & (left > (1.0 + step) * right)
    return found
