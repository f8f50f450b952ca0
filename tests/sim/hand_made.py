"""Small worlds of known shape, and heaps that are thrown but not sorted, for the simulated camera."""

import mujoco
import numpy as np

from cpor.sim.objects.catalogue import catalogue
from cpor.sim.objects.solids import ObjectModel, Part, PartKind, Surface
from cpor.sim.physics.build import build_world
from cpor.sim.physics.world import HEAP_CENTRE, Bin, World

RED = Surface((0.62, 0.03, 0.03))


def single(
    kind: PartKind, size: tuple[float, ...], surface: Surface = RED, name: str = "thing"
) -> ObjectModel:
    return ObjectModel(name, "block", (Part(kind, size, surface),), 0.1)


def at(x: float, y: float, z: float, quaternion=(1.0, 0.0, 0.0, 0.0)) -> np.ndarray:
    """A pose by its place relative to the middle of the heap."""
    return np.array([HEAP_CENTRE[0] + x, HEAP_CENTRE[1] + y, z, *quaternion])


def on_table(*things: tuple[ObjectModel, np.ndarray]) -> World:
    objects = {k: thing for k, (thing, _) in enumerate(things, 1)}
    return build_world(objects, {k: pose for k, (_, pose) in enumerate(things, 1)}, bin=None)


def thrown(seed: int, count: int = 10, steps: int = 60) -> World:
    """A heap of catalogue objects, still falling: every kind of part in every attitude."""
    rng = np.random.default_rng(seed)
    known = catalogue()
    chosen = rng.choice(len(known), count, replace=False)
    objects = {k: known[i] for k, i in enumerate(chosen.tolist(), 1)}
    poses = {}
    for k in objects:
        turn = rng.normal(size=4)
        x, y = rng.uniform(-0.06, 0.06), rng.uniform(-0.05, 0.05)
        poses[k] = at(x, y, 0.05 + 0.02 * k, turn / np.linalg.norm(turn))
    world = build_world(objects, poses, Bin())
    for _ in range(steps):
        mujoco.mj_step(world.model, world.data)
    return world
