"""Toy vehicles of the catalogue: a body, a cabin, wheels; forwards is +x."""

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
    WHITE,
    YELLOW,
    box,
    capsule,
    cylinder,
    make_object,
    prism,
)
from cpor.sim.objects.solids import Colour, ObjectModel, Part, Surface

CATEGORY = "toy vehicle"
_object = partial(make_object, CATEGORY)
_GLASS = Surface((0.05, 0.10, 0.14), shine=0.6)
_TYRE = Surface(BLACK, GREY, "checker", 0.004, 0.05)


def vehicles() -> tuple[ObjectModel, ...]:
    """Six toy vehicles."""
    return (
        _object("blue toy truck", 0.11, *_truck()),
        _object("red toy car", 0.07, *_car()),
        _object("yellow toy bus", 0.10, *_bus()),
        _object("green toy tractor", 0.09, *_tractor()),
        _object("white toy plane", 0.06, *_plane()),
        _object("purple toy train", 0.12, *_train()),
    )


def _axle(x: float, z: float, diameter: float, width: float) -> Part:
    """A pair of wheels as one roller, narrower than the body is long: fewer contacts than two wheels."""
    return cylinder(diameter, width, _TYRE, (x, 0, z), LYING_Y)


def _paint(colour: Colour, stripe: Colour | None = None) -> Surface:
    return Surface(colour, shine=0.4) if stripe is None else Surface(colour, stripe, "stripes", 0.03, 0.4)


def _truck() -> tuple[Part, ...]:
    return (
        box((0.110, 0.044, 0.012), Surface(GREY), (0, 0, -0.014)),
        box((0.064, 0.050, 0.036), _paint(BLUE), (-0.022, 0, 0.010)),
        box((0.032, 0.046, 0.036), _paint(BLUE, WHITE), (0.036, 0, 0.008)),
        box((0.006, 0.038, 0.014), _GLASS, (0.050, 0, 0.016)),
        _axle(-0.030, -0.020, 0.024, 0.052),
        _axle(0.034, -0.020, 0.024, 0.052),
    )


def _car() -> tuple[Part, ...]:
    cabin = [(-0.028, 0.006), (0.022, 0.006), (0.008, 0.026), (-0.020, 0.026)]
    return (
        box((0.090, 0.042, 0.020), _paint(RED), (0, 0, -0.003)),
        prism(cabin, 0.038, _GLASS),
        box((0.026, 0.036, 0.004), _paint(RED), (-0.006, 0, 0.026)),
        _axle(-0.026, -0.010, 0.022, 0.046),
        _axle(0.026, -0.010, 0.022, 0.046),
    )


def _bus() -> tuple[Part, ...]:
    return (
        box((0.120, 0.044, 0.028), _paint(YELLOW), (0, 0, -0.006)),
        box((0.114, 0.042, 0.014), Surface((0.05, 0.10, 0.14), YELLOW, "stripes", 0.02, 0.5), (0, 0, 0.015)),
        box((0.120, 0.044, 0.006), _paint(YELLOW), (0, 0, 0.025)),
        _axle(-0.036, -0.020, 0.022, 0.046),
        _axle(0.036, -0.020, 0.022, 0.046),
    )


def _tractor() -> tuple[Part, ...]:
    return (
        box((0.052, 0.028, 0.026), _paint(GREEN), (0.020, 0, 0.002)),
        box((0.034, 0.036, 0.038), _paint(GREEN), (-0.020, 0, 0.013)),
        box((0.036, 0.030, 0.018), _GLASS, (-0.020, 0, 0.022)),
        cylinder(0.010, 0.018, Surface(BLACK), (0.034, 0, 0.022)),
        _axle(-0.022, -0.012, 0.046, 0.054),
        _axle(0.036, -0.022, 0.026, 0.044),
    )


def _plane() -> tuple[Part, ...]:
    wing = Surface(WHITE, RED, "stripes", 0.03, 0.3)
    return (
        capsule(0.032, 0.110, Surface(WHITE, shine=0.3), (0, 0, 0), LYING_X),
        box((0.030, 0.068, 0.012), wing, (0.008, 0, 0.0)),
        box((0.018, 0.046, 0.010), wing, (-0.044, 0, 0.004)),
        box((0.018, 0.010, 0.030), Surface(RED), (-0.044, 0, 0.020)),
    )


def _train() -> tuple[Part, ...]:
    return (
        box((0.100, 0.040, 0.014), Surface(BLACK), (0, 0, -0.018)),
        cylinder(0.038, 0.060, _paint(PURPLE), (0.020, 0, 0.006), LYING_X),
        box((0.036, 0.044, 0.046), _paint(PURPLE, YELLOW), (-0.030, 0, 0.010)),
        cylinder(0.014, 0.016, Surface(ORANGE), (0.036, 0, 0.026)),
        _axle(-0.030, -0.024, 0.022, 0.048),
        _axle(0.028, -0.024, 0.022, 0.048),
    )
