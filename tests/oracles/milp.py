"""The graphs of `cpor.inference.milp` in the form of the other oracles, weighed by itself."""

from itertools import islice

from cpor.inference.milp import find_cycles, milp_graphs
from cpor.relations import ObstructionPosterior
from oracles.candidates import candidate_edges

__all__ = ["find_cycles", "milp_top_k"]


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
