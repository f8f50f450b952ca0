"""Many small scenes in one call: the scores, the acyclic mass and the conflict of each."""

from typing import no_type_check

import numpy as np
from numba import njit

from cpor.infer._kernels.subset import (
    fill_acyclic,
    fill_reached,
    finish_scores,
    local_graph,
    log_z_floor,
    reachable_from,
)

LOG_FLOOR = -600.0
"""Below this, products of absence probabilities may underflow a double (log of 1e-308 is -708)."""


@no_type_check
@njit(cache=True)
def peel(p, inside):
    """Drop vertices that lie on no cycle's path; returns how many are left of `inside`."""
    n = p.shape[0]
    changed = True
    while changed:
        changed = False
        for v in range(n):
            if not inside[v]:
                continue
            has_out = False
            has_in = False
            for u in range(n):
                if inside[u]:
                    has_out |= p[v, u] > 0.0
                    has_in |= p[u, v] > 0.0
            if not (has_out and has_in):
                inside[v] = False
                changed = True
    count = 0
    for v in range(n):
        count += inside[v]
    return count


@no_type_check
@njit(cache=True)
def solve_batch(
    flat_p, first, size, target, zeta, max_bits, scores, first_score, log_z, log_z_all, is_solved
):
    """Exact scores of scenes whose reachable part has at most `max_bits` objects.

    Args:
        flat_p: The probability matrices, one after another.
        first: Where each scene's matrix starts in `flat_p`. Shape (k,).
        size: Objects of each scene. Shape (k,).
        target: Index of each scene's target. Shape (k,).
        zeta: Probabilities other than 0 are clipped to [zeta, 1 - zeta].
        max_bits: The largest reachable part handled here.
        scores: Filled; every scene's scores, one after another.
        first_score: Where each scene's scores start. Shape (k,).
        log_z: Filled; log A(C). Shape (k,).
        log_z_all: Filled; log P(acyclic) over all candidate edges, NaN where that is too much. Shape (k,).
        is_solved: Filled; False where the scene is too large. Shape (k,).
    """
    table = 1 << max_bits
    acyclic = np.empty(table)
    reached = np.empty(table)
    weight = np.empty(table)
    spread = np.empty(table, np.int64)
    largest = 1
    for s in range(size.shape[0]):
        largest = max(largest, size[s])
    keep = np.empty(largest, np.int64)
    seen = np.empty(largest, np.bool_)
    no_limit = np.int64(1) << 62
    for s in range(size.shape[0]):
        n = size[s]
        p = flat_p[first[s] : first[s] + n * n].reshape(n, n)
        out = scores[first_score[s] : first_score[s] + n]
        out[:] = 0.0
        is_solved[s] = False
        count = reachable_from(p, target[s], keep, seen)
        if count > max_bits:
            continue
        present = np.empty((count, count))
        absent = np.empty((count, count))
        out_mask = np.empty(count, np.int64)
        in_mask = np.empty(count, np.int64)
        local_graph(p, zeta, keep, present, absent, out_mask, in_mask)
        if log_z_floor(absent) < LOG_FLOOR:
            continue
        is_solved[s] = True
        fill_acyclic(absent, out_mask, in_mask, acyclic, weight, spread, 0, no_limit)
        reached[: 1 << count] = 0.0
        missed = np.zeros(count)
        met = np.zeros(count)
        fill_reached(absent, out_mask, 0, acyclic, reached, weight, spread, missed, met, 0, no_limit)
        local = np.empty(count)
        finish_scores(absent, 0, acyclic, missed, met, local, met)
        for a in range(count):
            out[keep[a]] = local[a]
        log_z[s] = np.log(acyclic[(1 << count) - 1])
        log_z_all[s] = log_z[s]
        if count == n:
            continue
        for v in range(n):
            seen[v] = not seen[v]
        count = peel(p, seen)
        if count == 0:
            continue
        if count > max_bits:
            log_z_all[s] = np.nan
            continue
        k = 0
        for v in range(n):
            if seen[v]:
                keep[k] = v
                k += 1
        present = np.empty((count, count))
        absent = np.empty((count, count))
        out_mask = np.empty(count, np.int64)
        in_mask = np.empty(count, np.int64)
        local_graph(p, zeta, keep, present, absent, out_mask, in_mask)
        if log_z_floor(absent) < LOG_FLOOR:
            log_z_all[s] = np.nan
            continue
        fill_acyclic(absent, out_mask, in_mask, acyclic, weight, spread, 0, no_limit)
        log_z_all[s] += np.log(acyclic[(1 << count) - 1])
