"""Building blocks of the catalogue."""

from functools import partial

from cpor.sim.objects.model_parts import (
    BLUE,
    GREEN,
    ORANGE,
    PURPLE,
    RED,
    WOOD,
    YELLOW,
    box,
    cylinder,
    make_object,
    prism,
)
from cpor.sim.objects.solids import Colour, ObjectModel, Part, Surface

CATEGORY = "block"
_object = partial(make_object, CATEGORY)
EDGE = 0.030
"""Thickness of the long blocks. [m]"""


def blocks() -> tuple[ObjectModel, ...]:
    """Six wooden blocks."""
    return (
        _object("red cube", 0.07, box((0.046, 0.046, 0.046), _painted(RED))),
        _object("blue L block", 0.09, *_l_block()),
        _object("green T block", 0.09, *_t_block()),
        _object("yellow arch", 0.10, *_arch()),
        _object("purple wedge", 0.07, *_wedge()),
        _object("orange cylinder", 0.08, cylinder(0.044, 0.070, _painted(ORANGE))),
    )


def _painted(colour: Colour) -> Surface:
    """Paint through which a little of the grain shows."""
    return Surface(colour, tuple(0.7 * c + 0.3 * w for c, w in zip(colour, WOOD, strict=True)), "grain", 0.02)  # type: ignore[arg-type]


def _l_block() -> tuple[Part, ...]:
    paint = _painted(BLUE)
    return (
        box((0.090, EDGE, EDGE), paint, (0.010, -0.012, 0)),
        box((EDGE, 0.034, EDGE), paint, (-0.020, 0.020, 0)),
    )


def _t_block() -> tuple[Part, ...]:
    paint = _painted(GREEN)
    return (
        box((0.094, EDGE, EDGE), paint, (0, 0.014, 0)),
        box((EDGE, 0.034, EDGE), paint, (0, -0.018, 0)),
    )


def _arch() -> tuple[Part, ...]:
    paint = _painted(YELLOW)
    return (
        box((0.100, 0.032, 0.022), paint, (0, 0, 0.016)),
        box((0.026, 0.032, 0.032), paint, (-0.037, 0, -0.011)),
        box((0.026, 0.032, 0.032), paint, (0.037, 0, -0.011)),
    )


def _wedge() -> tuple[Part, ...]:
    return (prism([(-0.040, -0.018), (0.040, -0.018), (0.0, 0.034)], 0.040, _painted(PURPLE)),)
