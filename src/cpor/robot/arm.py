"""An arm that follows straight lines, and a UR over RTDE as one."""

import logging
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Protocol

import numpy as np
from jaxtyping import Float
from scipy.spatial.transform import Rotation

from cpor.errors import RobotError
from cpor.robot.dead_man import CHECK_S, DeadMan
from cpor.robot.protocol import RobotStatus

log = logging.getLogger(__name__)

ARRIVED_M = 0.002
"""Nearer than this to its goal the tool has arrived. [m]"""

ARRIVED_RAD = 0.02
"""And turned no further than this from it. [rad]"""

POLL_S = 0.004
"""How often a motion is looked after: half the cycle rate of an e-Series controller. [s]"""

START_S = 0.5
"""A motion that does not begin within this time has been refused. [s]"""

WATCHDOG_HZ = 10.0
"""The controller stops by itself where it is kicked less often than this. [Hz]"""

RUNNING = 7
"""Robot mode of a UR whose brakes are released, as `getRobotMode` counts."""

_FREE = (0b01, 0b10, 0b11)
"""Safety bits of normal and of reduced mode; anything else keeps the arm where it is."""

_SAFETY_BITS = {2: "protective stop", 3: "recovery mode", 4: "safeguard stop", 5: "system emergency stop"}
_SAFETY_BITS |= {6: "robot emergency stop", 7: "emergency stop", 8: "safety violation", 9: "safety fault"}
_SAFETY_BITS |= {10: "stopped due to safety"}


class MotionStoppedError(RobotError):
    """A motion ended early because `stop` was called."""


class ArmFaultError(RobotError):
    """A motion ended early because the arm stopped itself."""


class Arm(Protocol):
    """An arm with a tool point. Poses are in its base frame, (4, 4), in metres."""

    @property
    def address(self) -> str | None:
        """Name of the arm for its lease; None where nothing moves."""
        ...

    def pose(self) -> Float[np.ndarray, "4 4"]:
        """Where the tool is."""
        ...

    def check_way(self, poses: Sequence[Float[np.ndarray, "4 4"]]) -> None:
        """Check poses that the tool goes to one after another, from where it is.

        Raises:
            RobotError: The arm has no posture for one of them, within its controller's limits.
        """
        ...

    def move_line(self, T_base_tool: Float[np.ndarray, "4 4"], speed: float, acceleration: float) -> None:
        """Move the tool straight to a pose, in m/s and m/s², and come back when it is there.

        Raises:
            MotionStoppedError: `stop` was called, before or meanwhile.
            ArmFaultError: The arm stopped itself.
        """
        ...

    def move_joints(self, joints: tuple[float, ...], speed: float, acceleration: float) -> None:
        """Move to joint angles, in rad, rad/s and rad/s²; as `move_line`."""
        ...

    def stop(self) -> None:
        """End any motion at once, and refuse others until `resume`; from any thread."""
        ...

    def heartbeat(self) -> None:
        """Feed the dead man's switch, see `Robot`; from any thread, never blocks."""
        ...

    def resume(self) -> None:
        """Allow motions again after a `stop`; never clears a protective stop."""
        ...

    def status(self) -> RobotStatus:
        """How the arm is."""
        ...


class RtdeArm:
    """A Universal Robots arm through `ur-rtde`.

    It never releases brakes and never clears a protective stop: a person does, at the pendant.

    It moves only while it is fed (`heartbeat`). Three things end a motion: the thread that watches it brakes
    (`stopL`, `stopJ`); `stop` and the dead man's switch end the program through the dashboard server; and the
    controller stops by itself when its watchdog is not kicked, as by a frozen or ended process.

    Args:
        host: Address of the controller.
        T_flange_tool: From the flange to the point midway between the finger tips. Shape (4, 4). [m]
        payload_kg: Mass of the gripper. [kg]
        links: `(control, receive, dashboard)` interfaces instead of opening them here.

    Raises:
        RobotError: `ur-rtde` is not installed, or the controller cannot be reached.
    """

    def __init__(
        self,
        host: str,
        T_flange_tool: Float[np.ndarray, "4 4"],
        payload_kg: float,
        links: tuple[Any, Any, Any] | None = None,
    ) -> None:
        self.host, self.address = host, f"ur {host}"
        control, receive, dashboard = links or _connect(host)
        self._control, self._receive = _Link(control, host), _Link(receive, host)
        self._dashboard = _Link(dashboard, host)
        self._halted = threading.Event()
        self._ended_program = False
        self._dead_man = DeadMan(self.stop)
        self._closed = threading.Event()
        if not self._control.setTcp(to_ur_pose(T_flange_tool).tolist()):
            raise RobotError(f"the controller {host} refused the tool; is it in remote control?")
        if not self._control.setPayload(payload_kg, (T_flange_tool[:3, 3] / 2.0).tolist()):
            raise RobotError(f"the controller {host} refused a payload of {payload_kg} kg")
        self._set_watchdog()
        threading.Thread(target=self._kick, name="cpor-ur-watchdog", daemon=True).start()

    def close(self) -> None:
        """Kick the controller's watchdog no more: it ends the control script."""
        self._closed.set()

    def pose(self) -> Float[np.ndarray, "4 4"]:
        """Where the tool is."""
        return from_ur_pose(self._six_numbers("getActualTCPPose"))

    def check_way(self, poses: Sequence[Float[np.ndarray, "4 4"]]) -> None:
        """Check that the controller finds postures within its safety limits."""
        for T in poses:
            if self._control.isPoseWithinSafetyLimits(to_ur_pose(T).tolist()) is not True:
                raise unreachable(T)

    def move_line(self, T_base_tool: Float[np.ndarray, "4 4"], speed: float, acceleration: float) -> None:
        """Move the tool straight to a pose."""
        goal = to_ur_pose(T_base_tool).tolist()
        self._move(lambda: self._control.moveL(goal, speed, acceleration, True), self._control.stopL)
        self._require_arrival(T_base_tool)

    def move_joints(self, joints: tuple[float, ...], speed: float, acceleration: float) -> None:
        """Move to joint angles."""
        goal = list(joints)
        if self._control.isJointsWithinSafetyLimits(goal) is not True:
            raise RobotError(f"the joints {goal} are outside of the controller's safety limits")
        self._move(lambda: self._control.moveJ(goal, speed, acceleration, True), self._control.stopJ)
        apart = np.abs(self._six_numbers("getActualQ") - goal).max()
        if apart > ARRIVED_RAD:
            raise ArmFaultError(f"a joint ended {np.degrees(apart):.1f} degrees from its goal")

    def stop(self) -> None:
        """End the program on the controller, whatever the thread that looks after the motion does."""
        self._halted.set()
        if not self._ended_program:
            self._dashboard.stop()
            self._ended_program = True

    def heartbeat(self) -> None:
        """Feed the dead man's switch."""
        self._dead_man.beat()

    def resume(self) -> None:
        """Allow motions again, and load the control script anew where a stop has ended it."""
        if self.status().state not in ("ready", "stopped"):
            return
        if self._ended_program or not self._control.isProgramRunning():
            if not self._control.reuploadScript():
                raise RobotError(
                    f"the control script does not start on {self.host}; is it in remote control?"
                )
            self._set_watchdog()
        self._ended_program = False
        self._halted.clear()

    def status(self) -> RobotStatus:
        """How the arm is, from the controller's safety bits."""
        if self._receive.isConnected() is not True or self._control.isConnected() is not True:
            return RobotStatus("disconnected", f"no connection to {self.host}; check cable and address")
        bits = self._receive.getSafetyStatusBits()
        if type(bits) is not int or bits not in _FREE:
            known = [name for bit, name in _SAFETY_BITS.items() if type(bits) is int and bits >> bit & 1]
            what = ", ".join(known) or f"the controller reports the safety state {bits!r}"
            return RobotStatus("protective_stop", f"{what}; a person has to clear it at the pendant")
        if self._receive.getRobotMode() != RUNNING:
            off = "power is off or the brakes are on; switch on at the pendant"
            return RobotStatus("protective_stop", off)
        if self._halted.is_set():
            return RobotStatus("stopped", "stopped on request; call home to go on")
        at_rest = self._control.getAsyncOperationProgressEx().isAsyncOperationRunning() is False
        return RobotStatus("ready", "at rest") if at_rest else RobotStatus("moving", "on the way")

    def _move(self, begin: Any, brake: Any) -> None:
        """Begin a motion and look after it; however this ends, the arm is at rest."""
        if not self._dead_man.is_fed():
            raise MotionStoppedError("no heartbeat, so the arm stays; see cpor.robot.safe_stop.stopping")
        self._require_free()
        before = self._control.getAsyncOperationProgressEx()
        ended = False
        try:
            with self._dead_man.watching():
                if begin() is not True:
                    raise ArmFaultError(f"the controller refused the motion: {self.status().detail}")
                deadline = time.monotonic() + START_S
                while not ended:
                    self._dead_man.tick()
                    self._require_free()
                    now = self._control.getAsyncOperationProgressEx()
                    begun = not now.equals(before) or time.monotonic() > deadline
                    ended = begun and now.isAsyncOperationRunning() is False
                    if not ended:
                        time.sleep(POLL_S)
                self._require_free()  # ending the program ends the motion too
        finally:
            if not ended:
                self._brake(brake)

    def _six_numbers(self, name: str) -> Float[np.ndarray, " 6"]:
        """A pose or joint angles from the controller.

        Raises:
            ArmFaultError: It reports something else.
        """
        given = getattr(self._receive, name)()
        numbers = np.empty(0)
        with suppress(TypeError, ValueError):
            numbers = np.array(given, np.float64)
        if numbers.shape != (6,) or not np.isfinite(numbers).all():
            raise ArmFaultError(
                f"the controller {self.host} reports {str(given)[:80]} for {name}; restart it"
            )
        return numbers

    def _set_watchdog(self) -> None:
        if not self._control.setWatchdog(WATCHDOG_HZ):
            raise RobotError(f"the controller {self.host} refused the watchdog; update its software")

    def _kick(self) -> None:
        """Keep the controller's watchdog quiet while nothing moves, or what moves is looked after."""
        while not self._closed.wait(CHECK_S):
            if self._dead_man.why_late() is None and not self._ended_program:
                with suppress(RobotError):  # where the connection is gone the controller stops by itself
                    self._control.kickWatchdog()

    def _brake(self, brake: Any) -> None:
        try:
            # An arm that stopped itself, or whose program was ended, has no script left to take the order.
            is_moot = self._ended_program or self.status().state in ("protective_stop", "disconnected")
        except RobotError:
            is_moot = False  # its state is not known: the order can do no harm
        if not is_moot:
            brake()

    def _require_free(self) -> None:
        if self._halted.is_set():
            raise MotionStoppedError(f"{self._dead_man.why or 'stopped on request'}; call home to go on")
        status = self.status()
        if status.state in ("protective_stop", "disconnected"):
            raise ArmFaultError(status.detail)

    def _require_arrival(self, T_base_tool: Float[np.ndarray, "4 4"]) -> None:
        here = self.pose()
        apart = float(np.linalg.norm(here[:3, 3] - T_base_tool[:3, 3]))
        turned = float(Rotation.from_matrix(here[:3, :3].T @ T_base_tool[:3, :3]).magnitude())
        if apart > ARRIVED_M or turned > ARRIVED_RAD:
            off = f"{1e3 * apart:.1f} mm and {np.degrees(turned):.1f} degrees off"
            raise ArmFaultError(f"the tool ended {off}")


class _Link:
    """An interface of ur-rtde whose errors are ours: where the connection breaks it raises RuntimeError."""

    def __init__(self, interface: Any, host: str) -> None:
        self._interface, self._host = interface, host
        self._lock = threading.RLock()  # ur-rtde takes one call at a time

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._interface, name)

        def translated(*args: Any) -> Any:
            try:
                with self._lock:
                    return call(*args)
            except RuntimeError as error:
                raise ArmFaultError(
                    f"the controller {self._host} failed in {name} ({error}); check cable and pendant"
                ) from error

        return translated


def unreachable(T_base_tool: Float[np.ndarray, "4 4"]) -> RobotError:
    """The error of a pose that the arm has no posture for."""
    x, y, z = T_base_tool[:3, 3]
    return RobotError(f"the arm has no posture for the tool at ({x:.3f}, {y:.3f}, {z:.3f}) m in its base")


def to_ur_pose(T: Float[np.ndarray, "4 4"]) -> Float[np.ndarray, " 6"]:
    """Position [m] and rotation vector [rad] as a UR has them. Shape (6,)."""
    return np.concatenate([T[:3, 3], Rotation.from_matrix(T[:3, :3]).as_rotvec()])


def from_ur_pose(pose: Float[np.ndarray, " 6"]) -> Float[np.ndarray, "4 4"]:
    """The transform [m] of a UR's position and rotation vector. Shape (4, 4)."""
    T = np.eye(4)
    T[:3, :3], T[:3, 3] = Rotation.from_rotvec(pose[3:]).as_matrix(), pose[:3]
    return T


def _connect(host: str) -> tuple[Any, Any, Any]:
    try:
        from dashboard_client import DashboardClient
        from rtde_control import RTDEControlInterface
        from rtde_receive import RTDEReceiveInterface
    except ImportError:
        raise RobotError("a UR needs ur-rtde: pip install 'cpor-grasp[robot]'") from None
    try:
        dashboard = DashboardClient(host)
        dashboard.connect()
        return RTDEControlInterface(host), RTDEReceiveInterface(host), dashboard
    except RuntimeError as error:
        raise RobotError(
            f"no UR answers at {host} ({error}); check address and cable, and set the pendant to remote "
            "control"
        ) from None
