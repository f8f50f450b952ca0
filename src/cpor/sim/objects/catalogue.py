"""The forty objects one can ask for, as many as the paper's robot study has, in its six kinds."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache

import numpy as np
from jaxtyping import Float

from cpor.sim.objects.solids import ObjectModel, Part
from cpor.sim.objects.things import draw_things

SCALE = 0.9
"""All are a little smaller than drawn: a bin in reach of a UR3e holds a dozen, and fingers fit between."""


SHAPE_WORDS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(
        ("green screwdriver", "red pliers", "orange hammer", "blue wrench", "black torch", "purple brush"),
        ("tool",),
    ),
    "yellow tape measure": ("box", "block", "tool"),
    **dict.fromkeys(
        (
            *("blue toy truck", "red toy car", "yellow toy bus", "green toy tractor", "white toy plane"),
            "purple toy train",
        ),
        ("vehicle",),
    ),
    "red mug": ("cup",),
    "white bowl": ("bowl",),
    "turquoise cup": ("cup",),
    "yellow tin can": ("can",),
    "green bottle": ("bottle",),
    "milk carton": ("box",),
    "pink jar": ("can",),
    **dict.fromkeys(("red apple", "orange tangerine", "yellow lemon"), ("fruit", "ball")),
    **dict.fromkeys(
        ("yellow banana", "green pear", "purple aubergine", "green cucumber", "orange carrot"), ("fruit",)
    ),
    "red cube": ("block", "box"),
    **dict.fromkeys(("blue L block", "green T block", "yellow arch", "purple wedge"), ("block",)),
    "orange cylinder": ("can", "block"),
    "white remote control": ("box",),
    "black computer mouse": ("thing",),
    "pink soap bar": ("box", "block"),
    "blue sponge": ("box", "block"),
    "yellow rubber duck": ("thing",),
    "grey stapler": ("tool", "thing"),
}
"""The words of `cpor.words.shapes.SHAPES` that a person may use for each object, the usual one first."""


@cache
def catalogue() -> tuple[ObjectModel, ...]:
    """All forty objects; their names differ."""
    return tuple(
        scaled(ObjectModel(name, category, parts, mass), SCALE)
        for category, drawn in draw_things().items()
        for (name, mass), parts in drawn.items()
    )


def scaled(model: ObjectModel, factor: float) -> ObjectModel:
    """The same object in another size, of the same mass."""
    return replace(model, parts=tuple(_scaled(part, factor) for part in model.parts))


def _scaled(part: Part, factor: float) -> Part:
    x, y, z = part.position
    return replace(
        part,
        size=tuple(factor * length for length in part.size),
        position=(factor * x, factor * y, factor * z),
        vertices=tuple((factor * a, factor * b, factor * c) for a, b, c in part.vertices),
    )


def bounds(model: ObjectModel) -> Float[np.ndarray, "2 3"]:
    """Lowest and highest corner of the object's box along its own axes. Shape (2, 3). [m]."""
    low, high = zip(*(_bounds(part) for part in model.parts), strict=True)
    return np.stack((np.min(low, axis=0), np.max(high, axis=0)))


def _bounds(part: Part) -> tuple[np.ndarray, np.ndarray]:
    """Lowest and highest corner of a part in the object's frame."""
    R = rotation(part.quaternion)
    if part.kind == "hull":
        points = np.asarray(part.vertices) @ R.T
        low, high = points.min(axis=0), points.max(axis=0)
    else:
        reach = _reach(part, R)
        low, high = -reach, reach
    return low + part.position, high + part.position


def _reach(part: Part, R: np.ndarray) -> np.ndarray:
    """Half size along the object's axes of a primitive turned by R. Shape (3,)."""
    if part.kind == "box":
        return np.asarray(np.abs(R) @ part.size)
    if part.kind == "ellipsoid":
        return np.asarray(np.sqrt((R**2) @ np.square(part.size)))
    radius = part.size[0]
    if part.kind == "sphere":
        return np.full(3, radius)
    axis = np.abs(R[:, 2])
    if part.kind == "capsule":
        return np.asarray(radius + part.size[1] * axis)
    return np.asarray(radius * np.sqrt(np.maximum(0.0, 1.0 - axis**2)) + part.size[1] * axis)


def rotation(quaternion: Sequence[float] | Float[np.ndarray, " 4"]) -> Float[np.ndarray, "3 3"]:
    """The matrix of a quaternion (w, x, y, z) of any length. Shape (3, 3)."""
    w, x, y, z = np.asarray(quaternion) / np.linalg.norm(quaternion)
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )
