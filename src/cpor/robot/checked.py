"""A robot is believed only in what it proves: known states, finite numbers, a clock that advances.

`checked` stands between the loop and a driver. A report that means nothing is an error, never "ready".
"""

import math
from collections.abc import Callable
from numbers import Real
from typing import Any, get_args

from cpor.errors import CameraError, RobotError
from cpor.robot.protocol import Outcome, OutcomeKind, Robot, RobotState, RobotStatus
from cpor.robot.safe_stop import Left
from cpor.scene import Observation, Scene

HOME_FROM: tuple[RobotState, ...] = ("ready", "stopped")
"""States in which a robot may be sent home; that clears a stop."""


def checked(robot: Robot) -> Robot:
    """The robot behind checks of all that it reports; it moves, also to look, only where it is ready.

    Raises:
        RobotError: The driver has no `address`.
    """
    if isinstance(robot, _Checked):
        return robot
    address = getattr(robot, "address", "")
    if address is not None and (not isinstance(address, str) or not address):
        raise RobotError(
            "the robot's driver has no address; give it one that names the arm, such as 'ur 192.0.2.1', "
            "or None if no other program can reach it"
        )
    return _Checked(robot)


def check_status(status: RobotStatus) -> RobotStatus:
    """A status that means something.

    Raises:
        RobotError: It is no `RobotStatus`, or has an unknown state or a number that is not finite.
    """
    if not isinstance(status, RobotStatus):
        raise RobotError(
            f"the robot reports {_shown(status)} as its status; its driver must give RobotStatus"
        )
    _require(status.state, get_args(RobotState), "the state")
    _require_truth(status.holding, "holding")
    if not isinstance(status.dry_run, bool) or not isinstance(status.detail, str):
        raise RobotError("the robot reports a status whose dry_run is no bool or whose detail is no text")
    _require_number(status.time_s, "the time")
    return status


def check_outcome(outcome: Outcome) -> Outcome:
    """An outcome that means something.

    Raises:
        RobotError: It is no `Outcome`, or has an unknown kind or a duration that cannot be.
    """
    if not isinstance(outcome, Outcome):
        raise RobotError(f"the robot reports {_shown(outcome)} as its outcome; its driver must give Outcome")
    _require(outcome.kind, get_args(OutcomeKind), "the outcome")
    _require_truth(outcome.holding, "holding")
    if not isinstance(outcome.detail, str):
        raise RobotError("the robot reports an outcome whose detail is no text")
    _require_number(outcome.duration_s, "the duration", least=0.0)
    return outcome


def why_it_must_stay(robot: Robot, left: Left | None, confirm: Callable[[str], bool] | None) -> str | None:
    """Why a robot must not move yet; None where it may, or where a person allows it.

    A person is asked where the gripper is not known to be empty, and where the last program that drove this
    robot did not end in order.

    Args:
        robot: From `checked`.
        left: What the last program left behind, from `safe_stop.stopping`.
        confirm: Asks a person a question with yes or no; None: no person is there.
    """
    status = robot.status()
    if status.dry_run:
        return None
    questions = [] if left is None else [f"{left.said} Is everything in order around the arm?"]
    allow: Callable[[], None] | None = getattr(robot, "allow_emptying", None)
    if status.holding is not False:
        found = "holds something" if status.holding else "may hold something: it cannot tell"
        then = "May it be emptied into the tray for other things?" if allow else "Is it empty now?"
        questions.append(f"The gripper {found}. {then}")
    for question in questions:
        if confirm is None or not confirm(question):
            return f"nothing was moved, since a person has to say: {question}"
    if left is not None:
        left.settled = True
    if status.holding is not False and allow is not None:
        allow()
    return None


class _Checked:
    """See `checked`."""

    def __init__(self, robot: Robot) -> None:
        self.driver = robot
        self._time_s: float | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.driver, name)

    @property
    def address(self) -> str | None:
        return self.driver.address

    def observe(self) -> Observation:
        if refused := self._why_not(self.status()):  # looking may move the arm
            raise RobotError(f"the robot cannot look: {refused.detail}")
        frame = self.driver.observe()
        if not isinstance(frame, Observation):
            raise CameraError(f"the camera gives {_shown(frame)}; its driver must give Observation")
        return frame

    def grasp(self, scene: Scene, obj: int) -> Outcome:
        return self._send(lambda: self.driver.grasp(scene, obj))

    def remove(self, scene: Scene, obj: int) -> Outcome:
        return self._send(lambda: self.driver.remove(scene, obj))

    def home(self) -> Outcome:
        return self._why_not(self.status(), HOME_FROM) or check_outcome(self.driver.home())

    def stop(self) -> None:
        self.driver.stop()

    def heartbeat(self) -> None:
        self.driver.heartbeat()

    def status(self) -> RobotStatus:
        status = check_status(self.driver.status())
        before, now = self._time_s, status.time_s
        if before is not None and (now is None or now < before):
            raise RobotError(f"the robot's clock went from {before} s to {now}; restart its driver")
        self._time_s = now
        return status

    @staticmethod
    def _why_not(status: RobotStatus, may: tuple[RobotState, ...] = ("ready",)) -> Outcome | None:
        """The outcome of a motion that is not sent, by the robot's state; None where it may be sent."""
        if status.state == "moving":
            raise RobotError("the robot moves already; end the other program that drives it")
        if status.state in may:
            return None
        kind: OutcomeKind = "stopped" if status.state == "stopped" else "fault"
        return Outcome(kind, f"not sent, since the robot is in state {status.state}: {status.detail}")

    def _send(self, send: Callable[[], Outcome]) -> Outcome:
        status = self.status()
        if refused := self._why_not(status):
            return refused
        before = status.time_s
        outcome = check_outcome(send())
        if outcome.kind == "done" and before is not None and self.status().time_s == before:
            raise RobotError(
                f"the robot's clock stood still at {before} s while it moved; restart its driver"
            )
        return outcome


def _require(value: object, known: tuple[str, ...], what: str) -> None:
    if not isinstance(value, str) or value not in known:
        raise RobotError(f"the robot reports {what} {_shown(value)}; known are: {', '.join(known)}")


def _require_truth(value: object, what: str) -> None:
    if value is not None and not isinstance(value, bool):
        raise RobotError(f"the robot reports {what} as {_shown(value)}; give True, False, or None if unknown")


def _require_number(value: object, what: str, least: float = -math.inf) -> None:
    if value is None and what != "the duration":
        return
    if not isinstance(value, Real) or isinstance(value, bool) or not math.isfinite(value) or value < least:
        raise RobotError(f"the robot reports {what} as {_shown(value)}; give a finite number of seconds")


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:79]}…"
