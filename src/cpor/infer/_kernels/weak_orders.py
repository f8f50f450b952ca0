"""Sums of products of tables over all weak orders of a few objects, each with the sign of its cell.

A weak order ranks objects, ties allowed; with x_v the place of v, each is a cell of open pieces. Orders are
numbered by adding the objects one by one: order i on s objects, of L levels, has 2 L + 1 successors, in which
the next object lies before the first level, on it, between it and the second, and so on. The successors of i
begin at first[start[s] + i].

To sum an object out is to integrate over its place with the Euler characteristic: a gap counts -1, a level
+1. All is multiplied by -1 for each object summed out. An open convex set of places then counts 1 whatever
its shape, and an empty one 0: a table entry is the probability that the relations summed so far have no cycle
and agree with the places that are left. So every partial result lies in [0, 1]. No digits are lost, as no
term exceeds the sum.
"""

from functools import cache
from typing import no_type_check

import numpy as np
from jaxtyping import Int
from numba import njit

COUNT = np.array([1, 1, 3, 13, 75, 541, 4683, 47293, 545835, 7087261], np.int64)
"""Weak orders of so many objects (OEIS A000670); the last is the most that is ever summed over."""


@cache
def order_numbers() -> tuple[Int[np.ndarray, " orders"], Int[np.ndarray, " sizes"]]:
    """`first` and `start`, up to the orders that can still be extended."""
    first, start = [], [0]
    levels = np.zeros(1, np.int64)
    while True:
        width = 2 * levels + 1
        begins = np.cumsum(width) - width
        first.append(begins.astype(np.int32))
        start.append(start[-1] + len(begins))
        if len(first) == len(COUNT) - 1:
            return np.concatenate(first), np.array(start)
        parent = np.repeat(np.arange(len(levels)), width)
        place = np.arange(len(parent)) - begins[parent]
        levels = levels[parent] + (place % 2 == 0)


@no_type_check
@njit(cache=True)
def count_bits(mask):
    """Objects in a set."""
    count = 0
    while mask:
        mask &= mask - 1
        count += 1
    return count


@no_type_check
@njit(cache=True)
def _weigh_places(d, levels, n, weight, scale, values):
    """A number times the weights of object d and all before it, for each place of d among n levels."""
    for q in range(2 * n + 1):
        values[q] = scale
    for a in range(d):
        before, level, after = weight[a, 0], weight[a, 1], weight[a, 2]
        if before == 1.0 and level == 1.0 and after == 1.0:
            continue
        at = 0
        while not (levels[d, at] >> a) & 1:
            at += 1
        for q in range(2 * at + 1):
            values[q] *= before
        values[2 * at + 1] *= level
        for q in range(2 * at + 2, 2 * n + 1):
            values[q] *= after


@no_type_check
@njit(cache=True)
def _insert(d, place, levels, n):
    """Fill the levels with object d at a place among n; returns how many they are."""
    g = place >> 1
    for h in range(g):
        levels[d + 1, h] = levels[d, h]
    if place & 1:
        for h in range(g, n):
            levels[d + 1, h] = levels[d, h]
        levels[d + 1, g] |= 1 << d
        return n
    levels[d + 1, g] = 1 << d
    for h in range(g, n):
        levels[d + 1, h + 1] = levels[d, h]
    return n + 1


@no_type_check
@njit(cache=True)
def _add_cells(pool, at, mask, holds_last, levels, d, n, values):
    """Add the values of all places of the last object to the result, each with its sign."""
    sign = 1.0
    for g in range(n):
        if not levels[d, g] & mask:
            sign = -sign
    if holds_last:
        for g in range(n):
            pool[at] += sign * values[2 * g]
            hit = np.int64((levels[d, g] & mask) != 0)
            pool[at + hit] += sign * (2.0 * hit - 1.0) * values[2 * g + 1]
            at += 2 * hit
        pool[at] += sign * values[2 * n]
    else:  # a gap is one more level that is summed out
        total = -values[2 * n]
        for g in range(n):
            total += values[2 * g + 1] - values[2 * g]
        pool[at] += sign * total


@no_type_check
@njit(cache=True)
def add_up(k, n_in, masks, at, pool, weight, out_mask, out_at, first, start):
    """Sum a product over all weak orders of k objects, those of the result kept.

    Args:
        k: Objects.
        n_in: Tables to multiply.
        masks: The objects of each table, as bits. Shape (n_in,).
        at: Where each table begins in the pool. Shape (n_in,).
        pool: All tables, one after another.
        weight: Weights where the last object comes before, with or after each other one. Shape (k - 1, 3).
        out_mask: The objects of the result.
        out_at: Where the result begins in the pool; it is overwritten.
        first: See `order_numbers`.
        start: See `order_numbers`.
    """
    last = k - 1
    pool[out_at : out_at + COUNT[count_bits(out_mask)]] = 0.0
    levels = np.zeros((k + 1, k + 1), np.int64)
    n_levels = np.zeros(k + 1, np.int64)
    value = np.zeros(k + 1)
    place = np.zeros(k + 1, np.int64)
    number = np.zeros((k + 1, n_in + 1), np.int64)  # of the order within each table; the last: the result's
    held = np.zeros((k + 1, n_in + 1), np.int64)
    mask = np.empty(n_in + 1, np.int64)
    mask[:n_in] = masks[:n_in]
    mask[n_in] = out_mask
    top = np.full(n_in, -1, np.int64)
    for t in range(n_in + 1):
        for d in range(k):
            held[d + 1, t] = held[d, t] + ((mask[t] >> d) & 1)
            if t < n_in and (mask[t] >> d) & 1:
                top[t] = d
    values = np.empty(2 * k + 1)
    # One sign for each object summed out, joined with the signs of their levels.
    value[0] = 1.0 - 2.0 * ((k - count_bits(out_mask)) & 1)
    d = 0
    while d >= 0:
        if d == last:
            n = n_levels[d]
            _weigh_places(d, levels, n, weight, value[d], values)
            for t in range(n_in):
                if top[t] != d:
                    continue
                cell = at[t] + first[start[held[d, t]] + number[d, t]]
                for g in range(n):
                    values[2 * g] *= pool[cell]
                    hit = np.int64((levels[d, g] & mask[t]) != 0)
                    values[2 * g + 1] *= pool[cell + hit]
                    cell += 2 * hit
                values[2 * n] *= pool[cell]
            holds_last = (out_mask >> d) & 1
            cell = number[d, n_in]
            if holds_last:
                cell = np.int64(first[start[held[d, n_in]] + cell])
            _add_cells(pool, out_at + cell, out_mask, holds_last, levels, d, n, values)
            d -= 1
            continue
        if place[d] > 2 * n_levels[d]:
            d -= 1
            continue
        q = place[d]
        place[d] += 1
        x = value[d]
        for t in range(n_in + 1):
            number[d + 1, t] = number[d, t]
            if (mask[t] >> d) & 1:
                mine = 0
                for h in range(q >> 1):
                    mine += 2 * ((levels[d, h] & mask[t]) != 0)
                if q & 1:
                    mine += (levels[d, q >> 1] & mask[t]) != 0
                number[d + 1, t] = first[start[held[d, t]] + number[d, t]] + mine
                if t < n_in and top[t] == d:
                    x *= pool[at[t] + number[d + 1, t]]
        if x != 0.0:
            n_levels[d + 1] = _insert(d, q, levels, n_levels[d])
            value[d + 1] = x
            place[d + 1] = 0
            d += 1
