"""Sums over acyclic graphs by eliminating objects in any order: P(acyclic), and every score of a target.

Relations ask a blocker to come before what it blocks, and a graph has a cycle exactly if no places in a line
do that. Objects are eliminated one by one; what is left of one is a table over the weak orders of its
neighbours (`weak_orders`). Cost follows from the treewidth of the candidate graph, not from its size.

Objects are numbered so that the target X is 0 and the highest number goes first. `up[v]` sums out v and
all before it. `down[v]` sums out everything else but v's neighbours and the target. Together they answer
questions about any object o: X reaches o exactly where x_o < x_X in all places that agree, so that
P(X reaches o) is the table entry "before" less the entry "with".
"""

from collections import namedtuple
from typing import no_type_check

import numpy as np
from numba import njit

from cpor.infer._kernels.weak_orders import COUNT, add_up

Tree = namedtuple("Tree", "neighbours n_neighbours parent children n_children")
"""The neighbours of each object that go after it, in ascending order, and the tree of eliminations."""

Tables = namedtuple("Tables", "pool up down side log_up log_down log_side scratch")
"""All tables in one pool, where each begins, and the logarithm of what each was divided by."""

Question = namedtuple("Question", "free gap changed with_target")
"""An object whose blockers are left out (-1: none), gaps of a sink, and the tables that differ for it."""


@no_type_check
@njit(cache=True)
def _cheapest_fill(linked, alive, ties_from):
    """The object whose neighbours lack fewest links, then with fewest neighbours; and its neighbours."""
    n = linked.shape[0]
    near = np.empty(n, np.int64)
    best, best_fill, best_degree = -1, 0, 0
    for step in range(n):
        v = (step + ties_from) % n
        if not alive[v]:
            continue
        degree = 0
        for u in range(n):
            if alive[u] and linked[v, u]:
                near[degree] = u
                degree += 1
        fill = 0
        for i in range(degree):
            for j in range(i):
                fill += not linked[near[i], near[j]]
            if best >= 0 and fill > best_fill:
                break
        if best < 0 or fill < best_fill or (fill == best_fill and degree < best_degree):
            best, best_fill, best_degree = v, fill, degree
    return best, best_degree


@no_type_check
@njit(cache=True)
def fill_links(linked, starts):
    """A chordal graph with few links more, by least fill, the cheapest of several starts. Shape (n, n)."""
    n = linked.shape[0]
    best = linked.copy()
    best_cost = np.inf
    for start in range(starts):
        chordal = linked.copy()
        alive = np.ones(n, np.bool_)
        cost = 0.0
        for _ in range(n):
            v, degree = _cheapest_fill(chordal, alive, (start * n) // starts)
            alive[v] = False
            for a in range(n):
                if alive[a] and chordal[v, a]:
                    for b in range(n):
                        if alive[b] and chordal[v, b] and a != b:
                            chordal[a, b] = True
            cost += COUNT[min(degree + 1, COUNT.shape[0] - 1)]
            if cost >= best_cost:
                break
        if cost < best_cost:
            best_cost, best = cost, chordal
    return best


@no_type_check
@njit(cache=True)
def elimination_order(chordal, root):
    """Maximum cardinality search: from the root on, the reverse of an order that adds no link. Shape (n,)."""
    n = chordal.shape[0]
    order = np.empty(n, np.int64)
    weight = np.zeros(n, np.int64)
    v = root
    for k in range(n):
        order[k] = v
        weight[v] = -n
        for u in range(n):
            weight[u] += chordal[v, u]
        v = weight.argmax()
    return order


@no_type_check
@njit(cache=True)
def grow_tree(chordal):
    """The tree of eliminations of a chordal graph in the order of its numbers, the highest first."""
    n = chordal.shape[0]
    neighbours = np.zeros((n, n), np.int64)
    n_neighbours = np.zeros(n, np.int64)
    parent = np.full(n, -1, np.int64)
    children = np.zeros((n, n), np.int64)
    n_children = np.zeros(n, np.int64)
    for v in range(n):
        for u in range(v):
            if chordal[v, u]:
                neighbours[v, n_neighbours[v]] = u
                n_neighbours[v] += 1
                parent[v] = u
        if v > 0:
            children[parent[v], n_children[parent[v]]] = v
            n_children[parent[v]] += 1
    return Tree(neighbours, n_neighbours, parent, children, n_children)


@no_type_check
@njit(cache=True)
def _width(tree, v):
    """Neighbours of an object that go after it, and the target."""
    return tree.n_neighbours[v] + (v > 0 and tree.neighbours[v, 0] != 0)


@no_type_check
@njit(cache=True)
def count_lookups(tree):
    """Table entries that all scores of the target take, roughly; -1: more objects at once than can be."""
    total = 0
    for v in range(tree.parent.shape[0]):
        bag = _width(tree, v) + 1
        if bag >= COUNT.shape[0]:
            return -1
        total += COUNT[bag] * (8 + 2 * tree.n_children[v])
    return total


@no_type_check
@njit(cache=True)
def make_tables(tree):
    """Room for all tables."""
    n = tree.parent.shape[0]
    up, down, side = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int64)
    size = 3  # the answer to a question comes first
    for v in range(n):
        up[v] = size
        down[v] = up[v] + COUNT[tree.n_neighbours[v]]
        side[v] = down[v] + COUNT[_width(tree, v)]
        size = side[v] + COUNT[_width(tree, v)]
    most = tree.n_children.max() + 1
    scratch = np.empty((2, most), np.int64), np.empty((tree.n_neighbours.max() + 2, 3))
    return Tables(np.zeros(size), up, down, side, np.zeros(n), np.zeros(n), np.zeros(n), scratch)


@no_type_check
@njit(cache=True)
def _weigh_pairs(present, absent, question, v, others, weight):
    """Weights where v comes before, with or after each other object."""
    for a in range(others.shape[0]):
        u = others[a]
        weight[a] = 1.0
        if present[v, u] > 0.0 and question.free != v:  # u obstructs v: u before v, unless it does not
            weight[a, :2] *= absent[v, u]
        if present[u, v] > 0.0 and question.free != u:
            weight[a, 1:] *= absent[u, v]
        if u == 0:  # v is obstructed by a sink that the target is said to come before
            weight[a, :2] *= question.gap[v]


@no_type_check
@njit(cache=True)
def _as_mask(objects, bag):
    """Bits of some objects within a bag."""
    mask = 0
    for u in objects:
        for a in range(bag.shape[0]):
            if bag[a] == u:
                mask |= 1 << a
    return mask


@no_type_check
@njit(cache=True)
def _join(tree, tables, present, absent, question, v, besides, with_target, out, out_at, numbers):
    """Sum out of v's bag what the result does not keep.

    Args:
        tree: The tree of eliminations.
        tables: All tables.
        present: Edge probabilities. Shape (n, n).
        absent: 1 - p. Shape (n, n).
        question: What differs from the scene as it is.
        v: The object.
        besides: A child whose table is left out while that of everything else is multiplied; -1: all
            children, and nothing else; -2: all children and everything else.
        with_target: Whether the target is one of the bag, linked or not.
        out: Objects of the result.
        out_at: Where it goes.
        numbers: See `order_numbers`.

    Returns:
        The logarithm of what the tables that were multiplied had been divided by.
    """
    count = tree.n_neighbours[v]
    linked = tree.neighbours[v, :count]
    bag = np.empty(count + 2, np.int64)
    k = 0
    if with_target and v > 0 and linked[0] != 0:
        bag[0] = 0
        k = 1
    bag[k : k + count] = linked
    k += count + 1
    bag = bag[:k]
    bag[k - 1] = v
    (masks, at), weight = tables.scratch
    _weigh_pairs(present, absent, question, v, bag[: k - 1], weight)
    used = 0
    log_total = 0.0
    for c in range(tree.n_children[v]):
        w = tree.children[v, c]
        if w == besides:
            continue
        masks[used] = _as_mask(tree.neighbours[w, : tree.n_neighbours[w]], bag)
        if question.changed[w]:
            masks[used] |= question.with_target
            at[used] = tables.side[w]
            log_total += tables.log_side[w]
        else:
            at[used] = tables.up[w]
            log_total += tables.log_up[w]
        used += 1
    if besides != -1 and v > 0:
        masks[used] = ((1 << (k - 1)) - 1) | 1
        at[used] = tables.down[v]
        log_total += tables.log_down[v]
        used += 1
    add_up(k, used, masks, at, tables.pool, weight, _as_mask(out, bag), out_at, *numbers)
    return log_total


@no_type_check
@njit(cache=True)
def _scale(pool, at, count):
    """Divide a table by its largest entry; returns the logarithm of that, -inf where all are zero."""
    largest = 0.0
    for q in range(at, at + count):
        largest = max(largest, pool[q])
    if largest <= 0.0:
        return -np.inf
    pool[at : at + count] /= largest
    return np.log(largest)


@no_type_check
@njit(cache=True)
def _fill_side(tree, tables, present, absent, question, numbers, top):
    """The tables that differ for a question, up to an object."""
    kept = np.empty(tree.n_neighbours.max() + 1, np.int64)
    kept[0] = 0
    for v in range(tree.parent.shape[0] - 1, top, -1):
        if not question.changed[v]:
            continue
        count = tree.n_neighbours[v]
        kept[1 : count + 1] = tree.neighbours[v, :count]
        with_target = question.with_target == 1
        out = kept[: count + 1] if with_target else kept[1 : count + 1]
        log_total = _join(
            tree, tables, present, absent, question, v, -1, with_target, out, tables.side[v], numbers
        )
        size = COUNT[_width(tree, v) if with_target else count]
        tables.log_side[v] = log_total + _scale(tables.pool, tables.side[v], size)


@no_type_check
@njit(cache=True)
def _object_value(tree, tables, present, absent, numbers, o, only_free):
    """P(acyclic, nothing obstructs o if asked, the target reaches o), and the logarithm of its scale."""
    n = present.shape[0]
    changed = np.zeros(n, np.bool_)
    if only_free:
        for u in range(o + 1, n):
            w = u
            while present[o, u] > 0.0 and w != o and not changed[w]:
                changed[w] = True
                w = tree.parent[w]
    question = Question(o if only_free else -1, np.ones(n), changed, 0)
    _fill_side(tree, tables, present, absent, question, numbers, o)
    out = np.array([0, o]) if o > 0 else np.empty(0, np.int64)
    log_scale = _join(tree, tables, present, absent, question, o, -2, True, out, 0, numbers)
    value = tables.pool[0] - tables.pool[1] if o > 0 else tables.pool[0]
    return value, log_scale


@no_type_check
@njit(cache=True)
def _missed_share(tree, tables, present, absent, numbers, gap):
    """P(acyclic, the target does not reach a sink), and the logarithm of its scale."""
    n = present.shape[0]
    below = np.zeros(n, np.int64)  # obstructed objects in each subtree
    for v in range(n - 1, -1, -1):
        below[v] += gap[v] < 1.0 and v > 0
        if v > 0:
            below[tree.parent[v]] += below[v]
    top = 0
    for v in range(n):
        if below[0] and below[v] == below[0]:
            top = v  # the deepest such object has the highest number
    changed = below > 0
    changed[: top + 1] = False
    question = Question(-1, gap, changed, 1)
    _fill_side(tree, tables, present, absent, question, numbers, top)
    out = np.empty(0, np.int64)
    log_scale = _join(tree, tables, present, absent, question, top, -2, True, out, 0, numbers)
    return gap[0] * tables.pool[0], log_scale


@no_type_check
@njit(cache=True)
def _sum_up(tree, tables, present, absent, plain, numbers):
    """Fill the tables `up`; returns log P(acyclic)."""
    for v in range(tree.parent.shape[0] - 1, 0, -1):
        out = tree.neighbours[v, : tree.n_neighbours[v]]
        log_total = _join(tree, tables, present, absent, plain, v, -1, False, out, tables.up[v], numbers)
        tables.log_up[v] = log_total + _scale(tables.pool, tables.up[v], COUNT[len(out)])
    log_z = 0.0
    for c in range(tree.n_children[0]):
        log_z += tables.log_up[tree.children[0, c]]
    return log_z


@no_type_check
@njit(cache=True)
def log_z_of_tree(tree, present, absent, first, start):
    """log P(acyclic); arguments as for `eliminate`."""
    n = present.shape[0]
    plain = Question(-1, np.ones(n), np.zeros(n, np.bool_), 0)
    return _sum_up(tree, make_tables(tree), present, absent, plain, (first, start))


@no_type_check
@njit(cache=True)
def eliminate(tree, present, absent, sink_gap, only_free, first, start):
    """P(acyclic) and the sums of all objects, the target and sinks among them.

    Args:
        tree: As `grow_tree` gives it.
        present: Edge probabilities p, the target first. Shape (n, n).
        absent: 1 - p, given apart since it may be tiny. Shape (n, n).
        sink_gap: Probability that no edge runs from an object to each sink. Shape (n_sinks, n).
        only_free: Whether an object's share is that the target reaches it and nothing obstructs it; else that
            the target reaches it.
        first: See `order_numbers`.
        start: See `order_numbers`.

    Returns:
        log P(acyclic), and shares of P(acyclic): of the objects, without the factor of their own relations
        where `only_free`, then of the sinks, that the target does not reach each. Shape (n + n_sinks,).
    """
    n, n_sinks = present.shape[0], sink_gap.shape[0]
    numbers = first, start
    shares = np.ones(n + n_sinks)
    tables = make_tables(tree)
    plain = Question(-1, np.ones(n), np.zeros(n, np.bool_), 0)
    log_z = _sum_up(tree, tables, present, absent, plain, numbers)
    if log_z == -np.inf:
        return log_z, shares
    kept = np.empty(tree.n_neighbours.max() + 1, np.int64)
    kept[0] = 0
    for v in range(1, n):
        count = tree.n_neighbours[v]
        kept[1 : count + 1] = tree.neighbours[v, :count]
        out, parent = kept[: count + 1], tree.parent[v]
        log_total = _join(tree, tables, present, absent, plain, parent, v, True, out, tables.down[v], numbers)
        tables.log_down[v] = log_total + _scale(tables.pool, tables.down[v], COUNT[_width(tree, v)])
    for o in range(n):
        if o > 0 or only_free:
            value, log_scale = _object_value(tree, tables, present, absent, numbers, o, only_free)
            shares[o] = value * np.exp(log_scale - log_z)
    for s in range(n_sinks):
        value, log_scale = _missed_share(tree, tables, present, absent, numbers, sink_gap[s])
        shares[n + s] = value * np.exp(log_scale - log_z)
    return log_z, shares
