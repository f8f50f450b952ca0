"""Turns objects and poses into a MuJoCo world, with the settings under which heaps come to rest."""

from collections.abc import Mapping

import mujoco
import numpy as np
from jaxtyping import Float

from cpor.errors import InvalidSettingError, SimulationError
from cpor.sim.objects.solids import ObjectModel
from cpor.sim.physics.world import DELIVERY, DISCARD, HEAP_CENTRE, Bin, World

TIMESTEP_S = 0.002
# Condim 6 with rolling friction, or round things roll for ever; elliptic cones with noslip, or heaps
# creep by millimetres; a stiff contact, or things sink into each other.
FRICTION = (0.7, 0.005, 0.002)
SOLREF = (0.005, 1.0)
NOSLIP_ITERATIONS = 10

DAMPING = (0.02, 3e-4)
"""Drag on an object's motion [N s/m] and turning [N m s/rad]: a hundredth of what gravity does to it, yet it
ends the chatter in which some heaps would never come to rest."""

TABLE_HALF = (0.60, 0.60, 0.15)
"""Half sizes of the table; thick, since things are pressed through a thin one. [m]"""

TRAY_HALF = 0.11
RIM = 0.003
"""Half thickness of a tray's rim; its height is twice this. [m]"""

USUAL_BIN = Bin()

STATIC_GROUP = 0
OBJECT_GROUP = 1
"""Geom groups, for ray casting: what never moves, and the objects."""

_KINDS = {
    "box": mujoco.mjtGeom.mjGEOM_BOX,
    "cylinder": mujoco.mjtGeom.mjGEOM_CYLINDER,
    "capsule": mujoco.mjtGeom.mjGEOM_CAPSULE,
    "ellipsoid": mujoco.mjtGeom.mjGEOM_ELLIPSOID,
    "sphere": mujoco.mjtGeom.mjGEOM_SPHERE,
    "hull": mujoco.mjtGeom.mjGEOM_MESH,
}


def build_world(
    objects: Mapping[int, ObjectModel],
    poses: Mapping[int, Float[np.ndarray, " 7"]],
    bin: Bin | None = USUAL_BIN,
    arm: bool = False,
    finger_friction: float = 0.8,
) -> World:
    """A world at rest with these objects in these poses.

    The geoms of an object follow each other in the order of its parts, from `model.body_geomadr` on.

    Args:
        objects: By id, 1 to n.
        poses: Position and quaternion (w, x, y, z) of each object. Shape (7,). [m]
        bin: None for a bare table.
        arm: Whether the UR3e stands in the origin.
        finger_friction: Friction of the arm's fingers.
    """
    spec = make_spec(objects, bin)
    if arm:
        from cpor.sim.arm.ur3e import add_arm

        add_arm(spec, finger_friction)
    return compile_world(spec, objects, poses, bin, arm)


def make_spec(objects: Mapping[int, ObjectModel], bin: Bin | None) -> mujoco.MjSpec:
    """The uncompiled world, to be added to: table, trays, bin and objects, no arm."""
    spec = mujoco.MjSpec()
    option = spec.option
    option.timestep = TIMESTEP_S
    option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    option.cone = mujoco.mjtCone.mjCONE_ELLIPTIC
    option.impratio = 10.0
    option.noslip_iterations = NOSLIP_ITERATIONS
    _add_static(spec, "table", TABLE_HALF, (HEAP_CENTRE[0] / 2, 0.0, -TABLE_HALF[2]), (0.45, 0.40, 0.34))
    for name, centre in (("discard", DISCARD), ("delivery", DELIVERY)):
        _add_frame(spec, name, centre, (2 * TRAY_HALF, 2 * TRAY_HALF), 2 * RIM, 2 * RIM, (0.2, 0.22, 0.25))
    if bin is not None:
        _add_frame(spec, "bin", HEAP_CENTRE, bin.inner, bin.height, bin.wall, (0.35, 0.37, 0.40))
    for obj, model in objects.items():
        if obj < 1:
            raise InvalidSettingError(f"object id {obj} of {model.name!r} is not positive; count from 1")
        _add_object(spec, obj, model)
    return spec


def compile_world(
    spec: mujoco.MjSpec,
    objects: Mapping[int, ObjectModel],
    poses: Mapping[int, Float[np.ndarray, " 7"]],
    bin: Bin | None,
    arm: bool,
) -> World:
    """Compiles what `make_spec` began, gives the objects their masses and puts them into their poses."""
    model = spec.compile()
    body_of = {obj: model.body(body_name(obj)).id for obj in objects}
    object_of_geom = np.zeros(model.ngeom, dtype=np.int32)
    for obj, body in body_of.items():
        first = model.body_geomadr[body]
        object_of_geom[first : first + model.body_geomnum[body]] = obj
        # The compiler's mass is the volume; mass and inertia are scaled to what the catalogue says.
        scale = objects[obj].mass / model.body_mass[body]
        model.body_mass[body] *= scale
        model.body_inertia[body] *= scale
        first = model.body_dofadr[body]
        model.dof_damping[first : first + 6] = np.repeat(DAMPING, 3)
    data = mujoco.MjData(model)
    mujoco.mj_setConst(model, data)
    for obj, body in body_of.items():
        if obj not in poses:
            raise InvalidSettingError(f"no pose for object {obj} ({objects[obj].name}); give one for each")
        start = model.jnt_qposadr[model.body_jntadr[body]]
        data.qpos[start : start + 7] = poses[obj]
    try:
        mujoco.mj_forward(model, data)
    except mujoco.FatalError as error:
        why = f"MuJoCo gives up on these poses ({error}); put fewer objects into each other"
        raise SimulationError(why) from error
    if not np.isfinite(data.qpos).all():
        raise SimulationError("a pose holds a number that is not finite; check the poses given")
    return World(model, data, dict(objects), body_of, object_of_geom, bin, arm)


def body_name(obj: int) -> str:
    """Name in MuJoCo of an object's body."""
    return f"object_{obj}"


def _add_object(spec: mujoco.MjSpec, obj: int, model: ObjectModel) -> None:
    body = spec.worldbody.add_body(name=body_name(obj))
    body.add_freejoint(name=f"object_{obj}_free")
    for k, part in enumerate(model.parts):
        geom = body.add_geom(type=_KINDS[part.kind], pos=part.position, quat=part.quaternion, density=1.0)
        if part.kind == "hull":
            mesh = spec.add_mesh(name=f"object_{obj}_hull_{k}")
            mesh.uservert = np.asarray(part.vertices, dtype=float).reshape(-1)
            mesh.inertia = mujoco.mjtMeshInertia.mjMESH_INERTIA_CONVEX
            geom.meshname = mesh.name
        else:
            geom.size = (*part.size, 0.0, 0.0)[:3]
        geom.rgba = (*part.surface.colour, 1.0)
        geom.group = OBJECT_GROUP
        _set_contact(geom, model.friction)


def _add_frame(
    spec: mujoco.MjSpec,
    name: str,
    centre: tuple[float, float],
    inner: tuple[float, float],
    height: float,
    wall: float,
    colour: tuple[float, float, float],
) -> None:
    """Four walls around a rectangle on the table; those across x close the corners."""
    half_x, half_y, half_z = inner[0] / 2, inner[1] / 2, height / 2
    for k, side in enumerate((-1.0, 1.0)):
        x, y = centre[0] + side * (half_x + wall / 2), centre[1] + side * (half_y + wall / 2)
        _add_static(spec, f"{name}_x{k}", (wall / 2, half_y + wall, half_z), (x, centre[1], half_z), colour)
        _add_static(spec, f"{name}_y{k}", (half_x, wall / 2, half_z), (centre[0], y, half_z), colour)


def _add_static(
    spec: mujoco.MjSpec,
    name: str,
    half: tuple[float, float, float],
    position: tuple[float, float, float],
    colour: tuple[float, float, float],
) -> None:
    geom = spec.worldbody.add_geom(name=name, type=mujoco.mjtGeom.mjGEOM_BOX, size=half, pos=position)
    geom.rgba = (*colour, 1.0)
    geom.group = STATIC_GROUP
    _set_contact(geom, FRICTION[0])


def _set_contact(geom: "mujoco.MjsGeom", sliding: float) -> None:
    geom.condim = 6
    geom.friction = (sliding, *FRICTION[1:])
    geom.solref = SOLREF
