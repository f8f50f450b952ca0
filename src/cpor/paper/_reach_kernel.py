"""Numba kernel of the product model: what is reached from the target when cycles are not excluded.

Relations are independent, and no path to an object uses the object's own blockers. So each score is a
product: P(nothing blocks it) times P(the target reaches it). The second is summed by walking from the target:
take an object that is reached and whose blockers are not drawn yet, draw them, go on. Where the walk may lead
depends on the objects to draw next and on those not reached that they may still lead to: equal ones are one
state. States of next to no probability are left out, and what is lost by that is counted.
"""

from typing import no_type_check

import numpy as np
from numba import njit

NEGLIGIBLE = 1e-12
"""Probability below which a state is left out."""


@no_type_check
@njit(cache=True)
def fill_reached(absent, most_states, reached):
    """Probability that the target, the first member, reaches each member, and how much was left out.

    What was left out is 1 where there were too many states; no probability is too small by more.

    Args:
        absent: 1 - p of each relation, 1 where no candidate. Shape (c, c), c <= 31.
        most_states: States of one step beyond which it gives up.
        reached: Filled. Shape (c,).
    """
    size = absent.shape[0]
    blockers = np.zeros(size, np.int64)
    for i in range(size):
        for j in range(size):
            if j != i and absent[i, j] < 1.0:
                blockers[i] |= 1 << j
    reached[:] = 0.0
    lost = 0.0
    states, mass = np.ones(1, np.int64), np.ones(1)  # to draw, and what may follow in the upper half
    states[0] |= leads_to(blockers, 1, (1 << size) - 2) << 32
    while states.size:
        for k in range(states.size):
            reached[first(states[k])] += mass[k]
        room = 64
        while room < 8 * states.size:
            room *= 2
        while True:
            fits, found, weight, less = step(absent, blockers, states, mass, room, most_states)
            if fits or room > 2 * most_states:
                break
            room *= 4
        if not fits:
            return 1.0
        lost += less
        states, mass = found, weight
    return lost


@no_type_check
@njit(cache=True)
def first(members):
    """Number of the lowest member of a set."""
    i = 0
    while not (members >> i) & 1:
        i += 1
    return i


@no_type_check
@njit(cache=True)
def leads_to(blockers, start, among):
    """Which of a set can be reached from another along candidates inside the set."""
    found, edge = 0, start
    while edge:
        i = first(edge)
        fresh = blockers[i] & among & ~found
        found |= fresh
        edge = (edge & (edge - 1)) | fresh
    return found


@no_type_check
@njit(cache=True)
def step(absent, blockers, states, mass, room, most_states):
    """Draw the blockers of one more object in every state: whether it fits, new states, mass, the lost."""
    slots, sums = np.zeros(room, np.int64), np.zeros(room)
    used, limit, lost = 0, min(room // 2, most_states), 0.0
    for k in range(states.size):
        todo, open_ = states[k] & 0xFFFFFFFF, states[k] >> 32
        i = first(todo)
        todo ^= 1 << i
        fresh = blockers[i] & open_
        chosen = fresh
        while True:
            value, rest = mass[k], fresh
            while rest:
                j = first(rest)
                value *= 1.0 - absent[i, j] if (chosen >> j) & 1 else absent[i, j]
                rest &= rest - 1
            after = todo | chosen
            if value < NEGLIGIBLE:
                lost += value
            elif after:
                state = after | (leads_to(blockers, after, open_ & ~chosen) << 32)
                at = (state * 0x9E3779B97F4A7C1 ^ (state >> 29)) & (room - 1)
                while slots[at] != 0 and slots[at] != state:
                    at = (at + 1) & (room - 1)
                if slots[at] == 0:
                    used += 1
                    if used > limit:
                        return False, slots[:0], sums[:0], lost
                    slots[at] = state
                sums[at] += value
            if chosen == 0:
                break
            chosen = (chosen - 1) & fresh
    kept = np.flatnonzero(slots)
    return True, slots[kept], sums[kept], lost
