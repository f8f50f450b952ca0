"""Exact scores of sparse scenes: sweeps along a narrow frontier, one for each altered graph."""

import numpy as np
from jaxtyping import Float

from cpor.inference._kernels.frontier import DONE, graph_log_z
from cpor.inference.allowance import STEPS_PER_STATE, Allowance
from cpor.inference.local import LocalGraph, LocalScores

STATES = (1 << 10, 1 << 16)
"""States that the tables have room for, the second where the first do not suffice."""

_MOST_STEPS = 100_000_000
"""Steps after which sweeping is given up."""


def new_tables(capacity: int) -> tuple[np.ndarray, ...]:
    """Room for `capacity` states, a power of two, as the sweep's kernels want it."""
    size = 4 * capacity
    two = [
        (
            np.empty(size, np.uint64),
            np.empty(size),
            np.zeros(size, np.bool_),
            np.empty(capacity + 2, np.int64),
        )
        for _ in range(2)
    ]
    return two[0] + two[1]


class _Sweeps:
    """Acyclic masses within an allowance; small tables first, since large ones take time to lay out."""

    def __init__(self, allowance: Allowance) -> None:
        self._allowance = allowance
        self._sizes = list(STATES)
        self._tables = new_tables(self._sizes[0])

    def mass(
        self, present: Float[np.ndarray, "k k"], absent: Float[np.ndarray, "k k"]
    ) -> tuple[float, float] | None:
        """Log P(acyclic) and P(cyclic); None where the allowance or the tables do not suffice."""
        while True:
            states = self._allowance.sweep_states()
            status, log_z, cyclic, work = graph_log_z(present, absent, self._tables, states)
            self._allowance.spend(work * STEPS_PER_STATE)
            if status == DONE:
                return float(log_z), float(cyclic)
            if len(self._sizes) == 1 or work > states:
                return None
            self._sizes.pop(0)
            self._tables = new_tables(self._sizes[0])


def solve_frontier(graph: LocalGraph, allowance: Allowance, want_reach: bool) -> LocalScores | None:
    """Scores from plain acyclicity masses of altered graphs, each swept along its frontier.

    For o other than X: N_o(C) n_Xo A(C \\ o with X and o merged) is the mass in which o is free and X
    does not reach it, where the merged vertex has X's outgoing edges and both's incoming ones: an edge
    from o to X would close a cycle exactly when X reaches o. And P(X does not reach o) is the acyclic
    mass once that edge is certain.
    """
    c = len(graph)
    attempt = allowance.limited_to(min(3**c, _MOST_STEPS))
    allowed = attempt.steps
    sweeps = _Sweeps(attempt)
    whole = sweeps.mass(graph.present, graph.absent)
    if whole is None:
        return None
    log_z, mu_target = whole
    scores, reach = np.empty(c), np.ones(c)
    log_free = np.log(graph.absent).sum(axis=1)
    for o in range(c):
        rest = np.delete(np.arange(c), o)
        present, absent = graph.present[np.ix_(rest, rest)], graph.absent[np.ix_(rest, rest)]
        without = sweeps.mass(present, absent)
        if without is None:
            return None
        share = np.exp(log_free[o] + without[0] - log_z)
        if o > 0:
            absent[:, 0] *= graph.absent[rest, o]
            present[1:, 0] += (1.0 - present[1:, 0]) * graph.present[rest[1:], o]
            present[0, 0], absent[0, 0] = 0.0, 1.0
            merged = sweeps.mass(present, absent)
            if merged is None:
                return None
            share *= 1.0 - graph.absent[0, o] * np.exp(merged[0] - without[0])
            if want_reach:
                present, absent = graph.present.copy(), graph.absent.copy()
                present[o, 0], absent[o, 0] = 1.0, 0.0
                unreached = sweeps.mass(present, absent)
                if unreached is None:
                    return None
                reach[o] = 1.0 - np.exp(unreached[0] - log_z)
        scores[o] = share
    allowance.spend(allowed - attempt.steps)
    known = np.clip(reach, 0.0, 1.0) if want_reach else None
    return LocalScores(np.clip(scores, 0.0, 1.0), log_z, mu_target, known)
