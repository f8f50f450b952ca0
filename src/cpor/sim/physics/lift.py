"""Lift truth: what rises along when an object is really lifted. Slow; an audit of the other truths."""

import mujoco
import numpy as np

from cpor.scene import BlockedBy, TrueRelations
from cpor.sim.physics.build import body_name, compile_world, make_spec
from cpor.sim.physics.world import World

SPEED = 0.10
"""How fast the object is lifted. [m/s]"""

HEIGHT = 0.08
"""How far. [m]"""

RISEN = 0.005
"""How far another object must rise at any moment to count as lifted along. [m]"""

_HAND = "lifting_hand"


def lift_relations(world: World) -> TrueRelations:
    """Which object is lifted along with which other one: it rests on it. The world is not touched."""
    spec = make_spec(world.objects, world.bin)
    spec.worldbody.add_body(name=_HAND, mocap=True)
    for obj in world.objects:
        weld = spec.add_equality(type=mujoco.mjtEq.mjEQ_WELD, objtype=mujoco.mjtObj.mjOBJ_BODY)
        weld.name1, weld.name2, weld.active = _HAND, body_name(obj), False
    poses = {obj: world.pose(obj) for obj in world.objects}
    lifted = compile_world(spec, world.objects, poses, world.bin, arm=False)
    pairs = [BlockedBy(obj, j) for k, obj in enumerate(world.objects) for j in _risen(lifted, k, obj)]
    return TrueRelations(frozenset(world.objects), frozenset(pairs))


def _risen(world: World, weld: int, obj: int) -> list[int]:
    """Lifts one object by its weld and says which others rose."""
    model = world.model
    data = mujoco.MjData(model)
    data.qpos[:] = world.data.qpos
    pose = world.pose(obj)
    # Hand and object in the same frame: no offset, no turn.
    model.eq_data[weld, :10] = (0, 0, 0, 0, 0, 0, 1, 0, 0, 0)
    data.eq_active[weld] = 1
    data.mocap_pos[0], data.mocap_quat[0] = pose[:3], pose[3:]
    mujoco.mj_forward(model, data)
    others = [j for j in world.objects if j != obj]
    bodies = [world.body_of[j] for j in others]
    start = np.array(data.xipos[bodies, 2])
    most = np.zeros(len(others))
    for step in range(round(HEIGHT / (SPEED * model.opt.timestep))):
        data.mocap_pos[0, 2] = pose[2] + SPEED * model.opt.timestep * (step + 1)
        mujoco.mj_step(model, data)
        np.maximum(most, data.xipos[bodies, 2] - start, out=most)
    return [j for j, rise in zip(others, most, strict=True) if rise > RISEN]
