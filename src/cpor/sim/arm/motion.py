"""Moves the simulated arm through its physics: smooth motions, guarded descents, the gripper, safe stops."""

import threading
from collections.abc import Callable
from typing import Literal

import mujoco
import numpy as np
from jaxtyping import Float

from cpor.errors import RobotError, SimulationError
from cpor.robot.dead_man import DeadMan
from cpor.sim.arm import ur3e
from cpor.sim.physics.world import World

MAX_SPEED = np.array([2.0, 2.0, 2.0, 3.0, 3.0, 3.0])
"""Speed limit of each joint; a UR3e allows 3.1, its wrists 6.3. [rad/s]"""

MAX_ACCELERATION = np.array([7.0, 7.0, 7.0, 12.0, 12.0, 12.0])
"""[rad/s^2]"""

LINE_SPEED = 0.25
"""Speed of the finger tips on a straight motion; the limit of collaborative operation. [m/s]"""

FINGER_SPEED = 0.15
"""At which the opening changes. [m/s]"""

STEPS_PER_CONTROL = 2

LOST_TRACK = 0.05
"""A joint this far from where it should be means that the arm hit something. [rad]"""

CLOSED_ON_NOTHING = 0.0016
"""A smaller opening means that nothing is between the fingers. [m]"""

SLEEP_SPEED = 0.002
"""Objects that move more slowly than this for a while are at rest. [m/s]"""

_STIFF = np.array(ur3e.STIFFNESS)
_DAMP_PER_STIFF = np.array(ur3e.DAMPING) / _STIFF


class MotionEndedError(RobotError):
    """A motion that did not reach its end; the arm holds its position.

    Attributes:
        reason: `stopped` on request, or `protective_stop` by the arm itself.
    """

    def __init__(self, reason: Literal["stopped", "protective_stop"], detail: str) -> None:
        super().__init__(detail)
        self.reason: Literal["stopped", "protective_stop"] = reason


class Motion:
    """The arm of a world in motion; every call steps the physics of the whole world, and `watch` sees it."""

    def __init__(
        self,
        world: World,
        stop: threading.Event,
        watch: Callable[[World], None] | None = None,
        dead_man: DeadMan | None = None,
    ) -> None:
        if not world.has_arm:
            raise SimulationError("this world has no arm; build it with arm=True")
        self.world = world
        self._stop = stop
        self._watch = watch
        self._dead_man = dead_man
        model = world.model
        self._qpos = np.array([model.joint(name).qposadr[0] for name in ur3e.JOINTS])
        self._dofs = np.array([model.joint(name).dofadr[0] for name in ur3e.JOINTS])
        self._motors = np.array([model.actuator(name).id for name in ur3e.JOINTS])
        self._fingers = np.array([model.joint(name).qposadr[0] for name in ur3e.FINGERS])
        self._grip = model.actuator(ur3e.GRIP).id
        self._tcp = model.site(ur3e.TCP).id
        self._lost = 0
        # What lies still costs nothing until something touches it: some 50 times faster with a heap at rest.
        model.opt.enableflags |= mujoco.mjtEnableBit.mjENBL_SLEEP
        model.opt.sleep_tolerance = SLEEP_SPEED
        self._period = model.opt.timestep * STEPS_PER_CONTROL

    @property
    def joints(self) -> Float[np.ndarray, " 6"]:
        """Where the joints are. Shape (6,). [rad]."""
        return np.array(self.world.data.qpos[self._qpos])

    @property
    def opening(self) -> float:
        """Distance between the fingers. [m]."""
        return float(self.world.data.qpos[self._fingers].sum())

    @property
    def holding(self) -> bool:
        """Whether the gripper presses on something that keeps its fingers apart."""
        pressing = self.world.data.actuator_force[self._grip] < -0.5 * ur3e.GRIP_FORCE
        return bool(self.opening > CLOSED_ON_NOTHING and pressing)

    @property
    def time_s(self) -> float:
        """The world's own clock. [s]."""
        return float(self.world.data.time)

    def place(self, joints: Float[np.ndarray, " 6"], opening: float) -> None:
        """Put the arm into a posture without moving there: only before the first motion. [rad], [m]."""
        data = self.world.data
        data.qpos[self._qpos] = joints
        data.qpos[self._fingers] = opening / 2
        data.qvel[self._dofs] = 0.0
        data.ctrl[self._motors] = joints
        data.ctrl[self._grip] = opening
        mujoco.mj_forward(self.world.model, data)

    def move(self, joints: Float[np.ndarray, " 6"], opening: float | None = None, speed: float = 1.0) -> None:
        """Go to a posture on a straight line in joint space, the fingers to an opening meanwhile."""
        path = np.stack([self.joints, joints])
        span = np.abs(path[1] - path[0])
        seconds = max((1.9 * span / MAX_SPEED).max(), np.sqrt(5.8 * span / MAX_ACCELERATION).max()) / speed
        self._follow(path, seconds, opening, None)

    def move_straight(
        self,
        joints: Float[np.ndarray, "k 6"],
        length: float,
        speed: float = 1.0,
        guard_n: float | None = None,
    ) -> float:
        """Follow the postures of a straight motion.

        Args:
            joints: Postures along it; the arm stands at the first. Shape (k, 6). [rad]
            length: Length of the path of the finger tips. [m]
            speed: Share of the usual speed.
            guard_n: End early where something presses against the fingers with this. [N]

        Returns:
            The share of the way that was made, 1 unless the guard ended it.
        """
        span = np.abs(np.diff(joints, axis=0)).sum(axis=0)
        seconds = max(1.9 * length / LINE_SPEED, (1.9 * span / MAX_SPEED).max(), 0.1) / speed
        return self._follow(joints, seconds, None, guard_n)

    def follow(self, joints: Float[np.ndarray, "k 6"], times_s: Float[np.ndarray, " k"]) -> None:
        """Be at postures (k, 6) at ascending times (k,), counted from now. [rad], [s]."""
        period = self._period
        at, knots = np.arange(period, times_s[-1] + period, period), np.concatenate([[0.0], times_s])
        path = np.vstack([self.joints, joints])
        where = np.stack([np.interp(at, knots, path[:, k]) for k in range(6)], axis=1)
        self._track(where, np.gradient(np.vstack([path[:1], where]), period, axis=0)[1:])

    def open(self, opening: float) -> None:
        """Open the fingers to a distance. [m]."""
        self._ramp_fingers(opening)
        self.wait(0.04)

    def close(self) -> bool:
        """Close the fingers until they press or meet; whether something is between them."""
        data, timestep = self.world.data, self.world.model.opt.timestep
        still = 0
        before = self.opening
        for _ in range(int(2.0 / timestep / STEPS_PER_CONTROL)):
            target = data.ctrl[self._grip] - FINGER_SPEED * timestep * STEPS_PER_CONTROL
            # Behind the object by what gives the full force, not more: it must open again at once.
            data.ctrl[self._grip] = max(target, self.opening - 0.006, -0.006)
            self._control()
            still = still + 1 if abs(self.opening - before) < 2e-5 else 0
            before = self.opening
            if still * STEPS_PER_CONTROL * timestep > 0.08:
                break
        data.ctrl[self._grip] = max(-0.006, self.opening - 0.006)
        return self.opening > CLOSED_ON_NOTHING

    def squeeze(self) -> None:
        """Keep pressing with full force if what is held gives way."""
        self.world.data.ctrl[self._grip] = -0.006

    def wake_all(self) -> None:
        """Recompute the state after an object was moved by hand, sleeping ones too."""
        model = self.world.model
        model.opt.enableflags &= ~int(mujoco.mjtEnableBit.mjENBL_SLEEP)
        mujoco.mj_forward(model, self.world.data)
        model.opt.enableflags |= mujoco.mjtEnableBit.mjENBL_SLEEP

    def wait(self, seconds: float) -> None:
        """Let time pass with the arm where it is. [s]."""
        for _ in range(max(1, int(seconds / self.world.model.opt.timestep / STEPS_PER_CONTROL))):
            self._control()

    def hold(self) -> None:
        """Stay where the arm is now."""
        self.world.data.ctrl[self._motors] = self.joints
        self._lost = 0

    def push_back(self) -> float:
        """Force with which the world presses against the gripper, along its axis. [N]."""
        model, data = self.world.model, self.world.data
        jacobian = np.zeros((3, model.nv))
        mujoco.mj_jacSite(model, data, jacobian, None, self._tcp)
        axis = data.site_xmat[self._tcp].reshape(3, 3)[:, 2]
        lever = jacobian[:, self._dofs].T @ axis
        bias = data.qfrc_bias - data.qfrc_passive
        torque = data.actuator_force[self._motors] - bias[self._dofs]
        return float(lever @ torque / max(lever @ lever, 1e-6))

    def _follow(
        self, path: np.ndarray, seconds: float, opening: float | None, guard_n: float | None
    ) -> float:
        period = self.world.model.opt.timestep * STEPS_PER_CONTROL
        knots = np.linspace(0.0, 1.0, len(path))
        count = max(2, int(np.ceil(seconds / period)))
        t = np.arange(1, count + 1) / count
        s = t**3 * (10.0 - 15.0 * t + 6.0 * t**2)
        ds = 30.0 * t**2 * (1.0 - t) ** 2 / (count * period)
        where = np.stack([np.interp(s, knots, path[:, k]) for k in range(6)], axis=1)
        ahead = np.stack([np.interp(s + 1e-4, knots, path[:, k]) for k in range(6)], axis=1)
        behind = np.stack([np.interp(s - 1e-4, knots, path[:, k]) for k in range(6)], axis=1)
        speed = (ahead - behind) / 2e-4 * ds[:, None]
        made = self._track(where, speed, opening, guard_n)
        return 1.0 if made is None else float(s[made])

    def _track(
        self,
        where: np.ndarray,
        speed: np.ndarray,
        opening: float | None = None,
        guard_n: float | None = None,
    ) -> int | None:
        """Be at a posture in each control step; the step at which the guard ended it, else None."""
        data, period = self.world.data, self.world.model.opt.timestep * STEPS_PER_CONTROL
        pressed = 0
        for k in range(len(where)):
            # What the damping would hold back is added, so that the arm does not lag.
            data.ctrl[self._motors] = where[k] + _DAMP_PER_STIFF * speed[k]
            if opening is not None:
                self._step_fingers(opening, period)
            self._control(where[k])
            if guard_n is not None:
                pressed = pressed + 1 if self.push_back() > guard_n else 0
                if pressed >= 3:
                    self.hold()
                    return k
        for _ in range(15):
            data.ctrl[self._motors] = where[-1]
            self._control(where[-1])
            if np.abs(self.joints - where[-1]).max() < 1e-3:
                break
        if opening is not None:
            self._ramp_fingers(opening)
        return None

    def _step_fingers(self, opening: float, period: float) -> bool:
        """Move the fingers' set point towards an opening; whether it is there."""
        data = self.world.data
        left = opening - data.ctrl[self._grip]
        data.ctrl[self._grip] += np.clip(left, -FINGER_SPEED * period * 2, FINGER_SPEED * period * 2)
        return bool(abs(left) < 1e-5)

    def _ramp_fingers(self, opening: float) -> None:
        period = self.world.model.opt.timestep * STEPS_PER_CONTROL
        while not self._step_fingers(opening, period):
            self._control()

    def _control(self, wanted: np.ndarray | None = None) -> None:
        """One control step: a stop is obeyed, a lost track ends the motion, then physics runs."""
        if self._stop.is_set():
            self.hold()
            raise MotionEndedError("stopped", "stopped on request; the arm holds its position")
        if self._dead_man is not None and not self._dead_man.is_fed():
            self._stop.set()
            self.hold()
            raise MotionEndedError("stopped", "no heartbeat; the arm holds its position")
        if wanted is not None:
            error = np.abs(self.joints - wanted)
            self._lost = self._lost + 1 if error.max() > LOST_TRACK else 0
            if self._lost >= 4:
                joint = int(error.argmax()) + 1
                self.hold()
                why = f"joint {joint} is {error.max():.2f} rad off its way: the arm hit something"
                raise MotionEndedError("protective_stop", why)
        mujoco.mj_step(self.world.model, self.world.data, STEPS_PER_CONTROL)
        if self._watch is not None:
            self._watch(self.world)
