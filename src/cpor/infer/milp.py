"""The paper's Top-K as a mixed-integer program in HiGHS (eq. topk, appendix Enumeration Constraints).

For comparison only: `method="topk"` finds the same graphs without a solver, thousands of times faster.
"""

from collections.abc import Iterator
from itertools import pairwise
from types import ModuleType
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from cpor.errors import CporError
from cpor.infer._kernels.algorithm1 import (
    EXIT_EXACT,
    EXIT_K_MAX,
    MASS,
    NEEDS_WORK,
    record_graph,
    test_exit,
)
from cpor.infer._kernels.topk import mark_actions
from cpor.infer.local import ZETA
from cpor.infer.topk import GraphSearch, TopKScores, TopKSettings, topk_scores

_OPTIONS = {
    "threads": 1,
    "mip_rel_gap": 0.0,
    "mip_abs_gap": 0.0,
    # Both cost more than they save on programs of a few dozen variables: without them it is 2.7 times faster.
    "mip_heuristic_run_feasibility_jump": False,
    "mip_detect_symmetry": False,
}

Edge = tuple[int, int]


def run_milp(
    p: Float[np.ndarray, "n n"],
    target: int,
    tau: float,
    settings: TopKSettings | None = None,
    zeta: float = ZETA,
) -> TopKScores:
    """Algorithm 1 with the program as its solver; arguments as for `run_algorithm1`."""
    settings, search = settings or TopKSettings(), GraphSearch(p, zeta)
    totals, sums, free = np.zeros(len(p)), np.zeros(4), np.zeros(len(p), np.bool_)
    graphs = _solve_all(search)
    for k in range(1, settings.k_max + 1):
        chosen = next(graphs, None)
        if chosen is None:
            return topk_scores(totals / sums[MASS], sums, k - 1, EXIT_EXACT)
        mark_actions(search.blocked, search.blocker, chosen, target, free)
        record_graph(
            search.log_empty + search.weight[chosen].sum(), free, totals, sums, search.log_pair_bound
        )
        status = test_exit(totals, sums, tau, settings.tolerance)
        if status != NEEDS_WORK:
            return topk_scores(totals / sums[MASS], sums, k, int(status))
    return topk_scores(totals / sums[MASS], sums, settings.k_max, EXIT_K_MAX)


def _solve_all(search: GraphSearch) -> Iterator[Bool[np.ndarray, " m"]]:
    """Which relations hold in the heaviest acyclic graph, then in the next, until there is none left."""
    m = len(search.weight)
    if m == 0:
        yield np.zeros(0, np.bool_)
        return
    highspy = _import_highspy()
    edges: list[Edge] = list(zip(search.blocked.tolist(), search.blocker.tolist(), strict=True))
    place = {edge: e for e, edge in enumerate(edges)}
    model: Any = highspy.Highs()
    model.silent()
    for option, value in _OPTIONS.items():
        model.setOptionValue(option, value)
    model.addVars(m, np.zeros(m), np.ones(m))
    columns = np.arange(m, dtype=np.int32)
    model.changeColsIntegrality(m, columns, np.full(m, highspy.HighsVarType.kInteger))
    model.changeColsCost(m, columns, search.weight)
    model.changeObjectiveSense(highspy.ObjSense.kMaximize)

    def cut(cycle: list[Edge]) -> None:
        """Not all relations of a cycle: sum of z <= |C| - 1."""
        index = np.array([place[edge] for edge in cycle], np.int32)
        model.addRow(-np.inf, len(cycle) - 1.0, len(index), index, np.ones(len(index)))

    # The shortest cycles are known beforehand; waiting for them only costs further solves.
    for blocked, blocker in edges:
        if blocked < blocker and (blocker, blocked) in place:
            cut([(blocked, blocker), (blocker, blocked)])
    status = highspy.HighsModelStatus
    while True:
        model.run()
        outcome = model.getModelStatus()
        if outcome == status.kInfeasible:
            return
        if outcome != status.kOptimal:
            raise CporError(f"HiGHS stopped without an optimum: {model.modelStatusToString(outcome)}")
        chosen = np.array(model.getSolution().col_value) > 0.5
        cycles = find_cycles(frozenset(edge for edge, held in zip(edges, chosen, strict=True) if held))
        for cycle in cycles:
            cut(cycle)
        if not cycles:
            yield chosen
            # No-good: sum over e = 1 of (1 - z) + sum over e = 0 of z >= 1, constants moved to the right.
            model.addRow(1.0 - int(chosen.sum()), np.inf, m, columns, np.where(chosen, -1.0, 1.0))


def find_cycles(graph: frozenset[Edge]) -> list[list[Edge]]:
    """One cycle for every edge that closes one in a depth-first walk; none exactly where acyclic."""
    blockers: dict[int, list[int]] = {}
    for blocked, blocker in sorted(graph):
        blockers.setdefault(blocked, []).append(blocker)
    cycles: list[list[Edge]] = []
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
        raise CporError("method milp needs HiGHS: pip install 'cpor-grasp[peers]'") from error
    return highspy
