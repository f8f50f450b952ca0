"""The dynamic programme over sets of removed objects, compiled; logarithms throughout."""

from typing import no_type_check

import numpy as np
from numba import njit


@no_type_check
@njit(cache=True)
def best_orders(log_absent, best, last):
    """For every set R of objects other than the target: the order of removal likeliest to be valid.

    best(R) = max_{o in R} best(R \\ o) N_o(C \\ (R \\ o)): o goes last, and may be obstructed only by what
    went before. Vertex 0 is the target; bit b of R is vertex b + 1.

    Args:
        log_absent: log(1 - p). Shape (n, n).
        best: Filled with logarithms. Shape (2^(n-1),).
        last: Filled with the vertex removed last. Shape (2^(n-1),).
    """
    n = log_absent.shape[0]
    best[0] = 0.0
    last[0] = -1
    for r in range(1, best.shape[0]):
        best[r] = -np.inf
        for o in range(1, n):
            bit = 1 << (o - 1)
            if not r & bit:
                continue
            before = r ^ bit
            log_free = best[before] + log_absent[o, 0]
            for v in range(1, n):
                if not (before >> (v - 1)) & 1:
                    log_free += log_absent[o, v]
            if log_free > best[r]:
                best[r] = log_free
                last[r] = o


@no_type_check
@njit(cache=True)
def best_set(log_absent, log_acyclic, best, max_steps, cost_removal, cost_wrong):
    """The set whose removal, in its best order, and then grasping the target, has the largest value.

    Ties within rounding go to fewer steps, then to the set met first.

    Returns:
        The set, and the probability that its plan is valid.
    """
    n = log_absent.shape[0]
    full = (1 << n) - 1
    log_z = log_acyclic[full]
    chosen, chosen_value, chosen_size, chosen_valid = 0, -np.inf, 0, 0.0
    for r in range(best.shape[0]):
        size = 0
        bits = r
        while bits:
            size += 1
            bits &= bits - 1
        if size > max_steps:
            continue
        log_free = 0.0
        for v in range(1, n):
            if not (r >> (v - 1)) & 1:
                log_free += log_absent[0, v]
        valid = min(np.exp(best[r] + log_free + log_acyclic[full ^ 1 ^ (r << 1)] - log_z), 1.0)
        value = -cost_removal * size - cost_wrong * (1.0 - valid)
        if value > chosen_value + 1e-12 or (value > chosen_value - 1e-12 and size < chosen_size):
            chosen, chosen_value, chosen_size, chosen_valid = r, value, size, valid
    return chosen, chosen_valid
