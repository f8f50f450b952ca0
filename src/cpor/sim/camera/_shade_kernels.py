"""Compiled loops of the renderer: numba only, no Python objects, no policy. Colours are linear RGB."""

from math import atan2, floor, sqrt
from typing import no_type_check

import numpy as np
from numba import njit

_PLAIN, _STRIPES, _CHECKER, _SPECKLE, _LABEL, _GRAIN = 0, 1, 2, 3, 4, 5


@no_type_check
@njit(cache=True, nogil=True)
def cell_hash(i, j, k):
    """A number in [0, 1) that looks random but belongs to a cell of the grid."""
    mixed = (np.uint32(i) * np.uint32(374761393)) ^ (np.uint32(j) * np.uint32(668265263))
    mixed = np.uint32(mixed ^ (np.uint32(k) * np.uint32(2246822519)))
    mixed = np.uint32((mixed ^ (mixed >> np.uint32(13))) * np.uint32(1274126177))
    mixed = np.uint32(mixed ^ (mixed >> np.uint32(16)))
    return np.float64(mixed) / 4294967296.0


@no_type_check
@njit(cache=True, nogil=True)
def smooth_noise(x, y, z):
    """Noise in [0, 1] that changes smoothly, about once a unit."""
    i, j, k = floor(x), floor(y), floor(z)
    u, v, w = x - i, y - j, z - k
    u, v, w = u * u * (3.0 - 2.0 * u), v * v * (3.0 - 2.0 * v), w * w * (3.0 - 2.0 * w)
    i, j, k = np.int64(i), np.int64(j), np.int64(k)
    total = 0.0
    for a in range(2):
        for b in range(2):
            for c in range(2):
                share = (u if a else 1.0 - u) * (v if b else 1.0 - v) * (w if c else 1.0 - w)
                total += share * cell_hash(i + a, j + b, k + c)
    return total


@no_type_check
@njit(cache=True, nogil=True)
def pattern_weight(pattern, x, y, z, scale):
    """Share of the second colour at a point whose z runs along the longest axis of its part. [m].

    `pattern` is a code of `shading.PATTERN_CODES`, `scale` the size of one repetition. [m].
    """
    # The shift keeps faces, which lie at round numbers, off the borders between cells.
    p, q, s = x / scale + 0.2631, y / scale + 0.2317, z / scale + 0.2503
    if pattern == _STRIPES:
        return 1.0 if s - floor(s) < 0.5 else 0.0
    if pattern == _CHECKER:
        return 1.0 if (np.int64(floor(p)) + np.int64(floor(q)) + np.int64(floor(s))) % 2 == 0 else 0.0
    if pattern == _SPECKLE:
        i, j, k = np.int64(floor(p)), np.int64(floor(q)), np.int64(floor(s))
        a = p - i - 0.3 - 0.4 * cell_hash(i, j, k)
        b = q - j - 0.3 - 0.4 * cell_hash(j, k, i)
        c = s - k - 0.3 - 0.4 * cell_hash(k, i, j)
        # Half of the cells have a dot, of any size up to nearly the cell.
        radius = max(0.0, 0.9 * cell_hash(i + 7, j, k) - 0.45)
        return 1.0 if a * a + b * b + c * c < radius * radius else 0.0
    if pattern == _LABEL:
        along = abs(z) / scale
        if along > 0.3:
            return 0.0
        # Lines of print: words of random length around the part.
        line = np.int64(floor(z / scale * 14.0))
        word = np.int64(floor(atan2(y, x) * 9.0 + 5.0 * (x + y) / scale))
        if along < 0.2 and line % 2 == 0 and cell_hash(line, word, 3) < 0.6:
            return 0.25
        return 1.0
    if pattern == _GRAIN:
        bend = smooth_noise(1.1 * p, 1.1 * q, 0.15 * s)
        fine = smooth_noise(9.0 * p, 9.0 * q, 0.6 * s)
        rings = 4.0 * bend + 0.6 * p
        wave = abs(2.0 * (rings - floor(rings)) - 1.0)
        return min(1.0, 0.7 * wave * wave + 0.35 * fine)
    return 0.0


@no_type_check
@njit(cache=True, nogil=True)
def _lit_share(px, py, pz, n, lamps, rotations, focals, shadow_maps, reach, shift):
    """Share of a lamp that a point sees: the corners of a square of looks, all 16 where they differ."""
    dx, dy, dz = px - lamps[n, 0], py - lamps[n, 1], pz - lamps[n, 2]
    ahead = rotations[n, 0, 2] * dx + rotations[n, 1, 2] * dy + rotations[n, 2, 2] * dz
    if ahead <= 1e-6:
        return 1.0
    right = rotations[n, 0, 0] * dx + rotations[n, 1, 0] * dy + rotations[n, 2, 0] * dz
    down = rotations[n, 0, 1] * dx + rotations[n, 1, 1] * dy + rotations[n, 2, 1] * dz
    u = focals[n, 0] * right / ahead + focals[n, 2]
    v = focals[n, 1] * down / ahead + focals[n, 3]
    # Half a pixel, since whole numbers are centres, and a shift that differs from pixel to pixel: it turns
    # the steps of the edge into grain.
    u += 0.5 + reach * (shift - 0.5)
    v += 0.5 + reach * (0.5 - shift)
    far = 1.5 * reach
    if u < far or v < far or u + far >= shadow_maps.shape[2] or v + far >= shadow_maps.shape[1]:
        return 1.0
    nearest = ahead - 0.0015
    top, bottom, left, right = np.uint32(v - far), np.uint32(v + far), np.uint32(u - far), np.uint32(u + far)
    depth = shadow_maps[n]
    corners = np.int64(depth[top, left] > nearest) + np.int64(depth[bottom, right] > nearest)
    corners += np.int64(depth[top, right] > nearest) + np.int64(depth[bottom, left] > nearest)
    if corners == 0 or corners == 4:
        return 0.25 * corners
    lit = 0
    for a in range(4):
        row = np.uint32(v + (a - 1.5) * reach)
        for b in range(4):
            lit += np.int64(depth[row, np.uint32(u + (b - 1.5) * reach)] > nearest)
    return lit / 16.0


@no_type_check
@njit(cache=True, nogil=True)
def shade(
    depth, geoms, normals, openness, origin, T_rotation, focal,
    positions, rotations, colours, patterns, scales, shines, axes,
    lamps, lamp_colours, lamp_rotations, lamp_focals, shadow_maps, reaches, ambient, out,
):  # fmt: skip
    """Light that comes from each pixel.

    Args:
        depth: NaN for nothing. Shape (h, w). [m]
        geoms: MuJoCo's number of the geom, -1 for nothing. Shape (h, w).
        normals: Unit, in the world. Shape (h, w, 3).
        openness: Share of the ambient light that reaches a pixel. Shape (h, w).
        origin: Position of the camera. Shape (3,). [m]
        T_rotation: From camera to world. Shape (3, 3).
        focal: fx, fy, cx, cy. Shape (4,). [px]
        positions: Positions of all geoms. Shape (ngeom, 3). [m]
        rotations: Shape (ngeom, 3, 3).
        colours: See `shading.list_surfaces`, as the next four. Shape (ngeom, 2, 3).
        patterns: Shape (ngeom,).
        scales: Shape (ngeom,). [m]
        shines: Shape (ngeom,).
        axes: Shape (ngeom,).
        lamps: Positions. Shape (k, 3). [m]
        lamp_colours: Shape (k, 3).
        lamp_rotations: From the frame of a lamp's depth image to the world. Shape (k, 3, 3).
        lamp_focals: fx, fy, cx, cy of it. Shape (k, 4). [px]
        shadow_maps: Depth images of the lamps. Shape (k, s, s). [m]
        reaches: Distance between looks into them. Shape (k,). [px]
        ambient: Shape (3,).
        out: Filled. Shape (h, w, 3).
    """
    h, w = depth.shape
    for r in range(h):
        for c in range(w):
            g = geoms[r, c]
            if g < 0:
                for k in range(3):
                    out[r, c, k] = 0.2 * ambient[k]
                continue
            a, b, t = (c - focal[2]) / focal[0], (r - focal[3]) / focal[1], depth[r, c]
            wx = T_rotation[0, 0] * a + T_rotation[0, 1] * b + T_rotation[0, 2]
            wy = T_rotation[1, 0] * a + T_rotation[1, 1] * b + T_rotation[1, 2]
            wz = T_rotation[2, 0] * a + T_rotation[2, 1] * b + T_rotation[2, 2]
            px, py, pz = origin[0] + t * wx, origin[1] + t * wy, origin[2] + t * wz
            length = sqrt(wx * wx + wy * wy + wz * wz)
            wx, wy, wz = wx / length, wy / length, wz / length
            nx, ny, nz = normals[r, c, 0], normals[r, c, 1], normals[r, c, 2]

            gx, gy, gz = px - positions[g, 0], py - positions[g, 1], pz - positions[g, 2]
            x = rotations[g, 0, 0] * gx + rotations[g, 1, 0] * gy + rotations[g, 2, 0] * gz
            y = rotations[g, 0, 1] * gx + rotations[g, 1, 1] * gy + rotations[g, 2, 1] * gz
            z = rotations[g, 0, 2] * gx + rotations[g, 1, 2] * gy + rotations[g, 2, 2] * gz
            if axes[g] == 0:
                x, z = z, x
            elif axes[g] == 1:
                y, z = z, y
            mix = pattern_weight(patterns[g], x, y, z, scales[g])
            # No real surface has one colour only: a few per cent of dirt and wear.
            wear = 0.95 + 0.1 * smooth_noise(90.0 * x + 40.0, 90.0 * y + 40.0, 90.0 * z + 40.0)

            shine = shines[g]
            facing = -(wx * nx + wy * ny + wz * nz)
            rim = (1.0 - max(facing, 0.0)) ** 5
            # The room overhead, mirrored: bright where the reflection looks up.
            up = wz + 2.0 * facing * nz
            mirrored = shine * (0.12 + 0.6 * rim + 0.3 * shine * shine) * (0.5 + 0.5 * up)
            matt = 1.0 - 0.35 * shine
            sky = openness[r, c] * (0.7 + 0.3 * nz)
            red = green = blue = 0.0
            gloss_red = gloss_green = gloss_blue = 0.0
            for k in range(lamps.shape[0]):
                lx, ly, lz = lamps[k, 0] - px, lamps[k, 1] - py, lamps[k, 2] - pz
                away = sqrt(lx * lx + ly * ly + lz * lz)
                lx, ly, lz = lx / away, ly / away, lz / away
                toward = nx * lx + ny * ly + nz * lz
                if toward <= 0.0:
                    continue
                # Off the surface by more than a pixel of the depth image, or it would shade itself.
                off = 0.0012 + 0.0025 * (1.0 - toward)
                lit = _lit_share(
                    px + off * nx, py + off * ny, pz + off * nz,
                    k, lamps, lamp_rotations, lamp_focals, shadow_maps, reaches[k], cell_hash(r, c, k),
                )  # fmt: skip
                if lit == 0.0:
                    continue
                red += lit * toward * lamp_colours[k, 0]
                green += lit * toward * lamp_colours[k, 1]
                blue += lit * toward * lamp_colours[k, 2]
                if shine < 0.08:
                    continue
                hx, hy, hz = lx - wx, ly - wy, lz - wz
                half = sqrt(hx * hx + hy * hy + hz * hz)
                gleam = max((nx * hx + ny * hy + nz * hz) / half, 0.0) ** (8.0 + 90.0 * shine)
                strength = lit * gleam * shine * (0.3 + 0.5 * shine)
                gloss_red += strength * lamp_colours[k, 0]
                gloss_green += strength * lamp_colours[k, 1]
                gloss_blue += strength * lamp_colours[k, 2]
            # Metal colours what it mirrors; paint and glaze do not.
            metal = max(0.0, 2.0 * shine - 1.0)
            light = (red, green, blue)
            gloss = (gloss_red, gloss_green, gloss_blue)
            for k in range(3):
                albedo = wear * ((1.0 - mix) * colours[g, 0, k] + mix * colours[g, 1, k])
                tint = 1.0 - metal + metal * albedo
                glare = tint * (gloss[k] + mirrored * openness[r, c] * ambient[k])
                out[r, c, k] = matt * albedo * (light[k] + sky * ambient[k]) + glare
