"""Compiled search for grasps on height maps seen along an approach: numba only, no Python objects."""

from math import cos, sin
from typing import no_type_check

import numpy as np
from numba import njit

from cpor.robot.grasp_map_kernels import BACKGROUND, NOTHING, OTHER, WANTED

STRIPS = 5
"""Across the width of a finger the surface is looked at in this many strips."""

ENGAGED = 0.004
"""A strip of the fingers is on the object where that reaches this far above the tips. [m]"""

COLUMNS = 9
"""Columns of a grasp: u, v and w of the tips [m], angle [rad], opening [m], cost, depth below the top [m],
clearance [m], width of what is between the fingers [m]."""


@no_type_check
@njit(cache=True)
def search(maps, cell, centres, angles, depths, gripper, margins, floor_w):
    """Grasps along one approach: where both fingers have room and press on opposite sides.

    Args:
        maps: From `grasp_map_kernels.see_along`. Shape (3, size, size). [m]
        cell: Size of a cell. [m]
        centres: Cells of the wanted object to close around. Shape (k, 2).
        angles: Directions of closing, from u towards v. Shape (m,). [rad]
        depths: How far below the top the tips may be, deepest first. Shape (d,). [m]
        gripper: Opening; thickness, width and length of a finger; half palm along and across the
            direction of closing. Shape (6,). [m]
        margins: Room beside the object, more width of the fingers, height above background and above
            other objects (negative: pushing into them is allowed), all in metres, and how much the
            sides at the tips may lean inwards from there up, as a tangent. Shape (5,).
        floor_w: Height along w of the table under the object. [m]

    Returns:
        The best grasp of each centre and angle, if any, one row in COLUMNS. Shape (r, 9).
    """
    _, size, _ = maps.shape
    span = size // 2
    opening, thickness, width, length, palm_x, palm_y = gripper
    room, wider, above_back, above_other, steepest = margins
    reach = int((opening / 2 + thickness + room) / cell) + 2
    count = 2 * reach + 1
    rows = np.empty((len(centres) * len(angles), COLUMNS))
    found = 0
    wanted = np.empty((count, STRIPS))
    other = np.empty(count)
    back = np.empty(count)
    finger_cells = int(np.ceil((room + thickness) / cell))
    gap = finger_cells + int(np.ceil(room / cell))
    edge_r = np.empty(STRIPS)
    edge_l = np.empty(STRIPS)
    for m in range(len(angles)):
        cx, sy = cos(angles[m]), sin(angles[m])
        for k in range(len(centres)):
            a0, b0 = centres[k, 0], centres[k, 1]
            top_here = NOTHING
            for s in range(count):
                other[s] = back[s] = NOTHING
                x = (s - reach) * 1.0
                for t in range(STRIPS):
                    y = (t - STRIPS // 2) * (width / 2 + wider) / (STRIPS // 2) / cell
                    a = int(np.floor(a0 + x * cx - y * sy + 0.5))
                    b = int(np.floor(b0 + x * sy + y * cx + 0.5))
                    if a < 0 or b < 0 or a >= size or b >= size:
                        wanted[s, t] = NOTHING
                        back[s] = 1e3
                        continue
                    wanted[s, t] = maps[WANTED, a, b]
                    other[s] = max(other[s], maps[OTHER, a, b])
                    back[s] = max(back[s], maps[BACKGROUND, a, b])
                    if abs(s - reach) <= 3 and wanted[s, t] > top_here:
                        top_here = wanted[s, t]
                    if max(maps[0, a, b], maps[1, a, b], maps[2, a, b]) == NOTHING:
                        back[s] = 1e3
            if top_here == NOTHING:
                continue
            best = np.inf
            for depth in depths:
                tip = top_here - depth
                # The object's run of cells above the tips around the centre; short gaps belong to it.
                right = left = reach
                silent = 0
                for s in range(reach, count):
                    if wanted[s].max() > tip:
                        right, silent = s, 0
                    else:
                        silent += 1
                        if silent > gap:
                            break
                silent = 0
                for s in range(reach, -1, -1):
                    if wanted[s].max() > tip:
                        left, silent = s, 0
                    else:
                        silent += 1
                        if silent > gap:
                            break
                held = (right - left + 1) * cell
                if held + 2 * room > opening:
                    continue
                if right + finger_cells >= count or left - finger_cells < 0:
                    continue
                free = True
                for s in range(left, right + 1):
                    if other[s] > tip - min(above_other, 0.0) or back[s] > tip:
                        free = False
                        break
                if not free:
                    continue
                extra_r = _free_run(
                    right + 1, 1, finger_cells + 4, other, back, wanted, tip, above_other, above_back
                )
                extra_l = _free_run(
                    left - 1, -1, finger_cells + 4, other, back, wanted, tip, above_other, above_back
                )
                if extra_r < finger_cells or extra_l < finger_cells:
                    continue
                spare = (min(extra_r, extra_l) - finger_cells) * cell
                # Where the pads touch, strip by strip, at the tips and 6 mm above them.
                touch_r = touch_l = 0.0
                y_r = y_l = 0.0
                engaged = 0
                centred = False
                lean = 0.0
                leaning = 0
                for t in range(STRIPS):
                    edge_r[t] = edge_l[t] = np.nan
                    high_r = high_l = -1
                    peaked = False
                    for s in range(left, right + 1):
                        if wanted[s, t] > tip:
                            if edge_l[t] != edge_l[t]:
                                edge_l[t] = s
                            edge_r[t] = s
                        if wanted[s, t] > tip + 0.006:
                            if high_l < 0:
                                high_l = s
                            high_r = s
                        if wanted[s, t] > tip + ENGAGED:
                            peaked = True
                    if peaked:
                        engaged += 1
                        centred = centred or t == STRIPS // 2
                    if edge_r[t] == edge_r[t]:
                        if edge_r[t] >= right - 1:
                            touch_r += 1.0
                            y_r += t
                        if edge_l[t] <= left + 1:
                            touch_l += 1.0
                            y_l += t
                        if high_l >= 0:
                            lean += ((edge_r[t] - high_r) + (high_l - edge_l[t])) * cell / 0.012
                            leaning += 1
                # Where the object falls away across the pads, they close on its corner and beside it.
                if not centred or engaged < 3 or touch_r == 0.0 or touch_l == 0.0:
                    continue
                skew = abs(y_r / touch_r - y_l / touch_l) * (width / 2 + wider) / (STRIPS // 2)
                cone = skew / max(held, 0.01)
                if cone > 0.45:
                    continue
                incline = lean / leaning if leaning > 0 else 1.0
                taper = _taper(edge_l, edge_r) * cell / ((width / 2 + wider) / (STRIPS // 2))
                if incline > steepest or taper > 0.6:
                    continue
                shift = (0.5 * (right + left) - reach) * cell
                u = (a0 - span) * cell + shift * cx
                v = (b0 - span) * cell + shift * sy
                # The palm must stay above everything under it.
                clear = True
                for p in range(-3, 4):
                    for q in range(-2, 3):
                        x, y = p * palm_x / 3, q * palm_y / 2
                        a = int(np.floor((u + x * cx - y * sy) / cell + 0.5)) + span
                        b = int(np.floor((v + x * sy + y * cx) / cell + 0.5)) + span
                        if a < 0 or b < 0 or a >= size or b >= size:
                            continue
                        if max(maps[0, a, b], maps[1, a, b], maps[2, a, b]) > tip + length - 0.003:
                            clear = False
                if not clear:
                    continue
                # The maps' origin is where the mass is thought to be.
                off_along = abs(u * cx + v * sy)
                off_across = abs(-u * sy + v * cx)
                wish = min(0.025, max(0.006, top_here - floor_w - 0.003))
                shallow = max(0.0, 1.0 - depth / wish)
                # The weights order 1,032 simulated grasps by how often such ones ended in the tray.
                cost = (
                    2.3 * shallow
                    + 0.4 * off_across / 0.03
                    + 0.2 * off_along / 0.03
                    + 0.4 * cone / 0.45
                    + 1.2 * incline
                    + 3.0 * incline * incline
                    + 3.0 * taper
                    + 1.2 * (2.0 - (touch_r + touch_l) / STRIPS)
                    + 0.4 * max(0.0, 1.0 - spare / 0.006)
                    + 0.2 * held / opening
                )
                if cost < best:
                    if best < np.inf:
                        found -= 1
                    best = cost
                    rows[found, 0] = u
                    rows[found, 1] = v
                    rows[found, 2] = tip
                    rows[found, 3] = angles[m]
                    rows[found, 4] = min(opening, held + 2 * room + 2 * min(spare, 0.006))
                    rows[found, 5] = cost
                    rows[found, 6] = depth
                    rows[found, 7] = spare
                    rows[found, 8] = held
                    found += 1
    return rows[:found]


@no_type_check
@njit(cache=True)
def _taper(edge_l, edge_r):
    """How much an object narrows across the fingers, a side, in cells a strip: it is squeezed out there."""
    count = mean_t = mean_w = 0.0
    for t in range(STRIPS):
        if edge_r[t] == edge_r[t]:
            count += 1.0
            mean_t += t
            mean_w += edge_r[t] - edge_l[t]
    if count < 2.0:
        return 0.0
    mean_t /= count
    mean_w /= count
    above = below = 0.0
    for t in range(STRIPS):
        if edge_r[t] == edge_r[t]:
            above += (t - mean_t) * (edge_r[t] - edge_l[t] - mean_w)
            below += (t - mean_t) ** 2
    return abs(above / below) / 2.0


@no_type_check
@njit(cache=True)
def _free_run(start, step, most, other, back, wanted, tip, above_other, above_back):
    """How many cells from `start` on have room for a finger, at most `most`."""
    run = 0
    s = start
    while run < most and 0 <= s < len(other):
        if other[s] > tip - above_other or back[s] > tip - above_back or wanted[s].max() > tip:
            break
        run += 1
        s += step
    return run
