"""Ground truth of a simulated scene: what hides, blocks or supports what, and how deep a target lies.

Three kinds of truth, never mixed: occlusion (what a picture shows, and what UNOBench labels), sweep (what
is met on the way straight up) and lift (what rises along). Any of them may hold a cycle; it is kept.
"""

import copy
from collections.abc import Iterable

import mujoco
import numpy as np

from cpor.errors import InvalidSettingError, list_labels
from cpor.scene import BlockedBy, TrueRelations
from cpor.sim.camera.views import Views
from cpor.sim.dataset.manifest import Tier
from cpor.sim.physics.build import body_name, compile_world, make_spec
from cpor.sim.physics.world import World

SPEED = 0.10
"""How fast the object is lifted. [m/s]"""

HEIGHT = 0.08
"""How far. [m]"""

RISEN = 0.005
"""How far another object must rise at any moment to count as lifted along. [m]"""

STEP = 0.002
"""How far the object is raised between two looks. [m]"""

MET = 0.0015
"""Overlap from which on another object counts as met; less is how resting objects touch anyway. [m]"""

_HAND = "lifting_hand"


def lift_relations(world: World) -> TrueRelations:
    """Which object is lifted along with which other one: it rests on it. The world is not touched."""
    spec = make_spec(world.objects, world.bin)
    spec.worldbody.add_body(name=_HAND, mocap=True)
    for obj in world.objects:
        weld = spec.add_equality(type=mujoco.mjtEq.mjEQ_WELD, objtype=mujoco.mjtObj.mjOBJ_BODY)
        weld.name1, weld.name2, weld.active = _HAND, body_name(obj), False
    lifted = compile_world(spec, world.objects, world.poses(), world.bin, arm=False)
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


HIDDEN_SHARE = 0.05
"""j occludes i when it hides more than this share of i's pixels (UNOBench)."""


def occlusion_relations(views: Views) -> TrueRelations:
    """Which object is seen in front of more than 5% of which other one's pixels.

    Objects outside of the image are not labelled.
    """
    pairs, labelled = [], []
    for i, crop in views.amodal.items():
        rows, cols = crop.pixels.shape
        window = views.visible_ids[crop.top : crop.top + rows, crop.left : crop.left + cols]
        # What is seen where i would be seen alone is i itself or in front of it.
        counts = np.bincount(window[crop.pixels])
        total = int(counts.sum())
        if total == 0:
            continue
        labelled.append(i)
        in_front = np.flatnonzero(counts > HIDDEN_SHARE * total)
        pairs += [BlockedBy(i, int(j)) for j in in_front if j not in (0, i)]
    known = frozenset(labelled)
    return TrueRelations(known, frozenset(pair for pair in pairs if pair.blocker in known))


def has_cycle(relations: TrueRelations) -> bool:
    """Whether some objects obstruct each other in a circle, so that none of them can go first."""
    left = set(relations.objects)
    while left:
        blocked = {pair.blocked for pair in relations.pairs if left.issuperset(pair)}
        if blocked == left:
            return True
        left = blocked
    return False


def longest_path(target: int, relations: TrueRelations) -> int:
    """Objects on the longest chain of blockers that ends in the target, the target included.

    A chain visits no object twice, so a cycle has a finite length too.
    """
    if target not in relations.objects:
        known = list_labels(sorted(relations.objects))
        raise InvalidSettingError(f"object {target} is not labelled; the truth knows: {known}")
    blockers: dict[int, list[int]] = {}
    for pair in relations.pairs:
        blockers.setdefault(pair.blocked, []).append(pair.blocker)

    def longest_from(here: int, visited: frozenset[int]) -> int:
        onwards = (j for j in blockers.get(here, ()) if j not in visited)
        return 1 + max((longest_from(j, visited | {j}) for j in onwards), default=0)

    return longest_from(target, frozenset((target,)))


def tier_of(target: int, relations: TrueRelations) -> Tier:
    """How deep the target is buried."""
    length = longest_path(target, relations)
    return "easy" if length == 1 else "medium" if length == 2 else "hard"


def union(truths: Iterable[TrueRelations]) -> frozenset[BlockedBy]:
    """The relations that hold in any of these truths."""
    return frozenset(pair for truth in truths for pair in truth.pairs)
