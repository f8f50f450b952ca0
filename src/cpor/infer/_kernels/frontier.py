"""Sums over acyclic graphs along a frontier: P(acyclic), and every score of a target, in one sweep.

Vertices enter one by one. A vertex leaves once all its candidate neighbours have entered. What the
past means for the future is which vertices of the frontier reach which: a strict partial order, packed
as 8 x 8 bit blocks into one 64-bit word (up to 8 slots) or four (up to 16). The number of such orders, not
the number of objects, drives the cost.

Each state carries a row of masses. Column 0 is the probability of the state. For a target X, which enters
first and keeps its slot, the column of vertex o begins as the part in which nothing obstructs o. When o
leaves, it becomes the part in which X reaches o too. Where X reaches o already, it stays as it is. Elsewhere
it counts once as it is, and once negative with an arrow from o to X: that survives exactly where X never
reaches o. Sinks, which nothing can obstruct, need no slot: an arrow from a vertex to a sink acts on the
sink's column as an arrow back to X, so that it sums to the part in which X does not reach the sink.
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

_MOST_CELLS = 1 << 23
"""Masses that a table may hold: 64 MB."""

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
def _forget(keep, blocks, slot, row_too):
    """Clear a slot's column, and its row where asked, in a state or in the mask of what is kept."""
    for block in range(blocks):
        keep[block * blocks + (slot >> 3)] &= ~(_COLUMN << np.uint64(slot & 7))
        if row_too:
            keep[(slot >> 3) * blocks + block] &= ~(_ROW << np.uint64(8 * (slot & 7)))


@no_type_check
@njit(cache=True)
def _grow(keys, masses, generation, count):
    """Tables with room for twice as many states, and their index."""
    room = 2 * keys.shape[0]
    more_keys = np.empty((room, keys.shape[1]), np.uint64)
    more_masses = np.empty((room, masses.shape[1]))
    more_masses[:count] = masses[:count]
    index = np.zeros((4 * room, 2), np.int32)
    for t in range(count):
        _find(more_keys, index, generation, t, keys[t])
    return more_keys, more_masses, index


@no_type_check
@njit(cache=True)
def sweep(present, absent, sink_gap, order, width, target, only_free, work_limit):
    """P(acyclic), P(cyclic) and the sums of all columns of one graph.

    Args:
        present: Edge probabilities p. Shape (n, n).
        absent: 1 - p, given apart since it may be tiny. Shape (n, n).
        sink_gap: Probability that no edge runs from a vertex to each sink. Shape (n_sinks, n).
        order: As `sweep_order` gives it. Shape (n,).
        width: Slots that order needs.
        target: X, the first of the order; -1: only P(acyclic) is wanted.
        only_free: Whether a vertex's column holds only what leaves it free; else all in which X reaches it.
        work_limit: Give up beyond this many state updates.

    Returns:
        status (DONE or FAILED), log P(acyclic), P(cyclic), shares of P(acyclic), state updates. A share for
        each vertex: X reaches it (and it is free); then for each sink: X does not reach it.
        Shape (n + n_sinks,).
    """
    n = present.shape[0]
    n_sinks = sink_gap.shape[0]
    shares = np.zeros(n + n_sinks)
    blocks = 1 if width <= 8 else 2
    words = blocks * blocks
    columns = 1 if target < 0 else 1 + n_sinks + n
    most_states = _MOST_CELLS // columns
    if width > SLOTS:
        return FAILED, 0.0, 0.0, shares, 0
    room = _ROOM
    keys = np.empty((room, words), np.uint64)
    masses = np.empty((room, columns))
    other_keys = np.empty((room, words), np.uint64)
    other_masses = np.empty((room, columns))
    index = np.zeros((4 * room, 2), np.int32)
    trial = np.zeros(words, np.uint64)
    closed_trial = np.empty(words, np.uint64)
    keep = np.empty(words, np.uint64)
    slot = np.full(n, -1, np.int64)
    free = np.ones(8 * blocks, np.bool_)
    waiting = np.zeros(n, np.int64)
    column = np.zeros(n, np.int64)
    for i in range(n):
        for j in range(n):
            waiting[i] += present[i, j] > 0.0 or present[j, i] > 0.0
    generation = 1
    count = 1
    _find(keys, index, generation, 0, trial)
    active = 1 if target < 0 else 1 + n_sinks
    masses[0, :active] = 1.0
    log_scale = 0.0
    cyclic = 0.0
    work = 0
    target_done = False
    entered = np.zeros(n, np.bool_)
    for step in range(n):
        v = order[step]
        for q in range(8 * blocks):
            if free[q]:
                slot[v] = q
                free[q] = False
                break
        entered[v] = True
        if target >= 0:
            column[v] = active
            for t in range(count):
                masses[t, active] = masses[t, 0]
            active += 1
        # Arrows: to the sinks first, then between v and each vertex that entered before it.
        for s in range(n_sinks if target >= 0 else 0):
            gap = sink_gap[s, v]
            if gap >= 1.0:
                continue
            if v == target:
                for t in range(count):
                    masses[t, 1 + s] *= gap
                continue
            work += count
            before = count
            for t in range(before):
                m = masses[t, 1 + s]
                if m == 0.0:
                    continue
                if _reaches(keys[t], blocks, slot[target], slot[v]):
                    masses[t, 1 + s] = m * gap
                    continue
                if not _connect(keys[t], blocks, slot[v], slot[target], trial):
                    continue
                if target_done:
                    _forget(trial, blocks, slot[target], False)
                if count == room:
                    keys, masses, index = _grow(keys, masses, generation, count)
                    room = keys.shape[0]
                place = _find(keys, index, generation, count, trial)
                if place == t:
                    continue
                if place == count:
                    count += 1
                    for k in range(active):
                        masses[place, k] = 0.0
                masses[place, 1 + s] += m * (1.0 - gap)
                masses[t, 1 + s] = m * gap
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
                bound = column[blocked] if only_free and target >= 0 else -1
                work += count * (1 + active // 16) * (1 if blocks == 1 else _WIDE_COST)
                before = count
                closed = 0.0
                # In place: a state that receives mass holds i -> j already, and keeps all of its own.
                for t in range(before):
                    if _reaches(keys[t], blocks, i, j):
                        continue
                    if _reaches(keys[t], blocks, j, i):
                        closed += masses[t, 0] * p
                    else:
                        _connect(keys[t], blocks, i, j, trial)
                        if count == room:
                            keys, masses, index = _grow(keys, masses, generation, count)
                            room = keys.shape[0]
                        place = _find(keys, index, generation, count, trial)
                        if place == count:
                            count += 1
                            for k in range(active):
                                masses[place, k] = masses[t, k] * p
                            if bound >= 0:
                                masses[place, bound] = 0.0
                        else:
                            held = masses[place, bound] if bound >= 0 else 0.0
                            for k in range(active):
                                masses[place, k] += masses[t, k] * p
                            if bound >= 0:
                                masses[place, bound] = held
                    for k in range(active):
                        masses[t, k] *= gap
                cyclic += closed * np.exp(log_scale)
                if work > work_limit or count > most_states:
                    return FAILED, 0.0, 0.0, shares, work
        for u in range(n):
            if not entered[u] or slot[u] < 0 or waiting[u] > 0 or (u == target and target_done):
                continue
            top = 0.0
            for t in range(count):
                top = max(top, masses[t, 0])
            if top == 0.0:  # certain edges that close a cycle
                return DONE, -np.inf, 1.0, shares, work
            work += count * (1 + active // 16) * (1 if blocks == 1 else _WIDE_COST)
            while room < 2 * count:
                room *= 2
            if index.shape[0] < 4 * room:
                index = np.zeros((4 * room, 2), np.int32)
                generation = 0
            if other_keys.shape[0] < room:
                other_keys = np.empty((room, words), np.uint64)
                other_masses = np.empty((room, columns))
            generation += 1
            target_done |= u == target
            keep[:] = _ALL
            if target_done:
                _forget(keep, blocks, slot[target], False)
            if u != target:
                _forget(keep, blocks, slot[u], True)
            scale = 1.0 / top
            own = -1 if target < 0 or u == target else column[u]
            new_count = 0
            for t in range(count):
                mass = masses[t, own] * scale if own >= 0 else 0.0
                for w in range(words):
                    trial[w] = keys[t, w] & keep[w]
                if mass != 0.0 and not _reaches(keys[t], blocks, slot[target], slot[u]):
                    _connect(keys[t], blocks, slot[u], slot[target], closed_trial)
                    same = True
                    for w in range(words):
                        closed_trial[w] &= keep[w]
                        same &= closed_trial[w] == trial[w]
                    if same:  # nothing ahead can make X reach it
                        masses[t, own] = 0.0
                    else:
                        place = _find(other_keys, index, generation, new_count, closed_trial)
                        if place == new_count:
                            new_count += 1
                            for k in range(active):
                                other_masses[place, k] = 0.0
                        other_masses[place, own] -= mass
                place = _find(other_keys, index, generation, new_count, trial)
                if place == new_count:
                    new_count += 1
                    for k in range(active):
                        other_masses[place, k] = masses[t, k] * scale
                else:
                    for k in range(active):
                        other_masses[place, k] += masses[t, k] * scale
            log_scale += np.log(top)
            keys, other_keys = other_keys, keys
            masses, other_masses = other_masses, masses
            count = new_count
            room = keys.shape[0]
            if u != target:
                free[slot[u]] = True
                slot[u] = -1
    total = 0.0
    for t in range(count):
        total += masses[t, 0]
        for v in range(n if target >= 0 else 0):
            shares[v] += masses[t, column[v]]
        for s in range(n_sinks if target >= 0 else 0):
            shares[n + s] += masses[t, 1 + s]
    if total == 0.0:
        return DONE, -np.inf, 1.0, shares, work
    shares /= total
    log_scale += np.log(total)
    return DONE, log_scale, cyclic, shares, work


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
        width, done = sweep_order(linked, -1, order)
        work += done // 16  # a step here is far cheaper than a state update
        status, log_part, cyclic_part, _, done = sweep(
            sub_present, sub_absent, np.empty((0, size)), order, width, -1, False, work_limit - work
        )
        work += done
        if status == FAILED:
            return FAILED, 0.0, 0.0, work
        log_z += log_part
        cyclic += (1.0 - cyclic) * max(cyclic_part, TINY)  # a cycle is possible, even where it underflows
    return DONE, log_z, min(cyclic, 1.0), work
