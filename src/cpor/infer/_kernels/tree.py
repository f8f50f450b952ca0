"""The order in which objects are eliminated, and the tree that it makes."""

from collections import namedtuple
from typing import no_type_check

import numpy as np
from numba import njit

from cpor.infer._kernels.weak_orders import COUNT, MARKED

Tree = namedtuple("Tree", "neighbours n_neighbours parent children n_children")
"""The neighbours of each object that go after it, in ascending order, and the tree of eliminations."""


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
def count_entries(tree, n_targets):
    """Table entries that all scores of some targets take, roughly; -1: more objects at once than can be."""
    total = 0
    for v in range(tree.parent.shape[0]):
        bag, n = tree.n_neighbours[v] + 1, tree.n_children[v]
        if bag >= COUNT.shape[0]:
            return -1
        shared = COUNT[bag] * (n + 2) * (n + 2) + bag * MARKED[bag - 1] * (n + 4)
        total += shared + n_targets * MARKED[bag] * (n + 1)
    return total
