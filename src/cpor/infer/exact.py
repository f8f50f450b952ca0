"""Exact inference over all acyclic graphs (eq. graph-posterior, marginals), without listing them.

Two ways to the same numbers, chosen by counted work: the subset recursion in one batch for small scenes,
elimination of one object after another for larger ones, and the recursion for large ones that are dense.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

from cpor.errors import TooLargeError
from cpor.infer._kernels.batch import LOG_FLOOR, solve_batch
from cpor.infer._kernels.elimination import (
    Tree,
    count_lookups,
    eliminate,
    elimination_order,
    fill_links,
    grow_tree,
    log_z_of_tree,
)
from cpor.infer._kernels.subset import BELOW_ONE, log_z_floor
from cpor.infer._kernels.weak_orders import order_numbers
from cpor.infer.local import STEPS_PER_STATE, ZETA, Allowance, LocalGraph, cut_local, reachable
from cpor.infer.subset import LARGEST_TABLE, ExactScores, log_acyclic_table, solve_subset

SMALL = 12
"""Objects up to which the subset recursion is cheap (3^12 steps, a millisecond): nothing is weighed."""

WORK_LIMIT = 250_000_000
"""Steps that `auto` allows exact inference: half a second or so. Dense scenes of 17 objects fit in."""

_MU_STEPS = 50_000_000
"""Steps spent on mu outside the target's reach, which no action depends on …"""
_CHEAP_STEPS = 2_000_000
"""… and where many scenes wait or a deadline is near."""


class BatchScores(NamedTuple):
    """What exact inference says about many scenes; `solved` is False where a scene was too large.

    Attributes:
        scores: Every scene's scores, one after another.
        log_z: log A(C). Shape (k,).
        log_z_all: log Z over all candidate relations; NaN where unknown. Shape (k,).
        solved: Shape (k,).
    """

    scores: Float[np.ndarray, " total"]
    log_z: Float[np.ndarray, " k"]
    log_z_all: Float[np.ndarray, " k"]
    solved: Bool[np.ndarray, " k"]


def solve_small(
    matrices: Sequence[Float[np.ndarray, "_ _"]], targets: Sequence[int], zeta: float = ZETA
) -> BatchScores:
    """Exact scores of many scenes in one call, those apart whose reachable part exceeds SMALL."""
    k = len(matrices)
    flat, first, size, first_score = pack(matrices)
    found = BatchScores(np.zeros(int(size.sum())), np.zeros(k), np.zeros(k), np.zeros(k, np.bool_))
    solve_batch(
        flat,
        first,
        size,
        np.asarray(targets, np.int64),
        zeta,
        SMALL,
        found.scores,
        first_score,
        found.log_z,
        found.log_z_all,
        found.solved,
    )
    for s in np.flatnonzero(np.isnan(found.log_z_all)).tolist():
        found.log_z_all[s] = _log_z_all(matrices[s], targets[s], found.log_z[s], zeta, _CHEAP_STEPS)
    return found


def pack(
    matrices: Sequence[Float[np.ndarray, "_ _"]],
) -> tuple[Float[np.ndarray, " total"], Int[np.ndarray, " k"], Int[np.ndarray, " k"], Int[np.ndarray, " k"]]:
    """Matrices one after another, where each starts, how large it is, where its scores start."""
    size = np.array([len(p) for p in matrices], np.int64)
    if len(matrices) == 1:
        return matrices[0].flatten(), np.zeros(1, np.int64), size, np.zeros(1, np.int64)
    first, first_score = np.zeros_like(size), np.zeros_like(size)
    np.cumsum(size[:-1] ** 2, out=first[1:])
    np.cumsum(size[:-1], out=first_score[1:])
    flat = np.concatenate([p.reshape(-1) for p in matrices]) if len(matrices) else np.zeros(0)
    return flat, first, size, first_score


def solve_exact(
    p: Float[np.ndarray, "n n"],
    target: int,
    zeta: float = ZETA,
    allowance: Allowance | None = None,
    want_reach: bool = False,
) -> ExactScores | None:
    """Exact scores of one scene of any size; None where the allowance does not suffice.

    Args:
        p: Probabilities, no NaN. Shape (n, n).
        target: X.
        zeta: Clipping of probabilities.
        allowance: Steps (and time) allowed; unlimited where None.
        want_reach: Whether to also compute P(the target reaches o).
    """
    allowance = allowance or Allowance()
    if not want_reach:
        small = solve_small([p], [target], zeta)
        if small.solved[0]:
            return ExactScores(small.scores, float(small.log_z[0]), float(small.log_z_all[0]))
    graph = cut_local(p, reachable(p, target), zeta)
    solved = None
    if len(graph) > SMALL or log_z_floor(graph.absent) < LOG_FLOOR:
        as_subset = 4 * 3 ** (len(graph) - 1)  # steps of the subset recursion
        attempt = Allowance(min(allowance.steps, as_subset), allowance.until)
        solved = solve_elimination(graph, attempt, want_reach)
        allowance.spend(min(allowance.steps, as_subset) - attempt.steps)
    solved = solved or solve_subset(graph, allowance)
    if solved is None:
        return None
    scores, reach = np.zeros(len(p)), np.zeros(len(p))
    scores[graph.members] = solved.scores
    if solved.reach is not None:
        reach[graph.members] = solved.reach
    steps = _MU_STEPS if allowance.until is None else _CHEAP_STEPS
    log_z_all = _log_z_all(p, target, solved.log_z, zeta, steps)
    return ExactScores(scores, solved.log_z, log_z_all, reach if want_reach else None)


def _log_z_all(p: Float[np.ndarray, "n n"], target: int, log_z: float, zeta: float, steps: int) -> float:
    """log Z over all candidate relations; what lies outside C is independent of C. NaN: too much work."""
    outside = np.ones(len(p), np.bool_)
    outside[reachable(p, target)] = False
    rest = cut_local(p, np.flatnonzero(outside), zeta)
    try:
        return log_z + log_acyclic_mass(rest, Allowance(steps))
    except TooLargeError:
        return np.nan


def log_acyclic_mass(graph: LocalGraph, allowance: Allowance | None = None) -> float:
    """log P(acyclic) of a graph, one strongly connected component at a time.

    Args:
        graph: Certain relations, p = 1, may close a cycle: -inf.
        allowance: WORK_LIMIT steps by default.

    Raises:
        TooLargeError: The allowance does not suffice.
    """
    allowance = allowance or Allowance(WORK_LIMIT)
    log_z = 0.0
    for part in graph.strong_parts():
        log_part = _log_mass_of_part(part, allowance)
        if log_part is None:
            raise TooLargeError(
                f"{len(part)} objects obstruct each other in cycles; that many cannot be summed exactly"
            )
        log_z += log_part
    return log_z


def _log_mass_of_part(part: LocalGraph, allowance: Allowance) -> float | None:
    """log P(acyclic) of one strongly connected component, by whichever way takes fewer steps."""
    as_subset = 3 ** len(part)
    if len(part) > _NO_TREE:
        linked = part.present > 0.0
        tree, order, lookups = _plan(linked | linked.T)
        steps = _STEPS_PER_LOOKUP * lookups // 8  # only one of eight passes
        if 0 <= steps < min(as_subset, STEPS_PER_STATE * allowance.sweep_states()):
            allowance.spend(steps)
            present, absent = (_between(each, order, order) for each in (part.present, part.absent))
            return min(float(log_z_of_tree(tree, present, absent, *order_numbers())), _LEAST_CONFLICT)
    if len(part) > LARGEST_TABLE or as_subset > allowance.steps:
        return None
    table = log_acyclic_table(part, allowance)
    return None if table is None else float(table[-1])


_STARTS = 4
"""Starts of the search for a chordal graph. More find none that is cheaper in bins and on tables."""

_STEPS_PER_LOOKUP = 2
"""An entry of a table of weak orders takes as long as this many terms of the subset recursion."""

_DEAR = 100_000
"""Table entries beyond which a second way to eliminate is looked for."""

_LEAST_CONFLICT = float(np.log(BELOW_ONE))
"""log Z is at most this where a cycle is possible, however unlikely."""

_NO_TREE = 8
"""Objects up to which the subset recursion is done before a tree of eliminations is found."""


def solve_elimination(graph: LocalGraph, allowance: Allowance, want_reach: bool) -> ExactScores | None:
    """All scores of a target by eliminating objects; None where the allowance does not suffice.

    Objects that nothing can obstruct lie on no cycle: they enter as factors of the others' scores, and their
    own is the probability that the target reaches them.
    """
    c = len(graph)
    linked = graph.present > 0.0
    is_inner = linked.any(axis=1) | (np.arange(c) == 0)
    inner, sinks = np.flatnonzero(is_inner), np.flatnonzero(~is_inner)
    tree, order, lookups = _plan(_between(linked | linked.T, inner, inner))
    inner, lookups = inner[order], lookups * (1 + want_reach)
    steps = _STEPS_PER_LOOKUP * (lookups + lookups * len(sinks) // 8)
    if lookups < 0 or steps > STEPS_PER_STATE * allowance.sweep_states():
        return None
    allowance.spend(steps)
    present, absent = (_between(each, inner, inner) for each in (graph.present, graph.absent))
    sink_gap = _between(graph.absent.T, sinks, inner)
    reach, scores = None, np.empty(c)
    log_z, shares = eliminate(tree, present, absent, sink_gap, True, *order_numbers())
    if log_z == -np.inf:
        return None
    scores[inner] = shares[: len(inner)] * absent.prod(axis=1) * sink_gap.prod(axis=0)
    scores[sinks] = 1.0 - shares[len(inner) :]
    if want_reach:
        reach = scores.copy()
        shares = eliminate(tree, present, absent, sink_gap[:0], False, *order_numbers())[1]
        reach[inner] = np.clip(shares, 0.0, 1.0)
    if any(graph.strong_parts()):
        log_z = min(log_z, _LEAST_CONFLICT)
    return ExactScores(np.clip(scores, 0.0, 1.0), float(log_z), float(log_z), reach)


def _plan(links: Bool[np.ndarray, "n n"]) -> tuple[Tree, Int[np.ndarray, " n"], int]:
    """The tree of eliminations with object 0 at its root, the order of the objects in it, and its cost.

    The cost is -1 where too many objects are linked at once.
    """
    found = _grow(fill_links(links, _STARTS))
    if len(links) > 1 and not 0 <= found[2] <= _DEAR:  # the root is in every bag anyway: fill without it
        chordal = np.ones_like(links)
        chordal[1:, 1:] = fill_links(np.ascontiguousarray(links[1:, 1:]), _STARTS)
        other = _grow(chordal)
        if other[2] >= 0 and not 0 <= found[2] <= other[2]:
            return other
    return found


def _grow(chordal: Bool[np.ndarray, "n n"]) -> tuple[Tree, Int[np.ndarray, " n"], int]:
    np.fill_diagonal(chordal, False)
    order = elimination_order(chordal, 0)
    tree = grow_tree(_between(chordal, order, order))
    return tree, order, int(count_lookups(tree))


def _between(
    table: Shaped[np.ndarray, "n m"], rows: Int[np.ndarray, " r"], columns: Int[np.ndarray, " c"]
) -> Shaped[np.ndarray, "r c"]:
    return np.ascontiguousarray(table[np.ix_(rows, columns)])
