"""P(acyclic) of sparse graphs: sweep the vertices, remember who reaches whom on the frontier only.

Vertices enter one by one. A vertex leaves once all its candidate neighbours have entered. What the
past means for the future is which vertices of the frontier reach which: a strict partial order on at
most eight vertices, packed as an 8 x 8 bit matrix into one 64-bit word (row a, bit b: a reaches b). The
number of such orders, not the number of objects, drives the cost. Only positive numbers are added.
"""

from typing import no_type_check

import numpy as np
from numba import njit

from cpor.inference._kernels.subset import TINY

SLOTS = 8
STARTS = 24
FAILED = 1
DONE = 0

_COLUMN = np.uint64(0x0101010101010101)
_ROW = np.uint64(0xFF)
_ONE = np.uint64(1)
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
_MIX = np.uint64(0x9E3779B97F4A7C15)

# Partial orders on 0, 1, … labelled points (OEIS A001035): an upper bound on the states of a frontier.
_ORDERS = np.array([1.0, 1.0, 3.0, 19.0, 219.0, 4231.0, 130023.0, 6129859.0, 431723379.0])


@no_type_check
@njit(cache=True)
def sweep_order(linked, order):
    """An order of the vertices that keeps the frontier narrow: greedy, from several starts.

    The next vertex is the one after which most leave; of equals, the one with most links into the frontier.

    Args:
        linked: Whether two vertices share a candidate edge. Shape (n, n).
        order: Filled. Shape (n,).

    Returns:
        An upper bound on the states met (infinite where the frontier outgrows its slots), and its steps.
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
    best_cost = np.inf
    work = n * n
    started = np.zeros(n, np.bool_)
    for _ in range(min(STARTS, n)):
        start = -1  # the periphery makes good starts
        for v in range(n):
            if not started[v] and (start < 0 or degree[v] < degree[start]):
                start = v
        started[start] = True
        entered = np.zeros(n, np.bool_)
        waiting = degree.copy()
        links = np.zeros(n, np.int64)
        cost = 0.0
        width = 0
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
            for v in range(n):
                order[v] = trial[v]
    return best_cost, work


@no_type_check
@njit(cache=True)
def _add(keys, masses, used, slots, count, key, mass):
    """Add `mass` to a state of the open-addressing table; returns the number of states."""
    top = np.uint64(keys.shape[0] - 1)
    place = key * _MIX
    place = (place ^ (place >> np.uint64(29))) & top
    while used[place]:
        if keys[place] == key:
            masses[place] += mass
            return count
        place = (place + _ONE) & top
    used[place] = True
    keys[place] = key
    masses[place] = mass
    slots[count] = place
    return count + 1


@no_type_check
@njit(cache=True)
def sweep(present, absent, order, tables, work_limit):
    """log P(acyclic) and P(cyclic) of one graph.

    Args:
        present: Edge probabilities p. Shape (n, n).
        absent: 1 - p, given apart since it may be tiny. Shape (n, n).
        order: As `sweep_order` gives it. Shape (n,).
        tables: Two hash tables (keys, masses, used, slots) of a power-of-two capacity, unused.
        work_limit: Give up beyond this many state updates.

    Returns:
        status (DONE or FAILED), log P(acyclic), P(cyclic), state updates.
    """
    n = present.shape[0]
    keys, masses, used, slots, new_keys, new_masses, new_used, new_slots = tables
    capacity = keys.shape[0] // 4
    slot = np.full(n, -1, np.int64)
    free = np.ones(SLOTS, np.bool_)
    waiting = np.zeros(n, np.int64)
    for i in range(n):
        for j in range(n):
            waiting[i] += present[i, j] > 0.0 or present[j, i] > 0.0
    count = _add(keys, masses, used, slots, 0, np.uint64(0), 1.0)
    log_scale = 0.0
    cyclic = 0.0
    work = 0
    entered = np.zeros(n, np.bool_)
    for step in range(n):
        v = order[step]
        for q in range(SLOTS):
            if free[q]:
                slot[v] = q
                free[q] = False
                break
        entered[v] = True
        for u in range(n):
            if u == v or not entered[u] or not (present[u, v] > 0.0 or present[v, u] > 0.0):
                continue
            waiting[u] -= 1
            waiting[v] -= 1
            for direction in range(2):
                blocked, blocker = (v, u) if direction == 0 else (u, v)
                p = present[blocked, blocker]
                if p <= 0.0:
                    continue
                gap = absent[blocked, blocker]
                i = np.uint64(slot[blocked])
                j = np.uint64(slot[blocker])
                row_i = np.uint64(8) * i
                row_j = np.uint64(8) * j
                work += count
                new_count = 0
                closed = 0.0
                for t in range(count):
                    place = slots[t]
                    used[place] = False
                    key = keys[place]
                    mass = masses[place]
                    if (key >> (row_j + i)) & _ONE:  # the blocker already reaches the blocked: a cycle
                        closed += mass * p
                        mass *= gap
                    elif not (key >> (row_i + j)) & _ONE:
                        below = ((key >> row_j) & _ROW) | (_ONE << j)
                        above = ((key >> i) & _COLUMN) | (_ONE << row_i)
                        new_count = _add(
                            new_keys,
                            new_masses,
                            new_used,
                            new_slots,
                            new_count,
                            key | (above * below),
                            mass * p,
                        )
                        mass *= gap
                    new_count = _add(new_keys, new_masses, new_used, new_slots, new_count, key, mass)
                    if new_count > capacity:
                        break
                cyclic += closed * np.exp(log_scale)
                keys, new_keys = new_keys, keys
                masses, new_masses = new_masses, masses
                used, new_used = new_used, used
                slots, new_slots = new_slots, slots
                count = new_count
                if work > work_limit or count > capacity:
                    used[:] = False
                    new_used[:] = False
                    return FAILED, 0.0, 0.0, work
        keep = _ALL
        for u in range(n):
            if entered[u] and slot[u] >= 0 and waiting[u] == 0:
                q = np.uint64(slot[u])
                keep &= ~(_ROW << (np.uint64(8) * q))
                keep &= ~(_COLUMN << q)
                free[slot[u]] = True
                slot[u] = -1
        if keep == _ALL:
            continue
        work += count
        top = 0.0
        for t in range(count):
            top = max(top, masses[slots[t]])
        if top == 0.0:  # certain edges that close a cycle
            used[:] = False
            return DONE, -np.inf, 1.0, work
        new_count = 0
        for t in range(count):
            place = slots[t]
            used[place] = False
            new_count = _add(
                new_keys, new_masses, new_used, new_slots, new_count, keys[place] & keep, masses[place] / top
            )
        log_scale += np.log(top)
        keys, new_keys = new_keys, keys
        masses, new_masses = new_masses, masses
        used, new_used = new_used, used
        slots, new_slots = new_slots, slots
        count = new_count
    total = 0.0
    for t in range(count):
        total += masses[slots[t]]
        used[slots[t]] = False
    return DONE, log_scale + np.log(total), cyclic, work


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


@no_type_check
@njit(cache=True)
def graph_log_z(present, absent, tables, work_limit):
    """log P(acyclic) and P(cyclic) of a graph: one sweep for each strongly connected component.

    Args:
        present: Edge probabilities p. Shape (n, n).
        absent: 1 - p. Shape (n, n).
        tables: As for `sweep`.
        work_limit: Give up beyond this many state updates.

    Returns:
        status (DONE or FAILED), log P(acyclic), P(cyclic), state updates.
    """
    n = present.shape[0]
    label = np.empty(n, np.int64)
    count = strong_components(present, label)
    members = np.empty(n, np.int64)
    log_z = 0.0
    cyclic = 0.0
    work = 0
    for c in range(count):
        size = 0
        for v in range(n):
            if label[v] == c:
                members[size] = v
                size += 1
        if size < 2:
            continue
        sub_present = np.empty((size, size))
        sub_absent = np.empty((size, size))
        linked = np.zeros((size, size), np.bool_)
        for a in range(size):
            for b in range(size):
                sub_present[a, b] = present[members[a], members[b]]
                sub_absent[a, b] = absent[members[a], members[b]]
        for a in range(size):
            for b in range(size):
                linked[a, b] = sub_present[a, b] > 0.0 or sub_present[b, a] > 0.0
        order = np.empty(size, np.int64)
        cost, done = sweep_order(linked, order)
        work += done // 16  # a step here is far cheaper than a state update
        if cost == np.inf:
            return FAILED, 0.0, 0.0, work
        status, log_part, cyclic_part, done = sweep(sub_present, sub_absent, order, tables, work_limit - work)
        work += done
        if status == FAILED:
            return FAILED, 0.0, 0.0, work
        log_z += log_part
        cyclic += (1.0 - cyclic) * max(cyclic_part, TINY)  # a cycle is possible, even where it underflows
    return DONE, log_z, min(cyclic, 1.0), work
