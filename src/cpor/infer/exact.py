"""Exact inference over all acyclic graphs (eq. graph-posterior, marginals), without listing them.

Three ways to the same numbers, chosen by counted work: the subset recursion in one batch for small
scenes, elimination of one object after another for larger ones, the subset recursion for what is left.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

from cpor.infer._kernels.batch import LOG_FLOOR, MU_UNKNOWN, SOLVED, peel, solve_batch
from cpor.infer._kernels.elimination import (
    Tree,
    count_lookups,
    eliminate,
    elimination_order,
    fill_links,
    grow_tree,
)
from cpor.infer._kernels.frontier import DONE, graph_log_z
from cpor.infer._kernels.subset import TINY, log_z_floor
from cpor.infer._kernels.weak_orders import order_numbers
from cpor.infer.allowance import STEPS_PER_STATE, Allowance
from cpor.infer.local import ZETA, LocalGraph, LocalScores, cut_local, has_cycle, reachable
from cpor.infer.subset import acyclic_tables, solve_subset

SMALL = 12
"""Objects up to which the subset recursion is cheap (3^12 steps, a millisecond): nothing is weighed."""

WORK_LIMIT = 250_000_000
"""Steps that `auto` allows exact inference: half a second or so. Dense scenes of 17 objects fit in."""

_MU_STEPS = 50_000_000
"""Steps spent on mu outside the target's reach, which no action depends on …"""
_CHEAP_STEPS = 2_000_000
"""… and where many scenes wait or a deadline is near."""


@dataclass(frozen=True)
class ExactScores:
    """What exact inference says about one scene.

    Attributes:
        scores: q of eq. marginals; 0 for objects the target cannot reach. Shape (n,).
        log_z: Log probability that the relations the target depends on are acyclic, log A(C).
        mu: 1 - Z over all candidate relations. None where it was too much work.
        mu_target: 1 - A(C).
        reach: P(the target reaches o | acyclic), where it was asked for. Shape (n,).
    """

    scores: Float[np.ndarray, " n"]
    log_z: float
    mu: float | None
    mu_target: float
    reach: Float[np.ndarray, " n"] | None = None


@dataclass(frozen=True)
class BatchScores:
    """What exact inference says about many scenes; `solved` is False where a scene was too large.

    Attributes:
        scores: Every scene's scores, one after another.
        log_z: log A(C). Shape (k,).
        mu: NaN where unknown. Shape (k,).
        mu_target: Shape (k,).
        solved: Shape (k,).
    """

    scores: Float[np.ndarray, " total"]
    log_z: Float[np.ndarray, " k"]
    mu: Float[np.ndarray, " k"]
    mu_target: Float[np.ndarray, " k"]
    solved: Bool[np.ndarray, " k"]


def solve_small(
    matrices: Sequence[Float[np.ndarray, "_ _"]], targets: Sequence[int], zeta: float = ZETA
) -> BatchScores:
    """Exact scores of many scenes in one call, those apart whose reachable part exceeds SMALL."""
    k = len(matrices)
    flat, first, size, first_score = pack(matrices)
    scores = np.zeros(int(size.sum()))
    log_z, mu, mu_target = np.zeros(k), np.zeros(k), np.zeros(k)
    state = np.zeros(k, np.int64)
    solve_batch(
        flat,
        first,
        size,
        np.asarray(targets, np.int64),
        zeta,
        SMALL,
        scores,
        first_score,
        log_z,
        mu,
        mu_target,
        state,
    )
    if not state.any():  # the common case, kept quick: SOLVED is 0
        return BatchScores(scores, log_z, mu, mu_target, np.ones(k, np.bool_))
    for s in np.flatnonzero(state == MU_UNKNOWN).tolist():
        mu[s] = _mu_beyond(matrices[s], targets[s], mu_target[s], zeta, _CHEAP_STEPS)
    return BatchScores(scores, log_z, mu, mu_target, (state == SOLVED) | (state == MU_UNKNOWN))


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
            mu = None if np.isnan(small.mu[0]) else float(small.mu[0])
            return ExactScores(small.scores, float(small.log_z[0]), mu, float(small.mu_target[0]))
    graph = cut_local(p, reachable(p, target), zeta)
    solved = None
    if len(graph) > SMALL or log_z_floor(graph.absent) < LOG_FLOOR:
        as_subset = 4 * 3 ** (len(graph) - 1)  # steps of the subset recursion
        attempt = Allowance(min(allowance.steps, as_subset), allowance.until)
        solved = solve_elimination(graph, attempt, want_reach)
        allowance.spend(min(allowance.steps, as_subset) - attempt.steps)
    if solved is None:
        solved = solve_subset(graph, allowance, want_reach)
    if solved is None:
        return None
    scores = np.zeros(len(p))
    scores[graph.members] = solved.scores
    reach = None
    if solved.reach is not None:
        reach = np.zeros(len(p))
        reach[graph.members] = solved.reach
    mu = _mu_beyond(p, target, solved.mu, zeta, _MU_STEPS if allowance.until is None else _CHEAP_STEPS)
    return ExactScores(scores, solved.log_z, None if np.isnan(mu) else mu, solved.mu, reach)


def _mu_beyond(p: Float[np.ndarray, "n n"], target: int, mu_target: float, zeta: float, steps: int) -> float:
    """mu over all candidate relations: what lies outside C is independent of C. NaN where too much work."""
    outside = np.ones(len(p), np.bool_)
    outside[reachable(p, target)] = False
    if peel(np.array(p), outside) == 0:
        return mu_target
    rest = cut_local(p, np.flatnonzero(outside), zeta)
    status, _, cyclic, _ = graph_log_z(rest.present, rest.absent, steps // STEPS_PER_STATE)
    if status != DONE:
        if 3 ** len(rest) > steps:
            return float("nan")
        tables = acyclic_tables(rest, Allowance())
        if tables is None:
            return float("nan")
        cyclic = tables[1]
    return min(mu_target + (1.0 - mu_target) * float(cyclic), 1.0)


_STARTS = 4
"""Starts of the search for a chordal graph. More find none that is cheaper in bins and on tables."""

_STEPS_PER_LOOKUP = 2
"""An entry of a table of weak orders takes as long as this many terms of the subset recursion."""

_DEAR = 100_000
"""Table entries beyond which a second way to eliminate is looked for."""

_CLEAR = 1e-3
"""A conflict below this is summed on its own, as 1 - Z would lose its digits."""


def solve_elimination(graph: LocalGraph, allowance: Allowance, want_reach: bool) -> LocalScores | None:
    """All scores of a target by eliminating objects; None where the allowance does not suffice.

    Objects that nothing can obstruct lie on no cycle: they enter as factors of the others' scores, and their
    own is the probability that the target reaches them.
    """
    c = len(graph)
    linked = graph.present > 0.0
    is_inner = linked.any(axis=1) | (np.arange(c) == 0)
    inner, sinks = np.flatnonzero(is_inner), np.flatnonzero(~is_inner)
    links = _between(linked | linked.T, inner, inner)
    chordal = fill_links(links, _STARTS)
    tree, order, lookups = _plan(chordal)
    if len(inner) > 1 and (
        lookups < 0 or lookups > _DEAR
    ):  # the target is in every bag anyway: fill without it
        chordal = np.ones_like(links)
        chordal[1:, 1:] = fill_links(np.ascontiguousarray(links[1:, 1:]), _STARTS)
        other = _plan(chordal)
        if other[2] >= 0 and (lookups < 0 or other[2] < lookups):
            tree, order, lookups = other
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
    return LocalScores(np.clip(scores, 0.0, 1.0), float(log_z), _conflict(graph, log_z), reach)


def _plan(chordal: Bool[np.ndarray, "n n"]) -> tuple[Tree, Int[np.ndarray, " n"], int]:
    """The tree of eliminations with the target at its root, the order of the objects in it, and its cost."""
    np.fill_diagonal(chordal, False)
    order = elimination_order(chordal, 0)
    tree = grow_tree(_between(chordal, order, order))
    return tree, order, int(count_lookups(tree))


def _between(
    table: Shaped[np.ndarray, "n m"], rows: Int[np.ndarray, " r"], columns: Int[np.ndarray, " c"]
) -> Shaped[np.ndarray, "r c"]:
    return np.ascontiguousarray(table[np.ix_(rows, columns)])


def _conflict(graph: LocalGraph, log_z: float) -> float:
    """1 - A(C) with its digits, where these can be had quickly."""
    mu = -float(np.expm1(log_z))
    if mu < _CLEAR:
        status, _, cyclic, _ = graph_log_z(graph.present, graph.absent, _CHEAP_STEPS // STEPS_PER_STATE)
        mu = float(cyclic) if status == DONE else mu
    return min(max(mu, TINY if has_cycle(graph) else 0.0), 1.0)
