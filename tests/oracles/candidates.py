"""The product model of eq. weight as every oracle needs it: a list of edges with their log weights."""

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from cpor.errors import InvalidSceneError, InvalidSettingError
from cpor.relations import ObstructionPosterior


@dataclass(frozen=True)
class CandidateEdges:
    """All candidate edges of a scene in row-major order.

    Attributes:
        n: Number of objects.
        target: Index of the target X.
        pairs: (blocked, blocker) indices of the m edges.
        p_present: Clipped probability of each edge. Shape (m,).
        log_present: Shape (m,).
        log_absent: Shape (m,).
    """

    n: int
    target: int
    pairs: list[tuple[int, int]]
    p_present: Float[np.ndarray, " m"]
    log_present: Float[np.ndarray, " m"]
    log_absent: Float[np.ndarray, " m"]

    def log_weight(self, graph: set[tuple[int, int]] | frozenset[tuple[int, int]]) -> float:
        """Log weight of one graph, eq. weight, summed without the rounding of running sums."""
        return math.fsum(
            float(self.log_present[e] if pair in graph else self.log_absent[e])
            for e, pair in enumerate(self.pairs)
        )


def candidate_edges(posterior: ObstructionPosterior, zeta: float) -> CandidateEdges:
    """Candidate edges with probabilities clipped to [zeta, 1 - zeta]; unanswered pairs are refused."""
    if not 0.0 < zeta < 0.5:
        raise InvalidSettingError(f"zeta is {zeta}; it must lie between 0 and 0.5")
    p = posterior.p_obstructs
    pairs = [(int(blocked), int(blocker)) for blocked, blocker in np.argwhere(p != 0.0)]
    for blocked, blocker in pairs:
        if math.isnan(p[blocked, blocker]):
            raise InvalidSceneError(
                f"there is no answer on whether {posterior.objects[blocker]!r} obstructs "
                f"{posterior.objects[blocked]!r}; the oracles need a number for every candidate relation"
            )
    p_present = np.array([np.clip(p[pair], zeta, 1.0 - zeta) for pair in pairs], dtype=np.float64)
    return CandidateEdges(
        len(posterior),
        posterior.target_index,
        pairs,
        p_present,
        np.log(p_present),
        # Not log1p: 1 - p is exact in floating point where p is near 1, the only place it matters.
        np.log(1.0 - p_present),
    )
