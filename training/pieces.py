"""What random objects are put together from, and which of an object's materials each piece has."""

import numpy as np

from cpor.sim.objects.solids import ObjectModel, Part, Quaternion, Surface, Vector

MAIN = Surface((0.5, 0.5, 0.5))
SECOND = Surface((0.6, 0.5, 0.5))
METAL = Surface((0.7, 0.7, 0.7), shine=0.8)
FILM = Surface((1.0, 1.0, 1.0), shine=0.6)
"""Colours say nothing here, how things look is drawn anew for every picture: what counts is which pieces
have the same material, which are of bare metal, and which can be seen through."""

MAIN_ROLE, SECOND_ROLE, METAL_ROLE, FILM_ROLE = range(4)


def roles(model: ObjectModel) -> list[int]:
    """The material of each part of an object, ours or of the catalogue, as one of the four roles."""
    first = model.parts[0].surface
    known = {MAIN: MAIN_ROLE, SECOND: SECOND_ROLE, METAL: METAL_ROLE, FILM: FILM_ROLE}

    def role(surface: Surface) -> int:
        if surface in known:
            return known[surface]
        return MAIN_ROLE if surface == first else SECOND_ROLE

    return [role(piece.surface) for piece in model.parts]


def part(
    kind: str,
    size: tuple[float, ...],
    at: Vector = (0, 0, 0),
    turn: Quaternion = (1, 0, 0, 0),
    surface: Surface = MAIN,
) -> Part:
    """A primitive. MuJoCo wants no size of zero, and thinner than 2 mm falls through things."""
    place, quaternion = tuple(map(float, at)), tuple(map(float, turn))
    return Part(kind, tuple(max(float(s), 0.001) for s in size), surface, place, quaternion)  # type: ignore[arg-type]


def hull(vertices: np.ndarray, at: Vector = (0, 0, 0), surface: Surface = MAIN) -> Part:
    """The convex hull of points. Shape (n, 3). [m]."""
    corners = tuple((float(x), float(y), float(z)) for x, y, z in vertices)
    return Part("hull", (), surface, at, vertices=corners)


def about_z(angle: float) -> Quaternion:
    """A turn about z. [rad]."""
    return (float(np.cos(angle / 2)), 0.0, 0.0, float(np.sin(angle / 2)))


def along(direction: np.ndarray) -> Quaternion:
    """The turn that takes z to a direction."""
    d = direction / np.linalg.norm(direction)
    w = 1.0 + d[2]
    q = np.array([w, -d[1], d[0], 0.0]) if w > 1e-6 else np.array([0.0, 1.0, 0.0, 0.0])
    q /= np.linalg.norm(q)
    return (float(q[0]), float(q[1]), float(q[2]), float(q[3]))


def rod(a: np.ndarray, b: np.ndarray, radius: float, surface: Surface = MAIN) -> Part:
    """A capsule from a to b. [m]."""
    middle, half = (a + b) / 2, np.linalg.norm(b - a) / 2
    return part("capsule", (radius, float(half)), tuple(middle), along(b - a), surface)


def frustum(low: float, high: float, bottom: float, top: float, sides: int, surface: Surface = MAIN) -> Part:
    """A slice of a lathe. [m]."""
    turn = np.linspace(0.0, 2.0 * np.pi, sides, endpoint=False)
    ring = np.stack([np.cos(turn), np.sin(turn)], axis=1)
    lower = np.column_stack([ring * max(low, 0.002), np.full(sides, bottom)])
    upper = np.column_stack([ring * max(high, 0.002), np.full(sides, top)])
    return hull(np.concatenate([lower, upper]), surface=surface)
