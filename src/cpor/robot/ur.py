"""A real arm as a `Robot`, a UR or any other `Arm`: looks, grasps, puts aside, delivers. Dry by default."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
from jaxtyping import Float

from cpor.errors import InvalidSceneError, RobotError
from cpor.robot.arm import Arm, ArmFaultError, MotionStoppedError
from cpor.robot.cameras import FrameCamera
from cpor.robot.grasps import GraspFinder, GraspPose, Gripper, find_grasps
from cpor.robot.grippers import GripperDevice
from cpor.robot.limits import Limits
from cpor.robot.protocol import Outcome, OutcomeKind, RobotStatus
from cpor.scene import Observation, Scene

LOOK_JOINTS = (0.715, -1.289, -0.958, -2.465, 1.571, -0.856)
"""Joints of a UR3e with a 0.16 m tool pulled back and up, out of an overhead camera's view of a bin at
x 0.25 m and beyond. [rad]"""


@dataclass(frozen=True, eq=False)
class Station:
    """Where things are around the arm; poses of the tool in the world. Tool z is the approach.

    Attributes:
        T_world_base: Pose of the arm's base. Shape (4, 4). [m]
        T_flange_tool: From the flange to the point midway between the finger tips; by default 0.16 m along
            z, a Robotiq 2F-85 nearly closed. Shape (4, 4). [m]
        look_joints: Posture in which the camera sees all. Try it by hand first. [rad]
        T_world_look: The tool in that posture. Shape (4, 4). [m]
        T_world_deliver: Where the target is let go. Shape (4, 4). [m]
        T_world_discard: Where everything else is let go. Shape (4, 4). [m]
        travel_height: Height of the tool above the table while it carries something. [m]
        clearance: Between pre-grasp and grasp. [m]
    """

    T_world_base: Float[np.ndarray, "4 4"] = field(default_factory=lambda: np.eye(4))
    look_joints: tuple[float, ...] = LOOK_JOINTS
    T_world_look: Float[np.ndarray, "4 4"] = field(default_factory=lambda: facing_down(0.2, 0.0, 0.3))
    T_world_deliver: Float[np.ndarray, "4 4"] = field(default_factory=lambda: facing_down(0.1, -0.34, 0.10))
    T_world_discard: Float[np.ndarray, "4 4"] = field(default_factory=lambda: facing_down(0.1, 0.34, 0.10))
    travel_height: float = 0.25
    clearance: float = 0.08
    T_flange_tool: Float[np.ndarray, "4 4"] = field(
        default_factory=lambda: _shifted(np.eye(4), np.array([0.0, 0.0, 0.16]))
    )


@dataclass(frozen=True)
class _Step:
    """One step of a pick: a straight motion, then perhaps a word to the gripper."""

    T_world_tool: Float[np.ndarray, "4 4"]
    near_objects: bool = False
    then: Callable[[], None] | None = None
    must_hold: bool = False


class UniversalRobot:
    """An arm, a gripper and a camera.

    Every pick is checked as a whole before anything moves: each pose and each straight way against the
    limits, each pose for a posture of the arm.

    Args:
        arm: The arm; a `DryRunArm` moves nothing.
        camera: Gives frames with `T_world_camera`.
        gripper: Opens and closes.
        limits: Where and how fast.
        station: Where things are.
        shape: The gripper's fingers, to find grasps.
        grasps: Finds grasps; `find_grasps` by default.
    """

    def __init__(
        self,
        arm: Arm,
        camera: FrameCamera,
        gripper: GripperDevice,
        limits: Limits | None = None,
        station: Station | None = None,
        shape: Gripper | None = None,
        grasps: GraspFinder | None = None,
    ) -> None:
        self.arm, self.camera, self.gripper = arm, camera, gripper
        self.address, self.stop, self.heartbeat = arm.address, arm.stop, arm.heartbeat
        self.limits, self.station = limits or Limits(), station or Station()
        self.shape = shape or Gripper()
        self._find = grasps or (lambda scene, obj: find_grasps(scene, obj, self.shape))
        # "empty" only where the gripper says so; "ours": from closing on something until it is let go where
        # it belongs, or by a person's leave.
        self._gripper: Literal["empty", "ours", "unknown"] = (
            "empty" if gripper.holding() is False else "unknown"
        )
        for place in (self.station.T_world_deliver, self.station.T_world_discard):
            self.limits.check_pose(place)
            self.limits.check_pose(self._raised(place))

    def allow_emptying(self) -> None:
        """A person allows `home` to put what may be in the gripper into the tray for other things."""
        self._gripper = "ours"

    def observe(self) -> Observation:
        """Go to the looking posture, then take a frame."""
        self._require_leave()
        self._look_posture()
        return self.camera.frame()

    def grasp(self, scene: Scene, obj: int) -> Outcome:
        """Take the object and deliver it."""
        return self._pick(scene, obj, self.station.T_world_deliver)

    def remove(self, scene: Scene, obj: int) -> Outcome:
        """Take the object and put it aside."""
        return self._pick(scene, obj, self.station.T_world_discard)

    def home(self) -> Outcome:
        """Clear a `stop`, and go to the looking posture; a protective stop is left to a person.

        What this robot took, and may still have in the gripper, is put aside on the way, not dropped where
        the arm stands. What the gripper may have held before needs a person's leave: `allow_emptying`.
        """
        began = time.monotonic()
        detail = "in the looking posture"
        try:
            self._require_leave()
            self.arm.resume()
            if self._gripper == "ours":
                self._put_aside()
                detail = "in the looking posture; what was in the gripper was put aside"
            self._look_posture()
        except RobotError as error:
            return _outcome_of(error, began)
        return Outcome("done", detail, time.monotonic() - began)

    def status(self) -> RobotStatus:
        """How arm and gripper are."""
        status = self.arm.status()
        holding = None if status.state == "disconnected" else self.gripper.holding()
        return replace(status, holding=holding, time_s=self.camera.now())

    def _pick(self, scene: Scene, obj: int, T_world_place: Float[np.ndarray, "4 4"]) -> Outcome:
        began = time.monotonic()
        try:
            # A pick begins by opening the gripper, over the heap.
            if self._gripper == "empty" and self.gripper.holding() is True:
                self._gripper = "unknown"
            self._require_leave()
            if self._gripper == "ours":
                return Outcome("stopped", "something may be in the gripper; call home, which puts it aside")
            grasps = self._find(scene, obj)
        except InvalidSceneError as error:
            return Outcome("no_grasp", str(error))
        except RobotError as error:
            return _outcome_of(error, began)
        if not grasps:
            return Outcome("no_grasp", f"no way to take object {obj} was found")
        try:
            steps, refused = self._first_possible(grasps, T_world_place)
            if steps is None:
                return Outcome("unreachable", f"none of {len(grasps)} grasps can be reached: {refused}")
            for k, step in enumerate(steps):
                if not self._do(step):
                    return self._let_go(steps[k:], began)
            self._look_posture()
        except RobotError as error:
            return _outcome_of(error, began)
        took = time.monotonic() - began
        if self.gripper.holding() is None:
            return Outcome("done", "put down, if it was held: the gripper cannot tell", took)
        return Outcome("done", "put down", took, holding=True)

    def _first_possible(
        self, grasps: list[GraspPose], T_world_place: Float[np.ndarray, "4 4"]
    ) -> tuple[list[_Step] | None, str]:
        """The steps of the best grasp that passes every check, and why the last one did not."""
        refused = ""
        for grasp in grasps:
            steps = self._steps(grasp, T_world_place)
            try:
                self._check(steps)
            except (MotionStoppedError, ArmFaultError):
                raise
            except RobotError as error:
                refused = str(error)
                continue
            return steps, ""
        return None, refused

    def _steps(self, grasp: GraspPose, T_world_place: Float[np.ndarray, "4 4"]) -> list[_Step]:
        """Over the object, down along the approach, close, straight up, over the place, down, open, up."""
        T = _nearer_half_turn(grasp.T_world_gripper, self.station.T_world_look)
        before = _shifted(T, -self.station.clearance * T[:3, 2])
        return [
            _Step(self._raised(before), then=lambda: self.gripper.open(grasp.width)),
            _Step(before),
            _Step(T, near_objects=True, then=self._close),
            _Step(_shifted(T, np.array([0.0, 0.0, 0.03])), near_objects=True, must_hold=True),
            _Step(self._raised(T), must_hold=True),
            _Step(self._raised(T_world_place), must_hold=True),
            _Step(T_world_place, near_objects=True, then=self._open),
            _Step(self._raised(T_world_place)),
        ]

    def _check(self, steps: list[_Step]) -> None:
        start = self.station.T_world_look
        for step in steps:
            self.limits.check_line(start, step.T_world_tool)
            start = step.T_world_tool
        self.arm.check_way([self._in_base(step.T_world_tool) for step in steps])

    def _do(self, step: _Step) -> bool:
        """Do a step; False where something had to be held and is not."""
        self._move(step.T_world_tool, step.near_objects)
        if step.then is not None:
            step.then()
        return not step.must_hold or self.gripper.holding() is not False

    def _let_go(self, rest: list[_Step], began: float) -> Outcome:
        """Nothing is held any more: open, go up and away, and say where it was lost."""
        held_before = sum(step.must_hold for step in rest) < 3
        self._open()
        self._move(self._raised(self._pose()), near_objects=False)
        self._look_posture()
        took = time.monotonic() - began
        if held_before:
            return Outcome("dropped", "it was lost on the way", took)
        return Outcome("missed", "the fingers closed on nothing", took)

    def _require_leave(self) -> None:
        if self._gripper == "unknown":
            raise MotionStoppedError(
                "the gripper may hold something that this program did not take: let a person look, then call "
                "allow_emptying and home"
            )

    def _close(self) -> None:
        self._gripper = "ours"
        self.gripper.close()

    def _open(self) -> None:
        self.gripper.open()
        self._gripper = "empty"

    def _put_aside(self) -> None:
        """Carry what may be held to where things are discarded, and let go of it there."""
        if self.gripper.holding() is False:
            self._open()
            return
        place = self.station.T_world_discard
        self._move(self._raised(self._pose()), near_objects=True)
        self._move(self._raised(place), near_objects=False)
        self._move(place, near_objects=True)
        self._open()
        self._move(self._raised(place), near_objects=False)

    def _move(self, T_world_tool: Float[np.ndarray, "4 4"], near_objects: bool) -> None:
        speed = self.limits.approach_speed if near_objects else self.limits.speed
        self.limits.check_speed(speed, self.limits.acceleration)
        self.limits.check_line(self._pose(), T_world_tool)
        self.arm.move_line(self._in_base(T_world_tool), speed, self.limits.acceleration)

    def _look_posture(self) -> None:
        limits = self.limits
        here = self._pose()
        if here[2, 3] < self.station.travel_height - 0.01 and limits.workspace.contains(here[:3, 3]):
            # Out of the bin first: joints do not move the tool in a straight line.
            self._move(self._raised(here), near_objects=True)
        self.arm.move_joints(self.station.look_joints, limits.joint_speed, limits.joint_acceleration)

    def _pose(self) -> Float[np.ndarray, "4 4"]:
        return np.asarray(self.station.T_world_base @ self.arm.pose())

    def _in_base(self, T_world_tool: Float[np.ndarray, "4 4"]) -> Float[np.ndarray, "4 4"]:
        return np.asarray(np.linalg.inv(self.station.T_world_base) @ T_world_tool)

    def _raised(self, T_world_tool: Float[np.ndarray, "4 4"]) -> Float[np.ndarray, "4 4"]:
        T = T_world_tool.copy()
        T[2, 3] = max(T[2, 3], self.station.travel_height)
        return T


def facing_down(x: float, y: float, z: float) -> Float[np.ndarray, "4 4"]:
    """A tool pose [m] that points straight down. Shape (4, 4)."""
    T = np.diag([1.0, -1.0, -1.0, 1.0])
    T[:3, 3] = x, y, z
    return T


def _nearer_half_turn(
    T: Float[np.ndarray, "4 4"], other: Float[np.ndarray, "4 4"]
) -> Float[np.ndarray, "4 4"]:
    """A grasp, turned by half a turn where that is nearer to a pose: both fingers are alike."""
    turned = T @ np.diag([-1.0, -1.0, 1.0, 1.0])
    return max((T, turned), key=lambda each: float(np.trace(each[:3, :3].T @ other[:3, :3])))


def _shifted(T: Float[np.ndarray, "4 4"], by: Float[np.ndarray, " 3"]) -> Float[np.ndarray, "4 4"]:
    moved = T.copy()
    moved[:3, 3] += by
    return moved


def _outcome_of(error: RobotError, began: float) -> Outcome:
    kind: OutcomeKind = "stopped" if isinstance(error, MotionStoppedError) else "fault"
    return Outcome(kind, str(error), time.monotonic() - began)
