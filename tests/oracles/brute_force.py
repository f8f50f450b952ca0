"""All acyclic graphs of a scene, one by one (eq. graph-posterior, marginals): exact up to rounding."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, UInt64

from cpor.errors import InvalidSettingError, TooLargeError
from cpor.relations import ObstructionPosterior
from oracles.candidates import CandidateEdges, candidate_edges

MOST_EDGES = 24
"""2^24 configurations take about a minute and, where all are acyclic, about 2 GB."""

_CHUNK = 1 << 16
"""Configurations examined at a time: their bit rows stay within the processor's cache."""


@dataclass(frozen=True)
class BruteForce:
    """Every acyclic graph over the candidate edges, and what follows by summing over them.

    Attributes:
        target: Index of the target X.
        edges: (blocked, blocker) indices of the m candidate edges, row by row.
        graphs: Which edges each acyclic graph has, heaviest graph first. Shape (g, m).
        log_weights: Log of eq. weight, non-increasing. Shape (g,).
        log_z: Log probability that the independent edges are acyclic.
        scores: q of eq. marginals: for X that nothing obstructs it, for another object that X reaches it
            and nothing obstructs it. Shape (n,).
        reach: P(X reaches o | acyclic); 1 for X itself. Shape (n,).
        edge_posterior: P(edge | acyclic). Shape (m,).
    """

    target: int
    edges: list[tuple[int, int]]
    graphs: Bool[np.ndarray, "g m"]
    log_weights: Float[np.ndarray, " g"]
    log_z: float
    scores: Float[np.ndarray, " n"]
    reach: Float[np.ndarray, " n"]
    edge_posterior: Float[np.ndarray, " m"]

    @property
    def n_graphs(self) -> int:
        """Number of acyclic graphs."""
        return len(self.log_weights)

    @property
    def shares(self) -> Float[np.ndarray, " g"]:
        """Posterior probability of each graph, eq. graph-posterior. Shape (g,)."""
        return np.exp(self.log_weights - self.log_z)


def enumerate_dags(posterior: ObstructionPosterior, zeta: float = 1e-9) -> BruteForce:
    """Go through all 2^m configurations of the m candidate edges and keep the acyclic ones.

    Args:
        posterior: A scene without unanswered pairs, at most MOST_EDGES candidate edges.
        zeta: Probabilities of candidate edges are clipped to [zeta, 1 - zeta].
    """
    candidates = candidate_edges(posterior, zeta)
    m = len(candidates.pairs)
    if m > MOST_EDGES:
        raise TooLargeError(
            f"{m} candidate relations make 2^{m} graphs; brute force takes up to {MOST_EDGES} relations"
        )
    codes, reached = _acyclic_codes(candidates)
    graphs = (codes[:, None] >> np.arange(m, dtype=np.uint64) & np.uint64(1)).astype(np.bool_)
    log_weights = graphs @ (candidates.log_present - candidates.log_absent) + candidates.log_absent.sum()
    order = np.argsort(-log_weights, kind="stable")
    graphs, log_weights, reached = graphs[order], log_weights[order], reached[order]

    weights = np.exp(log_weights - log_weights[0])
    total = weights.sum()
    shares = weights / total
    reach, scores = np.zeros(candidates.n), np.zeros(candidates.n)
    for o in range(candidates.n):
        met = (reached >> np.uint64(o) & np.uint64(1)).astype(np.bool_)
        outgoing = [e for e, (blocked, _) in enumerate(candidates.pairs) if blocked == o]
        reach[o] = shares @ met
        scores[o] = shares @ (met & ~graphs[:, outgoing].any(axis=1))
    return BruteForce(
        target=candidates.target,
        edges=candidates.pairs,
        graphs=graphs,
        log_weights=log_weights,
        log_z=float(log_weights[0] + np.log(total)),
        scores=scores,
        reach=reach,
        edge_posterior=shares @ graphs,
    )


def plan_validity(brute: BruteForce, order: Sequence[int]) -> float:
    """P(plan valid) of a removal sequence of object indices that ends with the target.

    A graph admits the plan when, at the turn of each object of it, all its blockers are gone already.
    """
    if not order or order[-1] != brute.target:
        raise InvalidSettingError(f"a plan ends with the target, index {brute.target}; got {list(order)}")
    turn = {o: t for t, o in enumerate(order)}
    if len(turn) < len(order) or not all(0 <= o < len(brute.scores) for o in order):
        raise InvalidSettingError(
            f"a plan names each object at most once, by index below {len(brute.scores)}; got {list(order)}"
        )
    never = len(order)
    forbidden = [
        e
        for e, (blocked, blocker) in enumerate(brute.edges)
        if blocked in turn and turn.get(blocker, never) > turn[blocked]
    ]
    return float(brute.shares @ ~brute.graphs[:, forbidden].any(axis=1))


def _acyclic_codes(candidates: CandidateEdges) -> tuple[UInt64[np.ndarray, " g"], UInt64[np.ndarray, " g"]]:
    """Configurations without a cycle, bit e = edge e, and the set of objects X reaches in each."""
    if candidates.n > 64:
        raise TooLargeError(f"brute force keeps objects in 64 bits; the scene has {candidates.n}")
    count = 1 << len(candidates.pairs)
    kept_codes, kept_reached = [], []
    for start in range(0, count, _CHUNK):
        codes = np.arange(start, min(start + _CHUNK, count), dtype=np.uint64)
        closure = _transitive_closure(codes, candidates.pairs)
        acyclic = np.ones(len(codes), np.bool_)
        for v, row in closure.items():
            acyclic &= (row >> np.uint64(v) & np.uint64(1)) == 0
        reached = closure.get(candidates.target, np.zeros_like(codes)) | np.uint64(1 << candidates.target)
        kept_codes.append(codes[acyclic])
        kept_reached.append(reached[acyclic])
    return np.concatenate(kept_codes), np.concatenate(kept_reached)


def _transitive_closure(
    codes: UInt64[np.ndarray, " c"], pairs: list[tuple[int, int]]
) -> dict[int, UInt64[np.ndarray, " c"]]:
    """For every object that anything may obstruct, the set of objects it reaches, by Warshall."""
    rows: dict[int, UInt64[np.ndarray, " c"]] = {}
    for e, (blocked, blocker) in enumerate(pairs):
        bit = (codes >> np.uint64(e) & np.uint64(1)) << np.uint64(blocker)
        rows[blocked] = rows[blocked] | bit if blocked in rows else bit
    blockers = {blocker for _, blocker in pairs}
    for via in rows.keys() & blockers:
        for v in rows:
            if v != via:
                # The bit as a factor: 0 or 1 times the row.
                rows[v] = rows[v] | (rows[v] >> np.uint64(via) & np.uint64(1)) * rows[via]
    return rows
