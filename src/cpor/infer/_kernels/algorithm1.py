"""The paper's Algorithm 1 from line 10 on: retain graphs until a test certifies, or none can."""

from typing import no_type_check

import numpy as np
from numba import njit

from cpor.decision import ROUNDING
from cpor.infer._kernels.topk import (
    EXHAUSTED,
    FOUND,
    N_FOUND,
    WORK_SPENT,
    mark_actions,
    next_graph,
)

# How a run ends. Below 0: it can go on.
NEEDS_ROOM = -2
NEEDS_WORK = -1
EXIT_EXACT = 0
EXIT_ACTION = 1
EXIT_DEFER = 2
EXIT_TOLERANCE = 3
EXIT_K_MAX = 4

# Slots of `sums`.
MASS, REFERENCE, EPSILON, BOUND = 0, 1, 2, 3


@no_type_check
@njit(cache=True)
def count_edges(p):
    """Number of candidate edges."""
    m = 0
    for i in range(p.shape[0]):
        for j in range(p.shape[0]):
            m += p[i, j] > 0.0
    return m


@no_type_check
@njit(cache=True)
def order_edges(p, zeta, blocked, blocker, weight, reverse):
    """List the candidate edges, most decided first.

    Args:
        p: Probabilities; 0 is no candidate. Shape (n, n).
        zeta: Probabilities are clipped to [zeta, 1 - zeta].
        blocked: Filled. Shape (m,).
        blocker: Filled. Shape (m,).
        weight: Filled with logit p. Shape (m,).
        reverse: Filled with the position of the reciprocal edge, -1 where there is none. Shape (m,).

    Returns:
        Log of the empty graph's probability, log of the pair bound on Z (eq. zbar).
    """
    n = p.shape[0]
    log_empty = 0.0
    log_pair_bound = 0.0
    e = 0
    for i in range(n):
        for j in range(n):
            if p[i, j] <= 0.0:
                continue
            value = min(max(p[i, j], zeta), 1.0 - zeta)
            blocked[e] = i
            blocker[e] = j
            weight[e] = np.log(value) - np.log1p(-value)
            log_empty += np.log1p(-value)
            if j > i and p[j, i] > 0.0:
                other = min(max(p[j, i], zeta), 1.0 - zeta)
                log_pair_bound += np.log((1.0 - value) + value * (1.0 - other))
            e += 1
    order = np.argsort(-np.abs(weight), kind="mergesort")
    # Loops in place of slices: numba compiles `a[:] = b` for seconds.
    listed = (blocked.copy(), blocker.copy(), weight.copy())
    place = np.full((n, n), -1, np.int64)
    for e in range(weight.shape[0]):
        blocked[e] = listed[0][order[e]]
        blocker[e] = listed[1][order[e]]
        weight[e] = listed[2][order[e]]
        place[blocked[e], blocker[e]] = e
    for e in range(weight.shape[0]):
        reverse[e] = place[blocker[e], blocked[e]]
    return log_empty, log_pair_bound


@no_type_check
@njit(cache=True)
def record_graph(log_weight, free, totals, sums, log_bound):
    """Add a graph to the retained posterior (eq. pk) and renew epsilon (eq. certificate)."""
    if sums[MASS] == 0.0:
        sums[REFERENCE] = log_weight
    share = np.exp(log_weight - sums[REFERENCE])
    sums[MASS] += share
    for v in range(free.shape[0]):
        if free[v]:
            totals[v] += share
    sums[BOUND] = log_bound
    sums[EPSILON] = max(1.0 - np.exp(sums[REFERENCE] + np.log(sums[MASS]) - log_bound), 0.0)


@no_type_check
@njit(cache=True)
def test_exit(totals, sums, tau, tolerance):
    """Tests (b) and (a) of the corollary, then the tolerance; NEEDS_WORK where none holds.

    Test (a) leaves room for rounding, so that a tie is never certified one way.
    """
    best = -np.inf
    second = -np.inf
    for v in range(totals.shape[0]):
        score = totals[v] / sums[MASS]
        if score > best:
            second = best
            best = score
        elif score > second:
            second = score
    epsilon = sums[EPSILON]
    if best + epsilon <= tau:
        return EXIT_DEFER
    if best - epsilon > tau + ROUNDING and best - second > 2.0 * epsilon + ROUNDING:
        return EXIT_ACTION
    if epsilon <= tolerance:
        return EXIT_TOLERANCE
    return NEEDS_WORK


@no_type_check
@njit(cache=True)
def advance(
    blocked,
    blocker,
    weight,
    reverse,
    n,
    target,
    log_empty,
    log_bound,
    tau,
    tolerance,
    k_max,
    nodes,
    heap,
    counters,
    totals,
    sums,
    work_limit,
):
    """Run Algorithm 1 until it ends or its work is spent; call again to go on.

    Args:
        blocked: See `order_edges`, as for the next three. Shape (m,).
        blocker: Shape (m,).
        weight: Shape (m,).
        reverse: Shape (m,).
        n: Number of objects.
        target: X.
        log_empty: Log probability of the empty graph.
        log_bound: Log of an upper bound on Z.
        tau: Threshold of the policy.
        tolerance: Stop once epsilon is at most this.
        k_max: Most graphs to retain.
        nodes: Search tree, see `next_graph`.
        heap: See `next_graph`.
        counters: See `next_graph`.
        totals: Unnormalised scores; zero at the start. Shape (n,).
        sums: MASS, REFERENCE, EPSILON, BOUND; zero at the start. Shape (4,).
        work_limit: Stop once `counters[WORK]` exceeds this.

    Returns:
        NEEDS_ROOM, NEEDS_WORK or one of the exits.
    """
    chosen = np.zeros(weight.shape[0], np.bool_)
    free = np.zeros(n, np.bool_)
    while counters[N_FOUND] < k_max:
        status, gain = next_graph(
            blocked, blocker, weight, reverse, n, nodes, heap, counters, chosen, work_limit
        )
        if status == EXHAUSTED:
            return EXIT_EXACT
        if status != FOUND:
            return NEEDS_WORK if status == WORK_SPENT else NEEDS_ROOM
        mark_actions(blocked, blocker, chosen, target, free)
        record_graph(log_empty + gain, free, totals, sums, log_bound)
        status = test_exit(totals, sums, tau, tolerance)
        if status != NEEDS_WORK:
            return status
    return EXIT_K_MAX
