"""Leaving the arm at rest, whatever happened before."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from cpor.errors import CporError, RobotError
from cpor.robot.protocol import Robot, RobotState

POLL_S = 0.02
"""How often is looked whether to stop. [s]"""

UNABLE: tuple[RobotState, ...] = ("protective_stop", "disconnected")
"""States that only a person can end."""


def leave_safe(robot: Robot, may_move: bool, stop: threading.Event) -> None:
    """Bring the arm to rest, at home where it may still move.

    Args:
        robot: Whose arm.
        may_move: Whether nothing speaks against going home.
        stop: Set where somebody wants it to stand still; then it does not go home.

    An error that is neither ours nor a Ctrl-C is raised once the arm was told to stop.
    """
    at_home = False
    try:
        at_home = may_move and not stop.is_set() and robot.home().kind == "done"
    except (KeyboardInterrupt, CporError):
        pass
    finally:
        # Going home clears a stop: one that came meanwhile is said again.
        if not at_home or stop.is_set():
            stop_for_sure(robot)


def stop_for_sure(robot: Robot) -> None:
    """Stop, also where somebody presses Ctrl-C again or the connection fails once."""
    for is_last in (False, False, True):
        try:
            robot.stop()
            return
        except (KeyboardInterrupt, RobotError):
            continue
        except BaseException:
            # Whatever a driver raises, the next try may get through.
            if is_last:
                raise


def wait_until_able(robot: Robot, stop: threading.Event, longest_s: float) -> bool:
    """Whether a person clears a protective stop in time; never moves the arm. [s]."""
    until = time.monotonic() + longest_s
    while not stop.is_set() and time.monotonic() < until:
        if robot.status().state not in UNABLE:
            return True
        stop.wait(POLL_S)
    return False


@contextmanager
def stopping(robot: Robot, stop: threading.Event) -> Iterator[None]:
    """Stop the robot while the event is set, also while the caller waits for a motion to end.

    It is told again and again: a `home` that was on its way when the event was set clears a stop.
    """
    over = threading.Event()

    def watch() -> None:
        while not over.wait(POLL_S):
            if not stop.is_set():
                continue
            try:
                robot.stop()
            except BaseException:
                continue  # a driver that fails now is told again at the next look; this thread must live

    thread = threading.Thread(target=watch, name="cpor-stop", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
