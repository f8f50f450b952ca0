"""Compiled loops that cut pictures of pairs and find neighbouring objects: numba only, no policy.

`boxes` holds, by id, first row, end row, first column, end column of what shows of an object and, in
`geometry` pictures, of its hidden part too. `places` holds, by id, first row, first column, rows and columns
of its amodal mask, and where its pixels begin in `amodal`, which holds those of all objects; 0 rows: none.
"""

from typing import no_type_check

import numpy as np
from numba import njit


@no_type_check
@njit(cache=True, nogil=True)
def mark_near(obj, ids, box, place, amodal, reach, near):
    """Mark in `near`, by id, the objects that show within `reach` rows and columns of an object's masks.

    Args:
        obj: Id of the object.
        ids: Shape (h, w).
        box: Box around its visible and amodal mask. Shape (4,). [px]
        place: Place of its amodal mask. Shape (5,).
        amodal: Shape (pixels of all amodal masks,).
        reach: How near. [px]
        near: Filled. Shape (largest id + 1,).
    """
    h, w = ids.shape
    top, left = max(box[0] - reach, 0), max(box[2] - reach, 0)
    height, width = min(box[1] + reach, h) - top, min(box[3] + reach, w) - left
    covers = np.zeros((height, width), np.int32)
    for r in range(height):
        for c in range(width):
            covers[r, c] = ids[top + r, left + c] == obj
    for r in range(place[2]):
        for c in range(place[3]):
            if amodal[place[4] + r * place[3] + c]:
                covers[place[0] - top + r, place[1] - left + c] = 1
    # How many covered pixels lie within reach along the row, then in a window of such rows.
    along = np.zeros((height, width), np.int32)
    for r in range(height):
        count = 0
        for c in range(min(reach, width)):
            count += covers[r, c]
        for c in range(width):
            if c + reach < width:
                count += covers[r, c + reach]
            if c - reach - 1 >= 0:
                count -= covers[r, c - reach - 1]
            along[r, c] = count
    around = np.zeros(width, np.int32)
    for r in range(min(reach, height)):
        around += along[r]
    for r in range(height):
        if r + reach < height:
            around += along[r + reach]
        if r - reach - 1 >= 0:
            around -= along[r - reach - 1]
        for c in range(width):
            if around[c] > 0:
                near[ids[top + r, left + c]] = True


@no_type_check
@njit(cache=True, nogil=True)
def sample_square(a, b, shape, margin, size):
    """Row and column of the image that each row and column of a picture of two boxes shows; -1: none."""
    low_r, low_c = min(a[0], b[0]), min(a[2], b[2])
    high_r, high_c = max(a[1], b[1]), max(a[3], b[3])
    side = max(high_r - low_r, high_c - low_c) * (1.0 + margin)
    rows, cols = np.empty(size, np.int64), np.empty(size, np.int64)
    for at, low, high, most in ((rows, low_r, high_r, shape[0]), (cols, low_c, high_c, shape[1])):
        corner = 0.5 * (low + high - side)
        for k in range(size):
            pixel = np.int64(np.floor(corner + (k + 0.5) * (side / size)))
            at[k] = pixel if 0 <= pixel < most else -1
    return rows, cols


@no_type_check
@njit(cache=True, nogil=True)
def cut_colours(rgb, ids, pairs, boxes, margin, out):
    """Fill `out`, shape (n, 5, s, s), with the `COLOUR_LAYERS` of each of `pairs`, shape (n, 2)."""
    size = out.shape[3]
    for k in range(pairs.shape[0]):
        i, j = pairs[k]
        rows, cols = sample_square(boxes[i], boxes[j], ids.shape, margin, size)
        for r in range(size):
            for c in range(size):
                y, x = rows[r], cols[c]
                if y < 0 or x < 0:
                    continue
                for layer in range(3):
                    out[k, layer, r, c] = rgb[y, x, layer]
                out[k, 3, r, c] = ids[y, x] == i
                out[k, 4, r, c] = ids[y, x] == j


@no_type_check
@njit(cache=True, nogil=True)
def cut_masks(ids, depth, pairs, boxes, places, amodal, margin, out, readings):
    """Fill the masks of `out`, shape (n, 6, s, s), with the `GEOMETRY_LAYERS` of `pairs`, shape (n, 2).

    `depth` is an empty (0, 0) array where the frame has none. The readings on each pair go to `readings`,
    shape (n, s * s); how many there are comes back, shape (n,).
    """
    size = out.shape[3]
    has_depth = depth.size > 0
    counts = np.zeros(pairs.shape[0], np.int64)
    for k in range(pairs.shape[0]):
        i, j = pairs[k]
        rows, cols = sample_square(boxes[i], boxes[j], ids.shape, margin, size)
        for r in range(size):
            for c in range(size):
                y, x = rows[r], cols[c]
                if y < 0 or x < 0:
                    continue
                label = ids[y, x]
                first, second = label == i, label == j
                out[k, 1, r, c] = out[k, 3, r, c] = first
                out[k, 2, r, c] = out[k, 4, r, c] = second
                out[k, 5, r, c] = label > 0 and not first and not second
                if has_depth and (first or second) and depth[y, x] == depth[y, x]:
                    readings[k, counts[k]] = depth[y, x]
                    counts[k] += 1
        for layer, obj in ((3, i), (4, j)):
            top, left, height, width, begin = places[obj]
            for r in range(size):
                for c in range(size):
                    y, x = rows[r] - top, cols[c] - left
                    if 0 <= y < height and 0 <= x < width and rows[r] >= 0 and cols[c] >= 0:
                        out[k, layer, r, c] |= amodal[begin + y * width + x]
    return counts


@no_type_check
@njit(cache=True, nogil=True)
def cut_depth(depth, pairs, boxes, margin, middles, steps_per_m, out):
    """Fill the depth of `out` in steps around that of `middles`, shape (n,); NaN: the layer stays empty."""
    size = out.shape[3]
    for k in range(pairs.shape[0]):
        if middles[k] != middles[k]:
            continue
        rows, cols = sample_square(boxes[pairs[k, 0]], boxes[pairs[k, 1]], depth.shape, margin, size)
        for r in range(size):
            for c in range(size):
                y, x = rows[r], cols[c]
                if y >= 0 and x >= 0 and depth[y, x] == depth[y, x]:
                    step = (middles[k] - depth[y, x]) * steps_per_m + np.float32(128.0)
                    out[k, 0, r, c] = np.uint8(min(max(np.rint(step), np.float32(1.0)), np.float32(255.0)))
