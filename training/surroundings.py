"""What stands around a heap and is no object: furniture and neighbouring bins."""

import torch
from torch import Tensor

from training.casting import BOX, Shapes
from training.materials import Random

_EXTRAS = 8
_BELOW = 12

FIRST_LOOK = 23
"""Looks from this one to 30 are those of the surroundings: heaps hold at most 22 objects."""


def _turns(r: Random, count: int) -> Tensor:
    """Rotations of any direction. Shape (count, 3, 3)."""
    q: Tensor = torch.linalg.qr(r(count, 3, 3) - 0.5 + 1e-3 * torch.eye(3, device=r(1).device))[0]
    turns: Tensor = q * torch.linalg.det(q).sign()[:, None, None]
    return turns


def clutter_below(r: Random, radius: Tensor) -> Shapes:
    """Legs, bars and boxes lower than the table, which show where it ends; of no object.

    Args:
        r: Random numbers from 0 to 1 of a given shape.
        radius: How far each heap reaches. Shape (b,). [m]
    """
    b, device = len(radius), radius.device
    thin = (r(b, _BELOW) < 0.5)[..., None]
    bars = 0.006 + 0.03 * r(b, _BELOW, 1) * torch.ones(3, device=device)
    bars[..., 2] = 0.1 + 0.4 * r(b, _BELOW)
    sizes = torch.where(thin, bars, 0.02 + 0.2 * r(b, _BELOW, 3) ** 1.5)
    angle = 6.28318 * r(b, _BELOW)
    away = radius[:, None] * 1.3 + 0.25 + 1.6 * r(b, _BELOW)
    level = -sizes.norm(dim=-1) - 0.02 - 0.6 * r(b, _BELOW)
    places = torch.stack([away * torch.cos(angle), away * torch.sin(angle), level], -1)
    there = ((r(b) < 0.6)[:, None] & (r(b, _BELOW) < 0.7)).flatten()
    views = torch.arange(b, device=device).repeat_interleave(_BELOW)
    turned = (r(b * _BELOW) < 0.7)[:, None, None]
    turns = torch.where(turned, _turns(r, b * _BELOW), torch.eye(3, device=device))
    looks = FIRST_LOOK + torch.arange(_BELOW, device=device).repeat(b) % _EXTRAS
    return _boxes(places.view(-1, 3), turns, sizes.view(-1, 3), looks, views).select(
        there.nonzero().squeeze(1)
    )


def _boxes(positions: Tensor, rotations: Tensor, sizes: Tensor, looks: Tensor, views: Tensor) -> Shapes:
    """Boxes of no object; one a row of each."""
    n, device = len(sizes), sizes.device
    zeros = torch.zeros(n, dtype=torch.int64, device=device)
    return Shapes(
        torch.full((n,), BOX, device=device), positions, rotations.contiguous(), sizes,
        torch.cat([torch.zeros_like(sizes), sizes], 1), zeros, zeros, looks,
        torch.zeros((n, 2), dtype=torch.int64, device=device), views,
    )  # fmt: skip


def surroundings(r: Random, radius: Tensor) -> Shapes:
    """Furniture, neighbouring bins and what stands below the table, as boxes of no object.

    Args:
        r: Random numbers from 0 to 1 of a given shape.
        radius: How far each heap reaches. Shape (b,). [m]
    """
    b, device = len(radius), radius.device
    mode = r(b)
    sizes = torch.zeros((b, _EXTRAS, 3), device=device)
    positions = torch.zeros((b, _EXTRAS, 3), device=device)
    # Furniture: large things around, standing on the table or on the floor behind it.
    furniture = 0.1 + 0.3 * r(b, _EXTRAS, 3)
    angle = 6.28318 * r(b, _EXTRAS)
    away = (radius[:, None] * 1.2 + 0.45 + 0.9 * r(b, _EXTRAS))[..., None]
    around = torch.stack([torch.cos(angle), torch.sin(angle)], -1) * away
    stand = furniture[..., 2] - 0.5 * r(b, _EXTRAS)
    there = ((mode < 0.35)[:, None] & (r(b, _EXTRAS) < 0.6))[..., None]
    sizes = torch.where(there, furniture, sizes)
    positions = torch.where(there, torch.cat([around, stand[..., None]], -1), positions)
    # A neighbouring bin: four walls beside our own, sometimes more of them further on.
    wall, high = 0.002 + 0.01 * r(b), 0.02 + 0.08 * r(b)
    x, y = 0.08 + 0.15 * r(b), 0.08 + 0.15 * r(b)
    gap = radius + torch.maximum(x, y) + 0.02 + 0.1 * r(b)
    turn = torch.floor(4.0 * r(b)) * 1.570796
    zero = torch.zeros_like(x)
    frame = torch.stack([
        torch.stack([wall, y, high], 1), torch.stack([wall, y, high], 1),
        torch.stack([x, wall, high], 1), torch.stack([x, wall, high], 1),
    ], 1)  # fmt: skip
    places = torch.stack([
        torch.stack([-x, zero, high], 1), torch.stack([x, zero, high], 1),
        torch.stack([zero, -y, high], 1), torch.stack([zero, y, high], 1),
    ], 1)  # fmt: skip
    centre = torch.stack([gap * torch.cos(turn), gap * torch.sin(turn), zero], 1)[:, None]
    there = (mode > 0.8)[:, None, None]
    sizes[:, :4] = torch.where(there, frame, sizes[:, :4])
    positions[:, :4] = torch.where(there, places + centre, positions[:, :4])
    n = b * _EXTRAS
    flat = sizes.view(n, 3)
    views = torch.arange(b, device=device).repeat_interleave(_EXTRAS)
    identity = torch.eye(3, device=device).expand(n, 3, 3)
    looks = FIRST_LOOK + torch.arange(_EXTRAS, device=device).repeat(b)
    # A neighbouring bin is of one material.
    looks = torch.where(there.view(b, 1).expand(b, _EXTRAS).reshape(n), FIRST_LOOK, looks)
    shapes = _boxes(positions.view(n, 3), identity, flat, looks, views)
    shapes = shapes.select(torch.nonzero(flat[:, 0] > 0).squeeze(1))
    return Shapes.join(shapes, clutter_below(r, radius))
