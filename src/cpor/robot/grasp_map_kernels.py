"""Loops that turn a frame into height maps, most of them compiled; no policy.

Height maps have square cells; a map seen along an approach holds, for each cell across it, the greatest
height against the approach: the first thing that a finger coming along the approach would meet.
"""

from typing import no_type_check

import numpy as np
from jaxtyping import Float
from numba import njit
from scipy import ndimage

NOTHING = -1e3
"""Height of a cell in which nothing was seen. [m]"""

BACKGROUND, OTHER, WANTED = 0, 1, 2
"""Layers: bin, table and the like; the other objects; the object to grasp."""


@no_type_check
@njit(cache=True)
def fill_depth(depth, layer, reach):
    """Depth with its holes filled by the nearest-to-the-camera reading of the same layer close by.

    Args:
        depth: NaN where there is no reading. Shape (h, w). [m]
        layer: What each pixel shows. Shape (h, w).
        reach: How far to look. [px]
    """
    h, w = depth.shape
    out = depth.copy()
    for r in range(h):
        for c in range(w):
            if depth[r, c] == depth[r, c]:
                continue
            best = np.inf
            for k in range(1, reach + 1):
                for i in range(max(0, r - k), min(h, r + k + 1)):
                    for j in range(max(0, c - k), min(w, c + k + 1)):
                        z = depth[i, j]
                        if z == z and layer[i, j] == layer[r, c] and z < best:
                            best = z
                if best < np.inf:
                    out[r, c] = best
                    break
    return out


@no_type_check
@njit(cache=True)
def map_heights(points, layer, x0, y0, cell, n, noise):
    """Height and layer of what lies in each cell of a square, seen from above.

    Args:
        points: In the world, NaN for none. Shape (h, w, 3). [m]
        layer: What each of them shows. Shape (h, w).
        x0: Least x of the square. [m]
        y0: Least y of the square. [m]
        cell: Size of a cell. [m]
        n: Cells along a side.
        noise: Readings of the top layer this far below the highest one count as the same surface. [m]

    Returns:
        Mean height of the top surface of each cell, NOTHING where none was seen, and its layer. Shape (n, n).
    """
    h, w, _ = points.shape
    top = np.full((n, n), NOTHING)
    what = np.zeros((n, n), np.int8)
    for r in range(h):
        for c in range(w):
            z = points[r, c, 2]
            if z != z:
                continue
            i, j = int((points[r, c, 0] - x0) / cell), int((points[r, c, 1] - y0) / cell)
            if 0 <= i < n and 0 <= j < n and z > top[i, j]:
                top[i, j] = z
                what[i, j] = layer[r, c]
    total = np.zeros((n, n))
    count = np.zeros((n, n))
    for r in range(h):
        for c in range(w):
            z = points[r, c, 2]
            if z != z:
                continue
            i, j = int((points[r, c, 0] - x0) / cell), int((points[r, c, 1] - y0) / cell)
            if 0 <= i < n and 0 <= j < n and layer[r, c] == what[i, j] and z > top[i, j] - noise:
                total[i, j] += z
                count[i, j] += 1.0
    for i in range(n):
        for j in range(n):
            if count[i, j] > 0.0:
                top[i, j] = total[i, j] / count[i, j]
    return top, what


@no_type_check
@njit(cache=True)
def see_along(top, what, x0, y0, cell, centre, axes, step, thick, span):
    """What a finger meets that comes along an approach: one map for each layer.

    Everything reaches down from its visible surface, since its sides are not seen from above: table, bin
    and other objects to the table, the wanted object by `thick`.

    Args:
        top: Heights from `map_heights`. Shape (n, n). [m]
        what: Layers from there. Shape (n, n).
        x0: Least x of the square. [m]
        y0: Least y of the square. [m]
        cell: Size of a cell. [m]
        centre: Origin of the maps. Shape (3,). [m]
        axes: Rows u and v across the approach, w against it. Shape (3, 3).
        step: Distance of the points put below a surface. [m]
        thick: How far the wanted object reaches down. [m]
        span: Cells from the middle of a map to its rim.

    Returns:
        Heights along w. Shape (3, 2 * span + 1, 2 * span + 1). [m]
    """
    n = top.shape[0]
    size = 2 * span + 1
    maps = np.full((3, size, size), NOTHING)
    straight = abs(axes[2, 2]) > 0.9999
    for i in range(n):
        for j in range(n):
            z = top[i, j]
            if z == NOTHING:
                continue
            layer = what[i, j]
            x, y = x0 + (i + 0.5) * cell - centre[0], y0 + (j + 0.5) * cell - centre[1]
            lowest = max(z - thick, 0.0) if layer == WANTED else 0.0
            levels = 1 if straight else 1 + int(max(0.0, z - lowest) / step)
            for k in range(levels):
                dz = z - k * step - centre[2]
                u = axes[0, 0] * x + axes[0, 1] * y + axes[0, 2] * dz
                v = axes[1, 0] * x + axes[1, 1] * y + axes[1, 2] * dz
                a, b = int(np.floor(u / cell + 0.5)) + span, int(np.floor(v / cell + 0.5)) + span
                if 0 <= a < size and 0 <= b < size:
                    wz = axes[2, 0] * x + axes[2, 1] * y + axes[2, 2] * dz
                    if wz > maps[layer, a, b]:
                        maps[layer, a, b] = wz
    return maps


def close_holes(maps: Float[np.ndarray, "3 s s"]) -> Float[np.ndarray, "3 s s"]:
    """Cells in which no layer was seen take the highest of their neighbours, as far as those were seen."""
    near = ndimage.maximum_filter(maps, (1, 3, 3), mode="nearest")
    return np.where(maps.max(axis=0) > NOTHING, maps, near)
