"""Where the tool may go and how fast: checked before any motion is sent, and a violation is an error.

Only the tool point is checked, as a point with a margin. The arm's links and the object in the gripper are
not: the controller's own safety planes and joint limits stay the last line, and must be set up there.
"""

from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float

from cpor.errors import InvalidSettingError, RobotError


@dataclass(frozen=True)
class Box:
    """A box along the axes of the world.

    Attributes:
        low: Least x, y, z. [m]
        high: Greatest x, y, z. [m]
        name: What it is, for messages.
    """

    low: tuple[float, float, float]
    high: tuple[float, float, float]
    name: str = "box"

    def __post_init__(self) -> None:
        both = np.array([self.low, self.high])
        if both.shape != (2, 3) or not np.isfinite(both).all() or not (both[0] < both[1]).all():
            raise InvalidSettingError(
                f"{self.name} is {self.low} to {self.high}; give low < high on each axis"
            )

    def contains(self, point: Float[np.ndarray, " 3"], margin: float = 0.0) -> bool:
        """Whether a point is inside; a margin [m] above 0 makes the box larger."""
        low, high = np.array(self.low) - margin, np.array(self.high) + margin
        return bool(np.all(point >= low) and np.all(point <= high))

    def meets(
        self, start: Float[np.ndarray, " 3"], end: Float[np.ndarray, " 3"], margin: float = 0.0
    ) -> bool:
        """Whether a straight line passes through the box, made larger by the margin [m]."""
        way = end - start
        enter, leave = 0.0, 1.0
        for axis in range(3):
            low, high = self.low[axis] - margin, self.high[axis] + margin
            if abs(way[axis]) < 1e-12:
                if not low <= start[axis] <= high:
                    return False
                continue
            first, last = sorted(((low - start[axis]) / way[axis], (high - start[axis]) / way[axis]))
            enter, leave = max(enter, first), min(leave, last)
        return bool(enter <= leave)


@dataclass(frozen=True)
class Limits:
    """What the arm must not leave or exceed. The defaults suit first trials with a UR3e: slow, and small.

    Attributes:
        workspace: The tool point stays inside.
        keep_out: And outside of these: camera mount, bin walls, whatever stands around.
        margin: Kept from both. [m]
        speed: Greatest speed of the tool in free space. [m/s]
        approach_speed: Greatest speed near objects. [m/s]
        acceleration: Acceleration of the tool. [m/s²]
        joint_speed: Greatest speed of a joint. [rad/s]
        joint_acceleration: Acceleration of a joint. [rad/s²]
        greatest_tilt_deg: Between the tool's z and straight down.
    """

    workspace: Box = field(default_factory=lambda: Box((0.05, -0.42, 0.0), (0.5, 0.42, 0.5), "the workspace"))
    keep_out: tuple[Box, ...] = ()
    margin: float = 0.0
    speed: float = 0.10
    approach_speed: float = 0.03
    acceleration: float = 0.3
    joint_speed: float = 0.5
    joint_acceleration: float = 0.8
    greatest_tilt_deg: float = 45.0

    def __post_init__(self) -> None:
        # Slow enough to follow with the eye and to reach the emergency stop in time; raise them knowingly.
        most = {"speed": 1.0, "approach_speed": 0.25, "acceleration": 2.0}
        most |= {"joint_speed": 2.0, "joint_acceleration": 3.0, "greatest_tilt_deg": 180.0}
        for name, high in most.items():
            if not 0.0 < (given := getattr(self, name)) <= high:
                raise InvalidSettingError(f"{name} is {given}; it must lie above 0, up to {high}")
        if self.margin < 0.0:
            raise InvalidSettingError(f"the margin is {self.margin}; it must not be negative")

    def check_pose(self, T_world_tool: Float[np.ndarray, "4 4"]) -> None:
        """Raise a RobotError where the tool must not be in this pose."""
        if T_world_tool.shape != (4, 4) or not np.isfinite(T_world_tool).all():
            raise RobotError("a pose must be a finite (4, 4) transform; the motion was not sent")
        point = T_world_tool[:3, 3]
        if not self.workspace.contains(point, -self.margin):
            raise RobotError(
                f"the tool would be at {_say(point)}, outside of {self.workspace.name} "
                f"{self.workspace.low} to {self.workspace.high} m; the motion was not sent"
            )
        for box in self.keep_out:
            if box.contains(point, self.margin):
                raise RobotError(
                    f"the tool would be at {_say(point)}, inside of {box.name}; the motion was not sent"
                )
        tilt = np.degrees(np.arccos(np.clip(-T_world_tool[2, 2], -1.0, 1.0)))
        if tilt > self.greatest_tilt_deg:
            raise RobotError(
                f"the tool would be tilted by {tilt:.0f} degrees, more than {self.greatest_tilt_deg:.0f}; "
                "the motion was not sent"
            )

    def check_line(
        self, T_world_start: Float[np.ndarray, "4 4"], T_world_end: Float[np.ndarray, "4 4"]
    ) -> None:
        """Raise a RobotError where the tool must not go straight from one pose to the other.

        Where it starts is not held against it: an arm that stands outside must be able to come back in.
        """
        self.check_pose(T_world_end)
        start, end = T_world_start[:3, 3], T_world_end[:3, 3]
        for box in self.keep_out:
            if box.meets(start, end, self.margin):
                raise RobotError(
                    f"the way from {_say(start)} to {_say(end)} leads through {box.name}; the motion was "
                    "not sent"
                )

    def check_speed(self, speed: float, acceleration: float) -> None:
        """Raise a RobotError where a motion of the tool is too fast, in m/s and m/s²."""
        if not (0.0 < speed <= self.speed and 0.0 < acceleration <= self.acceleration):
            raise RobotError(
                f"{speed} m/s with {acceleration} m/s² is not within the limits of {self.speed} m/s and "
                f"{self.acceleration} m/s²; the motion was not sent"
            )


def _say(point: Float[np.ndarray, " 3"]) -> str:
    return "({:.3f}, {:.3f}, {:.3f}) m".format(*point)
