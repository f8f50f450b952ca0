"""Grippers people have on a UR: a Robotiq through its socket, one on a digital output, and a dry one."""

import logging
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from cpor.errors import InvalidSettingError, RobotError

log = logging.getLogger(__name__)

ROBOTIQ_PORT = 63352
"""Where the Robotiq URCap on the controller listens."""


class GripperDevice(Protocol):
    """A parallel gripper."""

    def open(self, width: float | None = None) -> None:
        """Open, to a width [m] where it can."""
        ...

    def close(self) -> None:
        """Close until it meets something or is closed."""
        ...

    def holding(self) -> bool | None:
        """Whether something is between the fingers; None where it cannot tell."""
        ...


@dataclass
class DryRunGripper:
    """Moves nothing, logs what it would do, and takes itself to hold something whenever it is closed."""

    motions: list[str] = field(default_factory=list)
    _closed: bool = False

    def open(self, width: float | None = None) -> None:
        """Write down that it opens."""
        self._say("open" if width is None else f"open to {1e3 * width:.0f} mm")
        self._closed = False

    def close(self) -> None:
        """Write down that it closes."""
        self._say("close")
        self._closed = True

    def holding(self) -> bool | None:
        """Whether it was told to close last."""
        return self._closed

    def _say(self, motion: str) -> None:
        self.motions.append(motion)
        log.info("dry run: gripper %s", motion)


@dataclass
class DigitalOutputGripper:
    """A gripper on a digital output of the controller: high closes it, or opens it where `inverted`.

    Attributes:
        io: An `RTDEIOInterface` of ur-rtde.
        output: Number of the standard output, 0 to 7.
        inverted: Whether high opens it.
        travel_s: Time it needs to open or close. [s]
        sensor: Says whether something is held, from a digital input for example; None: it cannot tell.
    """

    io: Any
    output: int = 0
    inverted: bool = False
    travel_s: float = 0.8
    sensor: Callable[[], bool] | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.output <= 7:
            raise InvalidSettingError(f"digital output {self.output} does not exist; give 0 to 7")

    def open(self, width: float | None = None) -> None:
        """Open as far as it goes."""
        self._set(False)

    def close(self) -> None:
        """Close."""
        self._set(True)

    def holding(self) -> bool | None:
        """What the sensor says; None without one."""
        return None if self.sensor is None else self.sensor()

    def _set(self, closed: bool) -> None:
        try:
            accepted = self.io.setStandardDigitalOut(self.output, closed != self.inverted)
        except RuntimeError as error:  # as ur-rtde does where the connection breaks
            raise RobotError(f"digital output {self.output} was not set ({error}); check cable") from error
        if not accepted:
            raise RobotError(f"the controller refused to set digital output {self.output}")
        time.sleep(self.travel_s)


class RobotiqGripper:
    """A Robotiq 2F gripper through the socket of its URCap.

    Args:
        host: Address of the robot's controller.
        port: Port of the URCap.
        stroke: Distance of the fingers when open: 0.085 for a 2F-85, 0.140 for a 2F-140. [m]
        speed: 0 to 255.
        force: 0 to 255.
        timeout_s: Longest wait for an answer, and for a motion. [s]

    Raises:
        RobotError: It cannot be reached, is not activated, or does not answer as it should.
    """

    def __init__(
        self,
        host: str,
        port: int = ROBOTIQ_PORT,
        stroke: float = 0.085,
        speed: int = 128,
        force: int = 60,
        timeout_s: float = 5.0,
    ) -> None:
        if not (0 <= speed <= 255 and 0 <= force <= 255 and stroke > 0.0):
            raise InvalidSettingError("speed and force of a Robotiq lie in 0 to 255, its stroke above 0 m")
        self.stroke, self.timeout_s, self._where = stroke, timeout_s, f"{host}:{port}"
        try:
            self._socket = socket.create_connection((host, port), timeout=timeout_s)
        except OSError as error:
            missing = f"no Robotiq gripper answers at {self._where} ({error})"
            raise RobotError(f"{missing}; is its URCap installed and running?") from None
        self._rest = b""
        try:
            if self._get("STA") != 3:
                raise RobotError(
                    "the Robotiq gripper is not active; activate it at the pendant, fingers free"
                )
            self._set(SPE=speed, FOR=force, GTO=1)
        except RobotError:
            self.disconnect()
            raise

    def open(self, width: float | None = None) -> None:
        """Open, to a width where one is given."""
        share = 1.0 if width is None else min(max(width / self.stroke, 0.0), 1.0)
        self._go(round(255 * (1.0 - share)))

    def close(self) -> None:
        """Close until it meets something or is closed."""
        self._go(255)

    def holding(self) -> bool | None:
        """Whether the fingers were kept from closing."""
        return self._get("OBJ") == 2

    def disconnect(self) -> None:
        """Close the connection; the gripper stays as it is."""
        self._socket.close()

    def _go(self, position: int) -> None:
        self._set(POS=position, GTO=1)
        until = time.monotonic() + self.timeout_s
        # Until the gripper has taken the order, OBJ still tells of the motion before.
        while self._get("PRE") != position or self._get("OBJ") == 0:
            if time.monotonic() > until:
                raise RobotError(f"the gripper did not end its motion within {self.timeout_s} s")
            time.sleep(0.01)

    def _set(self, **values: int) -> None:
        said = self._say("SET " + " ".join(f"{name} {value}" for name, value in values.items()))
        if said != "ack":
            raise RobotError(f"the gripper at {self._where} answered {said!r} to an order; restart its URCap")

    def _get(self, name: str) -> int:
        said = self._say(f"GET {name}").split()
        if len(said) != 2 or said[0] != name or not said[1].lstrip("-").isdigit():
            raise RobotError(f"the gripper at {self._where} answered {' '.join(said)!r} to GET {name}")
        return int(said[1])

    def _say(self, line: str) -> str:
        try:
            self._socket.sendall(line.encode("ascii") + b"\n")
            while b"\n" not in self._rest and self._rest != b"ack":  # some versions end `ack` with nothing
                part = self._socket.recv(1024)
                if not part:
                    raise RobotError(f"the gripper at {self._where} closed the connection")
                self._rest += part
        except OSError as error:
            raise RobotError(f"the gripper at {self._where} does not answer ({error})") from None
        answer, _, self._rest = self._rest.partition(b"\n")
        return answer.decode("ascii", "replace").strip()
