"""P(acyclic) and P(cyclic) along a frontier, the latter with all its digits however small it is.

Vertices enter one by one. A vertex leaves once all its candidate neighbours have entered. What the
past means for the future is which vertices of the frontier reach which: a strict partial order, packed
as 8 x 8 bit blocks into one 64-bit word (up to 8 slots) or four (up to 16). The number of such orders, not
the number of objects, drives the cost. An arrow that closes a cycle adds its mass to P(cyclic): nothing is
subtracted.
"""

from typing import no_type_check

import numpy as np
from numba import njit

from cpor.infer._kernels.structure import SLOTS, strong_components, sweep_order
from cpor.infer._kernels.subset import TINY

FAILED = 1
DONE = 0

_COLUMN = np.uint64(0x0101010101010101)
_ROW = np.uint64(0xFF)
_ONE = np.uint64(1)
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
_MIX = np.uint64(0x9E3779B97F4A7C15)

_ROOM = 256
"""States that the tables have room for at first."""

_MOST_STATES = 1 << 23
"""States that a table may hold: 64 MB of masses."""

_WIDE_COST = 3
"""An update of a state of four words takes as long as this many of one word."""


@no_type_check
@njit(cache=True)
def _find(keys, index, generation, count, trial):
    """Place of the state `trial` in the table; a new one goes to place `count`."""
    words = trial.shape[0]
    mixed = np.uint64(0)
    for w in range(words):
        mixed = (mixed ^ trial[w]) * _MIX
        mixed ^= mixed >> np.uint64(29)
    top = np.uint64(index.shape[0] - 1)
    at = mixed & top
    while index[at, 1] == generation:
        place = index[at, 0]
        same = True
        for w in range(words):
            same &= keys[place, w] == trial[w]
        if same:
            return place
        at = (at + _ONE) & top
    index[at, 0] = count
    index[at, 1] = generation
    for w in range(words):
        keys[count, w] = trial[w]
    return count


@no_type_check
@njit(cache=True)
def _reaches(key, blocks, a, b):
    """Whether slot a reaches slot b in a state."""
    word = key[(a >> 3) * blocks + (b >> 3)]
    return (word >> np.uint64(8 * (a & 7) + (b & 7))) & _ONE != 0


@no_type_check
@njit(cache=True)
def _connect(key, blocks, i, j, trial):
    """The state with an arrow from slot i to slot j, into `trial`; returns whether that is another state."""
    changed = False
    for row in range(blocks):
        above = (key[row * blocks + (i >> 3)] >> np.uint64(i & 7)) & _COLUMN
        if row == i >> 3:
            above |= _ONE << np.uint64(8 * (i & 7))
        for column in range(blocks):
            below = (key[(j >> 3) * blocks + column] >> np.uint64(8 * (j & 7))) & _ROW
            if column == j >> 3:
                below |= _ONE << np.uint64(j & 7)
            word = key[row * blocks + column]
            trial[row * blocks + column] = word | (above * below)
            changed |= trial[row * blocks + column] != word
    return changed


@no_type_check
@njit(cache=True)
def _forget(keep, blocks, slot):
    """Clear a slot's column and row in the mask of what is kept."""
    for block in range(blocks):
        keep[block * blocks + (slot >> 3)] &= ~(_COLUMN << np.uint64(slot & 7))
        keep[(slot >> 3) * blocks + block] &= ~(_ROW << np.uint64(8 * (slot & 7)))


@no_type_check
@njit(cache=True)
def _grow(keys, masses, generation, count):
    """Tables with room for twice as many states, and their index."""
    room = 2 * keys.shape[0]
    more_keys = np.empty((room, keys.shape[1]), np.uint64)
    more_masses = np.empty(room)
    more_masses[:count] = masses[:count]
    index = np.zeros((4 * room, 2), np.int32)
    for t in range(count):
        _find(more_keys, index, generation, t, keys[t])
    return more_keys, more_masses, index


@no_type_check
@njit(cache=True)
def sweep(present, absent, order, width, work_limit):
    """P(acyclic) and P(cyclic) of one graph.

    Args:
        present: Edge probabilities p. Shape (n, n).
        absent: 1 - p, given apart since it may be tiny. Shape (n, n).
        order: As `sweep_order` gives it. Shape (n,).
        width: Slots that order needs.
        work_limit: Give up beyond this many state updates.

    Returns:
        status (DONE or FAILED), log P(acyclic), P(cyclic), state updates.
    """
    n = present.shape[0]
    blocks = 1 if width <= 8 else 2
    words = blocks * blocks
    if width > SLOTS:
        return FAILED, 0.0, 0.0, 0
    room = _ROOM
    keys = np.empty((room, words), np.uint64)
    masses = np.empty(room)
    other_keys = np.empty((room, words), np.uint64)
    other_masses = np.empty(room)
    index = np.zeros((4 * room, 2), np.int32)
    trial = np.zeros(words, np.uint64)
    keep = np.empty(words, np.uint64)
    slot = np.full(n, -1, np.int64)
    free = np.ones(8 * blocks, np.bool_)
    waiting = np.zeros(n, np.int64)
    for i in range(n):
        for j in range(n):
            waiting[i] += present[i, j] > 0.0 or present[j, i] > 0.0
    generation = 1
    count = 1
    _find(keys, index, generation, 0, trial)
    masses[0] = 1.0
    log_scale = 0.0
    cyclic = 0.0
    work = 0
    entered = np.zeros(n, np.bool_)
    for step in range(n):
        v = order[step]
        for q in range(8 * blocks):
            if free[q]:
                slot[v] = q
                free[q] = False
                break
        entered[v] = True
        # Arrows between v and each vertex that entered before it.
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
                i, j = slot[blocked], slot[blocker]
                work += count * (1 if blocks == 1 else _WIDE_COST)
                before = count
                closed = 0.0
                # In place: a state that receives mass holds i -> j already, and keeps all of its own.
                for t in range(before):
                    if _reaches(keys[t], blocks, i, j):
                        continue
                    if _reaches(keys[t], blocks, j, i):
                        closed += masses[t] * p
                    else:
                        _connect(keys[t], blocks, i, j, trial)
                        if count == room:
                            keys, masses, index = _grow(keys, masses, generation, count)
                            room = keys.shape[0]
                        place = _find(keys, index, generation, count, trial)
                        if place == count:
                            count += 1
                            masses[place] = masses[t] * p
                        else:
                            masses[place] += masses[t] * p
                    masses[t] *= gap
                cyclic += closed * np.exp(log_scale)
                if work > work_limit or count > _MOST_STATES:
                    return FAILED, 0.0, 0.0, work
        for u in range(n):
            if not entered[u] or slot[u] < 0 or waiting[u] > 0:
                continue
            top = 0.0
            for t in range(count):
                top = max(top, masses[t])
            if top == 0.0:  # certain edges that close a cycle
                return DONE, -np.inf, 1.0, work
            work += count * (1 if blocks == 1 else _WIDE_COST)
            room = max(room, other_keys.shape[0])
            if index.shape[0] < 4 * room:
                index = np.zeros((4 * room, 2), np.int32)
                generation = 0
            if other_keys.shape[0] < room:
                other_keys = np.empty((room, words), np.uint64)
                other_masses = np.empty(room)
            generation += 1
            keep[:] = _ALL
            _forget(keep, blocks, slot[u])
            new_count = 0
            for t in range(count):
                for w in range(words):
                    trial[w] = keys[t, w] & keep[w]
                place = _find(other_keys, index, generation, new_count, trial)
                if place == new_count:
                    new_count += 1
                    other_masses[place] = masses[t] / top
                else:
                    other_masses[place] += masses[t] / top
            log_scale += np.log(top)
            keys, other_keys = other_keys, keys
            masses, other_masses = other_masses, masses
            count = new_count
            room = keys.shape[0]
            free[slot[u]] = True
            slot[u] = -1
    total = masses[:count].sum()
    if total == 0.0:
        return DONE, -np.inf, 1.0, work
    return DONE, log_scale + np.log(total), cyclic, work


@no_type_check
@njit(cache=True)
def graph_log_z(present, absent, work_limit):
    """log P(acyclic) and P(cyclic) of a graph: one sweep for each strongly connected component.

    Args:
        present: Edge probabilities p. Shape (n, n).
        absent: 1 - p. Shape (n, n).
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
        width, done = sweep_order(linked, order)
        work += done // 16  # a step here is far cheaper than a state update
        status, log_part, cyclic_part, done = sweep(sub_present, sub_absent, order, width, work_limit - work)
        work += done
        if status == FAILED:
            return FAILED, 0.0, 0.0, work
        log_z += log_part
        cyclic += (1.0 - cyclic) * max(cyclic_part, TINY)  # a cycle is possible, even where it underflows
    return DONE, log_z, min(cyclic, 1.0), work
