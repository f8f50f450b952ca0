"""One writer at a time: a file or folder that is held while it is written to."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cpor.errors import CporError


@contextmanager
def held_alone(path: Path, error: type[CporError]) -> Iterator[None]:
    """Hold a file or folder; the system lets go of it when the process ends, however it ends.

    Args:
        path: It must exist.
        error: Raised where another process holds it.
    """
    if sys.platform == "win32":
        yield
        return
    import fcntl

    handle = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise error(f"another process is writing to {path}; wait for it, or end it") from None
    else:
        yield
    finally:
        os.close(handle)
