"""The forty objects as drawn, in the six kinds of the paper's robot study; the long ones lie along x.

Open vessels are rings of staves on a bottom, upright along z; vehicles drive along +x.
"""

from math import cos, pi, sin
from typing import TypeAlias

from cpor.sim.objects.model_parts import (
    BLACK,
    BLUE,
    BROWN,
    CREAM,
    GREEN,
    GREY,
    LIME,
    LYING_X,
    LYING_Y,
    ORANGE,
    PINK,
    PURPLE,
    RED,
    STEEL,
    TURQUOISE,
    WHITE,
    WOOD,
    YELLOW,
    about,
    arc,
    box,
    capsule,
    cylinder,
    ellipsoid,
    hull,
    prism,
    ring,
    tapered_box,
)
from cpor.sim.objects.solids import Colour, Part, Surface

Drawn: TypeAlias = dict[tuple[str, float], tuple[Part, ...]]
"""Parts of each object by its name and mass. [kg]"""

_STEEL = Surface(STEEL, shine=0.7)
_GLASS = Surface((0.05, 0.10, 0.14), shine=0.6)
_TYRE = Surface(BLACK, GREY, "checker", 0.004, 0.05)
EDGE = 0.030
"""Thickness of the long blocks. [m]"""


def draw_things() -> dict[str, Drawn]:
    """All objects, by category."""
    return {
        "household tool": _tools(),
        "toy vehicle": _vehicles(),
        "container": _containers(),
        "produce": _produce(),
        "block": _blocks(),
        "everyday thing": _everyday_things(),
    }


def _tools() -> Drawn:
    """Seven tools, the long ones along x."""
    screwdriver_grip = Surface(GREEN, BLACK, "stripes", 0.012, 0.2)
    pliers_grip = Surface(RED, shine=0.2)
    wrench_body = Surface(BLUE, shine=0.5)
    tape_measure_case = Surface(YELLOW, BLACK, "label", 0.035, 0.2)
    tape_measure_front = [(0.032, -0.030), (0.032, 0.006), (0.010, 0.030)]
    tape_measure_back = [(-0.022, 0.030), (-0.032, 0.018), (-0.032, -0.030)]
    brush_bristles = Surface(WOOD, (0.7, 0.5, 0.3), "stripes", 0.003)
    return {
        ("green screwdriver", 0.09): (
            cylinder(0.028, 0.075, screwdriver_grip, (-0.035, 0, 0), LYING_X),
            cylinder(0.020, 0.014, Surface(GREEN), (0.008, 0, 0), LYING_X),
            cylinder(0.011, 0.060, _STEEL, (0.044, 0, 0), LYING_X),
        ),
        ("red pliers", 0.15): (
            box((0.095, 0.015, 0.018), pliers_grip, (-0.038, 0.015, 0), about("z", -13)),
            box((0.095, 0.015, 0.018), pliers_grip, (-0.038, -0.015, 0), about("z", 13)),
            cylinder(0.028, 0.018, _STEEL, (0.016, 0, 0)),
            prism([(0.022, -0.008), (0.022, 0.008), (0.066, -0.006), (0.066, 0.006)], 0.018, _STEEL),
        ),
        ("orange hammer", 0.26): (
            cylinder(0.022, 0.125, Surface(ORANGE, BLACK, "stripes", 0.03), (-0.012, 0, 0), LYING_X),
            box((0.026, 0.032, 0.026), _STEEL, (0.060, 0, 0)),
            cylinder(0.026, 0.018, _STEEL, (0.060, 0.024, 0), LYING_Y),
            box((0.016, 0.020, 0.024), _STEEL, (0.060, -0.025, 0)),
        ),
        ("blue wrench", 0.14): (
            box((0.100, 0.017, 0.015), wrench_body, (-0.010, 0, 0)),
            cylinder(0.034, 0.015, wrench_body, (-0.062, 0, 0)),
            box((0.014, 0.044, 0.015), wrench_body, (0.046, 0, 0)),
            box((0.026, 0.012, 0.015), wrench_body, (0.064, 0.016, 0), about("z", -8)),
            box((0.026, 0.012, 0.015), wrench_body, (0.064, -0.016, 0), about("z", 8)),
        ),
        ("yellow tape measure", 0.16): (
            prism(tape_measure_front + tape_measure_back, 0.034, tape_measure_case),
            box((0.012, 0.020, 0.012), Surface(BLACK), (0.036, 0, -0.022)),
            cylinder(0.036, 0.042, Surface(GREY), (-0.004, 0, -0.002), LYING_Y),
        ),
        ("black torch", 0.13): (
            cylinder(0.028, 0.090, Surface(BLACK, GREY, "checker", 0.006, 0.3), (-0.015, 0, 0), LYING_X),
            cylinder(0.040, 0.030, Surface(BLACK, shine=0.3), (0.045, 0, 0), LYING_X),
            cylinder(0.034, 0.004, Surface(WHITE, YELLOW, "speckle", 0.004, 0.8), (0.0605, 0, 0), LYING_X),
        ),
        ("purple brush", 0.06): (
            capsule(0.020, 0.085, Surface(PURPLE, shine=0.3), (-0.035, 0, 0), LYING_X),
            box((0.022, 0.046, 0.018), _STEEL, (0.014, 0, 0)),
            prism([(0.025, -0.008), (0.025, 0.008), (0.062, -0.006), (0.062, 0.006)], 0.044, brush_bristles),
        ),
    }


def _axle(x: float, z: float, diameter: float, width: float) -> Part:
    """A pair of wheels as one roller, narrower than the body is long: fewer contacts than two wheels."""
    return cylinder(diameter, width, _TYRE, (x, 0, z), LYING_Y)


def _paint(colour: Colour, stripe: Colour | None = None) -> Surface:
    return Surface(colour, shine=0.4) if stripe is None else Surface(colour, stripe, "stripes", 0.03, 0.4)


def _vehicles() -> Drawn:
    """Six toy vehicles."""
    car_cabin = [(-0.028, 0.006), (0.022, 0.006), (0.008, 0.026), (-0.020, 0.026)]
    plane_wing = Surface(WHITE, RED, "stripes", 0.03, 0.3)
    return {
        ("blue toy truck", 0.11): (
            box((0.110, 0.044, 0.012), Surface(GREY), (0, 0, -0.014)),
            box((0.064, 0.050, 0.036), _paint(BLUE), (-0.022, 0, 0.010)),
            box((0.032, 0.046, 0.036), _paint(BLUE, WHITE), (0.036, 0, 0.008)),
            box((0.006, 0.038, 0.014), _GLASS, (0.050, 0, 0.016)),
            _axle(-0.030, -0.020, 0.024, 0.052),
            _axle(0.034, -0.020, 0.024, 0.052),
        ),
        ("red toy car", 0.07): (
            box((0.090, 0.042, 0.020), _paint(RED), (0, 0, -0.003)),
            prism(car_cabin, 0.038, _GLASS),
            box((0.026, 0.036, 0.004), _paint(RED), (-0.006, 0, 0.026)),
            _axle(-0.026, -0.010, 0.022, 0.046),
            _axle(0.026, -0.010, 0.022, 0.046),
        ),
        ("yellow toy bus", 0.10): (
            box((0.120, 0.044, 0.028), _paint(YELLOW), (0, 0, -0.006)),
            box(
                (0.114, 0.042, 0.014),
                Surface((0.05, 0.10, 0.14), YELLOW, "stripes", 0.02, 0.5),
                (0, 0, 0.015),
            ),
            box((0.120, 0.044, 0.006), _paint(YELLOW), (0, 0, 0.025)),
            _axle(-0.036, -0.020, 0.022, 0.046),
            _axle(0.036, -0.020, 0.022, 0.046),
        ),
        ("green toy tractor", 0.09): (
            box((0.052, 0.028, 0.026), _paint(GREEN), (0.020, 0, 0.002)),
            box((0.034, 0.036, 0.038), _paint(GREEN), (-0.020, 0, 0.013)),
            box((0.036, 0.030, 0.018), _GLASS, (-0.020, 0, 0.022)),
            cylinder(0.010, 0.018, Surface(BLACK), (0.034, 0, 0.022)),
            _axle(-0.022, -0.012, 0.046, 0.054),
            _axle(0.036, -0.022, 0.026, 0.044),
        ),
        ("white toy plane", 0.06): (
            capsule(0.032, 0.110, Surface(WHITE, shine=0.3), (0, 0, 0), LYING_X),
            box((0.030, 0.068, 0.012), plane_wing, (0.008, 0, 0.0)),
            box((0.018, 0.046, 0.010), plane_wing, (-0.044, 0, 0.004)),
            box((0.018, 0.010, 0.030), Surface(RED), (-0.044, 0, 0.020)),
        ),
        ("purple toy train", 0.12): (
            box((0.100, 0.040, 0.014), Surface(BLACK), (0, 0, -0.018)),
            cylinder(0.038, 0.060, _paint(PURPLE), (0.020, 0, 0.006), LYING_X),
            box((0.036, 0.044, 0.046), _paint(PURPLE, YELLOW), (-0.030, 0, 0.010)),
            cylinder(0.014, 0.016, Surface(ORANGE), (0.036, 0, 0.026)),
            _axle(-0.030, -0.024, 0.022, 0.048),
            _axle(0.028, -0.024, 0.022, 0.048),
        ),
    }


def _cone(lower: float, upper: float, height: float, surface: Surface, z: float) -> Part:
    """A frustum of twelve sides, along z around the height z."""
    corners = [
        (d / 2 * cos(k * pi / 6), d / 2 * sin(k * pi / 6), h)
        for d, h in ((lower, -height / 2), (upper, height / 2))
        for k in range(12)
    ]
    return hull(corners, surface, (0, 0, z))


def _containers() -> Drawn:
    """Seven containers, four of them open."""
    mug_glaze = Surface(RED, shine=0.4)
    bowl_glaze = Surface(WHITE, BLUE, "speckle", 0.006, 0.4)
    cup_plastic = Surface(TURQUOISE, WHITE, "stripes", 0.02, 0.2)
    carton_paper = Surface(WHITE, LIME, "stripes", 0.06, 0.15)
    carton_roof = [(-0.030, 0.038), (0.030, 0.038), (-0.004, 0.060), (0.004, 0.060)]
    return {
        ("red mug", 0.16): (
            *ring(0.060, 0.060, 0.005, 0.060, mug_glaze, (0, 0, 0.003)),
            cylinder(0.056, 0.006, mug_glaze, (0, 0, -0.029)),
            box((0.022, 0.011, 0.011), mug_glaze, (0.040, 0, 0.020)),
            box((0.022, 0.011, 0.011), mug_glaze, (0.040, 0, -0.014)),
            box((0.011, 0.011, 0.045), mug_glaze, (0.0455, 0, 0.003)),
        ),
        ("white bowl", 0.09): (
            *ring(0.040, 0.067, 0.005, 0.034, bowl_glaze, (0, 0, 0.004)),
            cylinder(0.040, 0.008, Surface(WHITE, shine=0.4), (0, 0, -0.015)),
        ),
        ("turquoise cup", 0.05): (
            *ring(0.044, 0.060, 0.004, 0.072, cup_plastic, (0, 0, 0.002)),
            cylinder(0.043, 0.006, Surface(TURQUOISE), (0, 0, -0.033)),
        ),
        ("yellow tin can", 0.18): (
            cylinder(0.060, 0.068, Surface(YELLOW, RED, "label", 0.05, 0.2)),
            cylinder(0.056, 0.074, Surface(STEEL, shine=0.9)),
        ),
        ("green bottle", 0.14): (
            cylinder(0.052, 0.085, Surface(GREEN, CREAM, "label", 0.05, 0.5), (0, 0, -0.030)),
            _cone(0.052, 0.024, 0.026, Surface(GREEN, shine=0.5), 0.0255),
            cylinder(0.024, 0.026, Surface(GREEN, shine=0.5), (0, 0, 0.050)),
            cylinder(0.026, 0.012, Surface(RED), (0, 0, 0.068)),
        ),
        ("milk carton", 0.17): (
            box((0.060, 0.060, 0.088), carton_paper, (0, 0, -0.006)),
            prism(carton_roof, 0.060, Surface(LIME)),
            box((0.008, 0.060, 0.014), Surface(WHITE), (0, 0, 0.064)),
        ),
        ("pink jar", 0.15): (
            cylinder(0.056, 0.056, Surface(PINK, WHITE, "label", 0.04, 0.5), (0, 0, -0.008)),
            cylinder(0.060, 0.016, Surface(GREY, WHITE, "checker", 0.006, 0.4), (0, 0, 0.028)),
        ),
    }


def _produce() -> Drawn:
    """Eight fruits and vegetables, the long ones along x."""
    skin = Surface(YELLOW, (0.68, 0.44, 0.03), "speckle", 0.006)
    tip = Surface(BROWN, LIME, "speckle", 0.01)
    banana = (0.018, 0.028, 0.033, 0.033, 0.028, 0.016)
    pear_skin = Surface(LIME, (0.26, 0.44, 0.05), "speckle", 0.004)
    aubergine_skin = Surface(PURPLE, shine=0.6)
    cucumber_skin = Surface(GREEN, LIME, "stripes", 0.009, 0.2)
    carrot_root = Surface(ORANGE, BROWN, "stripes", 0.018)
    carrot_leaf = Surface(GREEN, LIME, "speckle", 0.005)
    lemon_skin = Surface(YELLOW, CREAM, "speckle", 0.003, 0.2)
    return {
        ("yellow banana", 0.12): (*arc(0.085, 92, banana, skin, tip),),
        ("red apple", 0.16): (
            ellipsoid((0.066, 0.066, 0.060), Surface(RED, (0.68, 0.14, 0.05), "speckle", 0.004, 0.3)),
            cylinder(0.006, 0.014, Surface(BROWN), (0, 0, 0.034)),
        ),
        ("orange tangerine", 0.11): (
            ellipsoid((0.062, 0.062, 0.052), Surface(ORANGE, YELLOW, "speckle", 0.003, 0.2)),
            cylinder(0.010, 0.004, Surface(GREEN), (0, 0, 0.026)),
        ),
        ("green pear", 0.15): (
            ellipsoid((0.060, 0.060, 0.058), pear_skin, (0, 0, -0.016)),
            ellipsoid((0.036, 0.036, 0.060), pear_skin, (0, 0, 0.020)),
            cylinder(0.005, 0.016, Surface(BROWN), (0, 0, 0.054)),
        ),
        ("purple aubergine", 0.17): (
            ellipsoid((0.100, 0.058, 0.058), aubergine_skin, (-0.020, 0, 0)),
            capsule(0.040, 0.080, aubergine_skin, (0.026, 0, 0), LYING_X),
            cylinder(0.030, 0.014, Surface(GREEN), (0.064, 0, 0), LYING_X),
            cylinder(0.010, 0.018, Surface(GREEN), (0.076, 0, 0), LYING_X),
        ),
        ("green cucumber", 0.16): (
            capsule(0.040, 0.090, cucumber_skin, (-0.032, 0.003, 0), LYING_X),
            capsule(0.040, 0.090, cucumber_skin, (0.032, 0.003, 0), LYING_X),
            capsule(0.038, 0.080, cucumber_skin, (0, -0.001, 0), LYING_X),
        ),
        ("orange carrot", 0.07): (
            ellipsoid((0.120, 0.034, 0.034), carrot_root, (0.006, 0, 0)),
            capsule(0.034, 0.056, carrot_root, (-0.022, 0, 0), LYING_X),
            capsule(0.013, 0.040, carrot_leaf, (-0.060, 0.006, 0), about("y", 90)),
            capsule(0.013, 0.036, carrot_leaf, (-0.058, -0.007, 0), LYING_X),
        ),
        ("yellow lemon", 0.09): (
            ellipsoid((0.070, 0.052, 0.052), lemon_skin),
            ellipsoid((0.024, 0.018, 0.018), lemon_skin, (0.032, 0, 0)),
            cylinder(0.008, 0.008, Surface(GREEN), (-0.034, 0, 0), LYING_X),
        ),
    }


def _painted(colour: Colour) -> Surface:
    """Paint through which a little of the grain shows."""
    return Surface(colour, tuple(0.7 * c + 0.3 * w for c, w in zip(colour, WOOD, strict=True)), "grain", 0.02)  # type: ignore[arg-type]


def _blocks() -> Drawn:
    """Six wooden blocks."""
    l_block_paint = _painted(BLUE)
    t_block_paint = _painted(GREEN)
    arch_paint = _painted(YELLOW)
    return {
        ("red cube", 0.07): (box((0.046, 0.046, 0.046), _painted(RED)),),
        ("blue L block", 0.09): (
            box((0.090, EDGE, EDGE), l_block_paint, (0.010, -0.012, 0)),
            box((EDGE, 0.034, EDGE), l_block_paint, (-0.020, 0.020, 0)),
        ),
        ("green T block", 0.09): (
            box((0.094, EDGE, EDGE), t_block_paint, (0, 0.014, 0)),
            box((EDGE, 0.034, EDGE), t_block_paint, (0, -0.018, 0)),
        ),
        ("yellow arch", 0.10): (
            box((0.100, 0.032, 0.022), arch_paint, (0, 0, 0.016)),
            box((0.026, 0.032, 0.032), arch_paint, (-0.037, 0, -0.011)),
            box((0.026, 0.032, 0.032), arch_paint, (0.037, 0, -0.011)),
        ),
        ("purple wedge", 0.07): (
            prism([(-0.040, -0.018), (0.040, -0.018), (0.0, 0.034)], 0.040, _painted(PURPLE)),
        ),
        ("orange cylinder", 0.08): (cylinder(0.044, 0.070, _painted(ORANGE)),),
    }


def _everyday_things() -> Drawn:
    """Six things from a desk or a bathroom."""
    duck_body = Surface(YELLOW, shine=0.2)
    return {
        ("white remote control", 0.10): (
            box((0.145, 0.044, 0.018), Surface(WHITE, shine=0.2)),
            box((0.090, 0.032, 0.005), Surface(GREY, WHITE, "checker", 0.011), (-0.018, 0, 0.010)),
            cylinder(0.022, 0.006, Surface(RED), (0.050, 0, 0.010)),
        ),
        ("black computer mouse", 0.09): (
            ellipsoid((0.104, 0.060, 0.040), Surface(BLACK, GREY, "speckle", 0.003, 0.3), (0, 0, 0)),
            cylinder(0.022, 0.008, Surface(GREY), (0.028, 0, 0.012), about("x", 90)),
            box((0.076, 0.044, 0.016), Surface(BLACK), (0, 0, -0.010)),
        ),
        ("pink soap bar", 0.10): (
            tapered_box((0.084, 0.054), (0.070, 0.042), 0.030, Surface(PINK, WHITE, "label", 0.04, 0.3)),
        ),
        ("blue sponge", 0.03): (
            box(
                (0.096, 0.062, 0.026),
                Surface(BLUE, (0.01, 0.04, 0.22), "speckle", 0.006, 0.0),
                (0, 0, -0.005),
            ),
            box((0.096, 0.062, 0.010), Surface(LIME, GREEN, "speckle", 0.003, 0.0), (0, 0, 0.013)),
        ),
        ("yellow rubber duck", 0.06): (
            ellipsoid((0.066, 0.050, 0.042), duck_body, (-0.006, 0, -0.010)),
            ellipsoid((0.036, 0.034, 0.034), duck_body, (0.014, 0, 0.018)),
            prism([(0.026, 0.012), (0.026, 0.022), (0.042, 0.013), (0.042, 0.018)], 0.020, Surface(ORANGE)),
            prism([(-0.028, -0.008), (-0.022, 0.008), (-0.044, 0.014)], 0.024, duck_body),
            ellipsoid((0.007, 0.037, 0.007), Surface(BLACK), (0.022, 0, 0.023)),
        ),
        ("grey stapler", 0.16): (
            box((0.125, 0.036, 0.014), Surface(BLACK), (0, 0, -0.022)),
            box((0.112, 0.030, 0.020), Surface(GREY, shine=0.3), (-0.004, 0, 0.008), about("y", -7)),
            box((0.030, 0.030, 0.028), Surface(GREY), (-0.044, 0, -0.006)),
            box((0.112, 0.018, 0.006), Surface(STEEL, shine=0.8), (-0.003, 0, 0.020), about("y", -7)),
        ),
    }
