"""An arm with a planner of its own behind the ROS 2 action `cpor_msgs/Pick`: it is sent grasps, and picks."""

import time
from typing import cast, get_args

import numpy as np
from jaxtyping import Float

from cpor.bridges.ros2_answers import make_quaternion, now
from cpor.bridges.ros2_camera import Ros2Camera
from cpor.bridges.ros2_clients import ActionClient, GuardedGoals
from cpor.bridges.ros2_messages import Message, new
from cpor.errors import InvalidSceneError, RobotError
from cpor.robot.arm import ArmFaultError, MotionStoppedError
from cpor.robot.grasps import GraspFinder, find_grasps
from cpor.robot.protocol import Outcome, OutcomeKind, RobotStatus
from cpor.scene import Observation, Scene

KIND = "cpor_msgs/action/Pick"

LONGEST_S = 120.0
"""A pick that takes longer is given up. [s]"""


class PickRobot:
    """A robot that picks by itself; implements `cpor.robot.protocol.Robot`.

    Args:
        goals: Runs its goals; None in a dry run: nothing moves.
        action: The pick action.
        camera: Gives frames with `T_world_camera`.
        world: Frame of the grasps.
        address: Its name for the lease.
        grasps: Finds grasps; `find_grasps` by default.
    """

    def __init__(
        self,
        goals: GuardedGoals | None,
        action: ActionClient,
        camera: Ros2Camera,
        world: str,
        address: str,
        grasps: GraspFinder = find_grasps,
    ) -> None:
        self.camera, self._goals, self._action = camera, goals, action
        self._world, self._find = world, grasps
        self.address = None if goals is None else address
        self._holding: bool | None = None

    def observe(self) -> Observation:
        """Take a frame; every pick leaves the arm out of view."""
        return self.camera.frame()

    def grasp(self, scene: Scene, obj: int) -> Outcome:
        """Take the object and deliver it."""
        return self._pick(scene, obj, deliver=True)

    def remove(self, scene: Scene, obj: int) -> Outcome:
        """Take the object and put it aside."""
        return self._pick(scene, obj, deliver=False)

    def home(self) -> Outcome:
        """Clear a `stop`; the arm comes back and puts aside what it holds."""
        try:
            if self._goals is not None:
                self._goals.resume()
        except RobotError as error:
            return Outcome("fault", str(error))
        return self._send(new(f"{KIND}_Goal"), "the arm is back")

    def stop(self) -> None:
        """Stop at once."""
        if self._goals is not None:
            self._goals.stop()

    def heartbeat(self) -> None:
        """Report that the program that moves the arm is alive."""
        if self._goals is not None:
            self._goals.heartbeat()

    def status(self) -> RobotStatus:
        """How the arm is, as far as the graph tells."""
        dry, at = self._goals is None, self.camera.now()
        if not self._action.ready():
            detail = f"no action server {self._action.name}; start the driver of the arm"
            return RobotStatus("disconnected", detail, dry_run=dry, time_s=at)
        if self._goals is not None and self._goals.halted:
            return RobotStatus("stopped", "stopped on request; call home to go on", self._holding, time_s=at)
        if self._goals is not None and self._goals.moving:
            return RobotStatus("moving", "on the way", self._holding, time_s=at)
        return RobotStatus("ready", "at rest", self._holding, dry, at)

    def close(self) -> None:
        """Send no heartbeat any more: the arm's side stops what still moves."""
        if self._goals is not None:
            self._goals.close()

    def _pick(self, scene: Scene, obj: int, deliver: bool) -> Outcome:
        try:
            grasps = self._find(scene, obj)
        except InvalidSceneError as error:
            return Outcome("no_grasp", str(error))
        if not grasps:
            return Outcome("no_grasp", f"no way to take object {obj} was found")
        goal = new(f"{KIND}_Goal", object=obj, deliver=deliver)
        goal.grasps = [_pose(each.T_world_gripper) for each in grasps]
        goal.widths = [float(each.width) for each in grasps]
        return self._send(goal, f"it would {'deliver' if deliver else 'put aside'} object {obj}")

    def _send(self, goal: Message, dry: str) -> Outcome:
        began = time.monotonic()
        if self._goals is None:
            return Outcome("done", f"{dry}; a dry run", 0.0)
        goal.header = new("std_msgs/Header", stamp=now(), frame_id=self._world)
        try:
            told = self._goals.run(self._action, goal, LONGEST_S, accept=lambda told: bool(told.outcome))
        except MotionStoppedError as error:
            return Outcome("stopped", str(error), time.monotonic() - began)
        except RobotError as error:
            self._holding = None
            return Outcome("fault", str(error), time.monotonic() - began)
        if told.outcome not in get_args(OutcomeKind):
            raise ArmFaultError(
                f"{self._action.name} says {told.outcome!r}; it must be one of {get_args(OutcomeKind)}"
            )
        felt = None if told.holding < 0 else bool(told.holding)
        # What was put down is not held; what became of anything else is not known.
        self._holding = False if told.outcome in ("done", "missed", "no_grasp", "unreachable") else None
        return Outcome(cast(OutcomeKind, told.outcome), told.detail, time.monotonic() - began, felt)


def _pose(T: Float[np.ndarray, "4 4"]) -> Message:
    at = new("geometry_msgs/Point", x=float(T[0, 3]), y=float(T[1, 3]), z=float(T[2, 3]))
    return new("geometry_msgs/Pose", position=at, orientation=make_quaternion(T))
