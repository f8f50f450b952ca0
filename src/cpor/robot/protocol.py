"""What a robot must be able to do for the loop, and what it says of an attempt."""

from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias, runtime_checkable

from cpor.scene import Observation, Scene

RobotState: TypeAlias = Literal["ready", "moving", "stopped", "protective_stop", "disconnected"]

OutcomeKind: TypeAlias = Literal["done", "missed", "dropped", "no_grasp", "unreachable", "stopped", "fault"]
"""`done`: it is where it should be. `missed`: the fingers closed on nothing. `dropped`: lost on the way.
`no_grasp`: no grasp was found. `unreachable`: grasps were found, but no motion to them without a
collision. `stopped`: `stop` was called. `fault`: the robot stopped itself."""


HEARTBEAT_S = 0.2
"""A heartbeat later than this ends a motion: with the braking it leaves a stop within 0.3 s. [s]"""


@dataclass(frozen=True)
class Outcome:
    """What came of an attempt to move an object.

    Attributes:
        kind: What came of it, as far as the robot can tell.
        detail: One sentence for people.
        duration_s: Time it took, on the robot's own clock. [s]
        holding: Whether the gripper felt something from the grasp until it let go; None where it cannot tell.
    """

    kind: OutcomeKind
    detail: str
    duration_s: float = 0.0
    holding: bool | None = None


@dataclass(frozen=True)
class RobotStatus:
    """How the robot is.

    Attributes:
        state: What it does.
        detail: One sentence for people.
        holding: Whether something is in the gripper; None where it cannot tell.
        dry_run: Whether it only says what it would do: nothing it says to be done is.
        time_s: The present on the clock of its frames' `time_s`; None where unknown. [s]
    """

    state: RobotState
    detail: str
    holding: bool | None = None
    dry_run: bool = False
    time_s: float | None = None


@runtime_checkable
class Robot(Protocol):
    """A robot with a camera and a gripper.

    No method leaves the arm moving when it returns or raises. After `stop` every motion ends at once and
    further ones come back as `stopped`, until `home` is called.

    The arm moves only while `heartbeat` is called more often than every `HEARTBEAT_S`; where it is late the
    arm stops by itself, as if `stop` had been called. The loop feeds it; code that calls a robot without the
    loop does so inside of `with cpor.robot.safe_stop.stopping(robot):`.
    """

    @property
    def address(self) -> str | None:
        """Name of the arm for its lease, such as "ur 192.0.2.1"; None if no other program can reach it."""
        ...

    def observe(self) -> Observation:
        """Take a picture now, with the arm out of view; may move the arm to where it looks from.

        Raises:
            CameraError: No frame came.
        """
        ...

    def grasp(self, scene: Scene, obj: int) -> Outcome:
        """Take an object, as seen in `scene`, and deliver it."""
        ...

    def remove(self, scene: Scene, obj: int) -> Outcome:
        """Take an object, as seen in `scene`, and put it aside."""
        ...

    def home(self) -> Outcome:
        """Go to the pose from which the camera sees all; clears a `stop`."""
        ...

    def stop(self) -> None:
        """Stop at once, whatever the thread that moves the arm does; from any thread, at any time."""
        ...

    def heartbeat(self) -> None:
        """Say that the program that moves the arm is alive; from any thread, never blocks."""
        ...

    def status(self) -> RobotStatus:
        """How the robot is; never moves it."""
        ...
