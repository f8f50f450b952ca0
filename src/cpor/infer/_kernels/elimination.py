"""Sums over acyclic graphs by eliminating objects in any order: all scores of some targets.

The target X reaches o exactly if no mark in the line, with X below it and o above, agrees with all relations.
So P(acyclic, not reached) is a sum over the places of all others beside a mark. Where o has to be free, it
needs no place of its own: it lies directly above the mark, and obstructs nothing at or below the mark. From
X's side the mark comes as a column (`tables`), from o's side as a *marked* table. Both are carried along the
tree until they meet.
"""

from collections import namedtuple
from typing import no_type_check

import numpy as np
from numba import njit

from cpor.infer._kernels.tables import (
    Graph,
    edges_into,
    fill_columns,
    fill_edge,
    join,
    list_columns,
    make_tables,
    make_work,
    mask_of,
    scale,
    sum_up,
)
from cpor.infer._kernels.weak_orders import COUNT, MARKED, count_bits, meet, meet_object, sum_out_above

Question = namedtuple("Question", "without top gaps edges")
"""An object that has to be free, or -1; the highest bag that the question is about; the probabilities that
each object is not obstructed by what is asked about, a row a column; and the edges between the bags."""


@no_type_check
@njit(cache=True)
def _sum_side(tree, graph, tables, sides, v, skip, kept_of, question, table, at, work):
    """Sum a bag with a mark, from all edges into it but one.

    Args:
        tree: The tree of eliminations.
        graph: The relations.
        tables: Tables of all edges.
        sides: Marked tables of the edges of the question.
        v: The object of the bag.
        skip: The edge that is left out.
        kept_of: Keep the neighbours of this object; -1: the object of the bag itself; -2: nothing.
        question: What is asked.
        table: Takes the result.
        at: Where it begins.
        work: Scratch.

    Returns:
        Objects of the result, and the logarithm of what the tables had been divided by.
    """
    n = tree.parent.shape[0]
    k, log_total = join(tree, graph, tables, v, question.without, skip, -1, question.edges, work)
    gaps = np.ones((question.gaps.shape[0], k))
    for a in range(k):
        if v == question.without or work.bag[a] == v:
            gaps[:, a] = question.gaps[:, work.bag[a]]
    edges = edges_into(tree, v)
    # Two tables at least: one of no objects, which holds ones, comes last in the pool.
    masks, count = np.zeros(len(edges) + 2, np.int64), 0
    begins = np.full(len(edges) + 2, len(sides.pool) - len(gaps))
    for e in edges:
        if e != skip and question.edges[e]:
            masks[count], begins[count] = mask_of(tree, e % n, work.bag, k), sides.at[e] * len(gaps)
            log_total += sides.log[e]
            count += 1
    kept = mask_of(tree, kept_of, work.bag, k) if kept_of >= 0 else (1 << k >> 1) * (kept_of == -1)
    sources = masks[: max(count, 2)], begins[: max(count, 2)], sides.pool
    sum_out_above(work.orders, k, work.values, gaps, sources, kept, table, at, work.numbers, work.spare)
    return count_bits(kept), log_total


@no_type_check
@njit(cache=True)
def _fill_side(tree, graph, tables, sides, v, e, question, work):
    """The marked table that leaves a bag along an edge; returns how many objects it is about."""
    n, width = tree.parent.shape[0], question.gaps.shape[0]
    at, back = sides.at[e] * width, (e + n) % (2 * n)
    size, log_total = _sum_side(tree, graph, tables, sides, v, back, e % n, question, sides.pool, at, work)
    sides.log[e] = log_total + scale(sides.pool, at, MARKED[size] * width)
    return size


@no_type_check
@njit(cache=True)
def _answer(tree, graph, tables, columns, sides, question, below, log_z, work, shares):
    """Add how likely there is no cycle and each target reaches what a question is about.

    Args:
        tree: The tree of eliminations.
        graph: The relations.
        tables: Tables of all edges.
        columns: Columns of all edges.
        sides: Room for marked tables.
        question: What is asked.
        below: Targets in each subtree. Shape (n,).
        log_z: log P(acyclic).
        work: Scratch.
        shares: As shares of P(acyclic), of each target. Shape (n, columns).
    """
    n, top, width = tree.parent.shape[0], question.top, question.gaps.shape[0]
    for v in range(n - 1, top, -1):
        if question.edges[v]:
            _fill_side(tree, graph, tables, sides, v, v, question, work)
    own = question.without == top and columns.is_target[top]
    if top > 0 and (below[top] < below[0] or own):
        size = _fill_side(tree, graph, tables, sides, top, top, question, work)
        above, back = (sides.pool, sides.at[top] * width, width), n + top
        _meet_columns(above, size, columns, back, sides.log[top] + tables.log[back] - log_z, work, shares)
        # Targets between the sides have no column.
        for a in range(size + own):
            target = top if a == size else tree.neighbours[top, a]
            if columns.is_target[target]:
                sums, chosen = np.zeros(width), -1 if a == size else a
                meet_object(work.orders, size, above, tables.pool, tables.at[back], chosen, sums)
                shares[target] += sums * np.exp(sides.log[top] + tables.log[back] - log_z)
    spot = np.empty(2 * width)
    for v in range(top, n):
        if not (v == top or question.edges[v]):
            continue
        if v > top and below[v]:
            _fill_side(tree, graph, tables, sides, tree.parent[v], n + v, question, work)
        if columns.is_target[v] and (v != question.without or v == 0):
            spot[:] = 0.0
            kept = -2 if v == question.without else -1
            _, log_total = _sum_side(tree, graph, tables, sides, v, -1, kept, question, spot, 0, work)
            shares[v] += (spot[:width] - spot[width:]) * np.exp(log_total - log_z)
        for c in range(tree.n_children[v]):
            e = tree.children[v, c]
            if columns.count[e] and not question.edges[e]:
                size = _fill_side(tree, graph, tables, sides, v, n + e, question, work)
                above = sides.pool, sides.at[n + e] * width, width
                _meet_columns(above, size, columns, e, sides.log[n + e] + tables.log[e] - log_z, work, shares)


@no_type_check
@njit(cache=True)
def _meet_columns(above, size, columns, e, log_scale, work, shares):
    """Add the shares of the targets whose columns come along an edge."""
    count = columns.count[e]
    if count:
        sums = np.zeros((count, above[2]))
        meet(work.orders, size, above, (columns.pool, columns.at[e], count), sums)
        for c in range(count):
            shares[columns.targets[e, c]] += sums[c] * np.exp(log_scale)


@no_type_check
@njit(cache=True)
def _join_obstructed(tree, gaps, edges):
    """Note the edges between objects with a gap; returns the object where all paths meet; -1: none."""
    n = tree.parent.shape[0]
    below = np.zeros(n, np.int64)  # obstructed objects in each subtree
    for v in range(n - 1, -1, -1):
        below[v] += gaps[:, v].min() < 1.0
        if v > 0:
            below[tree.parent[v]] += below[v]
    top = -1
    for v in range(n):
        if below[0] and below[v] == below[0]:
            top = v  # the deepest such object has the highest number
    for v in range(top + 1, n):
        edges[v] = edges[n + v] = top >= 0 and below[v] > 0
    return top


@no_type_check
@njit(cache=True)
def eliminate(tree, present, absent, sink_gap, n_together, is_target, orders):
    """P(acyclic) and the shares of all objects and sinks, for some targets.

    Args:
        tree: As `grow_tree` gives it.
        present: Edge probabilities p, none of them certain. Shape (n, n).
        absent: 1 - p, given apart since it may be tiny. Shape (n, n).
        sink_gap: Probability that no edge runs from an object to each sink. Shape (n_sinks, n).
        n_together: The last so many sinks are summed together.
        is_target: Shape (n,).
        orders: See `weak_orders`.

    Returns:
        log P(acyclic), and shares of P(acyclic) for each target, zero for all else: that it reaches an object
        and nothing obstructs that, without the factor of its own relations; then that it reaches a sink.
        Shape (n, n + n_sinks).
    """
    n, n_sinks = present.shape[0], sink_gap.shape[0]
    none, graph, work = np.zeros(2 * n, np.bool_), Graph(present, absent), make_work(tree, orders)
    shares = np.zeros((n, n + n_sinks))
    tables = make_tables(tree, COUNT, 1)
    log_z = sum_up(tree, graph, tables, none, work)
    if log_z == -np.inf:
        return log_z, shares
    columns = list_columns(tree, is_target)
    for step in range(1, 2 * n):
        e = n - step if step < n else step
        if e != n and columns.count[e]:
            fill_columns(tree, graph, tables, columns, e, none, work)
        elif e > n:
            fill_edge(tree, graph, tables, e, none, work)
    below = is_target.astype(np.int64)
    for v in range(n - 1, 0, -1):
        below[tree.parent[v]] += below[v]
    sides = make_tables(tree, MARKED, max(1, n_together))
    first = 0
    while first < n + n_sinks:
        edges = np.zeros(2 * n, np.bool_)
        top, without, last = first, first, first + 1
        if first < n:
            gaps = absent[:, first : first + 1].T.copy()
            for v in range(first + 1, n):
                for a in range(tree.n_neighbours[v]):
                    if tree.neighbours[v, a] == first:
                        edges[v] = edges[n + v] = True
        else:
            if first == n + n_sinks - n_together:
                last = n + n_sinks
            gaps, without = sink_gap[first - n : last - n], -1
            top = _join_obstructed(tree, gaps, edges)
        if top >= 0:
            question = Question(without, top, gaps, edges)
            own = shares[:, first:last]
            _answer(tree, graph, tables, columns, sides, question, below, log_z, work, own)
        first = last
    return log_z, shares
