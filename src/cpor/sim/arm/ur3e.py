"""The arm of the simulated robot: a UR3e in capsules with a parallel gripper, as MuJoCo bodies.

Denavit-Hartenberg lengths, joint limits, torques and link masses are those Universal Robots publishes for
the UR3e. The gripper is of the size of a common two-finger one (opening 85 mm) with slim finger tips.
Gripper frame: the origin lies midway between the finger tips, z points out of the gripper, x is the
direction in which the fingers close.
"""

from math import pi
from typing import TypeAlias

import mujoco
import numpy as np

from cpor.robot.grasps import Gripper

JOINTS = tuple(f"arm_joint_{k}" for k in range(1, 7))
FINGERS = ("finger_left", "finger_right")
GRIP = "grip"
TCP = "tcp"

BASE_HEIGHT = 0.20
"""The base stands on a pedestal, which gives room for tilted grasps near the table. [m]"""

DH = (
    (0.0, 0.15185, pi / 2),
    (-0.24355, 0.0, 0.0),
    (-0.2132, 0.0, 0.0),
    (0.0, 0.13105, pi / 2),
    (0.0, 0.08535, -pi / 2),
    (0.0, 0.0921, 0.0),
)
"""a [m], d [m] and alpha [rad] of each joint, the classic convention."""

JOINT_LIMIT = 2 * pi
"""All joints turn by one turn either way. [rad]"""

MAX_TORQUE = (56.0, 56.0, 28.0, 12.0, 12.0, 12.0)
"""Torque limit of each joint. [N m]"""

STIFFNESS = (6000.0, 6000.0, 6000.0, 1500.0, 1500.0, 1500.0)
DAMPING = (240.0, 240.0, 240.0, 45.0, 45.0, 45.0)
"""Gains of the position control of each joint: stiff and a little overdamped. [N m / rad], [N m s / rad]"""

GRIPPER = Gripper()
GRIP_FORCE = 50.0
"""Each finger presses with at most this; common grippers of that size give 20 to 235 N. [N]"""

FLANGE_TO_TIPS = 0.17
"""From the arm's flange to the finger tips. [m]"""

HOME = (1.907, -1.636, -1.542, -1.534, 1.571, 0.336)
"""Arm at home: to the side of the bin and above, out of the view of a camera over the heap. [rad]"""

HOME_OPENING = 0.06
"""Opening of the fingers there. [m]"""

_Vector: TypeAlias = tuple[float, float, float]
_Piece: TypeAlias = tuple[_Vector, _Vector, float]
_METAL = (0.55, 0.57, 0.6, 1.0)
_TOUCHES = {"contype": 0, "conaffinity": 1}
"""Objects, table and bin touch it, its own parts do not."""

_DARK = (0.12, 0.12, 0.13, 1.0)


def add_arm(spec: mujoco.MjSpec, finger_friction: float) -> None:
    """Put the arm and its gripper into a world that is being built.

    Arm and gripper touch objects, table and bin, but not themselves: `Kinematics` refuses postures in
    which they would.
    """
    base = spec.worldbody.add_body(name="arm_base")
    half, kind = BASE_HEIGHT / 2, mujoco.mjtGeom.mjGEOM_CYLINDER
    base.add_geom(type=kind, size=(0.06, half, 0.0), pos=(0, 0, half), rgba=_METAL, **_TOUCHES)
    links = _add_links(base)
    _add_gripper(spec, links[-1], finger_friction)
    for name, kp, kv, torque in zip(JOINTS, STIFFNESS, DAMPING, MAX_TORQUE, strict=True):
        _position_control(spec, name, mujoco.mjtTrn.mjTRN_JOINT, kp, kv, torque)


def _add_links(base: mujoco.MjsBody) -> list[mujoco.MjsBody]:
    """Shoulder to third wrist: body k turns about z of the frame that the k - 1 links before it leave."""
    masses = (2.0, 3.42, 1.26, 0.8, 0.8, 0.35)
    a2, a3, d4, d5, d6 = DH[1][0], DH[2][0], DH[3][1], DH[4][1], DH[5][1]
    # Upper arm and forearm lie beside the plane of the DH frames, by 120 and 27 mm.
    shapes: tuple[tuple[_Piece, ...], ...] = (
        (((0, 0, 0.06), (0, 0, 0.15), 0.055),),
        (((0, 0, 0.03), (0, 0, 0.12), 0.05), ((0, 0, 0.12), (a2, 0, 0.12), 0.042)),
        (((0, 0, 0.027), (a3, 0, 0.027), 0.036),),
        (((0, 0, 0.05), (0, 0, d4), 0.034),),
        (((0, 0, 0.02), (0, 0, d5), 0.034),),
        (((0, 0, d6 - 0.05), (0, 0, d6 - 0.03), 0.032),),
    )
    bodies = []
    parent, position, twist = base, (0.0, 0.0, BASE_HEIGHT), 0.0
    for k, ((a, d, alpha), pieces) in enumerate(zip(DH, shapes, strict=True)):
        body = parent.add_body(
            name=f"arm_link_{k + 1}", pos=position, quat=(np.cos(twist / 2), np.sin(twist / 2), 0.0, 0.0)
        )
        body.gravcomp = 1.0
        body.add_joint(
            name=JOINTS[k],
            type=mujoco.mjtJoint.mjJNT_HINGE,
            axis=(0, 0, 1),
            # The limits are kept by `Kinematics`; MuJoCo's own would only cost time.
            limited=False,
            armature=0.2 if k < 3 else 0.08,
        )
        for start, end, radius in pieces:
            _capsule(body, start, end, radius, masses[k] / len(pieces))
        bodies.append(body)
        parent, position, twist = body, (a, 0.0, d), alpha
    return bodies


def _add_gripper(spec: mujoco.MjSpec, wrist: mujoco.MjsBody, friction: float) -> None:
    g = GRIPPER
    flange = DH[5][1]
    palm_end = FLANGE_TO_TIPS - g.finger_length
    hand = wrist.add_body(name="gripper", pos=(0.0, 0.0, flange))
    hand.gravcomp = 1.0
    _capsule(hand, (0, 0, 0.0), (0, 0, 0.03), 0.034, 0.3)
    half = palm_end / 2 - 0.02
    hand.add_geom(
        name="palm",
        type=mujoco.mjtGeom.mjGEOM_BOX,
        size=(g.palm_half[0], g.palm_half[1], half),
        pos=(0, 0, palm_end - half),
        mass=0.5,
        rgba=_DARK,
        **_TOUCHES,
    )
    hand.add_site(name=TCP, pos=(0, 0, FLANGE_TO_TIPS), size=(0.002,) * 3, group=5)
    for name, side in zip(FINGERS, (-1.0, 1.0), strict=True):
        finger = hand.add_body(name=name, pos=(side * g.finger_thickness / 2, 0, palm_end))
        finger.gravcomp = 1.0
        finger.add_joint(
            name=name,
            type=mujoco.mjtJoint.mjJNT_SLIDE,
            axis=(side, 0, 0),
            range=(0.0, g.opening / 2),
            limited=True,
            armature=0.3,
            damping=2.0,
        )
        finger.add_geom(
            name=f"{name}_pad",
            type=mujoco.mjtGeom.mjGEOM_BOX,
            size=(g.finger_thickness / 2, g.finger_width / 2, g.finger_length / 2),
            pos=(0, 0, g.finger_length / 2),
            mass=0.06,
            rgba=_METAL,
            **_TOUCHES,
            condim=4,
            # Sliding friction, and turning about the normal of a patch as wide as the pad.
            friction=(friction, friction * 0.4 * g.finger_width, 0.0001),
            # The pads' friction counts, not the larger one of pad and object, as MuJoCo would have it.
            priority=1,
            solref=(0.005, 1.0),
            solimp=(0.97, 0.995, 0.001, 0.5, 2.0),
        )
    spec.add_equality(
        name="fingers_together",
        type=mujoco.mjtEq.mjEQ_JOINT,
        objtype=mujoco.mjtObj.mjOBJ_JOINT,
        name1=FINGERS[1],
        name2=FINGERS[0],
        data=[0.0, 1.0] + [0.0] * 10,
        solref=(0.005, 1.0),
    )
    opening = spec.add_tendon(name=GRIP)
    for name in FINGERS:
        opening.wrap_joint(name, 1.0)
    _position_control(spec, GRIP, mujoco.mjtTrn.mjTRN_TENDON, 12000.0, 150.0, GRIP_FORCE)


def _position_control(
    spec: mujoco.MjSpec, name: str, kind: mujoco.mjtTrn, kp: float, kv: float, limit: float
) -> None:
    actuator = spec.add_actuator(name=name, target=name, trntype=kind)
    actuator.gainprm[0] = kp
    actuator.biastype = mujoco.mjtBias.mjBIAS_AFFINE
    actuator.biasprm[1:3] = (-kp, -kv)
    actuator.forcelimited = True
    actuator.forcerange = (-limit, limit)


def _capsule(body: mujoco.MjsBody, start: _Vector, end: _Vector, radius: float, mass: float) -> None:
    kind, size = mujoco.mjtGeom.mjGEOM_CAPSULE, (radius, 0.0, 0.0)
    body.add_geom(type=kind, fromto=(*start, *end), size=size, mass=mass, rgba=_METAL, **_TOUCHES)
