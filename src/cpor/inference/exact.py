"""Exact inference over all acyclic graphs (eq. graph-posterior, marginals), without listing them.

Three ways to the same numbers, chosen by counted work: the subset recursion in one batch for small
scenes, the sweep along a narrow frontier for sparse ones, the subset recursion for what is left.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from cpor.inference._kernels.batch import LOG_FLOOR, MU_UNKNOWN, SOLVED, peel, solve_batch
from cpor.inference._kernels.frontier import DONE, graph_log_z
from cpor.inference._kernels.logsubset import log_scores
from cpor.inference._kernels.subset import (
    TINY,
    count_acyclic_work,
    fill_acyclic,
    fill_reached,
    finish_scores,
    local_graph,
    log_z_floor,
    reachable_from,
)
from cpor.inference.allowance import STEPS_PER_STATE, Allowance

ZETA = 1e-9
"""Probabilities of candidate relations are clipped to [ZETA, 1 - ZETA] (the paper's zeta)."""

SMALL = 12
"""Objects up to which the subset recursion is cheap (3^12 steps, a millisecond): nothing is weighed."""

LARGEST_TABLE = 22
"""Objects up to which the tables of the subset recursion fit into memory (2^22 doubles are 34 MB each)."""

WORK_LIMIT = 250_000_000
"""Steps that `auto` allows exact inference: half a second or so. Dense scenes of 17 objects fit in."""

_FRONTIER_STATES = (1 << 10, 1 << 16)
_SPARSE = 6
"""Candidate relations an object has on average up to which few sets are strongly connected."""
_MU_STEPS = 50_000_000
"""Steps spent on mu outside the target's reach, which no action depends on …"""
_CHEAP_STEPS = 2_000_000
"""… and where many scenes wait or a deadline is near."""
_FRONTIER_STEPS = 100_000_000
"""Steps after which a sweep is given up."""


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
class LocalGraph:
    """The part of a scene that the target's decision depends on: C, the target first.

    Attributes:
        members: Objects of C in the order of the tables below. Shape (c,).
        present: p, clipped; 0 where no candidate. Shape (c, c).
        absent: 1 - p. Shape (c, c).
        out_mask: Candidate blockers as bit masks (zero beyond 62 objects). Shape (c,).
        in_mask: Candidate blocked ones as bit masks (zero beyond 62 objects). Shape (c,).
    """

    members: Int[np.ndarray, " c"]
    present: Float[np.ndarray, "c c"]
    absent: Float[np.ndarray, "c c"]
    out_mask: Int[np.ndarray, " c"]
    in_mask: Int[np.ndarray, " c"]

    def __len__(self) -> int:
        return len(self.members)


def cut_local(p: Float[np.ndarray, "n n"], members: Int[np.ndarray, " c"], zeta: float = ZETA) -> LocalGraph:
    """The graph among `members`, probabilities clipped to [zeta, 1 - zeta]."""
    size = len(members)
    graph = LocalGraph(
        members,
        np.empty((size, size)),
        np.empty((size, size)),
        np.empty(size, np.int64),
        np.empty(size, np.int64),
    )
    local_graph(np.array(p), zeta, members, graph.present, graph.absent, graph.out_mask, graph.in_mask)
    return graph


def reachable(p: Float[np.ndarray, "n n"], target: int) -> Int[np.ndarray, " c"]:
    """C: the objects reachable from the target along candidate relations, the target first."""
    keep = np.empty(len(p), np.int64)
    # A copy, here and elsewhere: scenes are read-only, and numba would compile for those once more.
    count = reachable_from(np.array(p), target, keep, np.empty(len(p), np.bool_))
    return keep[:count]


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
        solved = _solve_frontier(graph, allowance, want_reach)
    if solved is None:
        solved = _solve_subset(graph, allowance, want_reach)
    if solved is None:
        return None
    local_scores, log_z, mu_target, local_reach = solved
    scores = np.zeros(len(p))
    scores[graph.members] = local_scores
    reach = None
    if local_reach is not None:
        reach = np.zeros(len(p))
        reach[graph.members] = local_reach
    mu = _mu_beyond(p, target, mu_target, zeta, _MU_STEPS if allowance.until is None else _CHEAP_STEPS)
    return ExactScores(scores, log_z, None if np.isnan(mu) else mu, mu_target, reach)


_Solved = tuple[Float[np.ndarray, " c"], float, float, Float[np.ndarray, " c"] | None]


def new_tables(capacity: int) -> tuple[np.ndarray, ...]:
    """Room for `capacity` states, a power of two, as the sweep's kernels want it."""
    size = 4 * capacity
    two = [
        (
            np.empty(size, np.uint64),
            np.empty(size),
            np.zeros(size, np.bool_),
            np.empty(capacity + 2, np.int64),
        )
        for _ in range(2)
    ]
    return two[0] + two[1]


class _Sweeps:
    """Acyclic masses within an allowance; small tables first, since large ones take time to lay out."""

    def __init__(self, allowance: Allowance) -> None:
        self._allowance = allowance
        self._sizes = list(_FRONTIER_STATES)
        self._tables = new_tables(self._sizes[0])

    def mass(
        self, present: Float[np.ndarray, "k k"], absent: Float[np.ndarray, "k k"]
    ) -> tuple[float, float] | None:
        """Log P(acyclic) and P(cyclic); None where the allowance or the tables do not suffice."""
        while True:
            states = self._allowance.sweep_states()
            status, log_z, cyclic, work = graph_log_z(present, absent, self._tables, states)
            self._allowance.spend(work * STEPS_PER_STATE)
            if status == DONE:
                return float(log_z), float(cyclic)
            if len(self._sizes) == 1 or work > states:
                return None
            self._sizes.pop(0)
            self._tables = new_tables(self._sizes[0])


def _solve_frontier(graph: LocalGraph, allowance: Allowance, want_reach: bool) -> _Solved | None:
    """Scores from plain acyclicity masses of altered graphs, each swept along its frontier.

    For o other than X: N_o(C) n_Xo A(C \\ o with X and o merged) is the mass in which o is free and X
    does not reach it, where the merged vertex has X's outgoing edges and both's incoming ones: an edge
    from o to X would close a cycle exactly when X reaches o. And P(X does not reach o) is the acyclic
    mass once that edge is certain.
    """
    c = len(graph)
    attempt = allowance.limited_to(min(3**c, _FRONTIER_STEPS))
    allowed = attempt.steps
    sweeps = _Sweeps(attempt)
    whole = sweeps.mass(graph.present, graph.absent)
    if whole is None:
        return None
    log_z, mu_target = whole
    scores, reach = np.empty(c), np.ones(c)
    log_free = np.log(graph.absent).sum(axis=1)
    for o in range(c):
        rest = np.delete(np.arange(c), o)
        present, absent = graph.present[np.ix_(rest, rest)], graph.absent[np.ix_(rest, rest)]
        without = sweeps.mass(present, absent)
        if without is None:
            return None
        share = np.exp(log_free[o] + without[0] - log_z)
        if o > 0:
            absent[:, 0] *= graph.absent[rest, o]
            present[1:, 0] += (1.0 - present[1:, 0]) * graph.present[rest[1:], o]
            present[0, 0], absent[0, 0] = 0.0, 1.0
            merged = sweeps.mass(present, absent)
            if merged is None:
                return None
            share *= 1.0 - graph.absent[0, o] * np.exp(merged[0] - without[0])
            if want_reach:
                present, absent = graph.present.copy(), graph.absent.copy()
                present[o, 0], absent[o, 0] = 1.0, 0.0
                unreached = sweeps.mass(present, absent)
                if unreached is None:
                    return None
                reach[o] = 1.0 - np.exp(unreached[0] - log_z)
        scores[o] = share
    allowance.spend(allowed - attempt.steps)
    return np.clip(scores, 0.0, 1.0), log_z, mu_target, np.clip(reach, 0.0, 1.0) if want_reach else None


def _solve_subset(graph: LocalGraph, allowance: Allowance, want_reach: bool) -> _Solved | None:
    """The subset recursion, in chunks where there is a deadline."""
    c = len(graph)
    if c > LARGEST_TABLE:
        return None
    if allowance.chunk() == 0:
        return None
    steps = 3**c + 3 ** (c - 1)
    if steps > allowance.steps and allowance.until is None and np.count_nonzero(graph.present) <= _SPARSE * c:
        steps = count_acyclic_work(graph.out_mask, graph.in_mask, allowance.steps) + 3 ** (c - 1)
    if steps > allowance.steps:
        return None
    scores, reach = np.empty(c), np.empty(c)
    if log_z_floor(graph.absent) < LOG_FLOOR:
        if allowance.until is not None and c > SMALL:
            return None  # the log domain takes seconds there, and cannot pause
        log_z = float(log_scores(*_log_arguments(graph), scores, reach))
        return scores, log_z, -float(np.expm1(log_z)), reach if want_reach else None
    tables = acyclic_tables(graph, allowance)
    if tables is None:
        return None
    acyclic, mu_target = tables
    reached, missed, met = np.zeros(1 << c), np.zeros(c), np.zeros(c)
    weight, spread = np.empty(1 << c), np.empty(1 << c, np.int64)
    at = 0
    while at < 1 << c:
        chunk = allowance.chunk()
        if chunk == 0:
            return None
        at, work = fill_reached(
            graph.absent, graph.out_mask, 0, acyclic, reached, weight, spread, missed, met, at, chunk
        )
        allowance.spend(work)
    finish_scores(graph.absent, 0, acyclic, missed, met, scores, reach)
    return scores, float(np.log(acyclic[-1])), mu_target, reach if want_reach else None


def log_acyclic_table(graph: LocalGraph) -> Float[np.ndarray, " sets"]:
    """Log A(S) for every subset S of C; in the log domain throughout where products underflow."""
    if log_z_floor(graph.absent) >= LOG_FLOOR:
        tables = acyclic_tables(graph, Allowance())
        assert tables is not None, "an unlimited allowance suffices"
        return np.asarray(np.log(tables[0]))
    arguments = _log_arguments(graph)
    log_scores(*arguments, np.empty(len(graph)), np.empty(len(graph)))
    return arguments[4]


def _log_arguments(
    graph: LocalGraph,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, int, np.ndarray, np.ndarray]:
    """What `log_scores` takes, with fresh tables; the fifth will hold log A(S)."""
    sets = 1 << len(graph)
    return graph.absent, graph.out_mask, graph.in_mask, 0, np.empty(sets), np.zeros(sets)


def acyclic_tables(
    graph: LocalGraph, allowance: Allowance
) -> tuple[Float[np.ndarray, " sets"], float] | None:
    """A(S) for every subset of C, and 1 - A(C); None where the allowance does not suffice."""
    c = len(graph)
    acyclic, cyclic = np.empty(1 << c), np.empty(1 << c)
    weight, spread, terms = np.empty(1 << c), np.empty(1 << c, np.int64), np.empty(c)
    passes = (False, True) if allowance.until is None else (False,)
    for want_cyclic in passes:
        if want_cyclic and allowance.steps < 3**c:
            break
        at = 0
        while at < 1 << c:
            chunk = allowance.chunk()
            if chunk == 0:
                return None
            at, work = fill_acyclic(
                graph.present,
                graph.absent,
                graph.out_mask,
                graph.in_mask,
                acyclic,
                cyclic,
                weight,
                spread,
                terms,
                want_cyclic,
                at,
                chunk,
            )
            allowance.spend(work)
        if want_cyclic:
            return acyclic, float(cyclic[-1])
        if acyclic[-1] < 0.999:
            break
    # Near 1, the complement of A has lost its digits: it is summed on its own in the second pass, if allowed.
    least = TINY if graph.out_mask.any() and _has_cycle(graph) else 0.0
    return acyclic, min(max(1.0 - float(acyclic[-1]), least), 1.0)


def _has_cycle(graph: LocalGraph) -> bool:
    inside = np.ones(len(graph), np.bool_)
    return bool(peel(graph.present, inside))


def _mu_beyond(p: Float[np.ndarray, "n n"], target: int, mu_target: float, zeta: float, steps: int) -> float:
    """mu over all candidate relations: what lies outside C is independent of C. NaN where too much work."""
    outside = np.ones(len(p), np.bool_)
    outside[reachable(p, target)] = False
    if peel(np.array(p), outside) == 0:
        return mu_target
    rest = cut_local(p, np.flatnonzero(outside), zeta)
    status, _, cyclic, _ = graph_log_z(
        rest.present, rest.absent, new_tables(_FRONTIER_STATES[-1]), steps // STEPS_PER_STATE
    )
    if status != DONE:
        if 3 ** len(rest) > steps:
            return float("nan")
        tables = acyclic_tables(rest, Allowance())
        if tables is None:
            return float("nan")
        cyclic = tables[1]
    return min(mu_target + (1.0 - mu_target) * float(cyclic), 1.0)
