"""Top-K: the most probable acyclic graphs, and Algorithm 1 of the paper on them (eq. topk, pk)."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from cpor.decision import CertificateKind
from cpor.errors import InvalidSettingError
from cpor.infer._kernels.algorithm1 import (
    BOUND,
    EPSILON,
    EXIT_ACTION,
    EXIT_DEFER,
    EXIT_EXACT,
    EXIT_K_MAX,
    EXIT_TOLERANCE,
    MASS,
    NEEDS_ROOM,
    NEEDS_WORK,
    REFERENCE,
    advance,
    count_edges,
    order_edges,
    record_graph,
    test_exit,
)
from cpor.infer._kernels.topk import (
    FOUND,
    N_FOUND,
    NO_ROOM,
    WORK,
    WORK_SPENT,
    complete_greedily,
    mark_actions,
    next_graph,
    start_search,
)
from cpor.infer.local import ZETA, Allowance

WORK_LIMIT = 50_000_000
"""Steps that `auto` allows the search for graphs: a quarter of a second or so."""

_EXIT_DEADLINE = 5
"""Beside the kernels' exits: the caller's deadline passed first."""

_KINDS: dict[int, CertificateKind] = {
    EXIT_EXACT: "exact",
    EXIT_ACTION: "action",
    EXIT_DEFER: "defer",
    EXIT_TOLERANCE: "tolerance",
    EXIT_K_MAX: "k_max",
    _EXIT_DEADLINE: "deadline",
}

_ROOM = 1 << 13


@dataclass(frozen=True)
class TopKSettings:
    """Settings of Algorithm 1; the defaults are the paper's.

    Attributes:
        k_max: Most graphs to retain.
        tolerance: Stop once epsilon is at most this, certified or not (the paper's eps_tol).
    """

    k_max: int = 256
    tolerance: float = 0.05

    def __post_init__(self) -> None:
        if not isinstance(self.k_max, int) or self.k_max < 1:
            raise InvalidSettingError(f"k_max is {self.k_max}; give a whole number from 1 on")
        if not 0.0 <= self.tolerance <= 1.0:
            raise InvalidSettingError(f"tolerance is {self.tolerance}; it must lie in [0, 1]")


@dataclass(frozen=True)
class TopKScores:
    """What Algorithm 1 says about one scene.

    Attributes:
        scores: q-hat, the scores under the retained graphs. Shape (n,).
        epsilon: No score is further than this from its exact value.
        k: Graphs retained.
        kind: What ended the search; `exact` where it found every graph.
        log_mass: Log of Z_K, the probability of the retained graphs; a lower bound on log Z.
        log_bound: An upper bound on log Z.
    """

    scores: Float[np.ndarray, " n"]
    epsilon: float
    k: int
    kind: CertificateKind
    log_mass: float
    log_bound: float


@dataclass(frozen=True)
class WeightedGraph:
    """An acyclic graph and its weight.

    Attributes:
        edges: (blocked, blocker) positions of the relations that hold. Shape (k, 2).
        log_weight: Log of its probability under independent relations (eq. weight).
    """

    edges: Int[np.ndarray, "k 2"]
    log_weight: float


class GraphSearch:
    """A best-first search over the acyclic graphs of one scene that can stop and go on."""

    def __init__(self, p: Float[np.ndarray, "n n"], zeta: float = ZETA) -> None:
        self.n = len(p)
        p = np.array(p)
        m = count_edges(p)
        self.blocked, self.blocker, self.reverse = (np.empty(m, np.int64) for _ in range(3))
        self.weight = np.empty(m)
        self.log_empty, self.log_pair_bound = order_edges(p, zeta, *self._edges)
        self.chosen: Bool[np.ndarray, " m"] = np.zeros(len(self.weight), np.bool_)
        self._counters = np.zeros(4, np.int64)
        room = max(_ROOM, 4 * len(self.weight) + 8)
        self._nodes = (
            np.empty(room, np.int64),
            np.empty(room, np.int64),
            np.empty(room, np.bool_),
            np.empty(room),
            np.empty(room),
        )
        self._heap = np.empty(room, np.int64)
        start_search(*self._edges, self.n, self._nodes, self._heap, self._counters)

    @property
    def _edges(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        return self.blocked, self.blocker, self.weight, self.reverse

    @property
    def found(self) -> int:
        """Graphs found so far."""
        return int(self._counters[N_FOUND])

    def next(self, allowance: Allowance) -> float | None:
        """Log weight of the next graph, whose edges are then `chosen`; None when there is none left.

        Also None where the allowance is spent first.
        """
        while True:
            spent = int(self._counters[WORK])
            chunk = allowance.chunk()
            if chunk == 0:
                return None
            status, gain = next_graph(
                *self._edges, self.n, self._nodes, self._heap, self._counters, self.chosen, spent + chunk
            )
            allowance.spend(int(self._counters[WORK]) - spent)
            if status == NO_ROOM:
                self._grow()
            elif status != WORK_SPENT:
                return self.log_empty + gain if status == FOUND else None

    def next_greedy(self) -> float | None:
        """Log weight of a further graph in no certain order, at once; None when there is none left."""
        status, gain = complete_greedily(
            *self._edges[:3], self.n, self._nodes, self._heap, self._counters, self.chosen
        )
        return self.log_empty + gain if status == FOUND else None

    def run(
        self,
        target: int,
        tau: float,
        settings: TopKSettings,
        allowance: Allowance,
        log_bound: float | None = None,
    ) -> TopKScores:
        """Algorithm 1 from a fresh search.

        Where the allowance ends it, the best open branches are completed greedily: fewer certainties
        about the order, the same about the bound, since the theorem holds for any distinct graphs.
        """
        log_bound = self.log_pair_bound if log_bound is None else log_bound
        totals, sums = np.zeros(self.n), np.zeros(4)
        status = NEEDS_WORK
        while status in (NEEDS_WORK, NEEDS_ROOM):
            spent = int(self._counters[WORK])
            chunk = allowance.chunk()
            if chunk == 0:
                break
            status = advance(
                *self._edges,
                self.n,
                target,
                self.log_empty,
                log_bound,
                tau,
                settings.tolerance,
                settings.k_max,
                self._nodes,
                self._heap,
                self._counters,
                totals,
                sums,
                spent + chunk,
            )
            allowance.spend(int(self._counters[WORK]) - spent)
            if status == NEEDS_ROOM:
                self._grow()
        if status in (NEEDS_WORK, NEEDS_ROOM):
            status = self._finish_greedily(target, tau, settings, allowance, log_bound, totals, sums)
        return topk_scores(totals / sums[MASS], sums, self.found, int(status))

    def _finish_greedily(
        self,
        target: int,
        tau: float,
        settings: TopKSettings,
        allowance: Allowance,
        log_bound: float,
        totals: np.ndarray,
        sums: np.ndarray,
    ) -> int:
        out_of_time = _EXIT_DEADLINE if allowance.late else EXIT_K_MAX
        limit = self.found + (1 if allowance.late else settings.k_max)
        free = np.zeros(self.n, np.bool_)
        while self.found < min(limit, settings.k_max) or sums[MASS] == 0.0:
            log_weight = self.next_greedy()
            if log_weight is None:
                break
            mark_actions(self.blocked, self.blocker, self.chosen, target, free)
            if log_weight > sums[REFERENCE] + 600.0 and sums[MASS] > 0.0:
                # Much heavier than the reference: the sums would overflow, so rescale to it.
                totals *= np.exp(sums[REFERENCE] - log_weight)
                sums[MASS] *= np.exp(sums[REFERENCE] - log_weight)
                sums[REFERENCE] = log_weight
            record_graph(log_weight, free, totals, sums, log_bound)
            status = test_exit(totals, sums, tau, settings.tolerance)
            if status != NEEDS_WORK:
                return int(status)
        return out_of_time

    def _grow(self) -> None:
        self._nodes = tuple(np.concatenate([a, np.empty_like(a)]) for a in self._nodes)  # type: ignore[assignment]
        self._heap = np.concatenate([self._heap, np.empty_like(self._heap)])


def iterate_graphs(
    p: Float[np.ndarray, "n n"], zeta: float = ZETA, allowance: Allowance | None = None
) -> Iterator[WeightedGraph]:
    """All acyclic graphs over every candidate relation in non-increasing weight.

    Ends when there is no other, or when the allowance is spent.
    """
    allowance = allowance or Allowance()
    search = GraphSearch(p, zeta)
    while (log_weight := search.next(allowance)) is not None:
        edges = np.stack([search.blocked[search.chosen], search.blocker[search.chosen]], axis=1)
        yield WeightedGraph(edges[np.lexsort(edges.T[::-1])], log_weight)


def run_algorithm1(
    p: Float[np.ndarray, "n n"],
    target: int,
    tau: float,
    settings: TopKSettings | None = None,
    zeta: float = ZETA,
    allowance: Allowance | None = None,
    log_bound: float | None = None,
) -> TopKScores:
    """Algorithm 1 on every candidate relation of a scene; the paper's pair bound by default."""
    return GraphSearch(p, zeta).run(
        target, tau, settings or TopKSettings(), allowance or Allowance(WORK_LIMIT), log_bound
    )


def topk_scores(
    scores: Float[np.ndarray, " n"], sums: Float[np.ndarray, " 4"], k: int, end: int
) -> TopKScores:
    """Wrap the results of the kernels.

    Args:
        scores: Scores under the retained graphs. Shape (n,).
        sums: MASS, REFERENCE, EPSILON, BOUND. Shape (4,).
        k: Graphs retained.
        end: One of the kernels' exits.
    """
    log_mass = float(sums[REFERENCE] + np.log(sums[MASS]))
    return TopKScores(scores, float(sums[EPSILON]), k, _KINDS[end], log_mass, float(sums[BOUND]))
