"""What moulded bins have beyond four walls: rims, feet, ribs, corner pads and slots to grip."""

from typing import NamedTuple

import numpy as np

from cpor.sim.physics.world import Bin
from training.pieces import MAIN_ROLE, SECOND_ROLE

_BOX, _CAPSULE = 6, 3


class Moulding(NamedTuple):
    """A shape of the bin, along the axes, around the middle of the heap; only seen, never touched.

    Attributes:
        kind: MuJoCo's number.
        at: Its middle. [m]
        size: As MuJoCo has it. [m]
        half: Half size of the box around it, in its own frame. [m]
        rotation: From its frame to the world. Shape (3, 3).
        role: Which of the bin's materials.
    """

    kind: int
    at: tuple[float, float, float]
    size: tuple[float, float, float]
    half: tuple[float, float, float]
    rotation: np.ndarray
    role: int


_Z_TO_X = np.array([[0.0, 0.0, 1.0], [0.0, 1.0, 0.0], [-1.0, 0.0, 0.0]])
_Z_TO_Y = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.0, -1.0, 0.0]])


def mould(rng: np.random.Generator, bin: Bin) -> list[Moulding]:
    """Random mouldings of a bin."""
    x, y, high = bin.inner[0] / 2 + bin.wall, bin.inner[1] / 2 + bin.wall, bin.height
    made: list[Moulding] = []
    rim = rng.random()
    if rim < 0.4:
        wide, thick = rng.uniform(0.004, 0.012), rng.uniform(0.0015, 0.005)
        made += _frame((x + wide, y + wide), wide, thick, high - thick)
        if rng.random() < 0.5:
            made += _tubes((x + 2 * wide, y + 2 * wide), thick, high - thick)
    elif rim < 0.7:
        radius = rng.uniform(0.003, 0.008)
        made += _tubes((x - 0.5 * bin.wall, y - 0.5 * bin.wall), radius, high - 0.5 * radius)
    if rng.random() < 0.3:  # a step half way up
        wide, level = rng.uniform(0.002, 0.008), high * rng.uniform(0.1, 0.6)
        made += _frame((x + wide, y + wide), wide, 0.5 * level, 0.5 * level)
    if rng.random() < 0.35:
        side, tall = rng.uniform(0.006, 0.015), 0.5 * high * rng.uniform(0.5, 1.0)
        corner = (x - bin.wall - side, y - bin.wall - side)
        places = [(a * corner[0], b * corner[1], high - tall) for a in (-1, 1) for b in (-1, 1)]
        made += [_box(at, (side, side, tall)) for at in places]
    if rng.random() < 0.3:
        count, deep = int(rng.integers(2, 7)), rng.uniform(0.002, 0.005)
        for k in np.linspace(-0.8, 0.8, count):
            for side in (-1.0, 1.0):
                made.append(_box((side * (x + deep), k * y, 0.45 * high), (deep, 0.003, 0.45 * high)))
                made.append(_box((k * x, side * (y + deep), 0.45 * high), (0.003, deep, 0.45 * high)))
    if rng.random() < 0.3:
        long, tall = rng.uniform(0.15, 0.3), high * rng.uniform(0.08, 0.15)
        for side in (-1.0, 1.0):
            place, half = (side * (x + 0.0005), 0.0, 0.75 * high), (0.001, long * y, tall)
            made.append(_box(place, half)._replace(role=SECOND_ROLE))
            made.append(
                _box((side * (x - bin.wall - 0.0005), 0.0, 0.75 * high), half)._replace(role=SECOND_ROLE)
            )
    return made


def _box(at: tuple[float, float, float], half: tuple[float, float, float]) -> Moulding:
    return Moulding(_BOX, at, half, half, np.eye(3), MAIN_ROLE)


def _frame(middle: tuple[float, float], wide: float, thick: float, level: float) -> list[Moulding]:
    """Four bars around the bin; `middle` says how far their middles are from the centre."""
    x, y = middle
    across = [_box((s * x, 0.0, level), (wide, y + wide, thick)) for s in (-1.0, 1.0)]
    return across + [_box((0.0, s * y, level), (x + wide, wide, thick)) for s in (-1.0, 1.0)]


def _tubes(middle: tuple[float, float], radius: float, level: float) -> list[Moulding]:
    """Four rounded edges around the bin."""
    x, y = middle
    made = []
    for s in (-1.0, 1.0):
        for at, half, turn in (((s * x, 0.0, level), y, _Z_TO_Y), ((0.0, s * y, level), x, _Z_TO_X)):
            around = (radius, radius, half + radius)
            made.append(Moulding(_CAPSULE, at, (radius, half, 0.0), around, turn, MAIN_ROLE))
    return made
