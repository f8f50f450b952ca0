"""What simulated objects are made of: convex parts in MuJoCo's own shapes, put together into one body."""

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

Vector: TypeAlias = tuple[float, float, float]
Quaternion: TypeAlias = tuple[float, float, float, float]
Colour: TypeAlias = tuple[float, float, float]
"""Linear RGB, each in [0, 1]."""

PartKind: TypeAlias = Literal["box", "cylinder", "capsule", "ellipsoid", "sphere", "hull"]
Pattern: TypeAlias = Literal["plain", "stripes", "checker", "speckle", "label", "grain"]


@dataclass(frozen=True)
class Surface:
    """How a part looks; the pattern is computed from coordinates in the part's own frame.

    Attributes:
        colour: Main colour.
        second: Colour of the pattern.
        pattern: Which pattern.
        scale: Size of one repetition. [m]
        shine: 0 matt to 1 mirror-like; shiny things lose depth readings.
    """

    colour: Colour
    second: Colour = (1.0, 1.0, 1.0)
    pattern: Pattern = "plain"
    scale: float = 0.02
    shine: float = 0.1


@dataclass(frozen=True)
class Part:
    """One convex piece of an object.

    Attributes:
        kind: `hull` is the convex hull of `vertices`; the others are MuJoCo's primitives.
        size: As MuJoCo has it: half sizes of a box, (radius, half length) of a cylinder or capsule along
            z, half axes of an ellipsoid, (radius,) of a sphere; () for a hull. [m]
        position: Position of the part in the object's frame. [m]
        quaternion: (w, x, y, z) of the part in the object's frame.
        surface: How it looks.
        vertices: Vertices of a hull, in the part's frame. [m]
    """

    kind: PartKind
    size: tuple[float, ...]
    surface: Surface
    position: Vector = (0.0, 0.0, 0.0)
    quaternion: Quaternion = (1.0, 0.0, 0.0, 0.0)
    vertices: tuple[Vector, ...] = ()


@dataclass(frozen=True)
class ObjectModel:
    """An object one can ask for.

    Attributes:
        name: Colour and noun, as people say it: "red mug". No two of one scene have the same.
        category: As in the paper: household tool, toy vehicle, container, produce, block, everyday thing.
        parts: What it is made of; several for a concave object.
        mass: Mass of the whole object. [kg]
        friction: Sliding friction of its surface.
    """

    name: str
    category: str
    parts: tuple[Part, ...] = field(repr=False)
    mass: float
    friction: float = 0.7
