"""How training pictures look: random materials, printed textures, lights, shadows and gloss, all in torch."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as nn_f

from training.casting import CYLINDER, FAR, Cameras, Hits, Shapes, cast, turn_in
from training.materials import (
    BAND,
    CHECKER,
    NOISE,
    PACKED,
    PRINT,
    SPECKLE,
    STRIPES,
    Materials,
    Random,
    tamed,
    wild,
)
from training.textures import PACKAGE, TILE

_SHADOW_PX = 320


@dataclass(frozen=True, eq=False)
class Lights:
    """The light of each view: a lamp, a second one far away that throws no shadow, and the sky.

    Attributes:
        lamp: Place of the lamp. Shape (b, 3). [m]
        fill: Where the second light comes from. Shape (b, 3).
        tint: Colour of all light. Shape (b, 3).
        main, second, ambient: Strengths. Shape (b,).
        soft: How much light reaches what lies in the shadow. Shape (b,).
        crease: How dark corners are. Shape (b,).
        exposure: Mean brightness of the picture. Shape (b,).
    """

    lamp: Tensor
    fill: Tensor
    tint: Tensor
    main: Tensor
    second: Tensor
    ambient: Tensor
    soft: Tensor
    crease: Tensor
    exposure: Tensor

    def __getitem__(self, views: Tensor) -> "Lights":
        return Lights(*(getattr(self, name)[views] for name in self.__dataclass_fields__))

    @staticmethod
    def draw(r: Random, ordinary: Tensor) -> "Lights":
        """Random lights, those of ordinary views near white and bright. Shape of `ordinary` (b,)."""
        b = len(ordinary)

        def pick(usual: Tensor, extreme: Tensor) -> Tensor:
            return torch.where(ordinary.view(-1, *([1] * (usual.dim() - 1))), usual, extreme)

        turn = 6.28318 * r(b)
        height = pick(0.7 + 1.2 * r(b), 0.35 + 1.2 * r(b))
        reach = 0.9 * r(b) ** 0.7
        soft = r(b)
        return Lights(
            lamp=torch.stack([reach * torch.cos(turn), reach * torch.sin(turn), height], 1),
            fill=nn_f.normalize(r(b, 3) - torch.tensor([0.5, 0.5, 0.0], device=turn.device), dim=1),
            tint=1.0 + pick(0.1 * (r(b, 3) - 0.5), 0.3 * (r(b, 3) - 0.5)),
            main=pick(0.25 + 0.6 * r(b), 0.4 + 0.8 * r(b)),
            second=0.35 * r(b),
            ambient=pick(0.35 + 0.5 * r(b), 0.1 + 0.6 * r(b)),
            soft=pick(0.3 + 0.7 * soft, soft),
            crease=40.0 * r(b),
            exposure=pick(0.19 * 2.7 ** r(b), 0.08 * 5.0 ** r(b)),
        )


class Painter:
    """Paints what rays hit.

    Args:
        atlas: Printed textures. Shape (n, 128, 128, 3), uint8.
        packages: Three sides of each package. Shape (3 m, 192, 192, 3), uint8.
        noise: Smooth noise. Shape (1, 4, s, s, s).
        generator: Random numbers, on the device.
    """

    def __init__(self, atlas: Tensor, packages: Tensor, noise: Tensor, generator: torch.Generator) -> None:
        self.atlas, self.packages, self.noise, self.generator = atlas, packages, noise, generator
        self.device = atlas.device

    def random(self, *shape: int) -> Tensor:
        """Numbers from 0 to 1."""
        return torch.rand(shape, generator=self.generator, device=self.device)

    def materials(
        self, ordinary: Tensor, patterned: float, scale: tuple[float, float], neutral: float = 0.4
    ) -> Materials:
        """Random materials.

        Args:
            ordinary: Which of them are ordinary. Shape (n,).
            patterned: Share of the others that has a pattern.
            scale: Range of the size of one repetition. [m]
            neutral: Share of the ordinary ones that is white, grey or black.
        """
        made = wild(self.random, len(ordinary), len(self.atlas), patterned, scale)
        return tamed(made, self.random, ordinary, neutral)

    def paint(
        self,
        hits: Hits,
        background: Tensor,
        shapes: Shapes,
        casters: Shapes,
        planes: Tensor,
        cameras: Cameras,
        materials: Materials,
        lights: Lights,
    ) -> Tensor:
        """Linear RGB of each pixel, not exposed yet. Shape (b, h, w, 3).

        Args:
            hits: What is seen; depth and normals of the background are filled in.
            background: Which of table, floor and wall (0, 1, 2) is seen where no shape is. Shape (b, h, w).
            shapes: What the rays were cast at.
            casters: What throws shadows.
            planes: Of the hulls.
            cameras: Of the views.
            materials: A row for each shape, then three for each view: table, floor, wall.
            lights: Of the views.
        """
        b, h, w = hits.depth.shape
        view = torch.arange(b, device=self.device)[:, None, None].expand(b, h, w)
        rays = cameras.rays()
        point = cameras.centres[:, None, None] + rays * hits.depth[..., None]
        row = torch.where(hits.shape >= 0, hits.shape, len(shapes.kinds) + 3 * view + background)
        m = materials[row.reshape(-1)]
        normal = hits.normal.reshape(-1, 3)
        which = hits.shape.clamp(min=0).reshape(-1)
        frame = shapes.rotations[which]
        own = turn_in(frame, point.reshape(-1, 3) - shapes.positions[which])
        local_normal = turn_in(frame, normal)
        of_shape = (hits.shape >= 0).reshape(-1, 1)
        local = torch.where(of_shape, own, point.reshape(-1, 3))
        local_normal = torch.where(of_shape, local_normal, normal)
        noise = self._noise((local + m.offset) / m.scale[:, None])
        albedo = self._albedo(local, local_normal, m, noise)
        packed = of_shape[:, 0] & (m.pattern == PACKED)
        albedo[packed] = self._packed(
            own[packed], local_normal[packed], m.tile[packed], shapes, which[packed]
        )
        bent = nn_f.normalize(normal + m.bump[:, None] * noise[:, :3], dim=1)
        lit = self._shadow(lights.lamp, point, casters, planes)
        return self._light(hits, point, rays, bent, albedo, m, lit, lights)

    def _noise(self, at: Tensor) -> Tensor:
        where = torch.remainder(at * 0.25, 2.0) - 1.0
        sampled = nn_f.grid_sample(self.noise, where[None, :, None, None], align_corners=True)
        return sampled[0, :, :, 0, 0].T

    def _albedo(self, local: Tensor, normal: Tensor, m: Materials, noise: Tensor) -> Tensor:
        along = (local * m.direction).sum(1) / m.scale + 0.25 * noise[:, 3] * m.offset[:, 0]
        cell = torch.floor((local + m.offset) / m.scale[:, None]).sum(1)
        # Printed textures are seen along the axis the surface faces.
        axis = normal.abs().argmax(1)
        u = torch.where(axis == 0, local[:, 1], local[:, 0])
        v = torch.where(axis == 2, local[:, 1], local[:, 2])
        px = torch.remainder(u / m.scale * 0.3 + m.offset[:, 0], 1.0)
        py = torch.remainder(v / m.scale * 0.3 + m.offset[:, 1], 1.0)
        # Half of the printed things have another picture on each side, as packages do.
        sides = (m.offset[:, 2] < 0.5) * 37 * axis
        printed = self.atlas[
            (m.tile + sides) % len(self.atlas),
            (py * TILE).long().clamp(0, TILE - 1),
            (px * TILE).long().clamp(0, TILE - 1),
        ]
        print_colour = (printed.float() / 255.0) ** 2.2
        first, second, third = m.colours.unbind(1)
        share = torch.zeros_like(along)
        share = torch.where(m.pattern == STRIPES, (torch.remainder(along, 1.0) < 0.5).float(), share)
        share = torch.where(m.pattern == CHECKER, torch.remainder(cell, 2.0), share)
        share = torch.where(m.pattern == NOISE, (0.5 + 0.4 * noise[:, 0]).clamp(0, 1), share)
        share = torch.where(m.pattern == SPECKLE, (noise[:, 1] > 1.2).float(), share)
        colour = first + (second - first) * share[:, None]
        band = (m.pattern == BAND) & (along.abs() < 0.8)
        colour = torch.where(band[:, None], 0.4 * third + 0.6 * print_colour, colour)
        printed_over = (m.pattern == PRINT) | (m.pattern == PACKED)
        colour = torch.where(printed_over[:, None], print_colour, colour)
        return colour * (1.0 + 0.06 * noise[:, 2:3]).clamp(0.5, 1.5)

    def _packed(
        self, local: Tensor, normal: Tensor, package: Tensor, shapes: Shapes, which: Tensor
    ) -> Tensor:
        """Sides of packages, each printed once over a whole side, or twice around a can. Shape (n, 3)."""
        box = shapes.boxes[which]
        across = ((local - box[:, :3]) / box[:, 3:].clamp(min=1e-5) * 0.5 + 0.5).clamp(0.0, 0.9999)
        axis = normal.abs().argmax(1)
        u = torch.where(axis == 0, across[:, 1], across[:, 0])
        v = torch.where(axis == 2, across[:, 1], across[:, 2])
        around = (shapes.kinds[which] == CYLINDER) & (axis != 2)
        u = torch.where(around, torch.remainder(torch.atan2(local[:, 1], local[:, 0]) / 3.14159, 0.9999), u)
        axis = torch.where(around, 0, axis)
        side = (3 * package + axis) % len(self.packages)
        print_colour = self.packages[side, (v * PACKAGE).long(), (u * PACKAGE).long()]
        return (print_colour.float() / 255.0) ** 2.2

    def _light(
        self, hits: Hits, point: Tensor, rays: Tensor, normal: Tensor, albedo: Tensor, m: Materials,
        lit: Tensor, lights: Lights,
    ) -> Tensor:  # fmt: skip
        b, h, w = hits.depth.shape
        soft = 0.5 * lights.soft[:, None, None]
        lit = (soft + (1.0 - soft) * lit).reshape(-1)
        view = torch.arange(b, device=self.device).repeat_interleave(h * w)
        to_lamp = nn_f.normalize(lights.lamp[view] - point.reshape(-1, 3), dim=1)
        to_eye = nn_f.normalize(-rays.reshape(-1, 3), dim=1)
        half = nn_f.normalize(to_lamp + to_eye, dim=1)
        diffuse = (normal * to_lamp).sum(1).clamp(min=0) * lit
        second = (normal * lights.fill[view]).sum(1).clamp(min=0)
        sky = 0.5 + 0.5 * normal[:, 2]
        crease = self._crease(hits.depth, lights.crease[:, None, None]).reshape(-1)
        away = lights.second[view] * second + lights.ambient[view] * sky
        shade = lights.main[view] * diffuse + away * crease
        gloss = m.shine * (normal * half).sum(1).clamp(min=0) ** m.power * lit
        mirrored = 2.0 * (normal * to_eye).sum(1, keepdim=True) * normal - to_eye
        room = (0.4 + 0.45 * self._noise(mirrored * 3.0 + 7.0)[:, 0]).clamp(0.0, 1.5)
        colour = albedo * shade[:, None] * lights.tint[view]
        reflected = m.mirror[:, None] * (room[:, None] * (0.3 + 0.7 * albedo) - 0.6 * colour)
        return (colour + reflected + gloss[:, None]).view(b, h, w, 3)

    @staticmethod
    def exposure(colour: Tensor, lights: Lights) -> Tensor:
        """What to multiply pictures by: cameras expose for the whole, more or less well. Shape (b,)."""
        bright = colour.clamp(max=2.0).flatten(1).mean(1).clamp(min=0.02)
        return lights.exposure / bright

    @staticmethod
    def _crease(depth: Tensor, strength: Tensor) -> Tensor:
        """Darker where the surroundings are nearer: corners and contacts get less light."""
        near = depth.clamp(max=6.0)[:, None]
        small = nn_f.avg_pool2d(near, 4)
        around = nn_f.avg_pool2d(small, 7, stride=1, padding=3, count_include_pad=False)
        around = nn_f.interpolate(around, size=depth.shape[1:], mode="bilinear", align_corners=False)
        deeper = (near - around)[:, 0].clamp(min=0.0, max=0.05)
        return torch.exp(-strength * deeper)

    @staticmethod
    def _shadow(lamp: Tensor, point: Tensor, shapes: Shapes, planes: Tensor) -> Tensor:
        """How much of the lamp each point sees, from a depth picture taken from the lamp. Shape (b, h, w)."""
        b = len(lamp)
        forward = nn_f.normalize(-lamp + 1e-4, dim=1)
        side = nn_f.normalize(torch.linalg.cross(forward, forward.roll(1, 1) + 0.31), dim=1)
        down = torch.linalg.cross(forward, side)
        rotations = torch.stack([side, down, forward], dim=2)
        # Wide enough for the heap: 0.45 m about the middle.
        focals = 0.5 * _SHADOW_PX * lamp.norm(dim=1) / 0.45
        eye = Cameras(lamp, rotations, focals, _SHADOW_PX, _SHADOW_PX)
        seen = cast(shapes, planes, eye, want_normals=False).depth
        seen = nn_f.pad(seen[:, None], (1, 1, 1, 1), value=FAR)
        offset = point - lamp[:, None, None]
        local = torch.einsum("bji,bhwj->bhwi", rotations, offset)
        z = local[..., 2].clamp(min=0.01)
        grid = (
            torch.stack([local[..., 0], local[..., 1]], -1)
            / z[..., None]
            * (focals / (0.5 * _SHADOW_PX))[:, None, None, None]
        )
        total = torch.zeros_like(z)
        for dx, dy in ((-1.0, -0.5), (1.0, 0.5), (-0.5, 1.0), (0.5, -1.0)):
            shift = torch.tensor([dx, dy], device=lamp.device) * 2.0 / _SHADOW_PX
            nearest = nn_f.grid_sample(
                seen, grid + shift, mode="nearest", padding_mode="border", align_corners=False
            )
            total += (nearest[:, 0] > z - 0.004).float()
        return total.view(b, *z.shape[1:]) / 4.0
