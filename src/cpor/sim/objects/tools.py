"""Household tools of the catalogue."""

from functools import partial

from cpor.sim.objects.model_parts import (
    BLACK,
    BLUE,
    GREEN,
    GREY,
    LYING_X,
    LYING_Y,
    ORANGE,
    PURPLE,
    RED,
    STEEL,
    WHITE,
    WOOD,
    YELLOW,
    about,
    box,
    capsule,
    cylinder,
    make_object,
    prism,
)
from cpor.sim.objects.solids import ObjectModel, Part, Surface

CATEGORY = "household tool"
_object = partial(make_object, CATEGORY)
_STEEL = Surface(STEEL, shine=0.7)


def tools() -> tuple[ObjectModel, ...]:
    """Seven tools, the long ones along x."""
    return (
        _object("green screwdriver", 0.09, *_screwdriver()),
        _object("red pliers", 0.15, *_pliers()),
        _object("orange hammer", 0.26, *_hammer()),
        _object("blue wrench", 0.14, *_wrench()),
        _object("yellow tape measure", 0.16, *_tape_measure()),
        _object("black torch", 0.13, *_torch()),
        _object("purple brush", 0.06, *_brush()),
    )


def _screwdriver() -> tuple[Part, ...]:
    grip = Surface(GREEN, BLACK, "stripes", 0.012, 0.2)
    return (
        cylinder(0.028, 0.075, grip, (-0.035, 0, 0), LYING_X),
        cylinder(0.020, 0.014, Surface(GREEN), (0.008, 0, 0), LYING_X),
        cylinder(0.011, 0.060, _STEEL, (0.044, 0, 0), LYING_X),
    )


def _pliers() -> tuple[Part, ...]:
    grip = Surface(RED, shine=0.2)
    return (
        box((0.095, 0.015, 0.018), grip, (-0.038, 0.015, 0), about("z", -13)),
        box((0.095, 0.015, 0.018), grip, (-0.038, -0.015, 0), about("z", 13)),
        cylinder(0.028, 0.018, _STEEL, (0.016, 0, 0)),
        prism([(0.022, -0.008), (0.022, 0.008), (0.066, -0.006), (0.066, 0.006)], 0.018, _STEEL),
    )


def _hammer() -> tuple[Part, ...]:
    return (
        cylinder(0.022, 0.125, Surface(ORANGE, BLACK, "stripes", 0.03), (-0.012, 0, 0), LYING_X),
        box((0.026, 0.032, 0.026), _STEEL, (0.060, 0, 0)),
        cylinder(0.026, 0.018, _STEEL, (0.060, 0.024, 0), LYING_Y),
        box((0.016, 0.020, 0.024), _STEEL, (0.060, -0.025, 0)),
    )


def _wrench() -> tuple[Part, ...]:
    body = Surface(BLUE, shine=0.5)
    return (
        box((0.100, 0.017, 0.015), body, (-0.010, 0, 0)),
        cylinder(0.034, 0.015, body, (-0.062, 0, 0)),
        box((0.014, 0.044, 0.015), body, (0.046, 0, 0)),
        box((0.026, 0.012, 0.015), body, (0.064, 0.016, 0), about("z", -8)),
        box((0.026, 0.012, 0.015), body, (0.064, -0.016, 0), about("z", 8)),
    )


def _tape_measure() -> tuple[Part, ...]:
    case = Surface(YELLOW, BLACK, "label", 0.035, 0.2)
    front = [(0.032, -0.030), (0.032, 0.006), (0.010, 0.030)]
    back = [(-0.022, 0.030), (-0.032, 0.018), (-0.032, -0.030)]
    return (
        prism(front + back, 0.034, case),
        box((0.012, 0.020, 0.012), Surface(BLACK), (0.036, 0, -0.022)),
        cylinder(0.036, 0.042, Surface(GREY), (-0.004, 0, -0.002), LYING_Y),
    )


def _torch() -> tuple[Part, ...]:
    return (
        cylinder(0.028, 0.090, Surface(BLACK, GREY, "checker", 0.006, 0.3), (-0.015, 0, 0), LYING_X),
        cylinder(0.040, 0.030, Surface(BLACK, shine=0.3), (0.045, 0, 0), LYING_X),
        cylinder(0.034, 0.004, Surface(WHITE, YELLOW, "speckle", 0.004, 0.8), (0.0605, 0, 0), LYING_X),
    )


def _brush() -> tuple[Part, ...]:
    bristles = Surface(WOOD, (0.7, 0.5, 0.3), "stripes", 0.003)
    return (
        capsule(0.020, 0.085, Surface(PURPLE, shine=0.3), (-0.035, 0, 0), LYING_X),
        box((0.022, 0.046, 0.018), _STEEL, (0.014, 0, 0)),
        prism([(0.025, -0.008), (0.025, 0.008), (0.062, -0.006), (0.062, 0.006)], 0.044, bristles),
    )
