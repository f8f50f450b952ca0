"""Surfaces as numbers: what each geom of a world looks like, pattern by pattern, for the shading kernel."""

import mujoco
import numpy as np

from cpor.errors import SimulationError
from cpor.sim.camera.look import SceneLook
from cpor.sim.objects.solids import Surface
from cpor.sim.physics.world import World

PATTERN_CODES = {"plain": 0, "stripes": 1, "checker": 2, "speckle": 3, "label": 4, "grain": 5}
"""Numbers of the patterns in `_shade_kernels.pattern_weight`."""

ARM_SHINE = 0.4
"""The arm is of painted and brushed aluminium."""


def list_surfaces(world: World, look: SceneLook) -> tuple[np.ndarray, ...]:
    """What each geom looks like: objects as their parts say, table and bin as `look` says, others by rgba.

    Returns:
        Linear RGB of main and second colour, shape (ngeom, 2, 3); and, shape (ngeom,), code of the
        pattern, size of one repetition [m], shine, and longest axis, along which the pattern is laid.
    """
    model = world.model
    surfaces = [_surface_of_static(model, number, look) for number in range(model.ngeom)]
    for obj, thing in world.objects.items():
        body = world.body_of[obj]
        first, count = int(model.body_geomadr[body]), int(model.body_geomnum[body])
        if count != len(thing.parts):
            raise SimulationError(
                f"object {obj} ({thing.name}) has {len(thing.parts)} parts but {count} geoms; "
                "build the world with one geom a part"
            )
        surfaces[first : first + count] = [part.surface for part in thing.parts]
    return (
        np.array([(each.colour, each.second) for each in surfaces], dtype=np.float64),
        np.array([PATTERN_CODES[each.pattern] for each in surfaces], dtype=np.int64),
        np.array([each.scale for each in surfaces], dtype=np.float64),
        np.array([each.shine for each in surfaces], dtype=np.float64),
        _longest_axes(model),
    )


def _surface_of_static(model: mujoco.MjModel, number: int, look: SceneLook) -> Surface:
    name = model.geom(number).name
    if name.startswith("table"):
        return look.table
    if name.startswith("bin"):
        return look.bin
    red, green, blue, _ = (float(value) for value in model.geom_rgba[number])
    return Surface((red, green, blue), shine=ARM_SHINE)


def _longest_axes(model: mujoco.MjModel) -> np.ndarray:
    """Index of the longest axis; z where it is as long as another, since round things stand along z."""
    half = np.array(model.geom_aabb[:, 3:])
    longest = half.max(axis=1, keepdims=True)
    axes: np.ndarray = 2 - (half >= 0.999 * longest)[:, ::-1].argmax(axis=1)
    # A cylinder keeps its axis even where it is flat: labels and stripes run around it.
    is_round = (model.geom_type == mujoco.mjtGeom.mjGEOM_CYLINDER) | (
        model.geom_type == mujoco.mjtGeom.mjGEOM_CAPSULE
    )
    return np.where(is_round, 2, axes).astype(np.int64)
