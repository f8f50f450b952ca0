"""Sweep truth: what an object meets when it is raised straight up and everything else stays where it is."""

import copy

import mujoco
import numpy as np

from cpor.scene import BlockedBy, TrueRelations
from cpor.sim.physics.world import World

STEP = 0.002
"""How far the object is raised between two looks. [m]"""

MET = 0.0015
"""Overlap from which on another object counts as met; less is how resting objects touch anyway. [m]"""


def sweep_relations(world: World) -> TrueRelations:
    """Which object stands in the way of which other one going straight up; the world is not touched."""
    # Copies, so that nothing of the caller's world changes, not even its contacts.
    model = copy.copy(world.model)
    data = mujoco.MjData(model)
    data.qpos[:] = world.data.qpos
    mujoco.mj_kinematics(model, data)
    owners = world.object_of_geom
    low, high = vertical_reach(model, data)
    model.geom_contype[:] = 0
    pairs: set[BlockedBy] = set()
    for obj in world.objects:
        mine = owners == obj
        others = (owners != obj) & (owners != 0)
        if not others.any():
            continue
        # Pairs are tested where one's contype meets the other's conaffinity: the raised one against the rest.
        model.geom_contype[mine] = 1
        model.geom_conaffinity[:] = others
        rise = high[others].max() - low[mine].min()
        height = model.jnt_qposadr[model.body_jntadr[world.body_of[obj]]] + 2
        start = float(data.qpos[height])
        for k in range(1, max(0, int(rise / STEP)) + 1):
            data.qpos[height] = start + k * STEP
            mujoco.mj_kinematics(model, data)
            mujoco.mj_collision(model, data)
            pairs.update(BlockedBy(obj, j) for j in _met(data, owners, obj))
        data.qpos[height] = start
        model.geom_contype[mine] = 0
    return TrueRelations(frozenset(world.objects), frozenset(pairs))


def _met(data: mujoco.MjData, owners: np.ndarray, obj: int) -> list[int]:
    """The objects that overlap with the raised one by more than touching."""
    deep = data.contact.geom[data.contact.dist < -MET]
    return [int(j) for j in np.unique(owners[deep]) if j != obj]


def vertical_reach(model: mujoco.MjModel, data: mujoco.MjData) -> tuple[np.ndarray, np.ndarray]:
    """Lowest and highest z of the box around each geom. Shapes (ngeom,). [m]."""
    row = data.geom_xmat.reshape(-1, 3, 3)[:, 2]
    centre = data.geom_xpos[:, 2] + np.einsum("gi,gi->g", row, model.geom_aabb[:, :3])
    half = np.einsum("gi,gi->g", np.abs(row), model.geom_aabb[:, 3:])
    return centre - half, centre + half
