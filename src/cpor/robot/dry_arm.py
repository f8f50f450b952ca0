"""An arm that only writes down what it would do."""

import logging
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from jaxtyping import Float

from cpor.robot.arm import MotionStoppedError, unreachable
from cpor.robot.protocol import RobotStatus

log = logging.getLogger(__name__)


@dataclass
class DryRunArm:
    """An arm that moves nothing: it logs each motion and takes itself to be where it was sent.

    Attributes:
        T_base_tool: Where it takes its tool to be. Shape (4, 4). [m]
        T_base_home: Where it takes the tool to be after any motion of the joints. Shape (4, 4). [m]
        reach: Farthest it can reach from its base; 0.5 is a UR3e. [m]
        motions: What it would have done, in sentences.
    """

    T_base_tool: Float[np.ndarray, "4 4"]
    T_base_home: Float[np.ndarray, "4 4"] | None = None
    reach: float = 0.5
    motions: list[str] = field(default_factory=list)
    _halted: threading.Event = field(default_factory=threading.Event)
    address: ClassVar[str | None] = None  # no other program can reach it

    def pose(self) -> Float[np.ndarray, "4 4"]:
        """Where the tool is taken to be."""
        return self.T_base_tool

    def check_way(self, poses: Sequence[Float[np.ndarray, "4 4"]]) -> None:
        """Check that the poses are near enough; a real arm knows better."""
        for T in poses:
            if np.linalg.norm(T[:3, 3]) > self.reach:
                raise unreachable(T)

    def move_line(self, T_base_tool: Float[np.ndarray, "4 4"], speed: float, acceleration: float) -> None:
        """Write down a straight motion."""
        self._say("line to ({:.3f}, {:.3f}, {:.3f}) m".format(*T_base_tool[:3, 3]) + f" at {speed:.3f} m/s")
        self.T_base_tool = T_base_tool

    def move_joints(self, joints: tuple[float, ...], speed: float, acceleration: float) -> None:
        """Write down a motion of the joints."""
        angles = ", ".join(f"{np.degrees(q):.0f}" for q in joints)
        self._say(f"joints to ({angles}) degrees at {speed:.2f} rad/s")
        if self.T_base_home is not None:
            self.T_base_tool = self.T_base_home

    def stop(self) -> None:
        """Refuse motions until `resume`."""
        self._halted.set()
        self.motions.append("stop")

    def heartbeat(self) -> None:
        """Needs none: nothing moves."""

    def resume(self) -> None:
        """Allow motions again."""
        self._halted.clear()

    def status(self) -> RobotStatus:
        """Ready, or stopped."""
        if self._halted.is_set():
            return RobotStatus("stopped", "stopped on request; a dry run", dry_run=True)
        return RobotStatus("ready", "a dry run: nothing moves", dry_run=True)

    def _say(self, motion: str) -> None:
        if self._halted.is_set():
            raise MotionStoppedError("stopped on request; call home to go on")
        self.motions.append(motion)
        log.info("dry run: %s", motion)
