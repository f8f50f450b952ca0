"""Compiled loops of the geometric evidence: numba only, no Python objects, no policy.

Objects are numbered 0 to n - 1 here; `index_image` holds the number of the object that each pixel shows,
-1 for background. `depth` is an empty (0, 0) array where the frame has none.
"""

from typing import no_type_check

import numpy as np
from numba import njit


@no_type_check
@njit(cache=True)
def survey_visible(visible_ids, index_of_id, depth, n):
    """One pass over the image: which object shows where, and how much of it has a depth reading.

    Args:
        visible_ids: Shape (h, w).
        index_of_id: Number of the object with each id, -1 for none. Shape (largest id + 1,).
        depth: NaN where there is no reading. Shape (h, w) or (0, 0). [m]
        n: Number of objects.

    Returns:
        The index image, shape (h, w); visible pixels and those of them with a reading, shape (n,); the box
        of each visible mask as first row, end row, first column, end column, shape (n, 4). [px]
    """
    h, w = visible_ids.shape
    has_depth = depth.size > 0
    index_image = np.empty((h, w), np.int32)
    area = np.zeros(n, np.int64)
    readings = np.zeros(n, np.int64)
    box = np.empty((n, 4), np.int64)
    box[:, 0], box[:, 1], box[:, 2], box[:, 3] = h, 0, w, 0
    for r in range(h):
        for c in range(w):
            i = index_of_id[visible_ids[r, c]]
            index_image[r, c] = i
            if i < 0:
                continue
            area[i] += 1
            if has_depth and depth[r, c] == depth[r, c]:
                readings[i] += 1
            box[i, 0] = min(box[i, 0], r)
            box[i, 1] = r + 1
            box[i, 2] = min(box[i, 2], c)
            box[i, 3] = max(box[i, 3], c + 1)
    return index_image, area, readings, box


@no_type_check
@njit(cache=True)
def gather_readings(index_image, depth, readings):
    """Depth readings sorted by the object they fall on.

    Args:
        index_image: Shape (h, w).
        depth: NaN where there is no reading. Shape (h, w). [m]
        readings: Number of readings on each object. Shape (n,).

    Returns:
        Readings of object 0, then of object 1, …; shape (sum of readings,). [m]
    """
    end = np.cumsum(readings)
    at = end - readings
    values = np.empty(end[-1], np.float32)
    h, w = index_image.shape
    for r in range(h):
        for c in range(w):
            i = index_image[r, c]
            if i >= 0 and depth[r, c] == depth[r, c]:
                values[at[i]] = depth[r, c]
                at[i] += 1
    return values


@no_type_check
@njit(cache=True)
def count_contacts(
    i, crop, top, left, box, index_image, depth, half_width, bounds, hidden, ring, readings, unowned
):
    """Objects that show on the hidden part of i and on its ring; what depth says where none does.

    The ring is dilated from runs of mask pixels: a run in one row covers a longer run, by the disk's half
    width there, in each row within its radius. Starts and ends are marked, a running sum gives the rest.

    Args:
        i: Number of the object.
        crop: Its amodal mask inside a box that begins at row `top` and column `left`. Shape (rows, cols).
        top: First row of the crop. [px]
        left: First column of the crop. [px]
        box: Box of its visible mask, see `survey_visible`. Shape (4,). [px]
        index_image: Shape (h, w).
        depth: Shape (h, w) or (0, 0). [m]
        half_width: Columns that the disk reaches either side, 0 to rho rows off its centre. Shape (rho + 1,).
        bounds: What is nearer than the first of a row stands before the object, what is farther than the
            second lies behind it: on the hidden part (row 0), on the ring (row 1). NaN where the object's
            depth is not known. Shape (2, 2). [m]
        hidden: Filled: pixels of the hidden part that show each object. Shape (n,).
        ring: Filled: pixels of the ring that show each object. Shape (n,).
        readings: Filled: pixels of both with a depth reading. Shape (n,).
        unowned: Filled: pixels of the hidden part (row 0) and of the ring (row 1) that show no object:
            before the object, level with it, behind it, not known. Shape (2, 4).

    Returns:
        Pixels of the amodal mask, and of the ring inside the image.
    """
    h, w = index_image.shape
    rows, cols = crop.shape
    rho = half_width.size - 1
    first_row = max(min(top, box[0]) - rho, 0)
    end_row = min(max(top + rows, box[1]) + rho, h)
    first_col = max(min(left, box[2]) - rho, 0)
    end_col = min(max(left + cols, box[3]) + rho, w)
    height = end_row - first_row
    width = end_col - first_col

    # An amodal mask contains the visible one by definition; a segmenter's need not, so unite them.
    inside = np.zeros((height, width), np.bool_)
    for r in range(rows):
        for c in range(cols):
            inside[top - first_row + r, left - first_col + c] = crop[r, c]
    for r in range(box[0], box[1]):
        for c in range(box[2], box[3]):
            if index_image[r, c] == i:
                inside[r - first_row, c - first_col] = True

    change = np.zeros((height, width + 1), np.int32)
    for r in range(height):
        c = 0
        while c < width:
            if not inside[r, c]:
                c += 1
                continue
            start = c
            while c < width and inside[r, c]:
                c += 1
            for q in range(max(r - rho, 0), min(r + rho + 1, height)):
                reach = half_width[abs(q - r)]
                change[q, max(start - reach, 0)] += 1
                change[q, min(c + reach, width)] -= 1

    has_depth = depth.size > 0
    area = 0
    ring_area = 0
    for r in range(height):
        covered = 0
        for c in range(width):
            covered += change[r, c]
            if covered == 0:
                continue
            j = index_image[first_row + r, first_col + c]
            z = depth[first_row + r, first_col + c] if has_depth else np.float32(np.nan)
            part = 0 if inside[r, c] else 1
            if part == 0:
                area += 1
                if j == i:
                    continue
                if j >= 0:
                    hidden[j] += 1
            else:
                ring_area += 1
                if j >= 0:
                    ring[j] += 1
            if j < 0:
                near, far = bounds[part]
                place = 3 if z != z or near != near else 0 if z < near else 1 if z <= far else 2
                unowned[part, place] += 1
            elif z == z:
                readings[j] += 1
    return area, ring_area
