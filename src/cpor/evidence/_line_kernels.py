"""Compiled loops behind the search for lines across outlines: numba only, no Python objects, no policy."""

from typing import no_type_check

import numpy as np
from numba import njit


@no_type_check
@njit(cache=True)
def colour_gradients(levels, weights):
    """Gradient of the smoothed picture, in the channel where it is largest.

    All sums are of whole numbers below 2**24, hence exact: pixels of one straight edge have equal gradients.

    Args:
        levels: The picture, three channels side by side in each row. Shape (h, 3 w), uint8.
        weights: Half of a symmetric filter from its middle outwards, whole numbers; the filter sums to 256.
            Shape (4,), float32.

    Returns:
        Gradient down and across, 0 on the border; shape (h, w) each. [levels per px]
    """
    h, w3 = levels.shape
    w = w3 // 3
    down = np.zeros((h, w), np.float32)
    across = np.zeros((h, w), np.float32)
    smooth = np.zeros((3, w3), np.float32)  # the last three rows
    row = np.empty(w3 + 18, np.float32)  # one row smoothed down, mirrored at both ends
    dy, dx, size = np.zeros(w3, np.float32), np.zeros(w3, np.float32), np.zeros(w3, np.float32)
    g0, g1, g2, g3 = weights[0], weights[1], weights[2], weights[3]
    scale = np.float32(0.5 / 65536.0)
    for r in range(h):
        a = levels[r]
        b, c = levels[r - 1 if r >= 1 else 0], levels[r + 1 if r + 1 < h else 2 * h - 2 - r]
        d, e = levels[r - 2 if r >= 2 else 1 - r], levels[r + 2 if r + 2 < h else 2 * h - 3 - r]
        f, g = levels[r - 3 if r >= 3 else 2 - r], levels[r + 3 if r + 3 < h else 2 * h - 4 - r]
        for k in range(w3):
            near = g1 * (np.int32(b[k]) + np.int32(c[k])) + g2 * (np.int32(d[k]) + np.int32(e[k]))
            row[9 + k] = g0 * np.int32(a[k]) + near + g3 * (np.int32(f[k]) + np.int32(g[k]))
        for k in range(9):
            column, channel = k // 3, k % 3
            row[3 * (2 - column) + channel] = row[9 + k]
            row[3 * (3 + w + column) + channel] = row[3 * (2 + w - column) + channel]
        into = smooth[r % 3]
        for k in range(w3):
            near = g1 * (row[6 + k] + row[12 + k]) + g2 * (row[3 + k] + row[15 + k])
            into[k] = np.float32(g0 * row[9 + k] + near + g3 * (row[k] + row[18 + k]))
        if r < 2:
            continue
        over, middle = smooth[(r - 2) % 3], smooth[(r - 1) % 3]
        for k in range(3, w3 - 3):
            dy[k] = into[k] - over[k]
            dx[k] = middle[k + 3] - middle[k - 3]
            size[k] = dy[k] * dy[k] + dx[k] * dx[k]
        for column in range(1, w - 1):
            k = 3 * column
            if size[k + 1] > size[k]:
                k += 2 if size[k + 2] > size[k + 1] else 1
            elif size[k + 2] > size[k]:
                k += 2
            down[r - 1, column] = dy[k] * scale
            across[r - 1, column] = dx[k] * scale
    return down, across


@no_type_check
@njit(cache=True)
def mark_outlines(ids, near):
    """Pixels at most `near` columns and rows from where the object changes. Shape (h, w)."""
    h, w = ids.shape
    marked = np.zeros((h, w), np.bool_)
    for r in range(h):
        for c in range(w):
            if (c + 1 < w and ids[r, c] != ids[r, c + 1]) or (r + 1 < h and ids[r, c] != ids[r + 1, c]):
                marked[max(r - near, 0) : r + near + 1, max(c - near, 0) : c + near + 1] = True
    return marked


@no_type_check
@njit(cache=True)
def find_crests(down, across, outline, least):
    """Pixels off the outlines and the border where the gradient is largest along its own direction.

    Args:
        down: From `colour_gradients`. Shape (h, w). [levels per px]
        across: Likewise.
        outline: Pixels left out. Shape (h, w).
        least: Least gradient. [levels per px]

    Returns:
        Rows, columns and direction of the gradient, in the order of the rows. Shape (m,). [px, px, rad]
    """
    h, w = outline.shape
    rows, cols = np.empty(h * w, np.int64), np.empty(h * w, np.int64)
    angles = np.empty(h * w, np.float32)
    m = 0
    for r in range(1, h - 1):
        for c in range(1, w - 1):
            y, x = down[r, c], across[r, c]
            here = y * y + x * x
            if outline[r, c] or here <= least * least:
                continue
            angle = np.arctan2(y, x)
            dy, dx = int(np.rint(np.sin(angle))), int(np.rint(np.cos(angle)))
            ahead = down[r + dy, c + dx] ** 2 + across[r + dy, c + dx] ** 2
            behind = down[r - dy, c - dx] ** 2 + across[r - dy, c - dx] ** 2
            if here >= ahead and here > behind:
                rows[m], cols[m], angles[m] = r, c, angle
                m += 1
    return rows[:m].copy(), cols[:m].copy(), angles[:m].copy()


@no_type_check
@njit(cache=True)
def join_neighbours(rows, cols, bins, width):
    """Number of the piece of each edge pixel: neighbours, diagonals too, of one bin are joined.

    Args:
        rows: In increasing order. Shape (m,). [px]
        cols: Increasing in each row. Shape (m,). [px]
        bins: Bin of the direction of each. Shape (m,).
        width: Columns of the picture.

    Returns:
        Numbers from 0, shape (m,), and how many pieces there are.
    """
    m = rows.size
    parent = np.arange(m)
    last = np.full((2, width + 2), -1, np.int64)  # edge pixel at each column, one column of margin
    for k in range(m):
        r, c = rows[k], cols[k]
        if k == 0 or rows[k - 1] != r:
            last[r % 2] = -1
            if k == 0 or rows[k - 1] != r - 1:
                last[(r + 1) % 2] = -1
        for other in (last[r % 2, c], last[1 - r % 2, c], last[1 - r % 2, c + 1], last[1 - r % 2, c + 2]):
            if other < 0 or bins[other] != bins[k]:
                continue
            a, b = k, other
            while parent[a] != a:
                parent[a] = parent[parent[a]]
                a = parent[a]
            while parent[b] != b:
                parent[b] = parent[parent[b]]
                b = parent[b]
            parent[max(a, b)] = min(a, b)
        last[r % 2, c + 1] = k
    piece = np.empty(m, np.int64)
    n = 0
    for k in range(m):  # a root comes before all it joins
        if parent[k] == k:
            piece[k] = n
            n += 1
        else:
            piece[k] = piece[parent[k]]
    return piece, n


@no_type_check
@njit(cache=True)
def fit_lines(piece, n, rows, cols, angles):
    """The line through the pixels of each piece, from their mean and covariance.

    Args:
        piece: Number of the piece of each pixel. Shape (m,).
        n: Number of pieces.
        rows: Row of each pixel. Shape (m,). [px]
        cols: Column of each pixel. Shape (m,). [px]
        angles: Direction of its gradient. Shape (m,). [rad]

    Returns:
        Number of pixels, one of the pixels, direction, spread across, both ends (x, y), direction of the
        mean gradient. Shapes (n,), (n,), (n,), (n,), (n, 2, 2), (n,). [-, -, rad, px, px, rad]
    """
    count, some = np.zeros(n, np.int64), np.zeros(n, np.int64)
    total = np.zeros((n, 5))
    gradient = np.zeros((n, 2))
    for k in range(piece.size):
        p = piece[k]
        if count[p] == 0:
            some[p] = k
        count[p] += 1
        x, y = cols[k] - cols[some[p]], rows[k] - rows[some[p]]
        total[p, 0] += x
        total[p, 1] += y
        total[p, 2] += x * x
        total[p, 3] += y * y
        total[p, 4] += x * y
        gradient[p, 0] += np.cos(angles[k])
        gradient[p, 1] += np.sin(angles[k])
    direction, spread, ends = np.empty(n), np.empty(n), np.empty((n, 2, 2))
    middle, along = np.empty((n, 2)), np.empty((n, 2))
    for p in range(n):
        x, y = total[p, 0] / count[p], total[p, 1] / count[p]
        xx, yy = total[p, 2] / count[p] - x * x, total[p, 3] / count[p] - y * y
        xy = total[p, 4] / count[p] - x * y
        direction[p] = 0.5 * np.arctan2(2.0 * xy, xx - yy)
        spread[p] = np.sqrt(max(0.5 * (xx + yy) - np.hypot(0.5 * (xx - yy), xy), 0.0))
        middle[p, 0], middle[p, 1] = cols[some[p]] + x, rows[some[p]] + y
        along[p, 0], along[p, 1] = np.cos(direction[p]), np.sin(direction[p])
    low, high = np.full(n, np.inf), np.full(n, -np.inf)
    for k in range(piece.size):
        p = piece[k]
        at = (cols[k] - middle[p, 0]) * along[p, 0] + (rows[k] - middle[p, 1]) * along[p, 1]
        low[p], high[p] = min(low[p], at), max(high[p], at)
    for p in range(n):
        for axis in range(2):
            ends[p, 0, axis] = middle[p, axis] + low[p] * along[p, axis]
            ends[p, 1, axis] = middle[p, axis] + high[p] * along[p, axis]
    return count, some, direction, spread, ends, np.arctan2(gradient[:, 1], gradient[:, 0])


@no_type_check
@njit(cache=True)
def pair_pieces(ends, direction, label, off_line, turn, gap):
    """Pairs of pieces with different labels on one line; each pair both ways round.

    Args:
        ends: Both ends (x, y) of each piece. Shape (k, 2, 2). [px]
        direction: Direction of each line. Shape (k,). [rad]
        label: Shape (k,).
        off_line: Farthest that an inner end may lie from the line through the outer ends. [px]
        turn: Largest angle between both. [rad]
        gap: Farthest that both are apart. [px]

    Returns:
        Numbers of the pieces, how far an inner end lies off the line, and the angle between both.
        Shapes (pairs, 2), (pairs,), (pairs,). [-, px, rad]
    """
    left = np.minimum(ends[:, 0, 0], ends[:, 1, 0])
    right = np.maximum(ends[:, 0, 0], ends[:, 1, 0])
    order = np.argsort(left)
    pairs, offs, angles = [], [], []
    for first in range(order.size):
        i = order[first]
        for second in range(first + 1, order.size):
            j = order[second]
            if left[j] > right[i] + gap:
                break
            angle = abs(direction[i] - direction[j])
            angle = min(angle, np.pi - angle)
            if label[i] == label[j] or angle >= turn:
                continue
            least = gap * gap
            end_i, end_j = -1, -1
            for a in range(2):
                for b in range(2):
                    x, y = ends[i, a, 0] - ends[j, b, 0], ends[i, a, 1] - ends[j, b, 1]
                    if x * x + y * y < least:
                        least, end_i, end_j = x * x + y * y, a, b
            if end_i < 0:
                continue
            far_i, far_j = ends[i, 1 - end_i], ends[j, 1 - end_j]
            near_i, near_j = ends[i, end_i] - far_i, ends[j, end_j] - far_i
            x, y = far_j[0] - far_i[0], far_j[1] - far_i[1]
            length = max(np.hypot(x, y), 1e-9)
            off_i = abs(near_i[0] * y - near_i[1] * x) / length
            off_j = abs(near_j[0] * y - near_j[1] * x) / length
            on_both_sides = near_i[0] * (x - near_j[0]) + near_i[1] * (y - near_j[1]) > 0.0
            if max(off_i, off_j) < off_line and on_both_sides:
                for pair in ((i, j), (j, i)):
                    pairs.append(pair)
                    offs.append(max(off_i, off_j))
                    angles.append(angle)
    found = np.empty((len(pairs), 2), np.int64)
    for n, pair in enumerate(pairs):
        found[n, 0], found[n, 1] = pair
    return found, np.array(offs), np.array(angles)


@no_type_check
@njit(cache=True)
def step_across(depth, x, y, along_x, along_y, pixels, aside):
    """Mean difference of depth, at most 5 cm each, between both sides of a line, in metres; NaN: no reading.

    Args:
        depth: NaN where there is no reading. Shape (h, w). [m]
        x: Where the line begins. [px]
        y: Likewise.
        along_x: Its direction, of length 1.
        along_y: Likewise.
        pixels: Its length. [px]
        aside: How far from the line depth is read. [px]
    """
    h, w = depth.shape
    total, n = 0.0, 0
    for k in range(pixels):
        px, py = x + k * along_x, y + k * along_y
        row_a, col_a = int(np.rint(py + aside * along_x)), int(np.rint(px - aside * along_y))
        row_b, col_b = int(np.rint(py - aside * along_x)), int(np.rint(px + aside * along_y))
        if min(row_a, row_b, col_a, col_b) < 0 or max(row_a, row_b) >= h or max(col_a, col_b) >= w:
            continue
        step = abs(depth[row_a, col_a] - depth[row_b, col_b])
        if step == step:
            total += min(step, 0.05)
            n += 1
    return total / n if n else np.nan


@no_type_check
@njit(cache=True)
def follow_pieces(ends, gradient, label, down, across, ids, outline, depth, gap, most, least):
    """What the picture shows where each piece would go on behind an outline, at both of its ends.

    The line may turn by up to 3 degrees and lie up to 1.5 px aside; what has the strongest edge counts.

    Args:
        ends: Both ends (x, y) of each piece. Shape (k, 2, 2). [px]
        gradient: Direction of its gradient. Shape (k,). [rad]
        label: The object it lies in. Shape (k,).
        down: Gradient of the picture. Shape (h, w). [levels per px]
        across: Likewise.
        ids: Which object each pixel shows. Shape (h, w).
        outline: Pixels near an outline. Shape (h, w).
        depth: NaN where there is no reading. Shape (h, w). [m]
        gap: Farthest that the next object's pixels may be. [px]
        most: Length that is looked at. [px]
        least: Shorter ones say nothing. [px]

    Returns:
        The object behind the outline, -1 for none; mean gradient across the line, negative where it points
        the other way than the piece's; mean size of the gradient along the line; share of pixels of one sign;
        depth steps across the piece and across what is behind.
        Shapes (k, 2), (k, 2), (k, 2), (k, 2), (k, 2, 2). [-, levels per px, levels per px, -, m]
    """
    h, w = ids.shape
    k = label.size
    behind = np.full((k, 2), -1, np.int64)
    normal, tangent, share = np.zeros((k, 2)), np.zeros((k, 2)), np.zeros((k, 2))
    steps = np.full((k, 2, 2), np.nan)
    for p in range(k):
        for end in range(2):
            x0, y0 = ends[p, end]
            ux, uy = x0 - ends[p, 1 - end, 0], y0 - ends[p, 1 - end, 1]
            length = np.hypot(ux, uy)
            ux, uy = ux / length, uy / length
            away = 0
            other = -1
            while other < 0 and away < gap:
                away += 1
                c, r = int(np.rint(x0 + away * ux)), int(np.rint(y0 + away * uy))
                if c < 1 or r < 1 or c >= w - 1 or r >= h - 1:
                    break
                if ids[r, c] != label[p] and not outline[r, c]:
                    other = ids[r, c]
            if other < 0:
                continue
            side = 1.0 if np.sin(gradient[p]) * ux >= np.cos(gradient[p]) * uy else -1.0
            best = 0.0
            for turned in range(-2, 3):
                turn = 0.025 * turned
                vx, vy = ux * np.cos(turn) - uy * np.sin(turn), ux * np.sin(turn) + uy * np.cos(turn)
                for aside in range(-3, 4):
                    x, y = x0 - 0.5 * aside * uy + away * vx, y0 + 0.5 * aside * ux + away * vy
                    n, up, total, rest = 0, 0, 0.0, 0.0
                    while n < most:
                        c, r = int(np.rint(x + n * vx)), int(np.rint(y + n * vy))
                        if c < 1 or r < 1 or c >= w - 1 or r >= h - 1 or ids[r, c] != other or outline[r, c]:
                            break
                        here = down[r, c] * vx - across[r, c] * vy
                        total += here
                        rest += abs(across[r, c] * vx + down[r, c] * vy)
                        up += here > 0.0
                        n += 1
                    if n < least or abs(total) / n <= best:
                        continue
                    best = abs(total) / n
                    behind[p, end] = other
                    normal[p, end] = side * total / n
                    tangent[p, end] = rest / n
                    share[p, end] = max(up, n - up) / n
                    steps[p, end, 1] = step_across(depth, x, y, vx, vy, n, 4.0)
            if behind[p, end] >= 0:
                steps[p, end, 0] = step_across(depth, x0, y0, -ux, -uy, min(int(length), 30), 4.0)
    return behind, normal, tangent, share, steps
