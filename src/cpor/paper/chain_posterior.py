"""The posterior over a target's chain: every way the relations that matter to it can turn out.

The chain is what the target reaches: the relations whose blocked object is the target or has to go
before it. Next objects, relations and paths depend on nothing else, and far fewer chains than graphs
are possible, so expectations over chains are exact and cheap.
"""

from dataclasses import dataclass
from itertools import islice

import numpy as np
from jaxtyping import Bool, Float, Int

from cpor.errors import InvalidSceneError, TooLargeError
from cpor.infer.graphs import log_acyclic_mass
from cpor.infer.local import ZETA, cut_local, reachable
from cpor.infer.topk import iterate_graphs
from cpor.relations import ObstructionPosterior

ENUMERABLE = 20
"""Candidate relations up to which every graph is listed: 2^20 rows of a few integers."""

LISTED = 4096
"""Likeliest graphs that stand for the posterior where there are more relations."""


@dataclass(frozen=True, eq=False)
class ChainPosterior:
    """All chains of a target with their probabilities, likeliest first.

    Attributes:
        members: Positions in the scene of the objects the target may reach, the target first.
            Shape (c,).
        edges: (blocked, blocker) as positions in `members`. Shape (m, 2).
        holds: Which relations are on each chain. Shape (k, m).
        p: Probability of each chain; they sum to 1. Shape (k,).
        unlisted: Posterior mass of graphs that are not listed: 0 where the listing is complete, NaN where
            it is not and the whole mass is out of reach.
    """

    members: Int[np.ndarray, " c"]
    edges: Int[np.ndarray, "m 2"]
    holds: Bool[np.ndarray, "k m"]
    p: Float[np.ndarray, " k"]
    unlisted: float

    def next_objects(self) -> Bool[np.ndarray, "k c"]:
        """Which members are free and on the chain, for each chain (eq. free). Shape (k, c)."""
        blocked = np.zeros((len(self.p), len(self.members)), np.bool_)
        reached = np.zeros_like(blocked)
        reached[:, 0] = True
        for e, (i, j) in enumerate(self.edges.tolist()):
            blocked[:, i] |= self.holds[:, e]
            reached[:, j] |= self.holds[:, e]
        return reached & ~blocked


def chain_posterior(posterior: ObstructionPosterior, zeta: float = ZETA) -> ChainPosterior:
    """List the chains of a scene's target under the exact posterior over acyclic graphs.

    Every graph is weighed where the target may reach at most ENUMERABLE relations, else the LISTED
    likeliest ones stand for all.

    Raises:
        InvalidSceneError: Some relations have no answer.
    """
    if posterior.has_unanswered:
        raise InvalidSceneError(
            "some relations have no answer; give them a probability (a prior will do) to decode"
        )
    members = reachable(posterior.p_obstructs, posterior.target_index)
    members = np.concatenate([members[:1], np.sort(members[1:])])
    p = cut_local(posterior.p_obstructs, members, zeta).present
    edges = np.argwhere(p > 0.0)
    if len(edges) <= ENUMERABLE:
        graphs, weight = weigh_graphs(p, edges)
        _, acyclic = reach_and_acyclic(graphs, edges, len(members))
        graphs, weight = graphs[acyclic], weight[acyclic]
        unlisted = 0.0
    else:
        graphs, weight, unlisted = _list_likeliest(p, edges, zeta)
    reached, _ = reach_and_acyclic(graphs, edges, len(members))
    chain = np.zeros_like(graphs)
    for e, (i, _) in enumerate(edges.tolist()):
        chain |= graphs & (((reached >> i) & 1) << e)
    distinct, which = np.unique(chain, return_inverse=True)
    mass = np.bincount(which, weight / weight.sum(), minlength=len(distinct)).astype(np.float64)
    order = np.lexsort((distinct, -mass))
    holds = (distinct[order, None] >> np.arange(len(edges))) & 1
    return ChainPosterior(members, edges, holds.astype(np.bool_), mass[order], unlisted)


def weigh_graphs(
    p: Float[np.ndarray, "c c"], edges: Int[np.ndarray, "m 2"]
) -> tuple[Int[np.ndarray, " k"], Float[np.ndarray, " k"]]:
    """Every graph over the edges, cyclic ones too, and its probability (eq. weight).

    Args:
        p: Probabilities. Shape (c, c).
        edges: (blocked, blocker). Shape (m, 2).

    Returns:
        Graphs as bit masks over edges, shape (2^m,), and their probabilities, shape (2^m,).
    """
    weight = np.ones(1)
    for i, j in edges.tolist():
        weight = np.concatenate([weight * (1.0 - p[i, j]), weight * p[i, j]])
    return np.arange(len(weight)), weight


def reach_and_acyclic(
    graphs: Int[np.ndarray, " k"], edges: Int[np.ndarray, "m 2"], n: int
) -> tuple[Int[np.ndarray, " k"], Bool[np.ndarray, " k"]]:
    """What object 0 reaches in each graph, as a bit mask over objects, and whether the graph is acyclic.

    Args:
        graphs: Bit masks over edges. Shape (k,).
        edges: (blocked, blocker). Shape (m, 2).
        n: Number of objects, at most 62.
    """
    out = np.zeros((n, len(graphs)), np.int64)
    for e, (i, j) in enumerate(edges.tolist()):
        out[i] |= ((graphs >> e) & 1) << j
    left = np.full(len(graphs), (1 << n) - 1)
    reached = np.ones(len(graphs), np.int64)
    changed = True
    while changed:
        before_left, before_reached = left.copy(), reached.copy()
        for v in range(n):
            left &= ~np.where(out[v] & left, 0, 1 << v)
            reached |= np.where((reached >> v) & 1, out[v], 0)
        changed = not (np.array_equal(left, before_left) and np.array_equal(reached, before_reached))
    return reached, left == 0


def _list_likeliest(
    p: Float[np.ndarray, "c c"], edges: Int[np.ndarray, "m 2"], zeta: float
) -> tuple[Int[np.ndarray, " k"], Float[np.ndarray, " k"], float]:
    if len(edges) > 62 or len(p) > 62:
        raise TooLargeError(
            f"decoding lists graphs over at most 62 relations of 62 objects; {len(edges)} relations of "
            f"{len(p)} objects matter to this target; leave out the least likely relations"
        )
    place = {pair: e for e, pair in enumerate(map(tuple, edges.tolist()))}
    listed = list(islice(iterate_graphs(p, zeta), LISTED))
    graphs = np.array([sum(1 << place[i, j] for i, j in graph.edges.tolist()) for graph in listed], np.int64)
    log_weight = np.array([graph.log_weight for graph in listed])
    try:
        log_z = log_acyclic_mass(cut_local(p, np.arange(len(p)), zeta))
        unlisted = max(0.0, 1.0 - float(np.exp(log_weight - log_z).sum()))
    except TooLargeError:
        unlisted = np.nan
    return graphs, np.exp(log_weight - log_weight.max()), unlisted
