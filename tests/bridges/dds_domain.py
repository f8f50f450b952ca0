"""A DDS domain for this process alone, so that tests that run at the same time do not hear each other."""

import fcntl
import os
import tempfile
from functools import cache
from pathlib import Path


@cache
def own_domain() -> int:
    """The first domain that no other process holds. Ports of domains above 100 may be given to anybody."""
    for number in range(1, 101):
        lock = os.open(
            Path(tempfile.gettempdir()) / f"cpor-dds-domain-{number}", os.O_CREAT | os.O_RDWR, 0o666
        )
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(lock)
        else:
            return number  # the lock is held until this process ends
    raise RuntimeError("all DDS domains are taken")
