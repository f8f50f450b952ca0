"""Outlines of masks as polygons: around pixels, simplified, bounded in number."""

from typing import TypeAlias

import numpy as np
from jaxtyping import Bool
from numba import njit

OutlinePoint: TypeAlias = tuple[float, float]
"""x and y. [px]"""

TOLERANCE_PX = 1.0
"""How far a simplified outline may lie from the pixels' edges: the height of a step. [px]"""

MOST_POINTS = 400
"""Most points of one outline; the tolerance is doubled until it fits."""

MOST_OUTLINES = 24
"""Most outlines of one mask; of more pieces, the largest are outlined."""


def trace_mask(
    mask: Bool[np.ndarray, "h w"], top: float = 0.0, left: float = 0.0
) -> list[list[OutlinePoint]]:
    """Closed polygons along the edges of a mask's pixels, largest first; holes are polygons of their own.

    Drawn with the even-odd rule they give the mask, to within `TOLERANCE_PX`.

    Args:
        mask: Shape (h, w).
        top: Added to y. [px]
        left: Added to x. [px]
    """
    if not mask.any():
        return []
    padded = np.pad(mask, 1)
    around = padded[1:, 1:].astype(np.uint8) + padded[1:, :-1] + padded[:-1, 1:] + padded[:-1, :-1]
    points, ends = _walk(padded.astype(np.uint8), 2 * np.count_nonzero(around % 4))
    starts = np.concatenate([[0], ends[:-1]])
    largest = np.argsort(-np.abs(_areas(points, starts, ends)), kind="stable")[:MOST_OUTLINES]
    outlines = []
    for k in largest:
        kept = _simplify(points[starts[k] : ends[k]])
        # The walk counts corners in the padded image.
        outlines.append([(float(x) - 1.0 + left, float(y) - 1.0 + top) for y, x in kept])
    return outlines


def _areas(points: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Area inside each loop, by the shoelace formula, in square pixels. Shape (loops,)."""
    after = np.arange(1, len(points) + 1)
    after[ends - 1] = starts
    y, x = points.astype(np.float64).T
    return np.asarray(0.5 * np.add.reduceat(x * y[after] - y * x[after], starts))


def _simplify(loop: np.ndarray) -> np.ndarray:
    tolerance = TOLERANCE_PX
    while True:
        keep: np.ndarray = _keep(loop.astype(np.float64), tolerance)
        if keep.sum() <= MOST_POINTS:
            return np.asarray(loop[keep])
        tolerance *= 2.0


@njit(cache=True)
def _walk(m, most):  # type: ignore[no-untyped-def]
    """Corners of every boundary, walked with the mask on the right, and where each boundary ends.

    A boundary step goes from corner to corner along a pixel edge; corner (r, c) is the upper left one of
    pixel (r, c). Where two pixels meet at a corner only, the walk turns to stay with its own pixel, so that
    boundaries never cross. At most `most` corners are passed: each corner of the boundary once or twice.
    """
    h, w = m.shape
    # Directions: 0 right, 1 down, 2 left, 3 up. seen[r, c] has bit d where the step d from (r, c) was walked.
    dr = np.array([0, 1, 0, -1])
    dc = np.array([1, 0, -1, 0])
    seen = np.zeros((h + 1, w + 1), np.uint8)
    points = np.empty((most, 2), np.int32)
    ends = np.empty(most // 4 + 1, np.int64)  # a loop has at least four corners
    n = 0
    loops = 0
    for r0 in range(1, h):
        for c0 in range(1, w):
            # A loop starts at a top edge (mask below, none above): to the right, the mask on the right.
            if not (m[r0, c0] and not m[r0 - 1, c0]) or seen[r0, c0] & 1:
                continue
            r, c, d = r0, c0, 0
            last = -1
            while True:
                if seen[r, c] & (1 << d):
                    break
                seen[r, c] |= 1 << d
                if d != last:
                    points[n, 0] = r
                    points[n, 1] = c
                    n += 1
                    last = d
                r += dr[d]
                c += dc[d]
                # The pixels ahead, to the right and to the left of the direction walked.
                if d == 0:
                    right, left = m[r, c], m[r - 1, c]
                elif d == 1:
                    right, left = m[r, c - 1], m[r, c]
                elif d == 2:
                    right, left = m[r - 1, c - 1], m[r, c - 1]
                else:
                    right, left = m[r - 1, c], m[r - 1, c - 1]
                if not right:
                    d = (d + 1) % 4
                elif left:
                    d = (d + 3) % 4
            ends[loops] = n
            loops += 1
    return points[:n], ends[:loops]


@njit(cache=True)
def _keep(loop, tolerance):  # type: ignore[no-untyped-def]
    """Which corners to keep so that no other is further than the tolerance from the line (Douglas-Peucker).

    The loop is opened at its first corner and at the one farthest from it.
    """
    n = len(loop)
    keep = np.zeros(n, np.bool_)
    far = 0
    best = -1.0
    for k in range(n):
        distance = (loop[k, 0] - loop[0, 0]) ** 2 + (loop[k, 1] - loop[0, 1]) ** 2
        if distance > best:
            best = distance
            far = k
    keep[0] = True
    keep[far] = True
    stack = np.empty((n + 2, 2), np.int64)
    stack[0, 0], stack[0, 1] = 0, far
    stack[1, 0], stack[1, 1] = far, n
    depth = 2
    while depth:
        depth -= 1
        a, b = stack[depth, 0], stack[depth, 1]
        if b - a < 2:
            continue
        y0, x0 = loop[a, 0], loop[a, 1]
        y1, x1 = loop[b % n, 0], loop[b % n, 1]
        length2 = (y1 - y0) ** 2 + (x1 - x0) ** 2
        worst = -1.0
        at = a
        for k in range(a + 1, b):
            y, x = loop[k, 0], loop[k, 1]
            t = 0.0
            if length2 > 0.0:
                t = min(max(((y - y0) * (y1 - y0) + (x - x0) * (x1 - x0)) / length2, 0.0), 1.0)
            distance = (y - y0 - t * (y1 - y0)) ** 2 + (x - x0 - t * (x1 - x0)) ** 2
            if distance > worst:
                worst = distance
                at = k
        if worst > tolerance * tolerance:
            keep[at] = True
            stack[depth, 0], stack[depth, 1] = a, at
            stack[depth + 1, 0], stack[depth + 1, 1] = at, b
            depth += 2
    return keep
