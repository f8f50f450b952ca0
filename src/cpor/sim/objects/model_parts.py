"""What the catalogue is built with: a palette, and helpers that place convex parts, rings and arcs."""

import math

from cpor.sim.objects.solids import Colour, Part, Quaternion, Surface, Vector

# Linear RGB. Far enough apart for a person to tell them by name under white light.
RED: Colour = (0.62, 0.03, 0.03)
ORANGE: Colour = (0.85, 0.24, 0.02)
YELLOW: Colour = (0.85, 0.60, 0.03)
GREEN: Colour = (0.04, 0.34, 0.07)
LIME: Colour = (0.35, 0.60, 0.06)
TURQUOISE: Colour = (0.03, 0.45, 0.42)
BLUE: Colour = (0.03, 0.12, 0.58)
PURPLE: Colour = (0.22, 0.04, 0.36)
PINK: Colour = (0.85, 0.25, 0.40)
BROWN: Colour = (0.22, 0.09, 0.03)
WOOD: Colour = (0.50, 0.28, 0.11)
WHITE: Colour = (0.82, 0.82, 0.80)
CREAM: Colour = (0.75, 0.65, 0.42)
GREY: Colour = (0.22, 0.23, 0.24)
STEEL: Colour = (0.42, 0.43, 0.45)
BLACK: Colour = (0.015, 0.015, 0.017)

LYING_X: Quaternion = (math.sqrt(0.5), 0.0, math.sqrt(0.5), 0.0)
"""Turns the z axis of a cylinder or capsule onto x."""

LYING_Y: Quaternion = (math.sqrt(0.5), -math.sqrt(0.5), 0.0, 0.0)
"""Turns the z axis of a cylinder or capsule onto y."""


def about(axis: str, degrees: float) -> Quaternion:
    """The quaternion of a turn about one axis of the object's frame."""
    half = math.radians(degrees) / 2.0
    s = math.sin(half)
    return (math.cos(half), s * (axis == "x"), s * (axis == "y"), s * (axis == "z"))


def box(size: Vector, surface: Surface, at: Vector = (0, 0, 0), turn: Quaternion = (1, 0, 0, 0)) -> Part:
    """A box by its full edge lengths. [m]."""
    half = (size[0] / 2, size[1] / 2, size[2] / 2)
    return Part("box", half, surface, at, turn)


def cylinder(
    diameter: float, length: float, surface: Surface, at: Vector = (0, 0, 0), turn: Quaternion = (1, 0, 0, 0)
) -> Part:
    """A cylinder along z. [m]."""
    return Part("cylinder", (diameter / 2, length / 2), surface, at, turn)


def capsule(
    diameter: float, length: float, surface: Surface, at: Vector = (0, 0, 0), turn: Quaternion = (1, 0, 0, 0)
) -> Part:
    """A capsule along z by its whole length, round ends included. [m]."""
    return Part("capsule", (diameter / 2, (length - diameter) / 2), surface, at, turn)


def ellipsoid(
    size: Vector, surface: Surface, at: Vector = (0, 0, 0), turn: Quaternion = (1, 0, 0, 0)
) -> Part:
    """An ellipsoid by its three diameters. [m]."""
    half = (size[0] / 2, size[1] / 2, size[2] / 2)
    return Part("ellipsoid", half, surface, at, turn)


def hull(vertices: list[Vector], surface: Surface, at: Vector = (0, 0, 0)) -> Part:
    """The convex hull of points in the object's frame, moved by `at`. [m]."""
    return Part("hull", (), surface, at, vertices=tuple(vertices))


def prism(outline: list[tuple[float, float]], width: float, surface: Surface, at: Vector = (0, 0, 0)) -> Part:
    """A convex outline in the x-z plane drawn out along y. [m]."""
    return hull([(x, side * width / 2, z) for side in (-1.0, 1.0) for x, z in outline], surface, at)


def tapered_box(
    bottom: tuple[float, float], top: tuple[float, float], height: float, surface: Surface
) -> Part:
    """A frustum with centred rectangles as base and top, the middle of its height in the origin. [m]."""
    vertices = [
        (sx * w / 2, sy * d / 2, z)
        for (w, d), z in ((bottom, -height / 2), (top, height / 2))
        for sx in (-1, 1)
        for sy in (-1, 1)
    ]
    return hull(vertices, surface)


def ring(
    bottom: float,
    top: float,
    wall: float,
    height: float,
    surface: Surface,
    at: Vector = (0, 0, 0),
    sides: int = 8,
) -> tuple[Part, ...]:
    """The wall of a round vessel as flat staves: outer widths across flats below and above. [m].

    Straight vessels are made of boxes, which collide fast; flared ones need hulls. Neighbours overlap
    inside and meet at the outer edge, so no gap lets a ray or a corner through.
    """
    tangent = math.tan(math.pi / sides)
    parts = []
    for k in range(sides):
        angle = 360.0 * k / sides
        c, s = math.cos(math.radians(angle)), math.sin(math.radians(angle))
        if bottom == top:
            middle = (bottom - wall) / 2
            size = (wall, bottom * tangent, height)
            place = (at[0] + c * middle, at[1] + s * middle, at[2])
            parts.append(box(size, surface, place, about("z", angle)))
            continue
        vertices: list[Vector] = []
        for across, z in ((bottom, -height / 2), (top, height / 2)):
            for out in (across / 2, across / 2 - wall):
                for side in (-1.0, 1.0):
                    along = side * across / 2 * tangent
                    vertices.append((c * out - s * along, s * out + c * along, z))
        parts.append(hull(vertices, surface, at))
    return tuple(parts)


def arc(
    radius: float,
    spread_deg: float,
    diameters: tuple[float, ...],
    surface: Surface,
    tip: Surface | None = None,
) -> tuple[Part, ...]:
    """Capsules along an arc in the x-y plane, one for each diameter, the arc's middle in the origin. [m]."""
    step = spread_deg / len(diameters)
    parts = []
    for k, diameter in enumerate(diameters):
        angle = math.radians(90.0 - spread_deg / 2 + (k + 0.5) * step)
        place = (radius * math.cos(angle), radius * (math.sin(angle) - 1.0), 0.0)
        length = 2.0 * radius * math.sin(math.radians(step) / 2) + diameter
        heading = math.degrees(angle) + 90.0
        half = math.radians(heading) / 2
        # `LYING_X`, then a turn about z along the arc.
        w, z = math.cos(half) * LYING_X[0], math.sin(half) * LYING_X[0]
        turn = (w, -z, w, z)
        last = tip is not None and k in (0, len(diameters) - 1)
        parts.append(capsule(diameter, length, tip if last and tip is not None else surface, place, turn))
    return tuple(parts)
