"""Highest-weight acyclic graphs in non-increasing order: best-first search over edge decisions.

A node of the search decides the first d edges of a fixed order. Its bound is the weight so far plus all
positive weights still possible: an undecided edge whose blocker already reaches its blocked object is
not, and of two undecided reciprocal edges only the heavier is. The bound never falls short, so complete
graphs leave the heap in non-increasing weight, and an empty heap proves that there is no other.

Vertex sets are rows of 64-bit words. `reach[a]` holds the vertices that a reaches.
"""

from typing import no_type_check

import numpy as np
from numba import njit

FOUND = 0
EXHAUSTED = 1
WORK_SPENT = 2
NO_ROOM = 3

_ONE = np.uint64(1)

# Slots of `counters`.
N_NODES, N_HEAP, N_FOUND, WORK = 0, 1, 2, 3


@no_type_check
@njit(cache=True)
def reaches(reach, a, b):
    """Whether a reaches b."""
    return (reach[a, b >> 6] >> np.uint64(b & 63)) & _ONE


@no_type_check
@njit(cache=True)
def add_edge(reach, a, b):
    """Close `reach` after adding the edge from a to b."""
    word, bit = b >> 6, _ONE << np.uint64(b & 63)
    for v in range(reach.shape[0]):
        if v == a or reaches(reach, v, a):
            for w in range(reach.shape[1]):
                reach[v, w] |= reach[b, w]
            reach[v, word] |= bit


@no_type_check
@njit(cache=True)
def possible_gain(reach, blocked, blocker, weight, reverse, first):
    """The most that the edges first, first + 1, … can still add to the weight."""
    gain = 0.0
    for e in range(first, weight.shape[0]):
        if weight[e] <= 0.0 or reaches(reach, blocker[e], blocked[e]):
            continue
        other = reverse[e]
        if other > e and weight[other] > 0.0 and not reaches(reach, blocked[e], blocker[e]):
            gain += max(weight[e] - weight[other], 0.0)  # only the heavier of the two can hold
        else:
            gain += weight[e]
    return gain


@no_type_check
@njit(cache=True)
def _push(heap, counters, bounds, depths, node):
    """Put a node on the heap: larger bound first, then deeper, then older."""
    place = counters[N_HEAP]
    counters[N_HEAP] += 1
    while place > 0:
        parent = (place - 1) >> 1
        if not _before(bounds, depths, node, heap[parent]):
            break
        heap[place] = heap[parent]
        place = parent
    heap[place] = node


@no_type_check
@njit(cache=True)
def _before(bounds, depths, a, b):
    if bounds[a] != bounds[b]:
        return bounds[a] > bounds[b]
    if depths[a] != depths[b]:
        return depths[a] > depths[b]
    return a < b


@no_type_check
@njit(cache=True)
def _pop(heap, counters, bounds, depths):
    top = heap[0]
    counters[N_HEAP] -= 1
    size = counters[N_HEAP]
    node = heap[size]
    place = 0
    while True:
        child = 2 * place + 1
        if child >= size:
            break
        if child + 1 < size and _before(bounds, depths, heap[child + 1], heap[child]):
            child += 1
        if not _before(bounds, depths, heap[child], node):
            break
        heap[place] = heap[child]
        place = child
    heap[place] = node
    return top


@no_type_check
@njit(cache=True)
def start_search(blocked, blocker, weight, reverse, n, nodes, heap, counters):
    """Put the root, nothing decided, on the heap."""
    parents, depths, choices, gains, bounds = nodes
    words = (n + 63) >> 6
    reach = np.zeros((n, words), np.uint64)
    parents[0] = -1
    depths[0] = 0
    choices[0] = 0
    gains[0] = 0.0
    bounds[0] = possible_gain(reach, blocked, blocker, weight, reverse, 0)
    counters[:] = 0
    counters[N_NODES] = 1
    _push(heap, counters, bounds, depths, 0)


@no_type_check
@njit(cache=True)
def _restore(node, nodes, blocked, blocker, chosen, reach):
    """Rebuild a node's decisions and which object reaches which."""
    parents, depths, choices, _, _ = nodes
    chosen[:] = False
    reach[:] = np.uint64(0)
    while node >= 0:
        if choices[node]:
            chosen[depths[node] - 1] = True
        node = parents[node]
    for e in range(chosen.shape[0]):
        if chosen[e]:
            add_edge(reach, blocked[e], blocker[e])


@no_type_check
@njit(cache=True)
def next_graph(blocked, blocker, weight, reverse, n, nodes, heap, counters, chosen, work_limit):
    """Find the next graph of the order.

    Args:
        blocked: Blocked vertex of each edge, in the order of decision. Shape (m,).
        blocker: Its blocker. Shape (m,).
        weight: logit p of each edge. Shape (m,).
        reverse: Position of the reciprocal edge, -1 where there is none. Shape (m,).
        n: Number of vertices.
        nodes: Arrays parents, depths, choices, gains, bounds of the search tree.
        heap: Open nodes. As long as the node arrays.
        counters: N_NODES, N_HEAP, N_FOUND, WORK.
        chosen: Filled with the graph found. Shape (m,).
        work_limit: Stop once `counters[WORK]` exceeds this; the search can go on later.

    Returns:
        status (FOUND, EXHAUSTED, WORK_SPENT, NO_ROOM), and the graph's weight above the empty graph's.
    """
    m = weight.shape[0]
    parents, depths, choices, gains, bounds = nodes
    room = parents.shape[0]
    reach = np.empty((n, (n + 63) >> 6), np.uint64)
    with_edge = np.empty_like(reach)
    step_work = m + n * reach.shape[1]
    while counters[N_HEAP] > 0:
        if counters[WORK] > work_limit:
            return WORK_SPENT, 0.0
        if counters[N_NODES] + m + 2 > room:
            return NO_ROOM, 0.0
        node = _pop(heap, counters, bounds, depths)
        _restore(node, nodes, blocked, blocker, chosen, reach)
        counters[WORK] += step_work
        depth = depths[node]
        gain = gains[node]
        while depth < m:
            a, b = blocked[depth], blocker[depth]
            if reaches(reach, b, a):  # would close a cycle: absent, and the bound knew it
                depth += 1
                continue
            counters[WORK] += step_work
            for v in range(n):
                for word in range(reach.shape[1]):
                    with_edge[v, word] = reach[v, word]
            add_edge(with_edge, a, b)
            bound_with = (
                gain + weight[depth] + possible_gain(with_edge, blocked, blocker, weight, reverse, depth + 1)
            )
            bound_without = gain + possible_gain(reach, blocked, blocker, weight, reverse, depth + 1)
            take = bound_with >= bound_without
            depth += 1
            for kept in range(2):
                chosen_edge = take == (kept == 1)
                k = counters[N_NODES]
                counters[N_NODES] += 1
                parents[k] = node
                depths[k] = depth
                choices[k] = chosen_edge
                gains[k] = gain + weight[depth - 1] if chosen_edge else gain
                bounds[k] = bound_with if chosen_edge else bound_without
                if kept == 0:
                    _push(heap, counters, bounds, depths, k)
                else:
                    node = k
            chosen[depth - 1] = take
            gain = gains[node]
            if take:
                reach, with_edge = with_edge, reach
            if _before(bounds, depths, heap[0], node):
                _push(heap, counters, bounds, depths, node)
                depth = -1
                break
            if counters[N_NODES] + 2 > room:
                _push(heap, counters, bounds, depths, node)
                return NO_ROOM, 0.0
        if depth == m:
            counters[N_FOUND] += 1
            return FOUND, gain
    return EXHAUSTED, 0.0


@no_type_check
@njit(cache=True)
def complete_greedily(blocked, blocker, weight, n, nodes, heap, counters, chosen):
    """Turn the best open node into a graph: take what helps and closes no cycle.

    Open nodes share no graph, so this gives a new one each time; its place in the order is not known.

    Returns:
        status (FOUND or EXHAUSTED), and the graph's weight above the empty graph's.
    """
    _, depths, _, gains, bounds = nodes
    if counters[N_HEAP] == 0:
        return EXHAUSTED, 0.0
    node = _pop(heap, counters, bounds, depths)
    reach = np.empty((n, (n + 63) >> 6), np.uint64)
    _restore(node, nodes, blocked, blocker, chosen, reach)
    gain = gains[node]
    for e in range(depths[node], weight.shape[0]):
        if weight[e] > 0.0 and not reaches(reach, blocker[e], blocked[e]):
            add_edge(reach, blocked[e], blocker[e])
            chosen[e] = True
            gain += weight[e]
    counters[N_FOUND] += 1
    return FOUND, gain


@no_type_check
@njit(cache=True)
def mark_actions(blocked, blocker, chosen, target, free):
    """Mark the actions that are right in a graph: eq. marginals' chi_X and chi_o. Shape (n,)."""
    n = free.shape[0]
    m = chosen.shape[0]
    reached = np.zeros(n, np.bool_)
    reached[target] = True
    changed = True
    while changed:
        changed = False
        for e in range(m):
            if chosen[e] and reached[blocked[e]] and not reached[blocker[e]]:
                reached[blocker[e]] = True
                changed = True
    for v in range(n):
        free[v] = reached[v]
    for e in range(m):
        if chosen[e]:
            free[blocked[e]] = False
    # The target is right to grasp, and no other object is reached, exactly when nothing obstructs it.
