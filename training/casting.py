"""Ray casting of many heaps at once in torch, from each shape to the pixels it can touch.

All shapes are convex, so a ray meets each in one interval; rays have length 1 along the optical axis, so
the parameter t along a ray is the depth.
"""

from dataclasses import dataclass, fields

import numpy as np
import torch
from torch import Tensor

from training.heaps import HeapArrays

SPHERE, CAPSULE, ELLIPSOID, CYLINDER, BOX, HULL = 2, 3, 4, 5, 6, 7
FAR = 60.0
_NEAR = 0.02


@dataclass(frozen=True, eq=False)
class Shapes:
    """Convex shapes of several views, each with the view it is seen in; fields as in `HeapArrays`."""

    kinds: Tensor
    positions: Tensor
    rotations: Tensor
    sizes: Tensor
    boxes: Tensor
    objects: Tensor
    roles: Tensor
    looks: Tensor
    plane_ranges: Tensor
    views: Tensor

    def select(self, which: Tensor) -> "Shapes":
        """Some of them."""
        return Shapes(**{f.name: getattr(self, f.name)[which] for f in fields(self)})

    @staticmethod
    def join(a: "Shapes", b: "Shapes") -> "Shapes":
        """Both, in this order."""
        return Shapes(**{f.name: torch.cat([getattr(a, f.name), getattr(b, f.name)]) for f in fields(a)})


@dataclass(frozen=True, eq=False)
class Cameras:
    """Pinhole cameras, one a view: x right, y down, z forward.

    Attributes:
        centres: In the world. Shape (b, 3). [m]
        rotations: From the camera to the world. Shape (b, 3, 3).
        focals: Shape (b,). [px]
        height, width: Of the pictures. [px]
    """

    centres: Tensor
    rotations: Tensor
    focals: Tensor
    height: int
    width: int

    def rays(self) -> Tensor:
        """Direction of each pixel in the world. Shape (b, h, w, 3)."""
        device = self.centres.device
        v = torch.arange(self.height, device=device) - 0.5 * (self.height - 1)
        u = torch.arange(self.width, device=device) - 0.5 * (self.width - 1)
        x = (u[None, None, :] / self.focals[:, None, None]).expand(-1, self.height, -1)
        y = (v[None, :, None] / self.focals[:, None, None]).expand(-1, -1, self.width)
        local = torch.stack([x, y, torch.ones_like(x)], dim=-1)
        return torch.einsum("bij,bhwj->bhwi", self.rotations, local)


@dataclass(frozen=True, eq=False)
class Hits:
    """What is seen, and what would be seen of each shape alone.

    Attributes:
        depth: FAR where no shape is hit. Shape (b, h, w). [m]
        shape: Index of the shape hit, -1 where none. Shape (b, h, w).
        normal: In the world. Shape (b, h, w, 3).
        pair_shape, pair_pixel: Every meeting of a shape with a ray, hidden ones too. Shape (m,).
    """

    depth: Tensor
    shape: Tensor
    normal: Tensor
    pair_shape: Tensor
    pair_pixel: Tensor


class HeapStore:
    """All heaps on the device."""

    def __init__(self, heaps: HeapArrays, device: torch.device) -> None:
        def put(array: np.ndarray, dtype: torch.dtype) -> Tensor:
            return torch.as_tensor(array).to(device=device, dtype=dtype)

        self.kinds = put(heaps.kinds, torch.int64)
        self.positions, self.rotations = (
            put(heaps.positions, torch.float32),
            put(heaps.rotations, torch.float32),
        )
        self.sizes, self.boxes = put(heaps.sizes, torch.float32), put(heaps.boxes, torch.float32)
        self.objects = put(heaps.objects, torch.int64)
        self.roles, self.looks = put(heaps.roles, torch.int64), put(heaps.looks, torch.int64)
        self.plane_ranges = put(heaps.plane_ranges, torch.int64)
        self.planes = put(heaps.planes, torch.float32)
        if not len(self.planes):
            self.planes = torch.zeros((1, 4), device=device)
        self.starts, self.radii = put(heaps.starts, torch.int64), heaps.radii
        self.bins = put(heaps.bins, torch.float32)
        counts = self.starts[1:] - self.starts[:-1]
        heap = torch.repeat_interleave(torch.arange(len(counts), device=device), counts)
        tops = torch.where(self.objects > 0, self.positions[:, 2], 0.0)
        self.heights = torch.zeros(len(counts), device=device).scatter_reduce_(0, heap, tops, "amax")

    def __len__(self) -> int:
        return len(self.radii)

    def shapes(self, heaps: Tensor) -> Shapes:
        """The shapes of some heaps, heap k as view k."""
        first, count = self.starts[heaps], self.starts[heaps + 1] - self.starts[heaps]
        views = torch.repeat_interleave(torch.arange(len(heaps), device=heaps.device), count)
        within = torch.arange(len(views), device=heaps.device) - (torch.cumsum(count, 0) - count)[views]
        k = first[views] + within
        return Shapes(
            self.kinds[k], self.positions[k], self.rotations[k], self.sizes[k], self.boxes[k],
            self.objects[k], self.roles[k], self.looks[k], self.plane_ranges[k], views,
        )  # fmt: skip


def cast(shapes: Shapes, planes: Tensor, cameras: Cameras, want_normals: bool = True) -> Hits:
    """Casts one ray a pixel."""
    height, width = cameras.height, cameras.width
    device = planes.device
    pair_shape, row, col = _pairs(shapes, cameras)
    view = shapes.views[pair_shape]
    to_shape = shapes.rotations.transpose(1, 2)
    origin = torch.einsum("gij,gj->gi", to_shape, cameras.centres[shapes.views] - shapes.positions)
    turn = to_shape @ cameras.rotations[shapes.views]
    focal = cameras.focals[view]
    x, y = (col - 0.5 * (width - 1)) / focal, (row - 0.5 * (height - 1)) / focal
    o = origin[pair_shape]
    m = turn[pair_shape]
    d = m[:, :, 0] * x[:, None] + m[:, :, 1] * y[:, None] + m[:, :, 2]
    # From where the ray passes closest: seen from the camera, thin wires drown in single precision.
    closest = -(o * d).sum(1) / (d * d).sum(1)
    o = o + closest[:, None] * d

    depth = torch.full_like(x, FAR)
    normal = torch.zeros_like(d) if want_normals else d
    kinds = shapes.kinds[pair_shape]
    for kind, meet in _MEET.items():
        where = torch.nonzero(kinds == kind).squeeze(1)
        if len(where):
            s = pair_shape[where]
            t, n = meet(o[where], d[where], shapes.sizes[s], planes, shapes.plane_ranges[s])
            depth[where] = torch.where(t < 0.5 * FAR, t + closest[where], FAR)
            if want_normals:
                normal[where] = n
    hit = torch.nonzero((depth > _NEAR) & (depth < FAR)).squeeze(1)
    pair_shape, pixel, depth = pair_shape[hit], ((view * height + row) * width + col)[hit], depth[hit]
    # Positive floats sort like their bits, so one minimum finds depth and winner together.
    key = (depth.view(torch.int32).to(torch.int64) << 32) | torch.arange(len(hit), device=device)
    count = len(cameras.centres) * height * width
    none = torch.iinfo(torch.int64).max
    best = torch.full((count,), none, dtype=torch.int64, device=device)
    best.scatter_reduce_(0, pixel, key, "amin")
    seen = best != none
    winner = torch.where(seen, best & 0xFFFFFFFF, 0)
    size = (len(cameras.centres), height, width)
    empty = len(hit) == 0
    z = torch.full((count,), FAR, device=device) if empty else torch.where(seen, depth[winner], FAR)
    shape = torch.full((count,), -1, device=device) if empty else torch.where(seen, pair_shape[winner], -1)
    n_world = torch.zeros((count, 3), device=device)
    if want_normals and not empty:
        n_local = normal[hit][winner]
        n_world = turn_out(shapes.rotations[shape.clamp(min=0)], n_local) * seen[:, None]
    return Hits(z.view(size), shape.view(size), n_world.view(*size, 3), pair_shape, pixel)


def turn_out(rotations: Tensor, vectors: Tensor) -> Tensor:
    """Vectors from the frames of shapes to the world; millions of tiny matrix products are faster as sums."""
    return (rotations * vectors[:, None, :]).sum(2)


def turn_in(rotations: Tensor, vectors: Tensor) -> Tensor:
    """Vectors from the world to the frames of shapes."""
    return (rotations * vectors[:, :, None]).sum(1)


def _pairs(shapes: Shapes, cameras: Cameras) -> tuple[Tensor, Tensor, Tensor]:
    """Each shape with each pixel of the box around its picture: shape, row, column."""
    device = shapes.kinds.device
    signs = torch.tensor([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)], device=device)
    corners = shapes.boxes[:, None, :3] + signs * shapes.boxes[:, None, 3:]
    world = torch.einsum("gij,gkj->gki", shapes.rotations, corners) + shapes.positions[:, None]
    offset = world - cameras.centres[shapes.views][:, None]
    camera = torch.einsum("gji,gkj->gki", cameras.rotations[shapes.views], offset)
    z = camera[..., 2]
    near, behind = (z < _NEAR).any(1), (z < _NEAR).all(1)
    scale = cameras.focals[shapes.views][:, None] / z.clamp(min=_NEAR)
    u, v = (
        camera[..., 0] * scale + 0.5 * (cameras.width - 1),
        camera[..., 1] * scale + 0.5 * (cameras.height - 1),
    )

    def edges(values: Tensor, end: int) -> tuple[Tensor, Tensor]:
        low, high = values.amin(1).floor(), values.amax(1).ceil() + 1
        low, high = torch.where(near, 0.0, low), torch.where(near, float(end), high)
        return low.clamp(0, end).long(), torch.where(behind, 0.0, high).clamp(0, end).long()

    left, right = edges(u, cameras.width)
    top, bottom = edges(v, cameras.height)
    across = (right - left).clamp(min=0)
    area = across * (bottom - top).clamp(min=0)
    shape = torch.repeat_interleave(torch.arange(len(area), device=device), area)
    k = torch.arange(len(shape), device=device) - (torch.cumsum(area, 0) - area)[shape]
    w = across[shape]
    return shape, top[shape] + k // w, left[shape] + k % w


def _enter(t_in: Tensor, t_out: Tensor) -> Tensor:
    return torch.where(t_in < t_out, t_in, FAR)


def _steep(d: Tensor) -> Tensor:
    return torch.where(d.abs() < 1e-9, torch.full_like(d, 1e-9), d)


def _meet_box(o: Tensor, d: Tensor, size: Tensor, planes: Tensor, ranges: Tensor) -> tuple[Tensor, Tensor]:
    inverse = 1.0 / _steep(d)
    a, b = (-size - o) * inverse, (size - o) * inverse
    t_in, axis = torch.minimum(a, b).max(1)
    t_out = torch.maximum(a, b).amin(1)
    normal = torch.zeros_like(d)
    normal.scatter_(1, axis[:, None], -torch.sign(d.gather(1, axis[:, None])))
    return _enter(t_in, t_out), normal


def _meet_ball(o: Tensor, d: Tensor, radii: Tensor) -> Tensor:
    o, d = o / radii, d / radii
    a, b, c = (d * d).sum(1), (o * d).sum(1), (o * o).sum(1) - 1.0
    root = b * b - a * c
    t = (-b - root.clamp(min=0).sqrt()) / a
    return torch.where(root > 0, t, FAR)


def _meet_ellipsoid(
    o: Tensor, d: Tensor, size: Tensor, planes: Tensor, ranges: Tensor
) -> tuple[Tensor, Tensor]:
    t = _meet_ball(o, d, size)
    normal = (o + t[:, None] * d) / (size * size)
    return t, torch.nn.functional.normalize(normal, dim=1)


def _meet_sphere(o: Tensor, d: Tensor, size: Tensor, planes: Tensor, ranges: Tensor) -> tuple[Tensor, Tensor]:
    return _meet_ellipsoid(o, d, size[:, :1].expand(-1, 3), planes, ranges)


def _wall(o: Tensor, d: Tensor, radius: Tensor) -> tuple[Tensor, Tensor]:
    """Where a ray enters and leaves an endless cylinder along z."""
    a = (d[:, :2] ** 2).sum(1).clamp(min=1e-12)
    b, c = (o[:, :2] * d[:, :2]).sum(1), (o[:, :2] ** 2).sum(1) - radius**2
    root = b * b - a * c
    half = root.clamp(min=0).sqrt()
    return torch.where(root > 0, (-b - half) / a, FAR), torch.where(root > 0, (-b + half) / a, -FAR)


def _meet_cylinder(
    o: Tensor, d: Tensor, size: Tensor, planes: Tensor, ranges: Tensor
) -> tuple[Tensor, Tensor]:
    side_in, side_out = _wall(o, d, size[:, 0])
    inverse = 1.0 / _steep(d[:, 2])
    a, b = (-size[:, 1] - o[:, 2]) * inverse, (size[:, 1] - o[:, 2]) * inverse
    cap_in, cap_out = torch.minimum(a, b), torch.maximum(a, b)
    t = _enter(torch.maximum(side_in, cap_in), torch.minimum(side_out, cap_out))
    radial = (o + t[:, None] * d) / size[:, :1]
    radial = torch.stack([radial[:, 0], radial[:, 1], torch.zeros_like(t)], 1)
    cap = torch.stack([torch.zeros_like(t), torch.zeros_like(t), -torch.sign(d[:, 2])], 1)
    return t, torch.where((cap_in > side_in)[:, None], cap, radial)


def _meet_capsule(
    o: Tensor, d: Tensor, size: Tensor, planes: Tensor, ranges: Tensor
) -> tuple[Tensor, Tensor]:
    radius, half = size[:, 0], size[:, 1]
    t, _ = _wall(o, d, radius)
    z = o[:, 2] + t * d[:, 2]
    t = torch.where(z.abs() <= half, t, FAR)
    for end in (-1.0, 1.0):
        shift = torch.stack([torch.zeros_like(half), torch.zeros_like(half), end * half], 1)
        t = torch.minimum(t, _meet_ball(o - shift, d, radius[:, None].expand(-1, 3)))
    point = o + t[:, None] * d
    axis = torch.stack([torch.zeros_like(t), torch.zeros_like(t), point[:, 2].clamp(-half, half)], 1)
    return t, (point - axis) / radius[:, None]


def _meet_hull(o: Tensor, d: Tensor, size: Tensor, planes: Tensor, ranges: Tensor) -> tuple[Tensor, Tensor]:
    t_in, t_out = torch.full_like(o[:, 0], -FAR), torch.full_like(o[:, 0], FAR)
    winner = ranges[:, 0]
    most = int((ranges[:, 1] - ranges[:, 0]).max())
    for k in range(most):
        # Hulls with fewer faces meet their last one again, which changes nothing.
        index = torch.minimum(ranges[:, 0] + k, ranges[:, 1] - 1)
        plane = planes[index]
        along = (plane[:, :3] * d).sum(1)
        t = (plane[:, 3] - (plane[:, :3] * o).sum(1)) / _steep(along)
        into = along < 0
        later = into & (t > t_in)
        t_in, winner = torch.where(later, t, t_in), torch.where(later, index, winner)
        t_out = torch.where(~into & (t < t_out), t, t_out)
    return _enter(t_in, t_out), planes[winner][:, :3]


_MEET = {
    SPHERE: _meet_sphere,
    CAPSULE: _meet_capsule,
    ELLIPSOID: _meet_ellipsoid,
    CYLINDER: _meet_cylinder,
    BOX: _meet_box,
    HULL: _meet_hull,
}
