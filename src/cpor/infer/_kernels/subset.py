"""Exact inference by recursion over vertex sets, O(3^n): A(S), F(R) and the scores they give.

Sets of vertices are bit masks. `absent[i, j]` is 1 - p_ij, the probability that there is no edge from
i to j (1 where the pair is no candidate). `out_mask[i]` and `in_mask[i]` are the candidate neighbours.

A(S) is the probability that the subgraph on S is acyclic:

    A(S) = sum_{0 != T subset S} (-1)^(|T|+1) prod_{t in T} N_t(S) A(S \\ T)

with N_t(S) = prod_{v in S} absent[t, v] (T: vertices without an edge into S, i.e. sinks of S). It factorises
over the strongly connected components of the subgraph on S.
"""

from typing import no_type_check

import numpy as np
from numba import njit

BELOW_ONE = 1.0 - 2.0**-53
"""The largest double below 1."""


@no_type_check
@njit(cache=True)
def lowest_bit(mask):
    """Position of the lowest set bit."""
    position = 0
    while (mask & 1) == 0:
        mask >>= 1
        position += 1
    return position


@no_type_check
@njit(cache=True)
def closure_within(start, within, neighbours):
    """Vertices of `within` that can be reached from the set `start` along `neighbours`."""
    reached = start
    todo = start
    while todo:
        v = lowest_bit(todo)
        todo &= todo - 1
        new = neighbours[v] & within & ~reached
        reached |= new
        todo |= new
    return reached


@no_type_check
@njit(cache=True)
def component_of_lowest(s, out_mask, in_mask):
    """The strongly connected component, in the subgraph on s, of the lowest vertex of s."""
    low = s & -s
    component = closure_within(low, s, out_mask)
    if component != low:
        component &= closure_within(low, s, in_mask)
    return component


@no_type_check
@njit(cache=True)
def list_members(s, members):
    """Write the vertices of s into `members`, ascending; returns how many."""
    size = 0
    while s:
        members[size] = lowest_bit(s)
        s &= s - 1
        size += 1
    return size


@no_type_check
@njit(cache=True)
def fill_acyclic(absent, out_mask, in_mask, acyclic, signed, spread, first, work_limit):
    """Fill A(S) from S = first on.

    Subsets of S are smaller numbers than S, so counting upwards meets every part before the whole.

    Args:
        absent: 1 - p. Shape (n, n).
        out_mask: Candidate blockers of each vertex. Shape (n,).
        in_mask: Vertices each vertex may block. Shape (n,).
        acyclic: A(S), filled here. Shape (2^n,).
        signed: Scratch. Shape (2^n,).
        spread: Scratch, int64. Shape (2^n,).
        first: Where to go on.
        work_limit: Stop once this many terms were summed.

    Returns:
        The next S to do (2^n when all are done), and the number of terms summed.
    """
    n = absent.shape[0]
    n_sets = 1 << n
    work = 0
    if first == 0:
        acyclic[0] = 1.0
        first = 1
    members = np.empty(n, np.int64)
    for s in range(first, n_sets):
        if work > work_limit:
            return s, work
        work += 1
        component = component_of_lowest(s, out_mask, in_mask)
        if component != s:
            acyclic[s] = acyclic[component] * acyclic[s ^ component]
            continue
        size = list_members(s, members)
        if size == 1:
            acyclic[s] = 1.0
            continue
        signed[0] = -1.0
        spread[0] = 0
        total = 0.0
        for a in range(size):
            none = 1.0
            for b in range(size):
                none *= absent[members[a], members[b]]
            half = 1 << a
            factor = -none
            bit = 1 << members[a]
            for k in range(half):
                weight = signed[k] * factor
                subset = spread[k] | bit
                signed[half + k] = weight
                spread[half + k] = subset
                total += weight * acyclic[s ^ subset]
        work += 1 << size
        acyclic[s] = min(total, BELOW_ONE)  # some cycle is possible here
    return n_sets, work


@no_type_check
@njit(cache=True)
def fill_reached(
    absent,
    out_mask,
    target,
    acyclic,
    reached,
    cut,
    spread,
    missed,
    met,
    first,
    work_limit,
):
    """F(R), and from it for each vertex o the mass in which the target does not reach o, or does.

    F(R) = A(R) - sum_{X in T subsetneq R} F(T) cut(T, R \\ T) A(R \\ T): R is acyclic and all of it is
    reached from the target X inside R. Only sets that X reaches along candidate edges are visited.

    Args:
        absent: Shape (n, n).
        out_mask: Candidate blockers of each vertex. Shape (n,).
        target: X.
        acyclic: A(S). Shape (2^n,).
        reached: F(R); zero at the start, holds minus the sum until R is visited. Shape (2^n,).
        cut: Scratch. Shape (2^n,).
        spread: Scratch, int64. Shape (2^n,).
        missed: For o, the sum over R without o of F(R) cut(R, C \\ R) A(C \\ R \\ o). Shape (n,).
        met: For o, the sum over R with o of F(R) cut(R, C \\ R) A(C \\ R). Shape (n,).
        first: Where to go on.
        work_limit: Stop once this many terms were summed.

    Returns:
        The next R to do (2^n when all are done), and the number of terms summed.
    """
    n = absent.shape[0]
    full = (1 << n) - 1
    work = 0
    x_bit = 1 << target
    column = np.empty(n)
    for r in range(max(first, x_bit), full + 1):
        if not r & x_bit:
            continue
        if work > work_limit:
            return r, work
        work += 1
        if closure_within(x_bit, r, out_mask) != r:
            continue
        mass = max(acyclic[r] + reached[r], 0.0)
        rest = full ^ r
        if mass == 0.0:
            continue
        cut[0] = mass
        spread[0] = 0
        filled = 1
        for v in range(n):
            if not (rest >> v) & 1:
                continue
            gap = 1.0
            for t in range(n):
                if (r >> t) & 1:
                    gap *= absent[t, v]
            column[v] = gap
            bit = 1 << v
            for k in range(filled):
                weight = cut[k] * gap
                subset = spread[k] | bit
                cut[filled + k] = weight
                spread[filled + k] = subset
                reached[r | subset] -= weight * acyclic[subset]
            filled *= 2
        work += filled
        closed = cut[filled - 1]
        for o in range(n):
            if (rest >> o) & 1:
                missed[o] += closed * acyclic[rest ^ (1 << o)]
            else:
                met[o] += closed * acyclic[rest]
    return full + 1, work


@no_type_check
@njit(cache=True)
def finish_scores(absent, target, acyclic, missed, met, scores, reach):
    """Scores q and P(X reaches o), from A and the sums of `fill_reached`. Shapes (n,).

    q_X = N_X(C) A(C \\ X) / Z and q_o = N_o(C) [A(C \\ o) - missed_o] / Z.
    """
    n = absent.shape[0]
    full = (1 << n) - 1
    z = acyclic[full]
    for o in range(n):
        free = 1.0
        for v in range(n):
            free *= absent[o, v]
        without = acyclic[full ^ (1 << o)]
        if o != target:
            without -= missed[o]
        scores[o] = min(max(free * without / z, 0.0), 1.0)
        reach[o] = min(max(met[o] / z, 0.0), 1.0)
    reach[target] = 1.0


@no_type_check
@njit(cache=True)
def log_z_floor(absent):
    """A lower bound on log Z: the probability that one greedily chosen removal order is kept."""
    n = absent.shape[0]
    log_free = np.zeros(n)
    left = np.ones(n, np.bool_)
    for i in range(n):
        for j in range(n):
            log_free[i] += np.log(absent[i, j])
    total = 0.0
    for _ in range(n):
        best = -1
        for v in range(n):
            if left[v] and (best < 0 or log_free[v] > log_free[best]):
                best = v
        total += log_free[best]
        left[best] = False
        for v in range(n):
            log_free[v] -= np.log(absent[v, best])
    return total


@no_type_check
@njit(cache=True)
def local_graph(p, zeta, keep, present, absent, out_mask, in_mask):
    """Probabilities and neighbour masks among the kept vertices, clipped to [zeta, 1 - zeta].

    Args:
        p: Probabilities of the whole scene. Shape (n, n).
        zeta: See above.
        keep: The vertices kept. Shape (k,).
        present: Filled with p. Shape (k, k).
        absent: Filled with 1 - p. Shape (k, k).
        out_mask: Filled with candidate blockers; zero beyond 62 vertices. Shape (k,).
        in_mask: Filled with vertices each may block; zero beyond 62 vertices. Shape (k,).
    """
    size = present.shape[0]
    out_mask[:] = 0
    in_mask[:] = 0
    for a in range(size):
        for b in range(size):
            value = p[keep[a], keep[b]]
            if value > 0.0:
                present[a, b] = min(max(value, zeta), 1.0 - zeta)
                absent[a, b] = 1.0 - present[a, b]
                if size <= 62:
                    out_mask[a] |= 1 << b
                    in_mask[b] |= 1 << a
            else:
                present[a, b] = 0.0
                absent[a, b] = 1.0


@no_type_check
@njit(cache=True)
def reachable_from(p, start, keep, seen):
    """Collect the vertices reachable from `start` along candidate edges into `keep`; returns how many."""
    n = p.shape[0]
    for v in range(n):
        seen[v] = False
    seen[start] = True
    keep[0] = start
    count = 1
    done = 0
    while done < count:
        v = keep[done]
        done += 1
        for u in range(n):
            if p[v, u] > 0.0 and not seen[u]:
                seen[u] = True
                keep[count] = u
                count += 1
    return count


@no_type_check
@njit(cache=True)
def count_acyclic_work(out_mask, in_mask, limit):
    """Terms that `fill_acyclic` would sum: 2^|S| for each strongly connected S. Stops beyond `limit`."""
    n = out_mask.shape[0]
    work = 0
    for s in range(1, 1 << n):
        work += 1
        if component_of_lowest(s, out_mask, in_mask) == s:
            size = 0
            rest = s
            while rest:
                rest &= rest - 1
                size += 1
            work += 1 << size
            if work > limit:
                break
    return work


@no_type_check
@njit(cache=True)
def strong_components(present, label):
    """Number the strongly connected components of the candidate digraph; returns how many.

    Args:
        present: Edge probabilities; an edge where above 0. Shape (n, n).
        label: Filled with the component of each vertex. Shape (n,).
    """
    n = present.shape[0]
    label[:] = -1
    forward = np.empty(n, np.bool_)
    backward = np.empty(n, np.bool_)
    stack = np.empty(n, np.int64)
    count = 0
    for v in range(n):
        if label[v] >= 0:
            continue
        for direction in range(2):
            seen = forward if direction == 0 else backward
            seen[:] = False
            seen[v] = True
            stack[0] = v
            height = 1
            while height:
                height -= 1
                a = stack[height]
                for b in range(n):
                    edge = present[a, b] if direction == 0 else present[b, a]
                    if edge > 0.0 and not seen[b] and label[b] < 0:
                        seen[b] = True
                        stack[height] = b
                        height += 1
        for u in range(n):
            if forward[u] and backward[u]:
                label[u] = count
        count += 1
    return count
