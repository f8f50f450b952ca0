"""Packed things and things of several materials: clear bags with contents, coils, rolls, spools, bottles."""

import itertools

import numpy as np

from cpor.sim.objects.solids import Part, Quaternion
from training.pieces import FILM, MAIN, METAL, SECOND, about_z, frustum, part, rod


def coil(rng: np.random.Generator, size: float, height: float = 0.0) -> list[Part]:
    """A cable wound up: rings that do not quite match."""
    radius, parts = rng.uniform(0.0015, 0.0035), []
    rings = int(rng.integers(2, 4))
    for k in range(rings):
        turn = np.linspace(0.0, 2.0 * np.pi, 9) + rng.uniform(0, 1)
        wide = 0.5 * size * rng.uniform(0.75, 1.0, 2)
        centre = 0.04 * size * rng.normal(size=2)
        # Rings side by side rather than above each other where there is no room.
        level = (k - 0.5 * (rings - 1)) * (1.5 * radius if height == 0.0 else 0.2 * height)
        ring = np.column_stack(
            [centre[0] + wide[0] * np.cos(turn), centre[1] + wide[1] * np.sin(turn), np.full(9, level)]
        )
        parts += [rod(a, b, radius, MAIN) for a, b in itertools.pairwise(ring)]
    if rng.random() < 0.4:
        parts.append(
            part("box", (0.06 * size, 0.03 * size, 2.5 * radius), (0.42 * size, 0, 0), surface=SECOND)
        )
    return parts


def flat_bag(rng: np.random.Generator, size: float) -> list[Part]:
    """A flat bag of film with something in it; the bag and what it holds are one object."""
    size = max(size, 0.1)
    half = 0.5 * size * np.array([1.0, rng.uniform(0.6, 1.0)])
    thick = rng.uniform(0.002, 0.006)
    parts = _film(rng, half, thick)
    room = float(half.min()) * 1.5
    kind = rng.integers(5)
    if kind <= 1:
        inside = coil(rng, room * rng.uniform(0.6, 1.0), thick)
    elif kind == 2:
        inside = [
            part(
                "box",
                (*(room * rng.uniform(0.1, 0.3, 2)), 0.8 * thick),
                _about(rng, room),
                about_z(rng.uniform(0, 3)),
            )
            for _ in range(int(rng.integers(1, 4)))
        ]
    elif kind == 3:
        inside = [
            part("cylinder", (room * rng.uniform(0.06, 0.16), 0.8 * thick), _about(rng, room), surface=SECOND)
            for _ in range(int(rng.integers(2, 7)))
        ]
    else:
        ends = room * rng.uniform(-0.5, 0.5, (2, 2, 2))
        inside = [
            rod(np.array([*a, 0.0]), np.array([*b, 0.01]), 0.7 * thick, METAL if k else MAIN)
            for k, (a, b) in enumerate(ends)
        ]
    if rng.random() < 0.3:  # a card or a header
        inside.append(
            part("box", (0.12 * half[0], 0.98 * half[1], 1.1 * thick), (0.86 * half[0], 0, 0), surface=SECOND)
        )
    return parts + inside


def _about(rng: np.random.Generator, room: float) -> tuple[float, float, float]:
    return (float(room * rng.uniform(-0.35, 0.35)), float(room * rng.uniform(-0.35, 0.35)), 0.0)


def _film(rng: np.random.Generator, half: np.ndarray, thick: float) -> list[Part]:
    """One panel, or three of which the outer ones hang or rise a little."""
    if rng.random() < 0.4:
        return [part("box", (half[0], half[1], thick), surface=FILM)]
    inner = half[0] * rng.uniform(0.45, 0.8)
    parts = [part("box", (inner, half[1], thick), surface=FILM)]
    for side in (-1.0, 1.0):
        bend, outer = rng.uniform(-0.35, 0.35), 0.5 * (half[0] - inner)
        at = (side * (inner + outer * np.cos(bend)), 0.0, outer * np.sin(bend))
        turn: Quaternion = (float(np.cos(bend / 2)), 0.0, float(-side * np.sin(bend / 2)), 0.0)
        parts.append(part("box", (outer * 1.05, half[1], 0.6 * thick), at, turn, FILM))
    return parts


def blister(rng: np.random.Generator, size: float) -> list[Part]:
    """A card with a clear dome over a small thing."""
    half = 0.5 * size * np.array([1.0, rng.uniform(0.5, 0.9)])
    parts = [part("box", (half[0], half[1], 0.0012))]
    deep = rng.uniform(0.006, 0.015)
    parts.append(part("box", (0.6 * half[0], 0.7 * half[1], deep), (-0.2 * half[0], 0, deep), surface=FILM))
    parts.append(
        part(
            "ellipsoid", (0.4 * half[0], 0.4 * half[1], 0.7 * deep), (-0.2 * half[0], 0, deep), surface=SECOND
        )
    )
    return parts


def roll(rng: np.random.Generator, size: float) -> list[Part]:
    """Tape, bandage or paper: a short cylinder with another thing in its middle."""
    radius = 0.5 * size * rng.uniform(0.45, 1.0)
    half = 0.5 * size * rng.uniform(0.2, 1.0)
    core = radius * rng.uniform(0.15, 0.6)
    parts = [part("cylinder", (radius, half)), part("cylinder", (core, half + 0.0012), surface=SECOND)]
    if rng.random() < 0.4:  # a label around it
        parts.append(part("cylinder", (radius + 0.0008, half * rng.uniform(0.3, 0.7)), surface=SECOND))
    return parts


def spool(rng: np.random.Generator, size: float) -> list[Part]:
    """Two flanges and what is wound between them."""
    radius, half = 0.5 * size * rng.uniform(0.5, 1.0), 0.5 * size * rng.uniform(0.4, 1.0)
    flange = rng.uniform(0.001, 0.003)
    parts = [part("cylinder", (radius * rng.uniform(0.75, 1.0), half))]
    for side in (-1.0, 1.0):
        parts.append(part("cylinder", (radius, flange), (0, 0, side * half), surface=SECOND))
        parts.append(part("cylinder", (0.25 * radius, flange * 1.5), (0, 0, side * half), surface=MAIN))
    return parts


def bottle(rng: np.random.Generator, size: float) -> list[Part]:
    """A body, a shoulder, a neck and a cap, perhaps a label; some are clear."""
    body = FILM if rng.random() < 0.15 else MAIN
    wide, neck = 0.5 * size * rng.uniform(0.3, 0.55), 0.5 * size * rng.uniform(0.1, 0.28)
    shoulder, collar = size * rng.uniform(0.0, 0.25), size * rng.uniform(0.3, 0.4)
    parts = [
        frustum(wide * rng.uniform(0.85, 1.0), wide, -0.5 * size, shoulder, 14, body),
        frustum(wide, neck, shoulder, collar, 14, body),
        part(
            "cylinder",
            (1.15 * neck, 0.5 * (0.5 * size - collar)),
            (0, 0, 0.5 * (0.5 * size + collar)),
            surface=SECOND,
        ),
    ]
    if rng.random() < 0.5:
        half, at = size * rng.uniform(0.08, 0.2), (0.0, 0.0, -0.2 * size)
        parts.append(part("cylinder", (wide + 0.0008, half), at, surface=SECOND))
    return parts
