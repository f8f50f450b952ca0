"""The first minute: compile the loops once on each machine, and say so while the user waits."""

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from numba.core.event import Event, Listener

INTERPRETED_OBJECTS = 7
"""Scenes of up to so many objects are decided sooner by the uncompiled loops than the compiled ones load."""

one_command = False
"""Whether this process ends with its command: `main` says so. Elsewhere later calls need compiled loops."""


@contextmanager
def waiting(words: str) -> Iterator[None]:
    """Show on a terminal what it is that takes long; the line goes away again."""
    shown = sys.stderr.isatty()
    if shown:
        sys.stderr.write(f"{words} …\r")  # whatever is written next begins on the same line
        sys.stderr.flush()
    try:
        yield
    finally:
        if shown:
            sys.stderr.write("\x1b[2K")
            sys.stderr.flush()


def start_loops(objects: int | None = None) -> None:
    """Load the compiler of the loops, and say once that it compiles; call it before anything loads it.

    Args:
        objects: Size of the only scene that is decided, where that is known: a small one is left to Python.
    """
    is_new = "numba" not in sys.modules
    _import_numba_without_blas()
    if one_command and is_new and objects is not None and objects <= INTERPRETED_OBJECTS:
        import numpy as np
        from numba.core import config

        # Not in the environment: a child would inherit that.
        config.DISABLE_JIT = True  # type: ignore[attr-defined]
        np.seterr(over="ignore")  # keys of states wrap around, as they do where they are compiled
    from numba.core import event

    event.register("numba:compile", make_listener())  # type: ignore[no-untyped-call]


def make_listener() -> "Listener":
    """A listener to the compiler that says once what takes long."""
    from numba.core.event import Listener

    class Teller(Listener):
        has_said = False

        def on_start(self, event: "Event") -> None:
            if not self.has_said:
                sys.stderr.write("Compiling what is new on this machine; later calls start at once …\n")
            self.has_said = True

        def on_end(self, event: "Event") -> None:
            pass

    return Teller()


def _import_numba_without_blas() -> None:
    """Save a fifth of the start-up: numba looks for a BLAS in SciPy, and no loop of ours uses one."""
    if "scipy.linalg" in sys.modules or "numba" in sys.modules:
        return
    sys.modules["scipy.linalg"] = None  # type: ignore[assignment]
    try:
        importlib.import_module("numba.np.arraymath")
    finally:
        del sys.modules["scipy.linalg"]
