"""The first minute: compile the loops once on each machine, and say so while the user waits."""

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from numba.core.event import Event
    from rich.progress import Progress

INTERPRETED_OBJECTS = 7
"""Scenes of up to so many objects are decided sooner by the uncompiled loops than the compiled ones load."""

one_command = False
"""Whether this process ends with its command: `main` says so. Elsewhere later calls need compiled loops."""

_USUAL_LOOPS = 40
"""About so many loops are compiled for a first decision; the bar grows where there are more."""

_SAID = "Compiling what is new on this machine; later calls start at once"


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


def start_loops(objects: int | None = None, bar: bool = True) -> None:
    """Load the compiler of the loops, and say from now on when it compiles. Call it before anything loads it.

    On standard error a terminal sees a bar that goes away again, a file one line; where all is compiled,
    nothing is said.

    Args:
        objects: Size of the only scene that is decided, where that is known: a small one is left to Python.
        bar: Whether a terminal sees a bar; False where it shows something else that moves.
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

    teller = _Teller(bar and sys.stderr.isatty())

    class Listener(event.Listener):
        def on_start(self, event: "Event") -> None:
            teller.begin()

        def on_end(self, event: "Event") -> None:
            teller.end(ours=event.data["dispatcher"].__module__.startswith("cpor."))

    event.register("numba:compile", Listener())  # type: ignore[no-untyped-call]


def _import_numba_without_blas() -> None:
    """Save a fifth of the start-up: numba looks for a BLAS in SciPy, and no loop of ours uses one."""
    if "scipy.linalg" in sys.modules or "numba" in sys.modules:
        return
    sys.modules["scipy.linalg"] = None  # type: ignore[assignment]
    try:
        importlib.import_module("numba.np.arraymath")
    finally:
        del sys.modules["scipy.linalg"]


class _Teller:
    """Shows a bar while something is compiled, or says so once."""

    def __init__(self, with_bar: bool) -> None:
        self._with_bar = with_bar
        self._depth = 0
        self._done = 0
        self._bar: Progress | None = None

    def begin(self) -> None:
        """Something is compiled, perhaps on the way to something else."""
        self._depth += 1
        if self._depth > 1:
            return
        if not self._with_bar:
            if self._done == 0:
                sys.stderr.write(f"{_SAID} …\n")
            return
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
        self._bar = Progress(*columns, console=Console(stderr=True), transient=True)
        total = max(_USUAL_LOOPS, self._done + 1)
        self._bar.add_task(_SAID, total=total, completed=self._done)
        self._bar.start()

    def end(self, ours: bool) -> None:
        """It is compiled."""
        self._depth -= 1
        self._done += ours
        if self._bar is None:
            return
        if ours:
            self._bar.advance(self._bar.task_ids[0])
        if self._depth == 0:
            self._bar.stop()
            self._bar = None
