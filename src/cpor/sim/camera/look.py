"""How a scene is lit and what table and bin are made of, apart from the objects themselves."""

from dataclasses import dataclass

import numpy as np

from cpor.sim.objects.solids import Colour, Surface, Vector
from cpor.sim.physics.world import HEAP_CENTRE

_PALE_WOOD = Surface((0.36, 0.33, 0.29), (0.30, 0.27, 0.23), "grain", 0.03, 0.05)
_GREY_PLASTIC = Surface((0.24, 0.26, 0.29), shine=0.15)


@dataclass(frozen=True)
class Light:
    """A lamp.

    Attributes:
        position: In the world. [m]
        colour: Linear RGB of what it adds to a white matt surface that faces it.
        softness: Half width of the edge of a shadow. [m]
    """

    position: Vector
    colour: Colour = (0.7, 0.7, 0.7)
    softness: float = 0.003


@dataclass(frozen=True)
class SceneLook:
    """Everything about a picture's appearance but the objects.

    Attributes:
        lights: Lamps that cast shadows.
        ambient: Linear RGB of the light from everywhere.
        exposure: Factor on all light.
        white_balance: Factor on each channel: what the camera takes for white.
        table: Surface of the table.
        bin: Surface of the bin.
    """

    lights: tuple[Light, ...]
    ambient: Colour = (0.4, 0.4, 0.4)
    exposure: float = 1.0
    white_balance: Colour = (1.0, 1.0, 1.0)
    table: Surface = _PALE_WOOD
    bin: Surface = _GREY_PLASTIC


_TABLES = (
    Surface((0.42, 0.26, 0.13), (0.26, 0.14, 0.06), "grain", 0.025, 0.1),
    Surface((0.58, 0.44, 0.28), (0.45, 0.32, 0.18), "grain", 0.035, 0.1),
    Surface((0.52, 0.51, 0.49), (0.44, 0.43, 0.41), "speckle", 0.009, 0.05),
    Surface((0.68, 0.68, 0.66), shine=0.15),
    Surface((0.09, 0.10, 0.11), (0.13, 0.13, 0.14), "speckle", 0.009, 0.05),
    Surface((0.16, 0.22, 0.20), (0.20, 0.26, 0.24), "checker", 0.03, 0.02),
    Surface((0.30, 0.30, 0.31), (0.24, 0.24, 0.25), "grain", 0.05, 0.2),
)
_BINS = (
    _GREY_PLASTIC,
    Surface((0.07, 0.13, 0.28), shine=0.2),
    Surface((0.62, 0.62, 0.60), shine=0.2),
    Surface((0.04, 0.04, 0.045), shine=0.15),
    Surface((0.45, 0.32, 0.19), (0.40, 0.28, 0.16), "grain", 0.008, 0.0),
    Surface((0.18, 0.24, 0.17), shine=0.2),
)


def plain_look() -> SceneLook:
    """The same soft daylight every time, for figures and tests."""
    key = Light((HEAP_CENTRE[0] - 0.35, 0.45, 1.0), (0.72, 0.70, 0.67), 0.004)
    fill = Light((HEAP_CENTRE[0] + 0.6, -0.3, 0.9), (0.15, 0.155, 0.165), 0.006)
    return SceneLook((key, fill), ambient=(0.33, 0.335, 0.345))


def random_look(rng: np.random.Generator) -> SceneLook:
    """A room like another: one lamp or window, or two, of any usual colour, and a table and bin."""
    total = rng.uniform(0.9, 1.2)
    share = rng.uniform(0.25, 0.55)
    warmth = rng.uniform(-0.10, 0.14)
    # The camera takes out most of the tint of the light, never all of it.
    left_over = rng.uniform(0.2, 0.6)
    tint = np.array([1.0 + warmth, 1.0, 1.0 - warmth])
    balance = tint ** (left_over - 1.0) * rng.uniform(0.98, 1.02, size=3)
    lights = [_lamp(rng, total * (1.0 - share) * tint, rng.uniform(40.0, 80.0))]
    if rng.random() < 0.6:
        lights.append(_lamp(rng, total * rng.uniform(0.1, 0.3) * np.ones(3), rng.uniform(25.0, 70.0)))
    return SceneLook(
        lights=tuple(lights),
        ambient=_colour(total * share * (0.5 * tint + 0.5)),
        exposure=float(np.exp(rng.uniform(-0.25, 0.2))),
        white_balance=_colour(balance),
        table=_vary(rng, _TABLES[rng.integers(len(_TABLES))]),
        bin=_vary(rng, _BINS[rng.integers(len(_BINS))]),
    )


def _lamp(rng: np.random.Generator, colour: np.ndarray, elevation_deg: float) -> Light:
    azimuth = rng.uniform(0.0, 2.0 * np.pi)
    elevation = np.deg2rad(elevation_deg)
    distance = rng.uniform(0.8, 1.4)
    x = HEAP_CENTRE[0] + distance * np.cos(elevation) * np.cos(azimuth)
    y = HEAP_CENTRE[1] + distance * np.cos(elevation) * np.sin(azimuth)
    return Light(
        (float(x), float(y), float(distance * np.sin(elevation))), _colour(colour), rng.uniform(0.002, 0.008)
    )


def _vary(rng: np.random.Generator, surface: Surface) -> Surface:
    factor = rng.uniform(0.8, 1.2) * rng.uniform(0.94, 1.06, size=3)
    return Surface(
        _colour(np.minimum(factor * surface.colour, 0.9)),
        _colour(np.minimum(factor * surface.second, 0.9)),
        surface.pattern,
        surface.scale * float(rng.uniform(0.8, 1.25)),
        surface.shine,
    )


def _colour(values: np.ndarray) -> Colour:
    red, green, blue = (float(value) for value in values)
    return red, green, blue
