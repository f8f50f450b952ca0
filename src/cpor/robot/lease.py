"""One program at a time drives a robot: a lease with its owner and a heartbeat, kept over a power cut.

The lock is the operating system's, so it ends with the process that holds it. The note beside it stays after
a kill or a power cut, and tells the next program that the last one did not end in order.
"""

import json
import os
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from cpor.errors import InputFileError, RobotError
from cpor.io.whole_files import held_alone, write_bytes, write_text

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
            raise RobotError(
                f"the robot {address} is driven by another program ({owner}); end that one first"
            ) from None
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
