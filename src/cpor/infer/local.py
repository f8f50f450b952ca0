"""The part of a scene that the target's decision depends on, and how much work may be spent on it.

Work is counted, so that every machine does the same; a deadline is opt-in.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float, Int

from cpor.infer._kernels.subset import local_graph, reachable_from, strong_components

ZETA = 1e-9
"""Probabilities of candidate relations are clipped to [ZETA, 1 - ZETA] (the paper's zeta)."""


@dataclass(frozen=True)
class LocalGraph:
    """The part of a scene that the target's decision depends on: C, the target first.

    Attributes:
        members: Objects of C in the order of the tables below. Shape (c,).
        present: p, clipped; 0 where no candidate. Shape (c, c).
        absent: 1 - p. Shape (c, c).
        out_mask: Candidate blockers as bit masks (zero beyond 62 objects). Shape (c,).
        in_mask: Candidate blocked ones as bit masks (zero beyond 62 objects). Shape (c,).
    """

    members: Int[np.ndarray, " c"]
    present: Float[np.ndarray, "c c"]
    absent: Float[np.ndarray, "c c"]
    out_mask: Int[np.ndarray, " c"]
    in_mask: Int[np.ndarray, " c"]

    def __len__(self) -> int:
        return len(self.members)

    def strong_parts(self) -> "Iterator[LocalGraph]":
        """The strongly connected components that can hold a cycle, `members` counted within this graph."""
        label = cyclic_parts(self.present)
        for c in range(label.max(initial=-1) + 1):
            inside = np.flatnonzero(label == c)
            if len(inside) > 1:
                yield restrict(self, inside)


def cut_local(p: Float[np.ndarray, "n n"], members: Int[np.ndarray, " c"], zeta: float = ZETA) -> LocalGraph:
    """The graph among `members`, probabilities clipped to [zeta, 1 - zeta]."""
    size = len(members)
    graph = LocalGraph(
        members,
        np.empty((size, size)),
        np.empty((size, size)),
        np.empty(size, np.int64),
        np.empty(size, np.int64),
    )
    local_graph(np.array(p), zeta, members, graph.present, graph.absent, graph.out_mask, graph.in_mask)
    return graph


def reachable(p: Float[np.ndarray, "n n"], target: int) -> Int[np.ndarray, " c"]:
    """C: the objects reachable from the target along candidate relations, the target first."""
    keep = np.empty(len(p), np.int64)
    # A copy, here and elsewhere: scenes are read-only, and numba would compile for those once more.
    count = reachable_from(np.array(p), target, keep, np.empty(len(p), np.bool_))
    return keep[:count]


def cyclic_parts(p: Float[np.ndarray, "n n"]) -> Int[np.ndarray, " n"]:
    """A number for each object; two objects with the same one may lie on a cycle together. Shape (n,)."""
    part = np.empty(len(p), np.int64)
    strong_components(np.array(p), part)
    return part


def restrict(graph: LocalGraph, inside: Int[np.ndarray, " k"]) -> LocalGraph:
    """The part of a graph on some of its vertices; certain edges (p = 1) stay certain."""
    present = np.ascontiguousarray(graph.present[np.ix_(inside, inside)])
    absent = np.ascontiguousarray(graph.absent[np.ix_(inside, inside)])
    small = len(inside) <= 62
    bits = np.int64(1) << np.arange(len(inside)) if small else np.zeros(len(inside), np.int64)
    linked = present > 0.0
    return LocalGraph(inside, present, absent, linked @ bits, linked.T @ bits)


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
