"""Fruit and vegetables of the catalogue."""

from functools import partial

from cpor.sim.objects.model_parts import (
    BROWN,
    CREAM,
    GREEN,
    LIME,
    LYING_X,
    ORANGE,
    PURPLE,
    RED,
    YELLOW,
    about,
    arc,
    capsule,
    cylinder,
    ellipsoid,
    make_object,
)
from cpor.sim.objects.solids import ObjectModel, Part, Surface

CATEGORY = "produce"
_object = partial(make_object, CATEGORY)


def produce() -> tuple[ObjectModel, ...]:
    """Eight fruits and vegetables, the long ones along x."""
    skin = Surface(YELLOW, (0.68, 0.44, 0.03), "speckle", 0.006)
    tip = Surface(BROWN, LIME, "speckle", 0.01)
    banana = (0.018, 0.028, 0.033, 0.033, 0.028, 0.016)
    return (
        _object("yellow banana", 0.12, *arc(0.085, 92, banana, skin, tip)),
        _object("red apple", 0.16, *_apple()),
        _object("orange tangerine", 0.11, *_tangerine()),
        _object("green pear", 0.15, *_pear()),
        _object("purple aubergine", 0.17, *_aubergine()),
        _object("green cucumber", 0.16, *_cucumber()),
        _object("orange carrot", 0.07, *_carrot()),
        _object("yellow lemon", 0.09, *_lemon()),
    )


def _apple() -> tuple[Part, ...]:
    return (
        ellipsoid((0.066, 0.066, 0.060), Surface(RED, (0.68, 0.14, 0.05), "speckle", 0.004, 0.3)),
        cylinder(0.006, 0.014, Surface(BROWN), (0, 0, 0.034)),
    )


def _tangerine() -> tuple[Part, ...]:
    return (
        ellipsoid((0.062, 0.062, 0.052), Surface(ORANGE, YELLOW, "speckle", 0.003, 0.2)),
        cylinder(0.010, 0.004, Surface(GREEN), (0, 0, 0.026)),
    )


def _pear() -> tuple[Part, ...]:
    skin = Surface(LIME, (0.26, 0.44, 0.05), "speckle", 0.004)
    return (
        ellipsoid((0.060, 0.060, 0.058), skin, (0, 0, -0.016)),
        ellipsoid((0.036, 0.036, 0.060), skin, (0, 0, 0.020)),
        cylinder(0.005, 0.016, Surface(BROWN), (0, 0, 0.054)),
    )


def _aubergine() -> tuple[Part, ...]:
    skin = Surface(PURPLE, shine=0.6)
    return (
        ellipsoid((0.100, 0.058, 0.058), skin, (-0.020, 0, 0)),
        capsule(0.040, 0.080, skin, (0.026, 0, 0), LYING_X),
        cylinder(0.030, 0.014, Surface(GREEN), (0.064, 0, 0), LYING_X),
        cylinder(0.010, 0.018, Surface(GREEN), (0.076, 0, 0), LYING_X),
    )


def _cucumber() -> tuple[Part, ...]:
    skin = Surface(GREEN, LIME, "stripes", 0.009, 0.2)
    return (
        capsule(0.040, 0.090, skin, (-0.032, 0.003, 0), LYING_X),
        capsule(0.040, 0.090, skin, (0.032, 0.003, 0), LYING_X),
        capsule(0.038, 0.080, skin, (0, -0.001, 0), LYING_X),
    )


def _carrot() -> tuple[Part, ...]:
    root = Surface(ORANGE, BROWN, "stripes", 0.018)
    leaf = Surface(GREEN, LIME, "speckle", 0.005)
    return (
        ellipsoid((0.120, 0.034, 0.034), root, (0.006, 0, 0)),
        capsule(0.034, 0.056, root, (-0.022, 0, 0), LYING_X),
        capsule(0.013, 0.040, leaf, (-0.060, 0.006, 0), about("y", 90)),
        capsule(0.013, 0.036, leaf, (-0.058, -0.007, 0), LYING_X),
    )


def _lemon() -> tuple[Part, ...]:
    skin = Surface(YELLOW, CREAM, "speckle", 0.003, 0.2)
    return (
        ellipsoid((0.070, 0.052, 0.052), skin),
        ellipsoid((0.024, 0.018, 0.018), skin, (0.032, 0, 0)),
        cylinder(0.008, 0.008, Surface(GREEN), (-0.034, 0, 0), LYING_X),
    )
