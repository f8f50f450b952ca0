"""Compiled loops behind the search for edges of covers: numba only, no Python objects, no policy."""

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
            size = np.sqrt(here)
            dy, dx = int(np.rint(y / size)), int(np.rint(x / size))
            ahead = down[r + dy, c + dx] ** 2 + across[r + dy, c + dx] ** 2
            behind = down[r - dy, c - dx] ** 2 + across[r - dy, c - dx] ** 2
            if here >= ahead and here > behind:
                rows[m], cols[m], angles[m] = r, c, np.arctan2(y, x)
                m += 1
    return rows[:m].copy(), cols[:m].copy(), angles[:m].copy()


@no_type_check
@njit(cache=True)
def vote_lines(rows, cols, angles, shape, turns, width, spread, least, apart):
    """Long straight edges, by a Hough transform in which both sides of an edge are told apart.

    A line is the pixels with x cos(angle) + y sin(angle) = offset; its angle is that of the gradient.

    Args:
        rows: Row of each edge pixel. Shape (m,). [px]
        cols: Column of each. Shape (m,). [px]
        angles: Direction of its gradient. Shape (m,). [rad]
        shape: Rows and columns of the picture.
        turns: Angles of lines in a whole turn.
        width: Width of a line. [px]
        spread: Each pixel votes for so many angles on either side of its own.
        least: Least votes of a line.
        apart: The line with most votes counts, within so many angles and widths.

    Returns:
        Angle and offset of each line, shape (k,) each. [rad, px]
    """
    h, w = shape
    reach = np.hypot(h, w) + 2.0
    votes = np.zeros((turns, int(2.0 * reach / width) + 3), np.int32)
    x_widths = np.cos(np.arange(turns) * (2.0 * np.pi / turns)) / width
    y_widths = np.sin(np.arange(turns) * (2.0 * np.pi / turns)) / width
    for k in range(rows.size):
        own = int(np.rint(angles[k] * turns / (2.0 * np.pi)))
        for turn in range(own - spread, own + spread + 1):
            t = turn % turns
            votes[t, int(cols[k] * x_widths[t] + rows[k] * y_widths[t] + reach / width)] += 1
    for t in range(turns):
        for at in range(votes.shape[1] - 1, 0, -1):
            votes[t, at] += votes[t, at - 1]  # a pixel counts for the two nearest lines
    found_angle, found_offset = [], []
    for t in range(turns):
        for at in range(votes.shape[1]):
            here = votes[t, at]
            if here < least:
                continue
            is_best = True
            for other in range(t - apart, t + apart + 1):
                for beside in range(max(at - apart, 0), min(at + apart + 1, votes.shape[1])):
                    there = votes[other % turns, beside]
                    is_first = (other, beside) < (t, at)
                    if there > here or (there == here and is_first):
                        is_best = False
            if is_best:
                found_angle.append(t * (2.0 * np.pi / turns))
                found_offset.append(at * width - reach)
    return np.array(found_angle), np.array(found_offset)


@no_type_check
@njit(cache=True)
def read_line(angle, offset, edge, rgb, ids, outline, turn, asides, piece):
    """What the picture shows along a line, in pieces of one object each.

    Args:
        angle: Direction of the gradient. [rad]
        offset: See `vote_lines`. [px]
        edge: Direction of the gradient of each edge pixel, else NaN. Shape (h, w). [rad]
        rgb: The picture. Shape (h, w, 3).
        ids: Which object each pixel shows. Shape (h, w).
        outline: Pixels near an outline, which are left out. Shape (h, w).
        turn: Largest angle between the gradient of an edge pixel and that of the line. [rad]
        asides: How far from the line colours are read, on the same object, the last one farthest. Shape (d,).
            [px]
        piece: Longest piece. [px]

    Returns:
        Which object each step of the line shows, shape (steps,). Of each piece: its first step and the one
        behind its last, its object, its pixels, those of them that are edges, those whose colours were read;
        shape (pieces, 6). Mean colours before and behind the line at each distance, shape (d, pieces, 2, 3);
        NaN: not read.
    """
    h, w = ids.shape
    x_off, y_off = np.cos(angle), np.sin(angle)
    least = np.cos(turn)
    reach = int(np.hypot(h, w)) + 1
    shown = np.zeros(2 * reach + 1, np.int64)
    counts = np.zeros((2 * reach + 1, 6), np.int64)
    colours = np.zeros((asides.size, 2 * reach + 1, 2, 3))
    n, steps, is_open = 0, 0, False
    for step in range(-reach, reach + 1):
        x, y = offset * x_off - step * y_off, offset * y_off + step * x_off
        c, r = int(np.rint(x)), int(np.rint(y))
        if c < 1 or r < 1 or c >= w - 1 or r >= h - 1:
            continue
        label = ids[r, c]
        shown[steps] = label
        steps += 1
        if outline[r, c]:
            is_open = False
            continue
        if not (is_open and counts[n - 1, 2] == label and counts[n - 1, 3] < piece):
            counts[n, 0], counts[n, 2] = steps - 1, label
            n, is_open = n + 1, True
        now = n - 1
        counts[now, 1] = steps
        counts[now, 3] += 1
        for near in range(-1, 2):
            near_angle = edge[int(np.rint(y + near * y_off)), int(np.rint(x + near * x_off))]
            if np.cos(near_angle - angle) > least:  # NaN compares false
                counts[now, 4] += 1
                break
        far = asides[-1]
        c0, r0 = int(np.rint(x - far * x_off)), int(np.rint(y - far * y_off))
        c1, r1 = int(np.rint(x + far * x_off)), int(np.rint(y + far * y_off))
        if min(c0, r0, c1, r1) < 0 or max(c0, c1) >= w or max(r0, r1) >= h:
            continue
        if ids[r0, c0] != label or ids[r1, c1] != label:
            continue
        counts[now, 5] += 1
        for d in range(asides.size):
            for side in range(2):
                off = asides[d] * (2 * side - 1)
                there = rgb[int(np.rint(y + off * y_off)), int(np.rint(x + off * x_off))]
                for channel in range(3):
                    colours[d, now, side, channel] += there[channel]
    for k in range(n):
        colours[:, k] /= counts[k, 5] if counts[k, 5] else np.nan
    return shown[:steps].copy(), counts[:n].copy(), colours[:, :n].copy()


@no_type_check
@njit(cache=True)
def fit_film(colours, weight, white, trust, most):
    """The film b = (1 - h) a + h c over most pieces: the worst one is left out until all agree.

    With q = h c, sum weight |b - a - q + h a|^2 + trust (q - white h)^2 is least.

    Args:
        colours: Mean colours a and b of each piece. Shape (k, 2, 3). [levels]
        weight: Pixels of each piece. Shape (k,).
        white: The colour c that is expected. [levels]
        trust: Pixels that the expectation is worth.
        most: Most that a step of colour may lie off, as a share of the step that the film makes.

    Returns:
        Which pieces agree, shape (k,); h; and c. h is 0 where fewer than two agree. [-, -, levels]
    """
    kept = np.ones(weight.size, np.bool_)
    while kept.sum() >= 2:
        s11, s12, s22 = trust, -trust * white, trust * white * white
        t1, t2 = 0.0, 0.0
        for k in np.flatnonzero(kept):
            for channel in range(3):
                a, step = colours[k, 0, channel], colours[k, 1, channel] - colours[k, 0, channel]
                s11 += weight[k]
                s12 -= weight[k] * a
                s22 += weight[k] * a * a
                t1 += weight[k] * step
                t2 -= weight[k] * a * step
        det = s11 * s22 - s12 * s12
        if det <= 1e-6 * s11 * s22:  # all of one colour: nothing tells h from c
            break
        q, h = (s22 * t1 - s12 * t2) / det, (s11 * t2 - s12 * t1) / det
        worst, at = 0.0, -1
        for k in np.flatnonzero(kept):
            off, size = 0.0, 1e-12
            for channel in range(3):
                expected = q - h * colours[k, 0, channel]
                off += (colours[k, 1, channel] - colours[k, 0, channel] - expected) ** 2
                size += expected**2
            if off > worst * size:
                worst, at = off / size, k
        if worst <= most * most:
            return kept, h, q / h if h != 0.0 else np.inf
        kept[at] = False
    return kept, 0.0, 0.0


@no_type_check
@njit(cache=True)
def fit_opaque(colours, weight, most):
    """Pieces that have one colour b behind the line: the worst one is left out until all agree.

    Args:
        colours: See `fit_film`. Shape (k, 2, 3). [levels]
        weight: Pixels of each piece. Shape (k,).
        most: Most that a colour b may lie off the mean, as a share of the step of colour b - a.

    Returns:
        Which pieces agree, one at least. Shape (k,).
    """
    kept = np.ones(weight.size, np.bool_)
    while kept.sum() >= 2:
        mean, total = np.zeros(3), 0.0
        for k in np.flatnonzero(kept):
            mean += weight[k] * colours[k, 1]
            total += weight[k]
        worst, at = 0.0, -1
        for k in np.flatnonzero(kept):
            off = np.sum((colours[k, 1] - mean / total) ** 2)
            size = np.sum((colours[k, 1] - colours[k, 0]) ** 2) + 1e-12
            if off > worst * size:
                worst, at = off / size, k
        if worst <= most * most:
            break
        kept[at] = False
    return kept
