"""Lets a world come to rest, and says how well it lies."""

import mujoco
import numpy as np

from cpor.errors import SimulationError
from cpor.sim.physics.world import World

LINEAR_REST = 0.004
"""Speed below which an object counts as lying still. [m/s]"""

ANGULAR_REST = 0.12
"""The same for its turning. [rad/s]"""

REST_STEPS = 25
"""For how many steps in a row everything must lie still: a thing at its turning point is not at rest."""

PROOF_STEPS = 80
"""How long the heap is watched without drag before it is believed."""

PROOF_MOVE = 2e-5
"""How far an object may move meanwhile. [m]"""

DRAG = 0.06
"""Share of its speed an object loses a step while settling: it halves the time a cylinder rolls."""

ROUGH = 6.0
"""How many times these speeds are allowed before the fine settling begins."""

MAX_STEPS = 1000

ROUGH_STEPS = 200
"""Without the fine part some heaps creep for ever."""


def settle(world: World, max_steps: int = MAX_STEPS) -> tuple[bool, float]:
    """Runs the physics until every object lies still, also without drag; then their speeds are exactly 0.

    Returns:
        Whether everything lies still, and the deepest overlap of two things. [m]
    """
    model, data = world.model, world.data
    bodies = list(world.body_of.values())
    steps, ok = settle_roughly(world, max_steps), False
    while not ok and steps < max_steps:
        steps += _calm_down(world, max_steps - steps, slack=1.0)
        before = np.array(data.xpos[bodies])
        for _ in range(PROOF_STEPS):
            mujoco.mj_step(model, data)
        steps += PROOF_STEPS
        moved = np.linalg.norm(data.xpos[bodies] - before, axis=1).max(initial=0.0)
        ok = bool(moved < PROOF_MOVE and _lie_still(data.qvel[_dofs(world)], slack=1.0))
    if ok:
        data.qvel[:] = 0.0
        data.qacc_warmstart[:] = 0.0
        data.time = 0.0
    mujoco.mj_forward(model, data)
    return ok, penetration(world)


def settle_roughly(world: World, max_steps: int = MAX_STEPS) -> int:
    """Runs the physics until all objects are slow, with less care; says how many steps it took."""
    # While things still move, the costly part of the solver that keeps heaps from creeping is of no use.
    option = world.model.opt
    noslip, option.noslip_iterations = option.noslip_iterations, 0
    steps = _calm_down(world, min(max_steps, ROUGH_STEPS), ROUGH)
    option.noslip_iterations = noslip
    return steps


def penetration(world: World) -> float:
    """Deepest overlap among the contacts of the present state. [m]."""
    distances = world.data.contact.dist
    return float(max(0.0, -distances.min())) if len(distances) else 0.0


def drift(world: World, seconds: float = 1.0, quiet_m: float = 0.0) -> float:
    """How far the worst object moves when the world is left alone; the world itself is not touched. [m].

    It is watched for half as long where nothing has moved farther than `quiet_m` by then. [m].
    """
    data = mujoco.MjData(world.model)
    data.qpos[:] = world.data.qpos
    data.qvel[:] = world.data.qvel
    mujoco.mj_forward(world.model, data)
    bodies = list(world.body_of.values())
    start = np.array(data.xpos[bodies])
    half = round(seconds / world.model.opt.timestep / 2)
    moved = 0.0
    for _ in range(2):
        mujoco.mj_step(world.model, data, half)
        moved = float(np.linalg.norm(data.xpos[bodies] - start, axis=1).max(initial=0.0))
        if moved < quiet_m:
            break
    return moved


def _calm_down(world: World, max_steps: int, slack: float) -> int:
    """Steps with drag until everything has lain still for a while; says how many steps it took."""
    model, data, dofs = world.model, world.data, _dofs(world)
    calm = 0
    for step in range(1, max_steps + 1):
        try:
            mujoco.mj_step(model, data)
        except mujoco.FatalError as error:
            why = f"MuJoCo cannot hold this heap ({error}); use fewer or simpler objects"
            raise SimulationError(why) from error
        speeds = data.qvel[dofs]
        calm = calm + 1 if _lie_still(speeds, slack) else 0
        if calm == REST_STEPS:
            return step
        data.qvel[dofs] = (1.0 - DRAG) * speeds
    return max_steps


def _lie_still(speeds: np.ndarray, slack: float) -> bool:
    fastest = np.abs(speeds).max(axis=0, initial=0.0)
    return bool(fastest[:3].max() < slack * LINEAR_REST and fastest[3:].max() < slack * ANGULAR_REST)


def _dofs(world: World) -> np.ndarray:
    """Where the speeds of each object stand in `qvel`. Shape (n, 6)."""
    first = [world.model.body_dofadr[body] for body in world.body_of.values()]
    return np.asarray(np.add.outer(np.array(first, dtype=int), np.arange(6)))
