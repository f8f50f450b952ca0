"""Containers of the catalogue; open ones are rings of staves on a bottom, upright along z."""

from functools import partial
from math import cos, pi, sin

from cpor.sim.objects.model_parts import (
    BLUE,
    CREAM,
    GREEN,
    GREY,
    LIME,
    PINK,
    RED,
    STEEL,
    TURQUOISE,
    WHITE,
    YELLOW,
    box,
    cylinder,
    hull,
    make_object,
    prism,
    ring,
)
from cpor.sim.objects.solids import ObjectModel, Part, Surface

CATEGORY = "container"
_object = partial(make_object, CATEGORY)


def containers() -> tuple[ObjectModel, ...]:
    """Seven containers, four of them open."""
    return (
        _object("red mug", 0.16, *_mug()),
        _object("white bowl", 0.09, *_bowl()),
        _object("turquoise cup", 0.05, *_cup()),
        _object("yellow tin can", 0.18, *_tin()),
        _object("green bottle", 0.14, *_bottle()),
        _object("milk carton", 0.17, *_carton()),
        _object("pink jar", 0.15, *_jar()),
    )


def _mug() -> tuple[Part, ...]:
    glaze = Surface(RED, shine=0.4)
    return (
        *ring(0.060, 0.060, 0.005, 0.060, glaze, (0, 0, 0.003)),
        cylinder(0.056, 0.006, glaze, (0, 0, -0.029)),
        box((0.022, 0.011, 0.011), glaze, (0.040, 0, 0.020)),
        box((0.022, 0.011, 0.011), glaze, (0.040, 0, -0.014)),
        box((0.011, 0.011, 0.045), glaze, (0.0455, 0, 0.003)),
    )


def _bowl() -> tuple[Part, ...]:
    glaze = Surface(WHITE, BLUE, "speckle", 0.006, 0.4)
    return (
        *ring(0.040, 0.067, 0.005, 0.034, glaze, (0, 0, 0.004)),
        cylinder(0.040, 0.008, Surface(WHITE, shine=0.4), (0, 0, -0.015)),
    )


def _cup() -> tuple[Part, ...]:
    plastic = Surface(TURQUOISE, WHITE, "stripes", 0.02, 0.2)
    return (
        *ring(0.044, 0.060, 0.004, 0.072, plastic, (0, 0, 0.002)),
        cylinder(0.043, 0.006, Surface(TURQUOISE), (0, 0, -0.033)),
    )


def _tin() -> tuple[Part, ...]:
    return (
        cylinder(0.060, 0.068, Surface(YELLOW, RED, "label", 0.05, 0.2)),
        cylinder(0.056, 0.074, Surface(STEEL, shine=0.9)),
    )


def _bottle() -> tuple[Part, ...]:
    return (
        cylinder(0.052, 0.085, Surface(GREEN, CREAM, "label", 0.05, 0.5), (0, 0, -0.030)),
        _cone(0.052, 0.024, 0.026, Surface(GREEN, shine=0.5), 0.0255),
        cylinder(0.024, 0.026, Surface(GREEN, shine=0.5), (0, 0, 0.050)),
        cylinder(0.026, 0.012, Surface(RED), (0, 0, 0.068)),
    )


def _cone(lower: float, upper: float, height: float, surface: Surface, z: float) -> Part:
    """A frustum of twelve sides, along z around the height z."""
    corners = [
        (d / 2 * cos(k * pi / 6), d / 2 * sin(k * pi / 6), h)
        for d, h in ((lower, -height / 2), (upper, height / 2))
        for k in range(12)
    ]
    return hull(corners, surface, (0, 0, z))


def _carton() -> tuple[Part, ...]:
    paper = Surface(WHITE, LIME, "stripes", 0.06, 0.15)
    roof = [(-0.030, 0.038), (0.030, 0.038), (-0.004, 0.060), (0.004, 0.060)]
    return (
        box((0.060, 0.060, 0.088), paper, (0, 0, -0.006)),
        prism(roof, 0.060, Surface(LIME)),
        box((0.008, 0.060, 0.014), Surface(WHITE), (0, 0, 0.064)),
    )


def _jar() -> tuple[Part, ...]:
    return (
        cylinder(0.056, 0.056, Surface(PINK, WHITE, "label", 0.04, 0.5), (0, 0, -0.008)),
        cylinder(0.060, 0.016, Surface(GREY, WHITE, "checker", 0.006, 0.4), (0, 0, 0.028)),
    )
