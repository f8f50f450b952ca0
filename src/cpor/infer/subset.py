"""Exact scores by recursion over vertex sets, in chunks where there is a deadline."""

import numpy as np
from jaxtyping import Float

from cpor.infer._kernels.batch import LOG_FLOOR
from cpor.infer._kernels.logsubset import log_scores
from cpor.infer._kernels.subset import (
    TINY,
    count_acyclic_work,
    fill_acyclic,
    fill_reached,
    finish_scores,
    log_z_floor,
)
from cpor.infer.allowance import Allowance
from cpor.infer.local import LocalGraph, LocalScores, has_cycle

LARGEST_TABLE = 22
"""Objects up to which the tables fit into memory (2^22 doubles are 34 MB each)."""

_SPARSE = 6
"""Candidate relations an object has on average up to which few sets are strongly connected."""

_QUICK_IN_LOGS = 12
"""Objects up to which the log domain takes milliseconds."""


def solve_subset(graph: LocalGraph, allowance: Allowance, want_reach: bool) -> LocalScores | None:
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
        if allowance.until is not None and c > _QUICK_IN_LOGS:
            return None  # the log domain takes seconds there, and cannot pause
        log_z = float(log_scores(*_log_arguments(graph), scores, reach))
        return LocalScores(scores, log_z, -float(np.expm1(log_z)), reach if want_reach else None)
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
    return LocalScores(scores, float(np.log(acyclic[-1])), mu_target, reach if want_reach else None)


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
    least = TINY if has_cycle(graph) else 0.0
    return acyclic, min(max(1.0 - float(acyclic[-1]), least), 1.0)
