"""The dynamic programme over sets of removed objects, compiled."""

from typing import no_type_check

import numpy as np
from numba import njit


@no_type_check
@njit(cache=True)
def best_orders(absent, best, last):
    """For every set R of objects other than the target: the order of removal likeliest to be valid.

    best(R) = max_{o in R} best(R \\ o) N_o(C \\ (R \\ o)): o goes last, and may be obstructed only by what
    went before. Vertex 0 is the target; bit b of R is vertex b + 1.

    Args:
        absent: Shape (n, n).
        best: Filled. Shape (2^(n-1),).
        last: Filled with the vertex removed last. Shape (2^(n-1),).
    """
    n = absent.shape[0]
    best[0] = 1.0
    last[0] = -1
    for r in range(1, best.shape[0]):
        best[r] = -1.0
        for o in range(1, n):
            bit = 1 << (o - 1)
            if not r & bit:
                continue
            before = r ^ bit
            free = best[before] * absent[o, 0]
            for v in range(1, n):
                if not (before >> (v - 1)) & 1:
                    free *= absent[o, v]
            if free > best[r]:
                best[r] = free
                last[r] = o


@no_type_check
@njit(cache=True)
def best_set(absent, acyclic, best, max_steps, cost_removal, cost_wrong):
    """The set whose removal, in its best order, and then grasping the target, has the largest value.

    Ties within rounding go to fewer steps, then to the set met first.

    Returns:
        The set, and the probability that its plan is valid.
    """
    n = absent.shape[0]
    full = (1 << n) - 1
    z = acyclic[full]
    chosen, chosen_value, chosen_size, chosen_valid = 0, -np.inf, 0, 0.0
    for r in range(best.shape[0]):
        size = 0
        bits = r
        while bits:
            size += 1
            bits &= bits - 1
        if size > max_steps:
            continue
        free = 1.0
        for v in range(1, n):
            if not (r >> (v - 1)) & 1:
                free *= absent[0, v]
        valid = best[r] * free * acyclic[full ^ 1 ^ (r << 1)] / z
        value = -cost_removal * size - cost_wrong * (1.0 - valid)
        if value > chosen_value + 1e-12 or (value > chosen_value - 1e-12 and size < chosen_size):
            chosen, chosen_value, chosen_size, chosen_valid = r, value, size, valid
    return chosen, chosen_valid
