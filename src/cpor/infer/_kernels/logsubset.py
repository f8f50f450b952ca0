"""The subset recursions in the log domain, for scenes whose products underflow a double.

Twice as slow and more, and never needed unless some hundred relations contradict each other with
near-certainty; see `subset` for the recursions themselves.
"""

from typing import no_type_check

import numpy as np
from numba import njit

from cpor.infer._kernels.subset import closure_within, component_of_lowest, list_members


@no_type_check
@njit(cache=True)
def log_scores(absent, out_mask, in_mask, target, log_acyclic, reached, scores, reach):
    """log A(S) for all S, then scores and P(X reaches o). Returns log A(C).

    Args:
        absent: Shape (n, n).
        out_mask: Candidate blockers of each vertex. Shape (n,).
        in_mask: Vertices each vertex may block. Shape (n,).
        target: X.
        log_acyclic: log A(S), filled. Shape (2^n,).
        reached: Zero at the start; F(R) / A(R), filled. Shape (2^n,).
        scores: Filled. Shape (n,).
        reach: Filled. Shape (n,).
    """
    n = absent.shape[0]
    n_sets = 1 << n
    log_gap = np.log(absent)
    log_term = np.empty(n_sets)
    spread = np.empty(n_sets, np.int64)
    members = np.empty(n, np.int64)
    log_acyclic[0] = 0.0
    for s in range(1, n_sets):
        component = component_of_lowest(s, out_mask, in_mask)
        if component != s:
            log_acyclic[s] = log_acyclic[component] + log_acyclic[s ^ component]
            continue
        size = list_members(s, members)
        if size == 1:
            log_acyclic[s] = 0.0
            continue
        log_term[0] = 0.0
        spread[0] = 0
        top = -np.inf
        for a in range(size):
            log_free = 0.0
            for b in range(size):
                log_free += log_gap[members[a], members[b]]
            half = 1 << a
            for k in range(half):
                log_term[half + k] = log_term[k] + log_free
                spread[half + k] = spread[k] | (1 << members[a])
                top = max(top, log_term[half + k] + log_acyclic[s ^ spread[half + k]])
        total = 0.0
        for k in range(1, 1 << size):
            odd = False
            bits = k
            while bits:
                odd = not odd
                bits &= bits - 1
            value = np.exp(log_term[k] + log_acyclic[s ^ spread[k]] - top)
            total += value if odd else -value
        log_acyclic[s] = top + np.log(total)
    full = n_sets - 1
    x_bit = 1 << target
    missed = np.zeros(n)
    met = np.zeros(n)
    for r in range(x_bit, n_sets):
        if not r & x_bit or closure_within(x_bit, r, out_mask) != r:
            continue
        share = max(1.0 + reached[r], 0.0)
        if share == 0.0:
            continue
        rest = full ^ r
        log_term[0] = np.log(share) + log_acyclic[r]
        spread[0] = 0
        filled = 1
        for v in range(n):
            if not (rest >> v) & 1:
                continue
            log_cut = 0.0
            for t in range(n):
                if (r >> t) & 1:
                    log_cut += log_gap[t, v]
            for k in range(filled):
                log_term[filled + k] = log_term[k] + log_cut
                subset = spread[k] | (1 << v)
                spread[filled + k] = subset
                union = r | subset
                reached[union] -= np.exp(log_term[filled + k] + log_acyclic[subset] - log_acyclic[union])
            filled *= 2
        closed = log_term[filled - 1]
        for o in range(n):
            if (rest >> o) & 1:
                without = full ^ (1 << o)
                missed[o] += np.exp(closed + log_acyclic[rest ^ (1 << o)] - log_acyclic[without])
            else:
                met[o] += np.exp(closed + log_acyclic[rest] - log_acyclic[full])
    for o in range(n):
        log_free = 0.0
        for v in range(n):
            log_free += log_gap[o, v]
        share = np.exp(log_free + log_acyclic[full ^ (1 << o)] - log_acyclic[full])
        if o != target:
            share *= 1.0 - missed[o]
        scores[o] = min(max(share, 0.0), 1.0)
        reach[o] = min(max(met[o], 0.0), 1.0)
    reach[target] = 1.0
    return log_acyclic[full]
