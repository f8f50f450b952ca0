"""The graphs of `cpor.infer.milp` in the form of the other oracles, weighed by itself."""

from collections.abc import Iterator
from itertools import islice

import numpy as np

from cpor.infer.local import ZETA
from cpor.infer.milp import _solve_all, find_cycles
from cpor.infer.topk import GraphSearch, WeightedGraph
from cpor.relations import ObstructionPosterior
from oracles.candidates import candidate_edges

__all__ = ["find_cycles", "milp_top_k"]


def milp_graphs(p: np.ndarray, zeta: float = ZETA) -> Iterator[WeightedGraph]:
    """All acyclic graphs over every candidate relation in non-increasing weight, one solve or more each.

    HiGHS tells objective values apart to about 1e-6: graphs whose log weights are closer may change places.
    """
    search = GraphSearch(p, zeta)
    for chosen in _solve_all(search):
        edges = np.stack([search.blocked[chosen], search.blocker[chosen]], axis=1)
        yield WeightedGraph(edges, search.log_empty + float(search.weight[chosen].sum()))


def milp_top_k(
    posterior: ObstructionPosterior, k: int, zeta: float = 1e-9
) -> list[tuple[frozenset[tuple[int, int]], float]]:
    """The k heaviest acyclic graphs with their log weights; fewer where there are no more."""
    candidates = candidate_edges(posterior, zeta)
    graphs = [
        frozenset((int(i), int(j)) for i, j in graph.edges)
        for graph in islice(milp_graphs(posterior.p_obstructs, zeta), k)
    ]
    return sorted(((graph, candidates.log_weight(graph)) for graph in graphs), key=lambda entry: -entry[1])
