"""Tools of two materials: long thin shafts, crossing loops, heads and jaws."""

import itertools

import numpy as np

from cpor.sim.objects.solids import Part
from training.pieces import MAIN, METAL, SECOND, about_z, hull, part, rod


def tool(rng: np.random.Generator, size: float) -> list[Part]:
    """One of the tools, at least 8 cm long: smaller ones are seen as sticks."""
    makers = (screwdriver, screwdriver, screwdriver, hammer, wrench, pliers, brush)
    return makers[int(rng.integers(len(makers)))](rng, max(size, 0.08))


def screwdriver(rng: np.random.Generator, size: float) -> list[Part]:
    """A thick handle, perhaps with a soft grip, and a thin shaft of metal."""
    length = size * rng.uniform(0.32, 0.55)
    grip, shaft = size * rng.uniform(0.045, 0.085), rng.uniform(0.0018, 0.0045)
    start, end = -0.5 * size, 0.5 * size
    split = start + length
    turn = (np.sqrt(0.5), 0.0, np.sqrt(0.5), 0.0)
    middle = 0.5 * (start + split)
    if rng.random() < 0.5:
        parts = [rod(np.array([start + grip, 0, 0]), np.array([split - grip, 0, 0]), grip, MAIN)]
    else:
        parts = [part("cylinder", (grip, 0.5 * length), (middle, 0, 0), turn, MAIN)]
    if rng.random() < 0.7:
        half = length * rng.uniform(0.12, 0.3)
        at = middle + rng.uniform(-0.3, 0.3) * length
        parts.append(part("cylinder", (grip * rng.uniform(1.02, 1.2), half), (at, 0, 0), turn, SECOND))
    if rng.random() < 0.6:  # a collar
        at = split + 0.02 * size
        parts.append(part("cylinder", (grip * rng.uniform(0.4, 0.8), 0.04 * size), (at, 0, 0), turn, SECOND))
    parts.append(rod(np.array([split, 0, 0]), np.array([end, 0, 0]), shaft, METAL))
    if rng.random() < 0.4:
        half_tip = (0.02 * size, 1.6 * shaft, 0.5 * shaft)
        parts.append(part("box", half_tip, (end, 0, 0), surface=METAL))
    return parts


def hammer(rng: np.random.Generator, size: float) -> list[Part]:
    """A handle and a head across it."""
    grip = size * rng.uniform(0.03, 0.06)
    parts = [rod(np.array([-0.5 * size, 0, 0]), np.array([0.45 * size, 0, 0]), grip, MAIN)]
    head = (grip * rng.uniform(1.0, 1.8), size * rng.uniform(0.12, 0.22), grip * rng.uniform(1.0, 1.6))
    parts.append(part("box", head, (0.45 * size, 0, 0), surface=METAL))
    if rng.random() < 0.5:
        half = (0.18 * size, grip * 1.15, grip * 1.15)
        parts.append(part("box", half, (-0.32 * size, 0, 0), surface=SECOND))
    return parts


def wrench(rng: np.random.Generator, size: float) -> list[Part]:
    """A flat bar with jaws or a ring at its ends."""
    thick, half = rng.uniform(0.002, 0.005), size * rng.uniform(0.03, 0.06)
    surface = METAL if rng.random() < 0.8 else MAIN
    parts = [part("box", (0.36 * size, half, thick), surface=surface)]
    for side in (-1.0, 1.0):
        if rng.random() < 0.5:
            for jaw in (-1.0, 1.0):
                at = (side * 0.42 * size, jaw * 1.5 * half, 0.0)
                parts.append(part("box", (0.09 * size, 0.6 * half, 1.2 * thick), at, surface=surface))
            at = (side * 0.36 * size, 0.0, 0.0)
            parts.append(part("box", (0.03 * size, 2.0 * half, 1.2 * thick), at, surface=surface))
        else:
            parts += loop((side * 0.42 * size, 0.0), (1.8 * half, 1.8 * half), 0.5 * half, surface)
    return parts


def loop(
    centre: tuple[float, float], radii: tuple[float, float], thick: float, surface: object
) -> list[Part]:
    """A ring of rods in the plane z = 0."""
    turn = np.linspace(0.0, 2.0 * np.pi, 9)
    ring = np.column_stack(
        [centre[0] + radii[0] * np.cos(turn), centre[1] + radii[1] * np.sin(turn), 0 * turn]
    )
    return [rod(a, b, thick, surface) for a, b in itertools.pairwise(ring)]  # type: ignore[arg-type]


def scissors(rng: np.random.Generator, size: float) -> list[Part]:
    """Two blades that cross at a pivot, each with an arm and a loop for fingers."""
    size = max(size, 0.09)
    parts: list[Part] = []
    opening, thick = rng.uniform(0.05, 0.6), rng.uniform(0.001, 0.0025)
    wide, grip = size * rng.uniform(0.03, 0.05), size * rng.uniform(0.018, 0.03)
    two_coloured = rng.random() < 0.5
    for side in (-1.0, 1.0):
        turn = side * opening / 2
        cos, sin = np.cos(turn), np.sin(turn)
        outline = np.array([[-0.04, -0.5], [-0.04, 0.5], [0.35, 0.5], [0.52, 0.05]])
        outline = outline * np.array([size, 2.0 * wide]) * np.array([1.0, side])
        flat = np.column_stack(
            [cos * outline[:, 0] - sin * outline[:, 1], sin * outline[:, 0] + cos * outline[:, 1]]
        )
        level = side * thick
        corners = [[x, y, level + z] for x, y in flat for z in (-thick, thick)]
        parts.append(hull(np.array(corners), surface=METAL))
        # Behind the pivot each half lies on the other side.
        across = (0.35 * opening + 0.1) * size
        middle = (-0.34 * size, -side * (0.5 * across + 0.045 * size))
        surface = SECOND if two_coloured and side > 0 else MAIN
        parts.append(
            rod(
                np.array([0.02 * size, 0, level]),
                np.array([-0.2 * size, 0.8 * middle[1], level]),
                grip,
                surface,
            )
        )
        long = (size * rng.uniform(0.13, 0.17), size * rng.uniform(0.07, 0.1))
        parts += loop(middle, long, grip, surface)
    return parts


def pliers(rng: np.random.Generator, size: float) -> list[Part]:
    """Two handles that cross at a pivot, with short jaws."""
    grip, opening = size * rng.uniform(0.025, 0.045), rng.uniform(0.15, 0.5)
    parts = [part("cylinder", (0.06 * size, 1.1 * grip), (0.15 * size, 0, 0), surface=METAL)]
    for side in (-1.0, 1.0):
        turn = side * opening / 2
        jaw = (0.15 * size + 0.16 * size * np.cos(turn), 0.16 * size * np.sin(turn), 0.0)
        parts.append(part("box", (0.17 * size, 0.025 * size, grip), jaw, about_z(turn), METAL))
        pivot = np.array([0.15 * size, 0.0, 0.0])
        knee = np.array([-0.05 * size, -side * 0.09 * size, 0.0])
        tail = np.array([-0.5 * size, -side * (0.05 + 0.25 * opening) * size, 0.0])
        parts += [rod(pivot, knee, 0.8 * grip, METAL), rod(knee, tail, grip, MAIN)]
    return parts


def brush(rng: np.random.Generator, size: float) -> list[Part]:
    """A handle with a head of another material: brushes, spoons, knives, spatulas."""
    grip = size * rng.uniform(0.02, 0.045)
    parts = [rod(np.array([-0.5 * size, 0, 0]), np.array([0.1 * size, 0, 0]), grip, MAIN)]
    kind = rng.integers(3)
    if kind == 0:
        half = (0.2 * size, size * rng.uniform(0.05, 0.14), max(grip, 0.003))
        parts.append(part("box", half, (0.3 * size, 0, 0), surface=SECOND))
    elif kind == 1:
        parts.append(
            part(
                "box",
                (0.21 * size, size * rng.uniform(0.03, 0.09), 0.0012),
                (0.3 * size, 0, 0),
                surface=METAL,
            )
        )
    else:
        parts.append(rod(np.array([0.1 * size, 0, 0]), np.array([0.32 * size, 0, 0]), 0.6 * grip, METAL))
        parts.append(part("ellipsoid", (0.12 * size, 0.08 * size, 0.006), (0.4 * size, 0, 0), surface=METAL))
    return parts
