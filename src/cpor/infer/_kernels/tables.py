"""Tables on the edges of a tree of eliminations: P(acyclic), and what each target adds to it.

Relations ask a blocker to come before what it blocks, and a graph has a cycle exactly if no places in a line
do that. Objects are eliminated one by one, the highest number first; what is left of one is a table over the
weak orders of its neighbours (`weak_orders`). Cost follows from the treewidth of the candidate graph, not
from its size.

Edge v of the tree leads from object v to its parent, edge n + v back; each carries a table that sums up all
that is behind it, over the neighbours of v. A *column* is such a table with a mark, and one target behind it
that lies below the mark.
"""

from collections import namedtuple
from typing import no_type_check

import numpy as np
from numba import njit

from cpor.infer._kernels.weak_orders import (
    COUNT,
    MARKED,
    begin_column,
    carry_columns,
    multiply,
    sum_out,
    weigh_last,
)

Graph = namedtuple("Graph", "present absent")
"""Edge probabilities p, and 1 - p, given apart since it may be tiny. Shapes (n, n)."""

Tables = namedtuple("Tables", "pool at log")
"""Tables of the edges of the tree, where each begins, and the logarithm of what each was divided by."""

Columns = namedtuple("Columns", "pool at count targets is_target")
"""Where the columns of each edge begin, how many they are, and which target each belongs to."""

Work = namedtuple("Work", "orders values numbers spare others bag")
"""All weak orders, and scratch for those of one bag."""


@no_type_check
@njit(cache=True)
def make_work(tree, orders):
    size = tree.n_neighbours.max() + 1
    return Work(
        orders,
        np.empty(COUNT[size]),
        np.empty(COUNT[size], np.int32),
        np.empty(COUNT[size], np.int32),
        np.empty(COUNT[size], np.int32),
        np.empty(size, np.int64),
    )


@no_type_check
@njit(cache=True)
def make_tables(tree, counts, width):
    """Room for tables of so many columns on each edge; `counts` are entries by the number of objects."""
    n = tree.parent.shape[0]
    at = np.empty(2 * n, np.int64)
    size = 0
    for e in range(2 * n):
        at[e] = size
        size += counts[tree.n_neighbours[e % n]]
    return Tables(np.ones((size + 1) * width), at, np.zeros(2 * n))


@no_type_check
@njit(cache=True)
def scale(table, at, count):
    """Divide a table by its largest entry; returns the logarithm of that, -inf where all are zero."""
    largest = 0.0
    for q in range(at, at + count):
        largest = max(largest, table[q])
    if largest <= 0.0:
        return -np.inf
    table[at : at + count] /= largest
    return np.log(largest)


@no_type_check
@njit(cache=True)
def edges_into(tree, v):
    """The edges from the children of an object, and from its parent."""
    n, count = tree.parent.shape[0], tree.n_children[v]
    edges = np.empty(count + 1, np.int64)
    edges[:count] = tree.children[v, :count]
    edges[count] = n + v
    return edges if v > 0 else edges[:count]


@no_type_check
@njit(cache=True)
def _fill_bag(tree, v, without, bag):
    """Write an object's neighbours and the object, less one that is left out; returns how many they are."""
    k = 0
    for a in range(tree.n_neighbours[v]):
        if tree.neighbours[v, a] != without:
            bag[k] = tree.neighbours[v, a]
            k += 1
    if v != without:
        bag[k] = v
        k += 1
    return k


@no_type_check
@njit(cache=True)
def mask_of(tree, v, bag, k):
    """The neighbours of an object that lie in a bag, as its bits."""
    mask = 0
    for a in range(k):
        for b in range(tree.n_neighbours[v]):
            if tree.neighbours[v, b] == bag[a]:
                mask |= 1 << a
    return mask


@no_type_check
@njit(cache=True)
def join(tree, graph, tables, v, without, skip, other, marked, work):
    """The product of the relations of a bag and the tables that come into it, over the orders of the bag.

    Args:
        tree: The tree of eliminations.
        graph: The relations.
        tables: Tables of the edges.
        v: The object.
        without: An object that is left out of the bag; -1: none.
        skip: An edge whose table is left out.
        other: One more.
        marked: Edges whose tables are left out, too. Shape (2 n,).
        work: Takes bag and values.

    Returns:
        Objects in the bag, and the logarithm of what the tables had been divided by.
    """
    n = tree.parent.shape[0]
    k = _fill_bag(tree, v, without, work.bag)
    work.values[: COUNT[k]] = 1.0
    if v != without and k > 1:
        weight = np.ones((k - 1, 3))
        for a in range(k - 1):
            u = work.bag[a]
            if graph.present[v, u] > 0.0:  # u obstructs v: u before v, unless it does not
                weight[a, :2] *= graph.absent[v, u]
            if graph.present[u, v] > 0.0:
                weight[a, 1:] *= graph.absent[u, v]
        weigh_last(work.orders, k, weight, work.values)
    log_total = 0.0
    for e in edges_into(tree, v):
        if e != skip and e != other and not marked[e]:
            mask = mask_of(tree, e % n, work.bag, k)
            multiply(work.orders, k, mask, work.values, tables.pool, tables.at[e], work.numbers, work.spare)
            log_total += tables.log[e]
    return k, log_total


@no_type_check
@njit(cache=True)
def fill_edge(tree, graph, tables, e, none, work):
    """The table of an edge, from those that come into its beginning."""
    n = tree.parent.shape[0]
    v, back = (e, n + e) if e < n else (tree.parent[e - n], e - n)
    k, log_total = join(tree, graph, tables, v, -1, back, -1, none, work)
    kept, at = mask_of(tree, e % n, work.bag, k), tables.at[e]
    sum_out(work.orders, k, work.values, kept, tables.pool, at, work.numbers, work.spare)
    tables.log[e] = log_total + scale(tables.pool, at, COUNT[tree.n_neighbours[e % n]])


@no_type_check
@njit(cache=True)
def sum_up(tree, graph, tables, none, work):
    """Fill the tables that lead to the root; returns log P(acyclic)."""
    log_z = 0.0
    for v in range(tree.parent.shape[0] - 1, 0, -1):
        fill_edge(tree, graph, tables, v, none, work)
        if tree.parent[v] == 0:
            log_z += tables.log[v]
    return log_z


@no_type_check
@njit(cache=True)
def log_z_of_tree(tree, present, absent, orders):
    """log P(acyclic); arguments as for `eliminate`."""
    none = np.zeros(2 * len(present), np.bool_)
    tables = make_tables(tree, COUNT, 1)
    return sum_up(tree, Graph(present, absent), tables, none, make_work(tree, orders))


@no_type_check
@njit(cache=True)
def list_columns(tree, is_target):
    """The columns of each edge: targets behind it that are none of its own objects."""
    n = tree.parent.shape[0]
    targets, count, at = (
        np.empty((2 * n, is_target.sum()), np.int64),
        np.zeros(2 * n, np.int64),
        np.zeros(2 * n, np.int64),
    )
    bag = np.empty(n, np.int64)
    size = 0
    for step in range(1, 2 * n):
        e = n - step if step < n else step
        if e == n:
            continue
        v, back = (e, n + e) if e < n else (tree.parent[e - n], e - n)
        for i in edges_into(tree, v):
            if i != back:
                targets[e, count[e] : count[e] + count[i]] = targets[i, : count[i]]
                count[e] += count[i]
        k = _fill_bag(tree, v, -1, bag)
        kept = mask_of(tree, e % n, bag, k)
        for a in range(k):
            if is_target[bag[a]] and not (kept >> a) & 1:
                targets[e, count[e]] = bag[a]
                count[e] += 1
        at[e] = size
        size += count[e] * MARKED[tree.n_neighbours[e % n]]
    return Columns(np.zeros(size), at, count, targets, is_target)


@no_type_check
@njit(cache=True)
def fill_columns(tree, graph, tables, columns, e, none, work):
    """The columns of an edge, from those that come into its beginning and from targets summed out there."""
    n = tree.parent.shape[0]
    v, back = (e, n + e) if e < n else (tree.parent[e - n], e - n)
    width, at, filled = columns.count[e], columns.at[e], 0
    for i in edges_into(tree, v):
        if i == back or columns.count[i] == 0:
            continue
        k, _ = join(tree, graph, tables, v, -1, back, i, none, work)
        mask, kept = mask_of(tree, i % n, work.bag, k), mask_of(tree, e % n, work.bag, k)
        source = columns.pool, columns.at[i], columns.count[i]
        table = columns.pool, at, width, filled
        carry_columns(
            work.orders, k, work.values, mask, source, kept, table, work.numbers, work.spare, work.others
        )
        filled += columns.count[i]
    if filled < width:
        k, _ = join(tree, graph, tables, v, -1, back, -1, none, work)
        kept = mask_of(tree, e % n, work.bag, k)
        for a in range(k):
            if filled < width and work.bag[a] == columns.targets[e, filled]:
                begin_column(
                    work.orders,
                    k,
                    work.values,
                    a,
                    kept,
                    columns.pool,
                    at,
                    width,
                    filled,
                    work.numbers,
                    work.spare,
                )
                filled += 1
    log_total, size = 0.0, tree.n_neighbours[e % n]
    for i in edges_into(tree, v):
        if i != back:
            log_total += tables.log[i]
    if e > n:  # with all below the mark, any column is the table itself
        for i in range(COUNT[size]):
            order = work.orders.start[size] + i
            last = work.orders.marks[order] + work.orders.n_levels[order]
            tables.pool[tables.at[e] + i] = columns.pool[at + last * width]
        tables.log[e] = log_total + scale(tables.pool, tables.at[e], COUNT[size])
    columns.pool[at : at + width * MARKED[size]] *= np.exp(log_total - tables.log[e])
