"""The paper's Top-K (eq. topk, appendix Enumeration Constraints) as a mixed-integer program in HiGHS."""

from itertools import pairwise
from types import ModuleType
from typing import Any

import numpy as np

from cpor.errors import CporError
from cpor.relations import ObstructionPosterior
from oracles.candidates import CandidateEdges, candidate_edges

Graph = frozenset[tuple[int, int]]
"""A graph as its (blocked, blocker) index pairs."""

_OPTIONS = {
    "threads": 1,
    "mip_rel_gap": 0.0,
    "mip_abs_gap": 0.0,
    # Both cost more than they save on programs of a few dozen variables: without them it is 2.7 times faster.
    "mip_heuristic_run_feasibility_jump": False,
    "mip_detect_symmetry": False,
}


def milp_top_k(posterior: ObstructionPosterior, k: int, zeta: float = 1e-9) -> list[tuple[Graph, float]]:
    """The k heaviest acyclic graphs over all candidate edges, with their log weights.

    HiGHS tells objective values apart to about 1e-6: graphs whose log weights are closer than that may
    change places, also across the k-th. Fewer than k graphs are returned only where HiGHS has proven
    that there are no more.

    Args:
        posterior: A scene without unanswered pairs.
        k: Number of graphs wanted.
        zeta: Probabilities of candidate edges are clipped to [zeta, 1 - zeta].

    Returns:
        (graph, log weight) in non-increasing weight.
    """
    candidates = candidate_edges(posterior, zeta)
    if not candidates.pairs:
        return [(frozenset(), 0.0)] if k > 0 else []
    program = _Program(candidates)
    found: list[tuple[Graph, float]] = []
    while len(found) < k and (graph := program.next_graph()) is not None:
        found.append((graph, candidates.log_weight(graph)))
        program.forbid(graph)
    return sorted(found, key=lambda entry: -entry[1])


class _Program:
    """One HiGHS model of a scene, to which cuts are added while graphs are taken from it."""

    def __init__(self, candidates: CandidateEdges) -> None:
        self._highspy = _import_highspy()
        self._pairs = candidates.pairs
        self._edge = {pair: e for e, pair in enumerate(candidates.pairs)}
        m = len(candidates.pairs)
        columns = np.arange(m, dtype=np.int32)
        self._model: Any = self._highspy.Highs()
        self._model.silent()
        for option, value in _OPTIONS.items():
            self._model.setOptionValue(option, value)
        self._model.addVars(m, np.zeros(m), np.ones(m))
        self._model.changeColsIntegrality(m, columns, np.full(m, self._highspy.HighsVarType.kInteger))
        self._model.changeColsCost(m, columns, candidates.log_present - candidates.log_absent)
        self._model.changeObjectiveSense(self._highspy.ObjSense.kMaximize)
        # The shortest cycles are known beforehand; waiting for them only costs further solves.
        for blocked, blocker in self._pairs:
            if blocked < blocker and (blocker, blocked) in self._edge:
                self._cut([(blocked, blocker), (blocker, blocked)])

    def next_graph(self) -> Graph | None:
        """The heaviest acyclic graph not yet forbidden; None where there is none left."""
        status = self._highspy.HighsModelStatus
        while True:
            self._model.run()
            outcome = self._model.getModelStatus()
            if outcome == status.kInfeasible:
                return None
            if outcome != status.kOptimal:
                raise CporError(
                    f"HiGHS stopped without an optimum: {self._model.modelStatusToString(outcome)}"
                )
            values = self._model.getSolution().col_value
            graph = frozenset(pair for pair, z in zip(self._pairs, values, strict=True) if z > 0.5)
            cycles = find_cycles(graph)
            if not cycles:
                return graph
            for cycle in cycles:
                self._cut(cycle)

    def forbid(self, graph: Graph) -> None:
        """Add the no-good cut: at least one edge differs from this graph's."""
        # sum over e = 1 of (1 - z) + sum over e = 0 of z >= 1, constants moved to the right.
        signs = {pair: -1.0 if pair in graph else 1.0 for pair in self._pairs}
        self._add_row(signs, lower=1.0 - len(graph))

    def _cut(self, cycle: list[tuple[int, int]]) -> None:
        """Add the cycle cut: not all edges of this cycle."""
        self._add_row(dict.fromkeys(cycle, 1.0), upper=len(cycle) - 1.0)

    def _add_row(
        self, coefficients: dict[tuple[int, int], float], lower: float = -np.inf, upper: float = np.inf
    ) -> None:
        index = np.array([self._edge[pair] for pair in coefficients], dtype=np.int32)
        value = np.array(list(coefficients.values()))
        self._model.addRow(lower, upper, len(index), index, value)


def find_cycles(graph: Graph) -> list[list[tuple[int, int]]]:
    """One cycle for every edge that closes one in a depth-first walk; none exactly where acyclic."""
    blockers: dict[int, list[int]] = {}
    for blocked, blocker in sorted(graph):
        blockers.setdefault(blocked, []).append(blocker)
    cycles: list[list[tuple[int, int]]] = []
    done: set[int] = set()
    for root in blockers:
        if root in done:
            continue
        path, branches = [root], [iter(blockers[root])]
        while path:
            after = next(branches[-1], None)
            if after is None:
                done.add(path.pop())
                branches.pop()
            elif after in path:
                loop = [*path[path.index(after) :], after]
                cycles.append(list(pairwise(loop)))
            elif after not in done:
                path.append(after)
                branches.append(iter(blockers.get(after, ())))
    return cycles


def _import_highspy() -> ModuleType:
    try:
        import highspy
    except ImportError as error:
        raise CporError("the MILP needs HiGHS: pip install 'cpor-grasp[peers]'") from error
    return highspy
