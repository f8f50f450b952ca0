"""The shape of a candidate graph: its strongly connected components, and an order with a narrow frontier."""

from typing import no_type_check

import numpy as np
from numba import njit

SLOTS = 16
"""Vertices that the frontier of a sweep may hold."""

STARTS = 24
"""Vertices that the search for an order begins at."""

# Partial orders on 0, 1, … labelled points (OEIS A001035): an upper bound on the states of a frontier.
_ORDERS = np.array(
    [
        1.0, 1.0, 3.0, 19.0, 219.0, 4231.0, 130023.0, 6129859.0, 431723379.0, 44511042511.0, 6611065248783.0,
        1396281677105899.0, 414864951055853499.0, 1.7185072838158706e20, 9.848432425712821e22,
        7.756717102044069e25, 8.348052978549016e28,
    ]
)  # fmt: skip


@no_type_check
@njit(cache=True)
def sweep_order(linked, order):
    """An order of the vertices that keeps the frontier narrow: greedy, from several starts.

    The next vertex is the one after which most leave; of equals, the one with most links into the frontier.

    Args:
        linked: Whether two vertices share a candidate edge. Shape (n, n).
        order: Filled. Shape (n,).

    Returns:
        Slots needed (SLOTS + 1 where there are not enough), and the steps taken.
    """
    n = linked.shape[0]
    trial = np.empty(n, np.int64)
    degree = np.zeros(n, np.int64)
    for v in range(n):
        for u in range(n):
            degree[v] += linked[v, u]
    neighbours = np.empty((n, max(1, degree.max())), np.int64)
    for v in range(n):
        k = 0
        for u in range(n):
            if linked[v, u]:
                neighbours[v, k] = u
                k += 1
    if n == 0:
        return 0, 1
    best_cost = np.inf
    best_width = SLOTS + 1
    work = n * n
    started = np.zeros(n, np.bool_)
    entered = np.empty(n, np.bool_)
    links = np.empty(n, np.int64)
    for _ in range(min(STARTS, n)):
        start = -1  # the periphery makes good starts
        for v in range(n):
            if not started[v] and (start < 0 or degree[v] < degree[start]):
                start = v
        started[start] = True
        entered[:] = False
        waiting = degree.copy()
        links[:] = 0
        cost = 0.0
        width = 0
        widest = 0
        for step in range(n):
            pick = start
            if step > 0:
                pick = -1
                pick_gain = 0
                for v in range(n):
                    work += 1
                    if entered[v]:
                        continue
                    gain = np.int64(waiting[v] == links[v])
                    if links[v] > 0:
                        work += degree[v]
                        for k in range(degree[v]):
                            u = neighbours[v, k]
                            gain += entered[u] and waiting[u] == 1
                    if pick < 0 or gain > pick_gain or (gain == pick_gain and links[v] > links[pick]):
                        pick, pick_gain = v, gain
            entered[pick] = True
            trial[step] = pick
            width += 1
            if width > SLOTS:
                cost = np.inf
                break
            widest = max(widest, width)
            cost += _ORDERS[width]
            for k in range(degree[pick]):
                u = neighbours[pick, k]
                links[u] += 1
                if entered[u]:
                    waiting[pick] -= 1
                    waiting[u] -= 1
                    width -= waiting[u] == 0
            width -= waiting[pick] == 0
            if cost >= best_cost:
                break
        if cost < best_cost:
            best_cost = cost
            best_width = widest
            for step in range(n):
                order[step] = trial[step]
    return best_width, work


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
