"""Training views: a heap, a camera, surroundings and a look, drawn into picture, depth and labels."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn import functional as nn_f

from training.casting import FAR, Cameras, HeapStore, Hits, Shapes, cast
from training.config import ViewConfig
from training.looks import Lights, Painter
from training.materials import Materials, film, metal
from training.pieces import FILM_ROLE, MAIN_ROLE
from training.surroundings import surroundings
from training.view_files import DEPTH_UNIT

_LOOKS = 31


@dataclass(frozen=True, eq=False)
class ViewBatch:
    """Views with labels.

    Attributes:
        rgb: Shape (b, h, w, 3), uint8.
        depth: In units of `DEPTH_UNIT`, 0 for none. Shape (b, h, w), int32 that fits in 16 bits.
        ids: Object each pixel shows, 0 for background. Shape (b, h, w), uint8.
        amodal: Bit k says that object k is here, hidden or not, at every second pixel.
            Shape (b, h / 2, w / 2), int32.
    """

    rgb: Tensor
    depth: Tensor
    ids: Tensor
    amodal: Tensor


class ViewMaker:
    """Draws views of heaps; needs no CPU but for a few launches."""

    def __init__(self, store: HeapStore, painter: Painter, config: ViewConfig) -> None:
        self.store, self.painter, self.config = store, painter, config

    def make(self, heaps: Tensor) -> ViewBatch:
        """One view of each of these heaps. Shape of `heaps` (b,)."""
        store, painter = self.store, self.painter
        b, device = len(heaps), heaps.device
        ordinary = painter.random(b) < self.config.ordinary
        cameras = self._cameras(heaps, ordinary)
        own = store.shapes(heaps)
        radius = torch.as_tensor(store.radii, device=device)[heaps]
        shapes = Shapes.join(own, surroundings(painter.random, radius))
        hits = cast(shapes, store.planes, cameras)
        hits, background, in_bin = self._background(hits, heaps, cameras)
        materials = self._materials(shapes, ordinary, in_bin)
        lights = Lights.draw(painter.random, ordinary)
        glass = self._glass(shapes, b)
        casters = shapes.select(torch.nonzero(~glass).squeeze(1))
        colour = painter.paint(hits, background, shapes, casters, store.planes, cameras, materials, lights)
        exposure = painter.exposure(colour, lights)
        depth = hits.depth
        if glass.any():
            colour, depth = self._see_through(
                hits, colour, background, shapes, glass, cameras, materials, lights
            )
        exposed = colour * exposure[:, None, None, None]
        rgb = (exposed.clamp(0.0, 1.0) ** (1.0 / 2.2) * 255.0).round().to(torch.uint8)
        ids = torch.where(hits.shape >= 0, shapes.objects[hits.shape.clamp(min=0)], 0)
        units = (
            torch.where(depth < 0.99 * 65535 * DEPTH_UNIT, depth / DEPTH_UNIT, 0.0).round().to(torch.int32)
        )
        return ViewBatch(rgb, units, ids.to(torch.uint8), self._amodal(hits, shapes, b, device))

    def _amodal(self, hits: Hits, shapes: Shapes, b: int, device: torch.device) -> Tensor:
        h, w = self.config.height, self.config.width
        obj = shapes.objects[hits.pair_shape]
        row, col = hits.pair_pixel // w % h, hits.pair_pixel % w
        use = (obj > 0) & (row % 2 == 0) & (col % 2 == 0)
        view = hits.pair_pixel[use] // (h * w)
        index = ((view * 31 + obj[use]) * (h // 2) + row[use] // 2) * (w // 2) + col[use] // 2
        there = torch.zeros(b * 31 * (h // 2) * (w // 2), dtype=torch.bool, device=device)
        there[index] = True
        there = there.view(b, 31, h // 2, w // 2)
        bits = torch.zeros((b, h // 2, w // 2), dtype=torch.int32, device=device)
        for k in range(1, 31):
            bits |= there[:, k].to(torch.int32) << k
        return bits

    def _cameras(self, heaps: Tensor, ordinary: Tensor) -> Cameras:
        r, b, device = self.painter.random, len(heaps), heaps.device
        radius = torch.as_tensor(self.store.radii, device=device)[heaps].clamp(min=0.11)
        c = self.config
        tilt = torch.deg2rad(torch.where(r(b) < 0.25, 8.0 * r(b), c.max_tilt_deg * r(b)))
        azimuth = 6.28318 * r(b)
        # Half the angle of view from top to bottom, and how much of it the heap fills.
        half = torch.deg2rad(12.0 + 18.0 * r(b))
        far = r(b) < torch.where(ordinary, c.wide, 0.3)
        fill = torch.where(far, 0.25 + 0.4 * r(b), 0.7 + 0.75 * r(b))
        distance = radius / (torch.tan(half) * fill)
        # A lens too close to the heap would be among the things.
        least = torch.where(ordinary, 0.42, 0.28)
        distance = torch.maximum(distance, least) + 0.04 + 1.2 * self.store.heights[heaps].clamp(0.0, 0.5)
        focal = 0.5 * c.height * distance / (radius / fill)
        back = torch.stack(
            [torch.sin(tilt) * torch.cos(azimuth), torch.sin(tilt) * torch.sin(azimuth), torch.cos(tilt)], 1
        )
        spread = (radius * 0.35)[:, None] * (r(b, 2) - 0.5) * 2.0
        target = torch.cat([spread, 0.03 * torch.ones_like(spread[:, :1])], 1)
        centres = target + distance[:, None] * back
        forward = -back
        up = torch.tensor([0.0, 0.0, 1.0], device=device).expand(b, 3)
        across = torch.stack([-torch.sin(azimuth), torch.cos(azimuth), torch.zeros_like(tilt)], 1)
        down = -nn_f.normalize(up - (up * forward).sum(1, keepdim=True) * forward, dim=1)
        plumb = (tilt < 0.02)[:, None]
        flat = torch.stack([torch.cos(azimuth), torch.sin(azimuth), torch.zeros_like(tilt)], 1)
        down = torch.where(plumb, flat - (flat * forward).sum(1, keepdim=True) * forward, down)
        down = nn_f.normalize(down, dim=1)
        across = torch.linalg.cross(down, forward)
        # Upright but for a little, as cameras hang; straight down any turn is likely.
        roll = (r(b) - 0.5) * torch.where(tilt < 0.35, 6.28318, 0.35)
        cos, sin = torch.cos(roll)[:, None], torch.sin(roll)[:, None]
        right, lower = cos * across + sin * down, cos * down - sin * across
        return Cameras(centres, torch.stack([right, lower, forward], dim=2), focal, c.height, c.width)

    def _background(self, hits: Hits, heaps: Tensor, cameras: Cameras) -> tuple[Hits, Tensor, Tensor]:
        """Table, floor and wall behind the shapes: which is seen, and the hits with them."""
        r, b, device = self.painter.random, len(heaps), heaps.device
        rays, centre = cameras.rays(), cameras.centres[:, None, None]
        down = torch.where(rays[..., 2] < -1e-4, rays[..., 2], -1e-4)

        def level(z: Tensor) -> Tensor:
            t = (z[:, None, None] - centre[..., 2]) / down
            return torch.where(rays[..., 2] < -1e-4, t, FAR).clamp(max=FAR)

        radius = torch.as_tensor(self.store.radii, device=device)[heaps]
        table = level(torch.zeros(b, device=device))
        at = (centre + rays * table[..., None])[..., :2]
        half = (radius * 1.3 + 0.05 + 1.2 * r(b) ** 2)[:, None, None]
        round_one = (r(b) < 0.4)[:, None, None]
        outside = torch.where(round_one, at.norm(dim=-1), at.abs().amax(-1)) > half
        table = torch.where(outside & (r(b) < 0.4)[:, None, None], FAR, table)
        floor = level(-0.2 - 0.6 * r(b))
        turn = 6.28318 * r(b)
        facing = torch.stack([torch.cos(turn), torch.sin(turn), torch.zeros_like(turn)], 1)[:, None, None]
        toward = (rays * facing).sum(-1)
        distance = (radius + 0.4 + 2.0 * r(b))[:, None, None]
        wall = torch.where(
            toward > 1e-4, (distance - (centre * facing).sum(-1)) / toward.clamp(min=1e-4), FAR
        )
        wall = torch.where((wall > 0) & (r(b) < 0.6)[:, None, None], wall, FAR).clamp(max=FAR)
        depth, which = torch.stack([table, floor, wall], -1).min(-1)
        upward = torch.tensor([0.0, 0.0, 1.0], device=device).expand(*depth.shape, 3)
        normal = torch.where((which == 2)[..., None], -facing.expand_as(upward), upward)
        seen = hits.depth <= depth
        depth = torch.where(seen, hits.depth, depth)
        shape = torch.where(seen & (hits.shape >= 0), hits.shape, -1)
        normal = torch.where((shape >= 0)[..., None], hits.normal, normal)
        inner = self.store.bins[heaps][:, None, None]
        in_bin = (shape < 0) & (which == 0) & (at.abs() < 0.5 * inner).all(-1)
        return Hits(depth, shape, normal, hits.pair_shape, hits.pair_pixel), which, in_bin

    def _materials(self, shapes: Shapes, ordinary: Tensor, in_bin: Tensor) -> Materials:
        """Materials of all shapes, then of table, floor and wall of each view.

        What looks alike shares a material for each role; the bin is of one.
        """
        painter, r = self.painter, self.painter.random
        n, b = len(shapes.kinds), len(ordinary)
        things = ordinary.repeat_interleave(_LOOKS)
        whole = painter.materials(things, 0.65, (0.004, 0.09))
        is_bin = torch.arange(b * _LOOKS, device=things.device) % _LOOKS == 0
        whole = whole.plain(is_bin & (r(b * _LOOKS) < 0.85))
        second = painter.materials(things, 0.3, (0.004, 0.06))
        second = second.plain(r(b * _LOOKS) < 0.5)
        bare = metal(painter.materials(things, 0.0, (0.004, 0.06)), r)
        foil = film(painter.materials(things, 0.0, (0.03, 0.08)), r)
        parts = painter.materials(ordinary[shapes.views], 0.5, (0.004, 0.09))
        under = painter.materials(ordinary.repeat_interleave(3), 0.6, (0.02, 0.5), neutral=0.75)
        under = under.calmed(r(3 * b) < 0.65)
        every = Materials.join(whole, second, bare, foil, parts, under)
        row = shapes.views * _LOOKS + shapes.looks
        # Some things are painted all over, bare metal too.
        role = torch.where((r(b * _LOOKS)[row] < 0.15) & (shapes.roles != FILM_ROLE), MAIN_ROLE, shapes.roles)
        rows = role * b * _LOOKS + row
        # Things of many colours are one object too: in some of them all parts differ, or a few.
        mixed = r(b * _LOOKS)[row]
        apart = (shapes.objects > 0) & (mixed < 0.3) & (r(n) < 0.6) & (role != FILM_ROLE)
        first = 4 * b * _LOOKS
        rows = torch.where(apart, first + torch.arange(n, device=rows.device), rows)
        below = first + n + torch.arange(3 * b, device=rows.device)
        # Most bins have a floor of their own.
        own_floor = (in_bin.flatten(1).any(1) & (r(b) < 0.75)).nonzero().squeeze(1)
        below[own_floor * 3] = own_floor * _LOOKS
        return every[torch.cat([rows, below])]

    def _glass(self, shapes: Shapes, b: int) -> Tensor:
        """Which shapes can be seen through: film, and in some views a few whole objects."""
        r = self.painter.random
        chosen = (r(b, _LOOKS) < 0.15) & (r(b, 1) < self.config.see_through)
        opaque_film = (r(b * _LOOKS) < 0.15)[shapes.views * _LOOKS + shapes.looks]
        of_film = (shapes.roles == FILM_ROLE) & ~opaque_film
        return (chosen[shapes.views, shapes.looks] | of_film) & (shapes.objects > 0)

    def _see_through(
        self, hits: Hits, colour: Tensor, background: Tensor, shapes: Shapes, clear: Tensor,
        cameras: Cameras, materials: Materials, lights: Lights,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        """What lies behind glass and film shows, and the depth may be that of it."""
        b, device = len(hits.depth), hits.depth.device
        has = torch.zeros(b, dtype=torch.bool, device=device)
        has[shapes.views[clear]] = True
        at = torch.nonzero(has).squeeze(1)
        number = torch.cumsum(has, 0) - 1
        keep = torch.nonzero(~clear & has[shapes.views]).squeeze(1)
        solid = shapes.select(keep)
        solid = replace(solid, views=number[solid.views])
        eyes = replace(
            cameras, centres=cameras.centres[at], rotations=cameras.rotations[at], focals=cameras.focals[at]
        )
        under = (len(shapes.kinds) + 3 * at[:, None] + torch.arange(3, device=device)).flatten()
        front = replace(hits, depth=hits.depth[at], shape=hits.shape[at], normal=hits.normal[at])
        behind = cast(solid, self.store.planes, eyes)
        plain, which = self._behind(behind, front, eyes, background[at])
        stuff = materials[torch.cat([keep, under])]
        other = self.painter.paint(plain, which, solid, solid, self.store.planes, eyes, stuff, lights[at])
        glass = clear[front.shape.clamp(min=0)] & (front.shape >= 0)
        facing = (front.normal * nn_f.normalize(eyes.rays(), dim=-1)).sum(-1).abs()
        r = self.painter.random
        thick = (0.06 + 0.4 * r(len(at)) ** 1.5)[:, None, None]
        opaque = (thick + 0.4 * (1.0 - facing) ** 3).clamp(0.0, 1.0)[..., None]
        colour, depth = colour.clone(), hits.depth.clone()
        colour[at] = torch.where(glass[..., None], opaque * colour[at] + (1.0 - opaque) * other, colour[at])
        through = glass & (r(len(at)) < 0.4)[:, None, None]
        depth[at] = torch.where(through, plain.depth, front.depth)
        return colour, depth

    @staticmethod
    def _behind(solid: Hits, hits: Hits, cameras: Cameras, background: Tensor) -> tuple[Hits, Tensor]:
        """The table under see-through things: flat at z = 0, the rest as it was."""
        rays, centre = cameras.rays(), cameras.centres[:, None, None]
        down = torch.where(rays[..., 2] < -1e-4, rays[..., 2], -1e-4)
        table = (-centre[..., 2] / down).clamp(0.0, FAR)
        covered = hits.shape >= 0
        base = torch.where(covered, table, hits.depth)
        which = torch.where(covered, 0, background)
        upward = torch.tensor([0.0, 0.0, 1.0], device=table.device).expand(*table.shape, 3)
        seen = solid.depth <= base
        below = torch.where(covered[..., None], upward, hits.normal)
        normal = torch.where(seen[..., None], solid.normal, below)
        shape = torch.where(seen, solid.shape, -1)
        return replace(solid, depth=torch.minimum(solid.depth, base), shape=shape, normal=normal), which
