"""Driving a robot alone, and leaving its arm at rest, whatever happened before.

One program at a time drives a robot: a lease with its owner and a heartbeat. The lock is the operating
system's, so it ends with the process that holds it. The note beside it stays after a kill or a power cut, and
tells the next program that the last one did not end in order.
"""

import json
import os
import re
import select
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import Any

from cpor.errors import CporError, InputFileError, RobotError
from cpor.io.whole_files import held_alone, write_bytes, write_text
from cpor.robot.protocol import Robot, RobotState

POLL_S = 0.02
"""How often is looked whether to stop. [s]"""

UNABLE: tuple[RobotState, ...] = ("protective_stop", "disconnected")
"""States that only a person can end."""

_ENDS = {signal.SIGINT, signal.SIGTERM, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else [])}

BEAT_S = 1.0
"""How often the owner renews the time of its note. [s]"""

_driven: set[int] = set()  # drivers, by id
_guard = threading.Lock()


@dataclass
class Left:
    """What the last program that drove a robot left behind, as it did not end in order.

    Attributes:
        said: In a sentence.
        settled: Whether a person said that everything is in order. Otherwise the next owner is told, too.
    """

    said: str
    settled: bool = False


@contextmanager
def leased(robot: object) -> Iterator[Left | None]:
    """Drive a robot alone until the block ends; gives what the last owner left behind.

    A block that ends by an error leaves its note: the next owner is told.

    Args:
        robot: Its `address` names the arm, such as "ur 192.0.2.1". Where that is None no other program can
            reach the arm, and the lease holds within this process.

    Raises:
        RobotError: It is driven already, by this program or another one.
    """
    driver = getattr(robot, "driver", robot)
    address: str | None = getattr(driver, "address", None)
    with ExitStack() as stack:
        stack.enter_context(_alone_in_this_process(driver))
        if address is None:
            yield None
            return
        folder = _folder()
        name = re.sub(r"[^A-Za-z0-9.-]+", "_", address)
        lock, note = folder / f"{name}.lock", folder / f"{name}.json"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            lock.touch()
            stack.enter_context(held_alone(lock))
        except OSError as error:
            raise RobotError(f"cannot lease {address} in {folder}: {error.strerror}") from None
        except InputFileError:
            owner = _read(note) or "its owner is not known"
            other = f"is driven by another program ({owner}); end that one first"
            raise RobotError(f"the robot {address} {other}") from None
        last = _read(note)
        left = None if last is None else Left(f"The last program did not end in order: {last}.")
        before = note.read_bytes() if left is not None else b""
        stack.enter_context(_beating(note))
        yield left
        if left is None or left.settled:
            note.unlink(missing_ok=True)
        else:
            write_bytes(note, before)


def _folder() -> Path:
    """Where leases are kept: of this user, and still there after a restart of the machine."""
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "cpor" / "robots"


@contextmanager
def _beating(note: Path) -> Iterator[None]:
    """Write the owner's note, and renew its time from a thread of its own: a slow disk must stop no arm."""
    since = datetime.now(UTC).isoformat(timespec="seconds")
    owner = f"process {os.getpid()} on {socket.gethostname()}"
    write_text(note, json.dumps({"owner": owner, "since": since}))
    over = threading.Event()

    def beat() -> None:
        while not over.wait(BEAT_S):
            with suppress(OSError):
                os.utime(note)

    thread = threading.Thread(target=beat, name="cpor-lease", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _read(note: Path) -> str | None:
    """The owner of a lease in words; None where there is no note."""
    try:
        kept = json.loads(note.read_text(encoding="utf-8"))
        beat = datetime.fromtimestamp(note.stat().st_mtime, UTC).isoformat(timespec="seconds")
        return f"{kept['owner']}, since {kept['since']}, last sign of life {beat}"
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError):
        return "its note cannot be read"


@contextmanager
def _alone_in_this_process(driver: object) -> Iterator[None]:
    key = id(driver)
    with _guard:
        if key in _driven:
            raise RobotError("the robot is driven by another loop of this program; wait for it to end")
        _driven.add(key)
    try:
        yield
    finally:
        with _guard:
            _driven.discard(key)


def is_stopped(robot: Robot) -> bool:
    """Whether the robot reports that it was stopped; False where it cannot tell."""
    try:
        return robot.status().state == "stopped"
    except CporError:
        return False


def leave_safe(robot: Robot, may_move: bool, stop: threading.Event) -> None:
    """Bring the arm to rest, at home where it may still move.

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
