"""How much work an inference may do: counted, so that every machine does the same; a deadline is opt-in."""

import time
from dataclasses import dataclass, field

UNLIMITED = 1 << 60

STEPS_PER_STATE = 16
"""One state update of a sweep takes about as long as this many terms of the subset recursion."""

_CHUNK = 400_000
"""Counted steps between two looks at the clock: a millisecond or so on a laptop."""

_STATES_PER_SECOND = 8_000_000
"""State updates that even a slow machine does in a second."""


@dataclass
class Allowance:
    """Counted steps left, and the moment by which to stop where the caller set a deadline.

    Attributes:
        steps: Steps left.
        until: Stop at this reading of `time.perf_counter`. None: no deadline. [s]
    """

    steps: int = UNLIMITED
    until: float | None = None
    late: bool = field(default=False, init=False)

    def chunk(self) -> int:
        """Steps to do before asking again; 0 when the allowance is spent."""
        if self.until is not None and time.perf_counter() >= self.until:
            self.late = True
        if self.late or self.steps <= 0:
            return 0
        return self.steps if self.until is None else min(self.steps, _CHUNK)

    def sweep_states(self) -> int:
        """State updates a sweep, which cannot pause, may do; under a deadline, what surely fits into it."""
        states = self.steps // STEPS_PER_STATE
        if self.until is None:
            return max(states, 0)
        return max(min(states, int((self.until - time.perf_counter()) * _STATES_PER_SECOND)), 0)

    def spend(self, steps: int) -> None:
        """Take note of steps done."""
        self.steps -= steps
