"""Picks with the simulated arm: the way to a grasp, closing, lifting, carrying, letting go."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from cpor.errors import SimulationError
from cpor.robot.grasps import GraspPose
from cpor.sim.arm import ur3e
from cpor.sim.arm.kinematics import JointPath, Kinematics
from cpor.sim.arm.motion import Motion
from cpor.sim.physics.trays import TRAYS, Tray

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


@dataclass(frozen=True, eq=False)
class PickPlan:
    """A grasp and a free way to it.

    Attributes:
        grasp: The grasp.
        down: The straight way to it.
    """

    grasp: GraspPose
    down: JointPath


class Picker:
    """Carries out grasps; raises `MotionEndedError` where the arm is stopped or stops itself.

    Args:
        motion: Motion of the arm.
    """

    def __init__(self, motion: Motion) -> None:
        self._motion = motion
        self._kinematics = Kinematics(motion.world.bin)
        self._let_go_at = 0.06

    def plans(self, grasps: Iterable[GraspPose]) -> Iterator[PickPlan]:
        """The grasps with a free way to them, each planned when it is asked for."""
        for grasp in grasps:
            down = self._way_down(grasp)
            if down is not None:
                yield PickPlan(grasp, down)

    def attempt(self, plan: PickPlan) -> str | None:
        """Try a grasp and lift.

        Returns:
            None where something is held, the fingers at `CARRY_HEIGHT`; else what went wrong, with the
            fingers open above the heap.
        """
        m, joints = self._motion, plan.down.joints
        m.move(joints[0], plan.grasp.width)
        made = m.move_straight(joints, APPROACH, guard_n=GUARD_N)
        if (1.0 - made) * APPROACH > TOO_HIGH:
            self._back_off(joints, made)
            return "hit something on the way"
        self._let_go_at = float(plan.grasp.T_world_gripper[2, 3]) + LET_GO
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
        m = self._motion
        track = self._to_tray(tray)
        m.move(track.joints[0], speed=0.9)
        if not m.holding:
            m.open(ur3e.HOME_OPENING)
            return False
        m.move_straight(track.joints, CARRY_HEIGHT - self._let_go_at, guard_n=GUARD_N)
        held = m.holding
        m.open(min(ur3e.GRIPPER.opening, m.opening + 0.03))
        self.raise_up()
        return held

    def raise_up(self) -> None:
        """Straight up to where things are carried."""
        m = self._motion
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
            if track is not None and np.abs(track.joints[0] - joints).max() < 0.1:
                m.move_straight(track.joints, rise, speed=1.3)
                return

    def go_home(self) -> None:
        """Up, then home."""
        m = self._motion
        if np.abs(m.joints - ur3e.HOME).max() > 0.02:
            self.raise_up()
        m.move(np.array(ur3e.HOME), None if m.holding else ur3e.HOME_OPENING)

    def _way_down(self, grasp: GraspPose) -> JointPath | None:
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
        for way in sorted(ways, key=lambda way: float(np.abs(way.joints[0] - home).max())):
            if self._kinematics.is_free(home, way.joints[0], grasp.width):
                return way
        return None

    def _back_off(self, joints: Float[np.ndarray, "k 6"], made: float) -> None:
        """Open a little and go back the way the arm came, of which `made` is the share it had made."""
        m = self._motion
        m.open(min(m.opening + 0.012, ur3e.GRIPPER.opening))
        knots, shares = np.linspace(0.0, 1.0, len(joints)), np.linspace(made, 0.0, len(joints))
        back = np.stack([np.interp(shares, knots, joints[:, k]) for k in range(6)], axis=1)
        m.move_straight(back, APPROACH * made)

    def _to_tray(self, tray: Tray) -> JointPath:
        """The way down into a tray that takes the least turning to get to."""
        m = self._motion
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
        return min(tracks, key=lambda track: float(np.abs(track.joints[0] - here).max()))
