"""Derivatives of log A(C) for all edges at once: the subset recursion run backwards."""

from typing import no_type_check

import numpy as np
from numba import njit

from cpor.infer._kernels.subset import component_of_lowest, list_members


@no_type_check
@njit(cache=True)
def acyclic_gradient(absent, out_mask, in_mask, acyclic, gradient):
    """d log A(C) / d log absent[i, j] for all edges at once: `fill_acyclic` run backwards.

    Args:
        absent: Shape (n, n).
        out_mask: Candidate blockers of each vertex. Shape (n,).
        in_mask: Vertices each vertex may block. Shape (n,).
        acyclic: A(S). Shape (2^n,).
        gradient: Zero at the start, filled. Shape (n, n).
    """
    n = absent.shape[0]
    n_sets = 1 << n
    full = n_sets - 1
    adjoint = np.zeros(n_sets)
    adjoint[full] = 1.0 / acyclic[full]
    signed = np.empty(n_sets)
    spread = np.empty(n_sets, np.int64)
    value = np.empty(n_sets)
    members = np.empty(n, np.int64)
    for s in range(full, 0, -1):
        pull = adjoint[s]
        if pull == 0.0:
            continue
        component = component_of_lowest(s, out_mask, in_mask)
        if component != s:
            adjoint[component] += pull * acyclic[s ^ component]
            adjoint[s ^ component] += pull * acyclic[component]
            continue
        size = list_members(s, members)
        if size == 1:
            continue
        signed[0] = -1.0
        spread[0] = 0
        for a in range(size):
            none = 1.0
            for b in range(size):
                none *= absent[members[a], members[b]]
            half = 1 << a
            for k in range(half):
                signed[half + k] = -signed[k] * none
                spread[half + k] = spread[k] | (1 << members[a])
        value[0] = 0.0
        for k in range(1, 1 << size):
            adjoint[s ^ spread[k]] += pull * signed[k]
            value[k] = signed[k] * acyclic[s ^ spread[k]]
        for a in range(size - 1, -1, -1):  # the sum of value over the T that hold a, then forget a
            half = 1 << a
            with_a = 0.0
            for k in range(half):
                with_a += value[half + k]
                value[k] += value[half + k]
            for b in range(size):
                if b != a:
                    gradient[members[a], members[b]] += pull * with_a
