"""Random objects, far beyond the catalogue: cartons, lathes, tubes, wires, plates, bags, tools, compounds.

Only the geometry matters here: how things look is drawn anew for every picture.
"""

import itertools
from collections.abc import Callable

import numpy as np

from cpor.sim.objects.solids import ObjectModel, Part, Quaternion
from training.packs import blister, bottle, coil, flat_bag, roll, spool
from training.pieces import SECOND, about_z, frustum, hull, part, rod
from training.tools import scissors, tool


def random_object(rng: np.random.Generator, name: str, size: float) -> ObjectModel:
    """One random object.

    Args:
        rng: Random numbers.
        name: What to call it.
        size: Its largest extent, about. [m]
    """
    makers, weights = zip(*_MAKERS, strict=True)
    chosen = rng.choice(len(makers), p=np.array(weights) / sum(weights))
    parts = makers[int(chosen)](rng, size)
    return ObjectModel(name, "procedural", tuple(parts), float(rng.uniform(0.04, 0.3)))


def _carton(rng: np.random.Generator, size: float) -> list[Part]:
    half = 0.5 * size * np.array([1.0, rng.uniform(0.3, 1.0), rng.uniform(0.12, 0.9)])
    return [part("box", tuple(half))]


def _plate(rng: np.random.Generator, size: float) -> list[Part]:
    thickness = rng.uniform(0.0012, 0.005)
    if rng.random() < 0.3:
        return [part("cylinder", (0.5 * size, thickness))]
    return [part("box", (0.5 * size, 0.5 * size * rng.uniform(0.4, 1.0), thickness))]


def _can(rng: np.random.Generator, size: float) -> list[Part]:
    slim = rng.uniform(0.25, 1.0)
    if rng.random() < 0.35:  # a tin, wider than high
        return [part("cylinder", (0.5 * size, 0.5 * size * rng.uniform(0.1, 0.6)))]
    return [part("cylinder", (0.5 * size * slim, 0.5 * size))]


def _round(rng: np.random.Generator, size: float) -> list[Part]:
    if rng.random() < 0.3:
        radius = 0.5 * size * rng.uniform(0.2, 0.6)
        return [part("capsule", (radius, max(0.5 * size - radius, 0.002)))]
    return [part("ellipsoid", tuple(0.5 * size * rng.uniform(0.4, 1.0, 3)))]


def _stone(rng: np.random.Generator, size: float) -> list[Part]:
    points = rng.normal(size=(int(rng.integers(8, 16)), 3))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    return [hull(0.5 * size * points * np.array([1.0, rng.uniform(0.4, 1.0), rng.uniform(0.3, 1.0)]))]


def _prism(rng: np.random.Generator, size: float) -> list[Part]:
    sides, half = int(rng.integers(3, 9)), 0.5 * size * rng.uniform(0.15, 1.0)
    radius = 0.5 * size * rng.uniform(0.35, 1.0)
    return [frustum(radius, radius * rng.uniform(0.5, 1.0), -half, half, sides)]


def _lathe(rng: np.random.Generator, size: float) -> list[Part]:
    rings = int(rng.integers(3, 6))
    heights = np.sort(np.concatenate([[-0.5, 0.5], rng.uniform(-0.4, 0.4, rings - 2)])) * size
    radii = 0.5 * size * rng.uniform(0.12, 0.55, rings)
    if rng.random() < 0.5:  # a bottle: wide below, a neck above
        radii = np.sort(radii)[::-1]
    pairs = zip(range(rings - 1), range(1, rings), strict=True)
    return [frustum(radii[a], radii[b], heights[a], heights[b], 14) for a, b in pairs]


def _tube(rng: np.random.Generator, size: float) -> list[Part]:
    """A ring, a pipe, a cup or a bowl, of staves."""
    count, radius = int(rng.integers(8, 12)), 0.5 * size * rng.uniform(0.5, 1.0)
    half, wall = 0.5 * size * rng.uniform(0.08, 0.9), rng.uniform(0.002, 0.006)
    width = radius * np.tan(np.pi / count) * 1.03
    parts = []
    for angle in np.arange(count) * 2.0 * np.pi / count:
        at = (radius * np.cos(angle), radius * np.sin(angle), 0.0)
        parts.append(part("box", (wall, width, half), at, about_z(float(angle))))
    if rng.random() < 0.6:
        parts.append(part("cylinder", (radius, wall), (0.0, 0.0, -half + wall)))
        if rng.random() < 0.5:  # a handle
            out, h = radius * rng.uniform(1.35, 1.7), 0.5 * half
            corners = np.array([[radius, 0, h], [out, 0, h], [out, 0, -h], [radius, 0, -h]])
            parts += [rod(a, b, wall) for a, b in itertools.pairwise(corners)]
    return parts


def _wire(rng: np.random.Generator, size: float) -> list[Part]:
    """A coil, a cable or a bent rod."""
    radius, count = rng.uniform(0.0015, 0.006), int(rng.integers(6, 14))
    if rng.random() < 0.5:
        turn = np.linspace(0.0, rng.uniform(1.2, 2.0) * np.pi, count)
        points = 0.5 * size * np.column_stack([np.cos(turn), np.sin(turn), 0.05 * turn])
    else:
        headings = rng.uniform(0, 2 * np.pi) + np.cumsum(rng.normal(0.0, 0.5, count))
        steps = np.column_stack([np.cos(headings), np.sin(headings), rng.normal(0, 0.1, count)])
        points = np.cumsum(steps, axis=0) * size / count
    points = points - points.mean(axis=0)
    return [rod(a, b, radius) for a, b in itertools.pairwise(points)]


def _bag(rng: np.random.Generator, size: float) -> list[Part]:
    """A lumpy sack: flattened lumps that overlap."""
    parts = []
    for _ in range(int(rng.integers(3, 7))):
        at = rng.uniform(-0.22, 0.22, 3) * size * np.array([1.0, 0.8, 0.15])
        points = rng.normal(size=(12, 3))
        points /= np.linalg.norm(points, axis=1, keepdims=True)
        parts.append(hull(at + size * rng.uniform(0.2, 0.32) * points * np.array([1.0, 0.9, 0.4])))
    return parts


def _blocky(rng: np.random.Generator, size: float) -> list[Part]:
    """An L, T, U, cross or step of boxes."""
    parts, thick = [], rng.uniform(0.06, 0.2) * size
    parts.append(part("box", (0.5 * size, thick, thick)))
    for _ in range(int(rng.integers(1, 4))):
        length = rng.uniform(0.12, 0.4) * size
        at = (rng.uniform(-0.45, 0.45) * size, rng.choice([-1.0, 1.0]) * (length + 0.5 * thick), 0.0)
        half = (thick * rng.uniform(0.6, 1.2), length, thick * rng.uniform(0.5, 1.5))
        parts.append(part("box", half, at))
    return parts


def _vehicle(rng: np.random.Generator, size: float) -> list[Part]:
    width, height, wheel = rng.uniform(0.18, 0.26) * size, rng.uniform(0.08, 0.14) * size, 0.1 * size
    cabin = (rng.uniform(0.12, 0.3) * size, width * 0.9, height * 0.8)
    parts = [part("box", (0.5 * size, width, height))]
    parts.append(part("box", cabin, (rng.uniform(-0.15, 0.15) * size, 0.0, 1.7 * height)))
    sideways: Quaternion = (float(np.sqrt(0.5)), float(np.sqrt(0.5)), 0.0, 0.0)
    corners = [(x, y) for x in (-0.3, 0.3) for y in (-1.0, 1.0)]
    wheels = [(x * size, y * width, -height) for x, y in corners]
    parts += [part("cylinder", (wheel, 0.04 * size), at, sideways) for at in wheels]
    return parts


def _figure(rng: np.random.Generator, size: float) -> list[Part]:
    """Round lumps grown on each other: toys, fruit bunches, plush."""
    parts, at, radius = [], np.zeros(3), rng.uniform(0.18, 0.3) * size
    for _ in range(int(rng.integers(2, 6))):
        parts.append(part("ellipsoid", tuple(radius * rng.uniform(0.6, 1.1, 3)), (at[0], at[1], at[2])))
        step = rng.normal(size=3)
        at = at * rng.uniform(0.0, 1.0) + radius * step / np.linalg.norm(step) * 1.1
        radius *= rng.uniform(0.55, 1.0)
    return parts


_Maker = Callable[[np.random.Generator, float], list[Part]]
_MAKERS: tuple[tuple[_Maker, float], ...] = (
    (_carton, 4.0),
    (_plate, 0.8),
    (_can, 1.8),
    (_round, 1.0),
    (_stone, 0.5),
    (_prism, 0.8),
    (_lathe, 0.8),
    (_tube, 1.4),
    (_wire, 0.5),
    (coil, 0.7),
    (tool, 2.6),
    (scissors, 1.1),
    (_bag, 0.8),
    (flat_bag, 1.1),
    (blister, 0.4),
    (roll, 1.1),
    (spool, 0.5),
    (bottle, 1.2),
    (_blocky, 0.9),
    (_vehicle, 0.5),
    (_figure, 0.8),
)
"""Makers of shapes and how often each is drawn: what lies in bins is mostly boxes, cans, packs and tools."""


def package(rng: np.random.Generator, name: str) -> ObjectModel:
    """A carton or a can as kitchens have them."""
    size = float(np.exp(rng.uniform(np.log(0.07), np.log(0.3))))
    if rng.random() < 0.8:
        half = 0.5 * size * np.array([1.0, rng.uniform(0.4, 0.9), rng.uniform(0.15, 0.7)])
        parts = [part("box", tuple(half))]
    else:
        parts = [part("cylinder", (0.5 * size * rng.uniform(0.2, 0.6), 0.5 * size))]
    return ObjectModel(name, "procedural", tuple(parts), float(rng.uniform(0.04, 0.3)))


def stackable(rng: np.random.Generator, name: str, size: float) -> tuple[ObjectModel, float]:
    """Something that stands on its like, and its height. [m]."""
    if rng.random() < 0.5:
        half = 0.5 * size * np.array([1.0, rng.uniform(0.5, 1.0), rng.uniform(0.15, 0.5)])
        parts, height = [part("box", tuple(half))], 2.0 * float(half[2])
    else:
        radius, half_height = 0.5 * size * rng.uniform(0.6, 1.0), 0.5 * size * rng.uniform(0.2, 0.7)
        parts, height = [part("cylinder", (radius, half_height))], 2.0 * half_height
        if rng.random() < 0.5:  # a lid
            lid = (radius + 0.001, 0.2 * half_height)
            parts.append(part("cylinder", lid, (0, 0, 0.8 * half_height), surface=SECOND))
    return ObjectModel(name, "procedural", tuple(parts), float(rng.uniform(0.04, 0.2))), height
