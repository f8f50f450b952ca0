"""Exact scores of sparse scenes: one sweep along a narrow frontier."""

import numpy as np

from cpor.inference._kernels.frontier import DONE, sweep
from cpor.inference._kernels.structure import sweep_order
from cpor.inference._kernels.subset import TINY
from cpor.inference.allowance import STEPS_PER_STATE, Allowance
from cpor.inference.local import LocalGraph, LocalScores, has_cycle

_NARROW = 8
"""Slots up to which an order of the frontier is one word."""

_MOST_STEPS = (100_000_000, 5_000_000)
"""Steps after which sweeping is given up: on narrow frontiers, and on wider ones."""


def solve_frontier(graph: LocalGraph, allowance: Allowance, want_reach: bool) -> LocalScores | None:
    """All scores of a target in one sweep; None where the allowance or the slots do not suffice.

    Vertices that nothing can obstruct lie on no cycle: they enter as factors of the others' scores, and their
    own is the probability that the target reaches them.
    """
    c = len(graph)
    linked = graph.present > 0.0
    is_inner = linked.any(axis=1) | (np.arange(c) == 0)
    inner, sinks = np.flatnonzero(is_inner), np.flatnonzero(~is_inner)
    present = np.ascontiguousarray(graph.present[np.ix_(inner, inner)])
    absent = np.ascontiguousarray(graph.absent[np.ix_(inner, inner)])
    sink_gap = np.ascontiguousarray(graph.absent[np.ix_(inner, sinks)].T)
    order = np.empty(len(inner), np.int64)
    width, work = sweep_order((present > 0.0) | (present > 0.0).T, 0, order)
    steps = min(3**c, _MOST_STEPS[width > _NARROW], allowance.steps)
    attempt = Allowance(steps - work, allowance.until)
    reach = None
    for only_free in (True, False) if want_reach else (True,):
        status, log_z, cyclic, shares, work = sweep(
            present, absent, sink_gap, order, width, 0, only_free, attempt.sweep_states()
        )
        attempt.spend(work * STEPS_PER_STATE)
        if status != DONE:
            return None
        values = np.empty(c)
        values[inner] = shares[: len(inner)] * (sink_gap.prod(axis=0) if only_free else 1.0)
        values[sinks] = 1.0 - shares[len(inner) :]
        values = np.clip(values, 0.0, 1.0)
        if only_free:
            scores, mu = values, float(cyclic)
        else:
            reach = values
    allowance.spend(steps - attempt.steps)
    least = TINY if has_cycle(graph) else 0.0
    return LocalScores(scores, float(log_z), min(max(mu, least), 1.0), reach)
