"""The part of a scene that the target's decision depends on, as the exact ways work on it."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from cpor.infer._kernels.batch import peel
from cpor.infer._kernels.structure import strong_components
from cpor.infer._kernels.subset import local_graph, reachable_from

ZETA = 1e-9
"""Probabilities of candidate relations are clipped to [ZETA, 1 - ZETA] (the paper's zeta)."""


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


def cyclic_parts(p: Float[np.ndarray, "n n"]) -> Int[np.ndarray, " n"]:
    """A number for each object; two objects with the same one may lie on a cycle together. Shape (n,)."""
    part = np.empty(len(p), np.int64)
    strong_components(np.array(p), part)
    return part


def has_cycle(graph: LocalGraph) -> bool:
    """Whether the candidate relations can form a cycle at all."""
    return bool(peel(graph.present, np.ones(len(graph), np.bool_)))


@dataclass(frozen=True)
class LocalScores:
    """What an exact way says about the objects of a local graph.

    Attributes:
        scores: q of eq. marginals. Shape (c,).
        log_z: log A(C).
        mu: 1 - A(C).
        reach: P(the target reaches o | acyclic), where it was asked for. Shape (c,).
    """

    scores: Float[np.ndarray, " c"]
    log_z: float
    mu: float
    reach: Float[np.ndarray, " c"] | None
