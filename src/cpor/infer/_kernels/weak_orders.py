"""Sums of products of tables over all weak orders of a few objects, each with the sign of its cell.

A weak order ranks objects, ties allowed; with x_v the place of v, each is a cell of open pieces. Orders are
numbered by adding the objects one by one: order i on s objects, of L levels, has 2 L + 1 successors, in which
the next object lies before the first level, on it, between it and the second, and so on. The successors of i
begin at first[start[s] + i]. An order is kept as its levels, a byte of bits each, the lowest first.

To sum an object out is to integrate over its place with the Euler characteristic: a gap counts -1, a level
+1. All is multiplied by -1 for each object summed out. An open convex set of places then counts 1 whatever
its shape, and an empty one 0: a table entry is the probability that the relations summed so far have no cycle
and agree with the places that are left. So every partial result lies in [0, 1]. No digits are lost, as no
term exceeds the sum.

Some tables also hold a mark among the levels: entry `g` of an order has the mark between levels g and g + 1.
The entries of order i begin at marks[start[s] + i].
"""

from collections import namedtuple
from functools import cache
from typing import no_type_check

import numpy as np
from numba import njit

COUNT = np.array([1, 1, 3, 13, 75, 541, 4683, 47293, 545835], np.int64)
"""Weak orders of so many objects (OEIS A000670); the last is the most that is ever summed over."""

MARKED = np.array([1, 2, 8, 44, 308, 2612, 25988, 296564, 3816548], np.int64)
"""Weak orders of so many objects, with a mark somewhere among their levels."""

Orders = namedtuple("Orders", "levels n_levels first marks start")
"""All weak orders of 0, 1, 2 ... objects, one size after another, from `start` of the size on."""


@cache
def weak_orders(most: int) -> Orders:
    """The orders of up to so many objects."""
    start = np.concatenate([[0], np.cumsum(COUNT[: most + 1])])
    n_levels, first, marks = np.zeros((3, start[-1]), np.int32)
    orders = Orders(np.zeros(start[-1], np.int64), n_levels, first, marks, start)
    _list_orders(orders, most)
    return orders


@no_type_check
@njit(cache=True)
def _list_orders(orders, most):
    """Fill the orders of each size from those of the size before."""
    levels, n_levels, first, marks, start = orders
    for size in range(most + 1):
        successors, marked = 0, 0
        for i in range(start[size], start[size + 1]):
            first[i], marks[i] = successors, marked
            n = n_levels[i]
            successors += 2 * n + 1
            marked += n + 1
            if size == most:
                continue
            bit = np.int64(1) << size
            at = start[size + 1] + first[i]
            for g in range(n + 1):
                low = levels[i] & ((np.int64(1) << 8 * g) - 1)
                levels[at + 2 * g] = low | bit << 8 * g | (levels[i] ^ low) << 8
                n_levels[at + 2 * g] = n + 1
                if g < n:
                    levels[at + 2 * g + 1] = levels[i] | bit << 8 * g
                    n_levels[at + 2 * g + 1] = n


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
def project(orders, k, mask, numbers, spare):
    """The number of each order of k objects among the orders of those in a set. Shape (COUNT[k],)."""
    # One object after another, so that the last one ends in `numbers`.
    now, following = (numbers, spare) if k % 2 == 0 else (spare, numbers)
    now[0] = 0
    held = 0
    for d in range(k):
        inside = (mask >> d) & 1
        at = 0
        for i in range(COUNT[d]):
            order = orders.levels[orders.start[d] + i]
            cell = now[i]
            if inside:
                cell = orders.first[orders.start[held] + cell]
            following[at] = cell
            at += 1
            while order:
                hit = inside and (order & mask & 255) != 0
                following[at] = cell + hit
                cell += 2 * hit
                following[at + 1] = cell
                at += 2
                order = (order >> 8) & 0xFFFFFFFFFFFFFF
        held += inside
        now, following = following, now


@no_type_check
@njit(cache=True)
def weigh_last(orders, k, weight, values):
    """The weights of the last of k objects before, with or after each other, multiplied. Shape (COUNT[k],).

    Args:
        orders: All weak orders.
        k: Objects.
        weight: Weights where the last object comes before, with or after each other one. Shape (k - 1, 3).
        values: Written.
    """
    below = np.empty(k + 1)
    at = 0
    for i in range(COUNT[k - 1]):
        order = orders.levels[orders.start[k - 1] + i]
        n = orders.n_levels[orders.start[k - 1] + i]
        # From the highest level down: the object before all levels from there on.
        product = 1.0
        below[n] = 1.0
        for h in range(n - 1, -1, -1):
            level = (order >> 8 * h) & 255
            for a in range(k - 1):
                if (level >> a) & 1:
                    product *= weight[a, 0]
            below[h] = product
        product = 1.0
        for h in range(n):
            values[at] = product * below[h]
            level = (order >> 8 * h) & 255
            on, after = product, product
            for a in range(k - 1):
                if (level >> a) & 1:
                    on *= weight[a, 1]
                    after *= weight[a, 2]
            values[at + 1] = on * below[h + 1]
            product = after
            at += 2
        values[at] = product
        at += 1


@no_type_check
@njit(cache=True)
def multiply(orders, k, mask, values, table, at, numbers, spare):
    """Multiply values over the orders of k objects by a table over those of a set."""
    project(orders, k, mask, numbers, spare)
    for i in range(COUNT[k]):
        values[i] *= table[at + numbers[i]]


@no_type_check
@njit(cache=True)
def _sign(orders, k, i, size, j):
    """The sign of an order i of k objects where it is summed into order j of fewer."""
    levels = orders.n_levels[orders.start[k] + i] - orders.n_levels[orders.start[size] + j]
    return 1.0 - 2.0 * ((k - size + levels) & 1)


@no_type_check
@njit(cache=True)
def sum_out(orders, k, values, kept, table, at, numbers, spare):
    """The sum of values over the places of all objects but those kept, written to a table."""
    size = count_bits(kept)
    table[at : at + COUNT[size]] = 0.0
    project(orders, k, kept, numbers, spare)
    for i in range(COUNT[k]):
        table[at + numbers[i]] += values[i] * _sign(orders, k, i, size, numbers[i])


@no_type_check
@njit(cache=True)
def sum_out_above(orders, k, values, gaps, sources, kept, table, at, numbers, spare):
    """The sum of values times tables with a mark that lies with the level below it.

    What lies at the mark is below it. An object between two that are kept may then lie below, at or above a
    mark between these. Below and at cancel, so that the mark directly above the lower one stands for all.

    Args:
        orders: All weak orders.
        k: Objects.
        values: Product of all that has no mark. Shape (COUNT[k],).
        gaps: Weights of each object at or below the mark, for each column. Shape (columns, k).
        sources: Two tables or more to multiply by: the objects of each, where each begins, and the pool.
        kept: Objects of the result.
        table: Takes the result.
        at: Where it begins; it is overwritten.
        numbers: Scratch. Shape (COUNT[k],).
        spare: Scratch. Shape (COUNT[k],).
    """
    masks, begins, pool = sources
    n, width, size = len(masks), len(gaps), count_bits(kept)
    table[at : at + MARKED[size] * width] = 0.0
    maps, first = np.empty((n, COUNT[k]), np.int32), np.empty(n, np.int64)
    for s in range(n):
        project(orders, k, masks[s], maps[s], spare)
        first[s] = orders.start[count_bits(masks[s])]
    project(orders, k, kept, numbers, spare)
    weighed = 0
    for a in range(k):
        weighed |= (gaps[:, a].min() < 1.0) << a
    cell, weight = np.empty(n, np.int64), np.empty(width)
    for i in range(COUNT[k]):
        value = values[i] * _sign(orders, k, i, size, numbers[i])
        if value == 0.0:
            continue
        order = orders.levels[orders.start[k] + i]
        weight[:] = value
        # Of the tables the first two have names of their own, for speed.
        a = begins[0] + orders.marks[first[0] + maps[0, i]] * width
        b = begins[1] + orders.marks[first[1] + maps[1, i]] * width
        for s in range(2, n):
            cell[s] = begins[s] + orders.marks[first[s] + maps[s, i]] * width
        q = at + orders.marks[orders.start[size] + numbers[i]] * width
        counts = True  # below the lowest level
        while True:
            if counts:
                for c in range(width):
                    product = weight[c] * pool[a + c] * pool[b + c]
                    for s in range(2, n):
                        product *= pool[cell[s] + c]
                    table[q + c] += product
                q += width
            if not order:
                break
            level = order & 255
            counts = (level & kept) != 0
            if level & masks[0]:
                a += width
            if level & masks[1]:
                b += width
            for s in range(2, n):
                if level & masks[s]:
                    cell[s] += width
            for d in range(k if level & weighed else 0):
                if (level >> d) & 1:
                    for c in range(width):
                        weight[c] *= gaps[c, d]
            order = (order >> 8) & 0xFFFFFFFFFFFFFF


@no_type_check
@njit(cache=True)
def begin_column(orders, k, values, chosen, kept, table, at, width, column, numbers, spare):
    """The sum of values where an object that is summed out lies below a mark, added to a column.

    The mark lies with the level above it: what lies at the mark is not below it. Of the marks between two
    objects that are kept, the one directly below the upper stands for all, by the same argument.
    """
    size = count_bits(kept)
    project(orders, k, kept, numbers, spare)
    for i in range(COUNT[k]):
        order = orders.levels[orders.start[k] + i]
        cell = at + orders.marks[orders.start[size] + numbers[i]] * width + column
        value = values[i] * _sign(orders, k, i, size, numbers[i])
        below = False
        while order:
            if order & kept & 255:
                if below:
                    table[cell] += value
                cell += width
            below = below or (order >> chosen) & 1
            order = (order >> 8) & 0xFFFFFFFFFFFFFF
        table[cell] += value


@no_type_check
@njit(cache=True)
def carry_columns(orders, k, values, mask, source, kept, table, numbers, spare, others):
    """Multiply values by the columns of one table, and sum them out into columns of another.

    Args:
        orders: All weak orders.
        k: Objects.
        values: Product of all else. Shape (COUNT[k],).
        mask: Objects of the source.
        source: The table, where it begins, and its columns.
        kept: Objects of the result.
        table: The table, where it begins, its columns, and which of them is the first to add to.
        numbers: Scratch. Shape (COUNT[k],).
        spare: Scratch. Shape (COUNT[k],).
        others: Scratch. Shape (COUNT[k],).
    """
    (pool, at_in, n_in), (out, at_out, n_out, first) = source, table
    size_in, size = count_bits(mask), count_bits(kept)
    project(orders, k, mask, others, spare)
    project(orders, k, kept, numbers, spare)
    for i in range(COUNT[k]):
        value = values[i] * _sign(orders, k, i, size, numbers[i])
        if value == 0.0:
            continue
        order = orders.levels[orders.start[k] + i]
        a = at_in + orders.marks[orders.start[size_in] + others[i]] * n_in
        b = at_out + orders.marks[orders.start[size] + numbers[i]] * n_out + first
        while order:
            if order & kept & 255:
                for c in range(n_in):
                    out[b + c] += value * pool[a + c]
                b += n_out
            if order & mask & 255:
                a += n_in
            order = (order >> 8) & 0xFFFFFFFFFFFFFF
        for c in range(n_in):
            out[b + c] += value * pool[a + c]


@no_type_check
@njit(cache=True)
def meet(orders, k, above, columns, sums):
    """Add the share in which a target reaches something: a column meets a marked table.

    The marked table says that the thing obstructs nothing at or below the mark, a column that its target lies
    below it. What the target reaches up to a level, and no higher, is the difference of two marks.

    Args:
        orders: All weak orders.
        k: Objects between the sides.
        above: The marked table, where it begins, and its columns.
        columns: The table of the targets, where it begins, and its columns.
        sums: Added to, for each target and column of `above`.
    """
    (pool, at, width), (targets, at_targets, n) = above, columns
    for i in range(COUNT[k]):
        marks = orders.marks[orders.start[k] + i]
        levels = orders.n_levels[orders.start[k] + i]
        sign = 1.0 - 2.0 * ((k + levels) & 1)
        a, b = at + marks * width, at_targets + marks * n
        for g in range(1, levels + 1):
            b += n
            for d in range(width):
                gain = sign * (pool[a + d] - pool[a + g * width + d])
                if gain != 0.0:
                    for c in range(n):
                        sums[c, d] += gain * (targets[b + c] - targets[b - n + c])


@no_type_check
@njit(cache=True)
def meet_object(orders, k, above, plain, at_plain, chosen, sums):
    """As `meet`, for a target that is one of the objects between the sides; -1: the mark lies below all."""
    pool, at, width = above
    for i in range(COUNT[k]):
        order = orders.levels[orders.start[k] + i]
        a = at + orders.marks[orders.start[k] + i] * width
        value = (1.0 - 2.0 * ((k + orders.n_levels[orders.start[k] + i]) & 1)) * plain[at_plain + i]
        g = 1
        while chosen >= 0 and not (order >> chosen) & 1:
            order = (order >> 8) & 0xFFFFFFFFFFFFFF
            g += 1
        for d in range(width):
            sums[d] += value * (pool[a + d] - (pool[a + g * width + d] if chosen >= 0 else 0.0))
