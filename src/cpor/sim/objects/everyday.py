"""Everyday things of the catalogue."""

from functools import partial

from cpor.sim.objects.model_parts import (
    BLACK,
    BLUE,
    GREEN,
    GREY,
    LIME,
    ORANGE,
    PINK,
    RED,
    STEEL,
    WHITE,
    YELLOW,
    about,
    box,
    cylinder,
    ellipsoid,
    make_object,
    prism,
    tapered_box,
)
from cpor.sim.objects.solids import ObjectModel, Part, Surface

CATEGORY = "everyday thing"
_object = partial(make_object, CATEGORY)


def everyday_things() -> tuple[ObjectModel, ...]:
    """Six things from a desk or a bathroom."""
    return (
        _object("white remote control", 0.10, *_remote()),
        _object("black computer mouse", 0.09, *_mouse()),
        _object("pink soap bar", 0.10, *_soap()),
        _object("blue sponge", 0.03, *_sponge()),
        _object("yellow rubber duck", 0.06, *_duck()),
        _object("grey stapler", 0.16, *_stapler()),
    )


def _remote() -> tuple[Part, ...]:
    return (
        box((0.145, 0.044, 0.018), Surface(WHITE, shine=0.2)),
        box((0.090, 0.032, 0.005), Surface(GREY, WHITE, "checker", 0.011), (-0.018, 0, 0.010)),
        cylinder(0.022, 0.006, Surface(RED), (0.050, 0, 0.010)),
    )


def _mouse() -> tuple[Part, ...]:
    return (
        ellipsoid((0.104, 0.060, 0.040), Surface(BLACK, GREY, "speckle", 0.003, 0.3), (0, 0, 0)),
        cylinder(0.022, 0.008, Surface(GREY), (0.028, 0, 0.012), about("x", 90)),
        box((0.076, 0.044, 0.016), Surface(BLACK), (0, 0, -0.010)),
    )


def _soap() -> tuple[Part, ...]:
    return (tapered_box((0.084, 0.054), (0.070, 0.042), 0.030, Surface(PINK, WHITE, "label", 0.04, 0.3)),)


def _sponge() -> tuple[Part, ...]:
    return (
        box((0.096, 0.062, 0.026), Surface(BLUE, (0.01, 0.04, 0.22), "speckle", 0.006, 0.0), (0, 0, -0.005)),
        box((0.096, 0.062, 0.010), Surface(LIME, GREEN, "speckle", 0.003, 0.0), (0, 0, 0.013)),
    )


def _duck() -> tuple[Part, ...]:
    body = Surface(YELLOW, shine=0.2)
    return (
        ellipsoid((0.066, 0.050, 0.042), body, (-0.006, 0, -0.010)),
        ellipsoid((0.036, 0.034, 0.034), body, (0.014, 0, 0.018)),
        prism([(0.026, 0.012), (0.026, 0.022), (0.042, 0.013), (0.042, 0.018)], 0.020, Surface(ORANGE)),
        prism([(-0.028, -0.008), (-0.022, 0.008), (-0.044, 0.014)], 0.024, body),
        ellipsoid((0.007, 0.037, 0.007), Surface(BLACK), (0.022, 0, 0.023)),
    )


def _stapler() -> tuple[Part, ...]:
    return (
        box((0.125, 0.036, 0.014), Surface(BLACK), (0, 0, -0.022)),
        box((0.112, 0.030, 0.020), Surface(GREY, shine=0.3), (-0.004, 0, 0.008), about("y", -7)),
        box((0.030, 0.030, 0.028), Surface(GREY), (-0.044, 0, -0.006)),
        box((0.112, 0.018, 0.006), Surface(STEEL, shine=0.8), (-0.003, 0, 0.020), about("y", -7)),
    )
