"""Picks with the simulated arm: the way to a grasp, closing, lifting, carrying, letting go in a tray.

What is released in one of the two trays moves to a free place of that tray and stays there. So there is room
for the next object, and the physics stays fast: what lies in a tray touches nothing any more. The cameras
over the heap do not see the trays; films do.
"""

from collections.abc import Iterable, Iterator
from typing import Literal, TypeAlias

import mujoco
import numpy as np
from jaxtyping import Float

from cpor.errors import SimulationError
from cpor.robot.grasps import GraspPose
from cpor.sim.arm import ur3e
from cpor.sim.arm.kinematics import Kinematics
from cpor.sim.arm.motion import Motion
from cpor.sim.physics.true_relations import vertical_reach
from cpor.sim.physics.world import DELIVERY, DISCARD

Tray: TypeAlias = Literal["discard", "delivery"]

TRAYS: dict[Tray, tuple[float, float]] = {"discard": DISCARD, "delivery": DELIVERY}

REACH = 0.14
"""What lies within this of a tray's middle, along x and y, is in the tray. [m]"""

_STEP = 0.055
"""Distance of the places of a tray from its middle, along x and y. [m]"""

_PLACES: dict[Tray, tuple[tuple[int, int], ...]] = {
    "discard": ((-1, -1), (1, 1), (-1, 1), (1, -1)),
    "delivery": ((0, 0), (-1, -1), (1, 1), (-1, 1), (1, -1)),
}
"""In steps; what is delivered lies where it was released."""

_LAYER = 0.05
"""Height of the next layer of places, once all are taken. [m]"""


class Trays:
    """Where objects went; the truth for experiments, not for the robot."""

    def __init__(self, motion: Motion) -> None:
        self.motion = motion
        self._world = motion.world
        self._tray_of: dict[int, Tray] = {}

    def holds(self, obj: int, tray: Tray | None = None) -> bool:
        """Whether an object is in a tray, in any if none is named."""
        return obj in self._tray_of and tray in (None, self._tray_of[obj])

    def clear(self) -> None:
        """Note what lies in the trays, and make room for the next release."""
        for obj, body in self._world.body_of.items():
            if obj in self._tray_of:
                continue
            where = self._world.data.xipos[body, :2]
            for tray, centre in TRAYS.items():
                if np.abs(where - centre).max() < REACH:
                    self.put(obj, tray)

    def put(self, obj: int, tray: Tray) -> None:
        """Lay an object into the next free place of a tray, as if it had been released there."""
        layer, place = divmod(sum(each == tray for each in self._tray_of.values()), len(_PLACES[tray]))
        self._tray_of[obj] = tray
        model, data, body = self._world.model, self._world.data, self._world.body_of[obj]
        joint = model.body_jntadr[body]
        position, speed = model.jnt_qposadr[joint], model.jnt_dofadr[joint]
        mine = self._world.object_of_geom == obj
        data.qpos[position : position + 2] = np.add(TRAYS[tray], np.multiply(_STEP, _PLACES[tray][place]))
        mujoco.mj_kinematics(model, data)
        data.qpos[position + 2] += _LAYER * layer - vertical_reach(model, data)[0][mine].min()
        data.qvel[speed : speed + 6] = 0.0
        model.geom_contype[mine] = 0
        model.geom_conaffinity[mine] = 0
        model.body_gravcomp[body] = 1.0
        self.motion.wake_all()


APPROACH = 0.12
"""Length of the straight way to a grasp. [m]"""

CARRY_HEIGHT = 0.22
"""Height of the finger tips when something is carried. [m]"""

GUARD_N = 18.0
"""Force against the fingers at which a descent ends. [N]"""

TOO_HIGH = 0.0085
"""A descent that ends farther above a grasp than this is given up: there tips slip off round things. [m]"""

LET_GO = 0.012
"""What is held is let go of this much higher above the table than it was grasped. [m]"""


class Picker:
    """Carries out grasps; raises `MotionEndedError` where the arm is stopped or stops itself."""

    def __init__(self, motion: Motion) -> None:
        self.motion = motion
        self._kinematics = Kinematics(motion.world.bin)
        self._let_go_at = 0.06

    def plans(self, grasps: Iterable[GraspPose]) -> Iterator[tuple[GraspPose, Float[np.ndarray, "k 6"]]]:
        """The grasps with a free way to them, and the postures of it, planned when it is asked for."""
        for grasp in grasps:
            down = self._way_down(grasp)
            if down is not None:
                yield grasp, down

    def attempt(self, grasp: GraspPose, joints: Float[np.ndarray, "k 6"]) -> str | None:
        """Try a grasp and lift; `joints` are the straight way to it.

        Returns:
            None where something is held, the fingers at `CARRY_HEIGHT`; else what went wrong, with the
            fingers open above the heap.
        """
        m = self.motion
        m.move(joints[0], grasp.width)
        made = m.move_straight(joints, APPROACH, guard_n=GUARD_N)
        if (1.0 - made) * APPROACH > TOO_HIGH:
            self._back_off(joints, made)
            return "hit something on the way"
        self._let_go_at = float(grasp.T_world_gripper[2, 3]) + LET_GO
        if not m.close():
            self._back_off(joints, made)
            return "closed on nothing"
        m.squeeze()
        m.wait(0.05)
        self.raise_up()
        if not m.holding:
            m.open(ur3e.HOME_OPENING)
            return "slipped"
        return None

    def carry(self, tray: Tray) -> bool:
        """Bring what is held to a tray, lower it and let go; whether it was still held then."""
        m = self.motion
        track = self._to_tray(tray)
        m.move(track[0], speed=0.9)
        if not m.holding:
            m.open(ur3e.HOME_OPENING)
            return False
        m.move_straight(track, CARRY_HEIGHT - self._let_go_at, guard_n=GUARD_N)
        held = m.holding
        m.open(min(ur3e.GRIPPER.opening, m.opening + 0.03))
        self.raise_up()
        return held

    def raise_up(self) -> None:
        """Straight up to where things are carried."""
        m = self.motion
        joints = m.joints
        here = self._kinematics.forward(joints)
        rise = CARRY_HEIGHT - float(here[2, 3])
        if rise < 0.005:
            return
        up = here.copy()
        up[2, 3] = CARRY_HEIGHT
        for must_be_free in (True, False):
            # What stands against the bin may only get away from it, so touching is no reason to stay.
            track = self._kinematics.straight(here, up, m.opening, joints, 12, must_be_free)
            if track is not None and np.abs(track[0] - joints).max() < 0.1:
                m.move_straight(track, rise, speed=1.3)
                return

    def go_home(self) -> None:
        """Up, then home."""
        m = self.motion
        if np.abs(m.joints - ur3e.HOME).max() > 0.02:
            self.raise_up()
        m.move(np.array(ur3e.HOME), None if m.holding else ur3e.HOME_OPENING)

    def _way_down(self, grasp: GraspPose) -> Float[np.ndarray, "k 6"] | None:
        """The straight way to a grasp; a parallel gripper may come turned by half a turn too."""
        home = np.array(ur3e.HOME)
        ways = []
        for sign in (1.0, -1.0):
            end = np.array(grasp.T_world_gripper)
            end[:3, :2] *= sign
            start = end.copy()
            start[:3, 3] -= APPROACH * end[:3, 2]
            way = self._kinematics.straight(start, end, grasp.width, home)
            if way is not None:
                ways.append(way)
        for way in sorted(ways, key=lambda way: float(np.abs(way[0] - home).max())):
            if self._kinematics.is_free(home, way[0], grasp.width):
                return way
        return None

    def _back_off(self, joints: Float[np.ndarray, "k 6"], made: float) -> None:
        """Open a little and go back the way the arm came, of which `made` is the share it had made."""
        m = self.motion
        m.open(min(m.opening + 0.012, ur3e.GRIPPER.opening))
        knots, shares = np.linspace(0.0, 1.0, len(joints)), np.linspace(made, 0.0, len(joints))
        back = np.stack([np.interp(shares, knots, joints[:, k]) for k in range(6)], axis=1)
        m.move_straight(back, APPROACH * made)

    def _to_tray(self, tray: Tray) -> Float[np.ndarray, "k 6"]:
        """The way down into a tray that takes the least turning to get to."""
        m = self.motion
        here = m.joints
        tracks = []
        for yaw in np.arange(16) * np.pi / 8:
            end = np.eye(4)
            end[:3, 0] = np.cos(yaw), np.sin(yaw), 0.0
            end[:3, 2] = 0.0, 0.0, -1.0
            end[:3, 1] = np.cross(end[:3, 2], end[:3, 0])
            end[:3, 3] = *TRAYS[tray], self._let_go_at
            start = end.copy()
            start[2, 3] = CARRY_HEIGHT
            track = self._kinematics.straight(start, end, m.opening, here)
            if track is not None:
                tracks.append(track)
        if not tracks:
            raise SimulationError(f"the arm does not reach the {tray} tray; move it closer in world.py")
        return min(tracks, key=lambda track: float(np.abs(track[0] - here).max()))
