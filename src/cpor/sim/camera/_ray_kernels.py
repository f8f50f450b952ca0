"""Compiled loops of the ray caster: numba only, no Python objects, no policy.

Geoms are MuJoCo's: `kinds` holds its type numbers, `sizes` its sizes; a mesh is convex and given by the
planes of its faces, `planes[first : end]`, each (outward normal, offset). All inner functions work in the
frame of the geom, where a ray is origin + t * direction and its hit the smallest t > 0.
"""

from math import inf, sqrt
from typing import no_type_check

from numba import njit

PLANE, SPHERE, CAPSULE, ELLIPSOID, CYLINDER, BOX, MESH = 0, 2, 3, 4, 5, 6, 7
"""MuJoCo's mjtGeom, written out since kernels cannot import it; a test compares them."""


@no_type_check
@njit(cache=True, nogil=True)
def _nearest(a, b, c):
    """Smallest positive root of a t^2 + 2 b t + c, infinity for none."""
    under = b * b - a * c
    if under < 0.0 or a < 1e-18:
        return inf
    root = sqrt(under)
    near = (-b - root) / a
    if near > 0.0:
        return near
    far = (-b + root) / a
    return far if far > 0.0 else inf


@no_type_check
@njit(cache=True, nogil=True)
def _slab(t_in, t_out, origin, direction, half):
    """Narrow the part of a ray inside -half <= x <= half along one axis."""
    if direction == 0.0:
        return (t_in, t_out) if -half <= origin <= half else (inf, -inf)
    first = (-half - origin) / direction
    last = (half - origin) / direction
    if first > last:
        first, last = last, first
    return max(t_in, first), min(t_out, last)


@no_type_check
@njit(cache=True, nogil=True)
def _hit_round(kind, radius, half, ox, oy, oz, dx, dy, dz):
    """Where a ray meets a cylinder or a capsule along z."""
    best = inf
    a = dx * dx + dy * dy
    b = ox * dx + oy * dy
    c = ox * ox + oy * oy - radius * radius
    under = b * b - a * c
    if under < 0.0 and kind == CYLINDER:
        return inf
    if under >= 0.0 and a > 1e-18:
        root = sqrt(under)
        for sign in (-1.0, 1.0):
            t = (-b + sign * root) / a
            if 0.0 < t < best and abs(oz + t * dz) <= half:
                best = t
    for end in (-half, half):
        if kind == CYLINDER:
            if dz != 0.0:
                t = (end - oz) / dz
                x = ox + t * dx
                y = oy + t * dy
                if 0.0 < t < best and x * x + y * y <= radius * radius:
                    best = t
        else:
            z = oz - end
            t = _nearest(a + dz * dz, b + z * dz, c + z * z)
            if t < best:
                best = t
    return best


@no_type_check
@njit(cache=True, nogil=True)
def _hit(kind, size, planes, first, end, ox, oy, oz, dx, dy, dz):
    """Where a ray meets a geom, infinity for nowhere."""
    if kind == BOX:
        t_in, t_out = _slab(-inf, inf, ox, dx, size[0])
        t_in, t_out = _slab(t_in, t_out, oy, dy, size[1])
        t_in, t_out = _slab(t_in, t_out, oz, dz, size[2])
        if t_in > t_out or t_out <= 0.0:
            return inf
        return t_in if t_in > 0.0 else t_out
    if kind in (CYLINDER, CAPSULE):
        return _hit_round(kind, size[0], size[1], ox, oy, oz, dx, dy, dz)
    if kind in (ELLIPSOID, SPHERE):
        sx = 1.0 / size[0]
        sy = 1.0 / size[1] if kind == ELLIPSOID else sx
        sz = 1.0 / size[2] if kind == ELLIPSOID else sx
        px, py, pz = ox * sx, oy * sy, oz * sz
        qx, qy, qz = dx * sx, dy * sy, dz * sz
        return _nearest(
            qx * qx + qy * qy + qz * qz, px * qx + py * qy + pz * qz, px * px + py * py + pz * pz - 1.0
        )
    if kind == PLANE:
        # Only the front counts, and a size of 0 means that it has no end, as in MuJoCo.
        if dz >= 0.0 or oz <= 0.0:
            return inf
        t = -oz / dz
        if size[0] > 0.0 and abs(ox + t * dx) > size[0]:
            return inf
        if size[1] > 0.0 and abs(oy + t * dy) > size[1]:
            return inf
        return t
    t_in = -inf
    t_out = inf
    for k in range(first, end):
        slope = planes[k, 0] * dx + planes[k, 1] * dy + planes[k, 2] * dz
        gap = planes[k, 3] - (planes[k, 0] * ox + planes[k, 1] * oy + planes[k, 2] * oz)
        if slope < 0.0:
            t_in = max(t_in, gap / slope)
        elif slope > 0.0:
            t_out = min(t_out, gap / slope)
        elif gap < 0.0:
            return inf
        if t_in > t_out:
            return inf
    if t_out <= 0.0:
        return inf
    return t_in if t_in > 0.0 else t_out


@no_type_check
@njit(cache=True, nogil=True)
def _normal(kind, size, planes, first, end, x, y, z):
    """Outward normal, not of unit length, at a point of the surface."""
    if kind == BOX:
        ex, ey, ez = abs(x) - size[0], abs(y) - size[1], abs(z) - size[2]
        if ex >= ey and ex >= ez:
            return (1.0 if x > 0.0 else -1.0), 0.0, 0.0
        if ey >= ez:
            return 0.0, (1.0 if y > 0.0 else -1.0), 0.0
        return 0.0, 0.0, (1.0 if z > 0.0 else -1.0)
    if kind == CYLINDER:
        if abs(z) - size[1] > sqrt(x * x + y * y) - size[0]:
            return 0.0, 0.0, (1.0 if z > 0.0 else -1.0)
        return x, y, 0.0
    if kind == CAPSULE:
        return x, y, z - min(max(z, -size[1]), size[1])
    if kind == ELLIPSOID:
        return x / (size[0] * size[0]), y / (size[1] * size[1]), z / (size[2] * size[2])
    if kind == SPHERE:
        return x, y, z
    if kind == PLANE:
        return 0.0, 0.0, 1.0
    best = -inf
    which = first
    for k in range(first, end):
        outside = planes[k, 0] * x + planes[k, 1] * y + planes[k, 2] * z - planes[k, 3]
        if outside > best:
            best = outside
            which = k
    return planes[which, 0], planes[which, 1], planes[which, 2]


@no_type_check
@njit(cache=True, nogil=True)
def cast_geoms(
    kinds, positions, rotations, sizes, planes, plane_range, boxes, owners,
    origin, T_rotation, focal, far, depth, geoms, alone, alone_start, alone_box,
):  # fmt: skip
    """Nearest geom of each pixel, and what is there at all.

    Args:
        kinds: Type of each geom. Shape (n,).
        positions: In the world. Shape (n, 3). [m]
        rotations: From geom to world. Shape (n, 3, 3).
        sizes: Shape (n, 3). [m]
        planes: Faces of meshes, in the frame of their geom. Shape (m, 4).
        plane_range: First and end face of each geom. Shape (n, 2).
        boxes: First row, end row, first column, end column that each geom can touch. Shape (n, 4). [px]
        owners: Index of each geom's object, -1 for none. Shape (n,).
        origin: Position of the camera. Shape (3,). [m]
        T_rotation: From camera to world. Shape (3, 3).
        focal: fx, fy, cx, cy. Shape (4,). [px]
        far: Nothing beyond is seen. [m]
        depth: Filled where something is nearer than what it holds. Shape (h, w). [m]
        geoms: Filled likewise. Shape (h, w).
        alone: Filled with 1 where an object would be seen alone: crops one after the other. Shape (p,).
        alone_start: Where the crop of each object begins. Shape (objects,).
        alone_box: As `boxes`, of each object. Shape (objects, 4). [px]
    """
    for g in range(kinds.size):
        # The ray of pixel (r, c) in the frame of the geom is a + b * c + e * r.
        rotation = rotations[g]
        ox = oy = oz = 0.0
        for k in range(3):
            gap = origin[k] - positions[g, k]
            ox += rotation[k, 0] * gap
            oy += rotation[k, 1] * gap
            oz += rotation[k, 2] * gap
        bx = by = bz = ex = ey = ez = ax = ay = az = 0.0
        for k in range(3):
            right = T_rotation[k, 0] / focal[0]
            down = T_rotation[k, 1] / focal[1]
            ahead = T_rotation[k, 2] - right * focal[2] - down * focal[3]
            bx += rotation[k, 0] * right
            by += rotation[k, 1] * right
            bz += rotation[k, 2] * right
            ex += rotation[k, 0] * down
            ey += rotation[k, 1] * down
            ez += rotation[k, 2] * down
            ax += rotation[k, 0] * ahead
            ay += rotation[k, 1] * ahead
            az += rotation[k, 2] * ahead
        kind = kinds[g]
        size = sizes[g]
        owner = owners[g]
        for r in range(boxes[g, 0], boxes[g, 1]):
            for c in range(boxes[g, 2], boxes[g, 3]):
                t = _hit(
                    kind, size, planes, plane_range[g, 0], plane_range[g, 1],
                    ox, oy, oz, ax + bx * c + ex * r, ay + by * c + ey * r, az + bz * c + ez * r,
                )  # fmt: skip
                if t >= far:
                    continue
                if owner >= 0:
                    width = alone_box[owner, 3] - alone_box[owner, 2]
                    at = (r - alone_box[owner, 0]) * width + c - alone_box[owner, 2]
                    alone[alone_start[owner] + at] = 1
                if t < depth[r, c]:
                    depth[r, c] = t
                    geoms[r, c] = g


@no_type_check
@njit(cache=True, nogil=True)
def finish_images(
    kinds, positions, rotations, sizes, planes, plane_range, objects, numbers,
    origin, T_rotation, focal, depth, geoms, depth_out, ids, numbers_out, normals,
):  # fmt: skip
    """Fill depth (NaN for none), object ids (0), MuJoCo's numbers (-1) and unit normals in the world (0).

    Args as in `cast_geoms`; `objects` and `numbers` are id and MuJoCo's number of each geom, shape (n,).
    """
    h, w = depth.shape
    for r in range(h):
        for c in range(w):
            g = geoms[r, c]
            if g < 0:
                depth_out[r, c] = inf - inf
                ids[r, c] = 0
                numbers_out[r, c] = -1
                normals[r, c, 0] = normals[r, c, 1] = normals[r, c, 2] = 0.0
                continue
            t = depth[r, c]
            depth_out[r, c] = t
            ids[r, c] = objects[g]
            numbers_out[r, c] = numbers[g]
            u = (c - focal[2]) / focal[0]
            v = (r - focal[3]) / focal[1]
            rotation = rotations[g]
            x = y = z = 0.0
            for k in range(3):
                way = T_rotation[k, 0] * u + T_rotation[k, 1] * v + T_rotation[k, 2]
                gap = origin[k] + t * way - positions[g, k]
                x += rotation[k, 0] * gap
                y += rotation[k, 1] * gap
                z += rotation[k, 2] * gap
            nx, ny, nz = _normal(kinds[g], sizes[g], planes, plane_range[g, 0], plane_range[g, 1], x, y, z)
            scale = 1.0 / sqrt(nx * nx + ny * ny + nz * nz)
            for k in range(3):
                normals[r, c, k] = scale * (rotation[k, 0] * nx + rotation[k, 1] * ny + rotation[k, 2] * nz)
