"""Leaving the arm at rest, whatever happened before."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from cpor.errors import CporError, RobotError
from cpor.robot.protocol import Robot, RobotStatus

POLL_S = 0.02
"""How often is looked whether to stop. [s]"""


def leave_safe(robot: Robot, may_move: bool) -> RobotStatus | None:
    """Bring the arm to rest, at home where it may still move, and say how it was left.

    Args:
        robot: Whose arm.
        may_move: Whether nothing speaks against going home.

    Returns:
        None where the robot could not say.
    """
    try:
        if not may_move or robot.home().kind != "done":
            stop_for_sure(robot)
    except (KeyboardInterrupt, CporError):
        stop_for_sure(robot)
    try:
        return robot.status()
    except CporError:
        return None


def stop_for_sure(robot: Robot) -> None:
    """Stop, also where somebody presses Ctrl-C again or the connection fails once."""
    for _ in range(3):
        try:
            robot.stop()
        except (KeyboardInterrupt, RobotError):
            continue
        return


@contextmanager
def stopping(robot: Robot, stop: threading.Event) -> Iterator[None]:
    """Stop the robot as soon as the event is set, also while the caller waits for a motion to end."""
    over = threading.Event()

    def watch() -> None:
        while not over.wait(POLL_S):
            if stop.is_set():
                stop_for_sure(robot)
                return

    thread = threading.Thread(target=watch, name="cpor-stop", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
