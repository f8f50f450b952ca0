"""Leaving the arm at rest, whatever happened before."""

import os
import select
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from cpor.errors import CporError, RobotError
from cpor.robot.lease import Left, leased
from cpor.robot.protocol import Robot, RobotState

POLL_S = 0.02
"""How often is looked whether to stop. [s]"""

UNABLE: tuple[RobotState, ...] = ("protective_stop", "disconnected")
"""States that only a person can end."""

_ENDS = {signal.SIGINT, signal.SIGTERM, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else [])}


def is_stopped(robot: Robot) -> bool:
    """Whether the robot reports that it was stopped; False where it cannot tell."""
    try:
        return robot.status().state == "stopped"
    except CporError:
        return False


def leave_safe(robot: Robot, may_move: bool, stop: threading.Event) -> None:
    """Bring the arm to rest, at home where it may still move.

    Args:
        robot: The robot.
        may_move: Whether nothing speaks against going home.
        stop: While it is set, the arm stands still and does not go home.

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
    """Stop, also when Ctrl-C is pressed again or the connection fails once."""
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
def stopping(robot: Robot, stop: threading.Event | None = None) -> Iterator[Left | None]:
    """Lease the robot, feed its heartbeat, and stop it when the event is set or the program must end.

    A thread does so, also while the caller waits for a motion or hangs. It stops the robot again and again: a
    `home` that was on its way when the event was set clears a stop. From the main thread, SIGTERM and SIGHUP
    raise KeyboardInterrupt as Ctrl-C does.

    Args:
        robot: The robot.
        stop: Stops it, from any thread.

    Yields:
        What the last program that drove the robot left behind; None where it ended in order.

    Raises:
        RobotError: Another loop or program drives the robot.
    """
    over = threading.Event()

    def watch(told: "_Told") -> None:
        while not over.is_set():
            is_told = told.wait(POLL_S)
            try:
                if is_told or (stop is not None and stop.is_set()):
                    robot.stop()
                else:
                    robot.heartbeat()
            except BaseException:
                continue  # a driver that fails now is told again at the next look; this thread must live

    with leased(robot) as left, _told_to_end() as told:
        thread = threading.Thread(target=watch, args=(told,), name="cpor-stop", daemon=True)
        thread.start()
        try:
            yield left
        finally:
            over.set()
            thread.join()


class _Told:
    """Whether a signal told the program to end.

    Python runs signal handlers in the main thread only, between two of its steps: where that thread hangs in
    a driver, never. The number of a signal goes through a socket at once, whatever the main thread does.
    """

    def __init__(self) -> None:
        self.read, self.write = socket.socketpair()
        for end in (self.read, self.write):
            end.setblocking(False)
        self.forward_to = -1
        self._is_told = False

    def wait(self, seconds: float) -> bool:
        """Whether there was such a signal; waits that long for one. [s]."""
        if select.select([self.read], [], [], seconds)[0]:
            numbers = self.read.recv(64)
            self._is_told |= any(number in _ENDS for number in numbers)
            if self.forward_to != -1:
                os.write(self.forward_to, numbers)
        return self._is_told


@contextmanager
def _told_to_end() -> Iterator[_Told]:
    told = _Told()
    before: dict[int, Any] = {}
    is_main = threading.current_thread() is threading.main_thread()
    if is_main:
        told.forward_to = signal.set_wakeup_fd(told.write.fileno(), warn_on_full_buffer=False)
        # An ignored signal, as SIGHUP under nohup, stays so; other handlers are restored after the run.
        for number in _ENDS - {signal.SIGINT}:
            if signal.getsignal(number) is not signal.SIG_IGN:
                before[number] = signal.signal(number, _interrupt)
    try:
        yield told
    finally:
        for told_by, handler in before.items():
            signal.signal(told_by, handler if handler is not None else signal.SIG_DFL)
        if is_main:
            signal.set_wakeup_fd(told.forward_to, warn_on_full_buffer=False)
        told.read.close()
        told.write.close()


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt(signal.Signals(number).name)
