"""Exact scores by recursion over vertex sets: compiled, in chunks where there is a deadline."""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from scipy.special import logsumexp

from cpor.infer._kernels.batch import LOG_FLOOR
from cpor.infer._kernels.subset import (
    count_acyclic_work,
    fill_acyclic,
    fill_reached,
    finish_scores,
    log_z_floor,
)
from cpor.infer.local import Allowance, LocalGraph

LARGEST_TABLE = 22
"""Objects up to which the tables fit into memory (2^22 doubles are 34 MB each)."""

_SPARSE = 6
"""Candidate relations an object has on average up to which few sets are strongly connected."""

_QUICK_IN_LOGS = 10
"""Objects up to which the log domain takes well below a second."""


class ExactScores(NamedTuple):
    """What exact inference says about one scene.

    Attributes:
        scores: q of eq. marginals; 0 for objects the target cannot reach. Shape (n,).
        log_z: Log probability that the relations the target depends on are acyclic, log A(C).
        log_z_all: The same over all candidate relations. NaN where it was too much work.
        reach: P(the target reaches o | acyclic), where it was asked for. Shape (n,).
    """

    scores: Float[np.ndarray, " n"]
    log_z: float
    log_z_all: float
    reach: Float[np.ndarray, " n"] | None = None

    @property
    def mu(self) -> float | None:
        """1 - Z over all candidate relations; None where it was too much work."""
        return None if math.isnan(self.log_z_all) else cyclic_mass(self.log_z_all)

    @property
    def mu_target(self) -> float:
        """1 - A(C)."""
        return cyclic_mass(self.log_z)


def cyclic_mass(log_z: float) -> float:
    """1 - Z, to a few 1e-16; 0 exactly where no cycle is possible."""
    return min(max(0.0, -math.expm1(log_z)), 1.0)


def solve_subset(graph: LocalGraph, allowance: Allowance) -> ExactScores | None:
    """The subset recursion, in chunks where there is a deadline; scores of the local graph."""
    c = len(graph)
    if c > LARGEST_TABLE or allowance.chunk() == 0:
        return None
    steps = 3**c + 3 ** (c - 1)
    if steps > allowance.steps and allowance.until is None and np.count_nonzero(graph.present) <= _SPARSE * c:
        steps = count_acyclic_work(graph.out_mask, graph.in_mask, allowance.steps) + 3 ** (c - 1)
    if steps > allowance.steps:
        return None
    if log_z_floor(graph.absent) < LOG_FLOOR:
        in_time = allowance.until is None or c <= _QUICK_IN_LOGS  # it cannot pause
        return _solve_in_logs(graph) if in_time else None
    acyclic = acyclic_table(graph, allowance)
    if acyclic is None:
        return None
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
    scores, reach = np.empty(c), np.empty(c)
    finish_scores(graph.absent, 0, acyclic, missed, met, scores, reach)
    log_z = float(np.log(acyclic[-1]))
    return ExactScores(scores, log_z, log_z, reach)


def acyclic_table(graph: LocalGraph, allowance: Allowance) -> Float[np.ndarray, " sets"] | None:
    """A(S) for every subset S of C; None where the allowance does not suffice."""
    sets = 1 << len(graph)
    acyclic, weight, spread = np.empty(sets), np.empty(sets), np.empty(sets, np.int64)
    at = 0
    while at < sets:
        chunk = allowance.chunk()
        if chunk == 0:
            return None
        at, work = fill_acyclic(
            graph.absent, graph.out_mask, graph.in_mask, acyclic, weight, spread, at, chunk
        )
        allowance.spend(work)
    return acyclic


def log_acyclic_table(
    graph: LocalGraph, allowance: Allowance | None = None
) -> Float[np.ndarray, " sets"] | None:
    """log A(S) for every subset S of C; in the log domain throughout where products underflow."""
    if log_z_floor(graph.absent) < LOG_FLOOR:
        return _log_table(np.log(graph.absent))
    table = acyclic_table(graph, allowance or Allowance())
    if table is None:
        return None
    with np.errstate(divide="ignore"):  # certain relations may close a cycle
        return np.asarray(np.log(table))


def _log_table(log_gap: Float[np.ndarray, "c c"]) -> Float[np.ndarray, " sets"]:
    """log A(S) by the recursion of `fill_acyclic` in the log domain, for scenes whose products underflow."""
    table = np.zeros(1 << len(log_gap))
    for s in range(1, table.size):
        members = np.flatnonzero(s >> np.arange(len(log_gap)) & 1)
        log_free = log_gap[np.ix_(members, members)].sum(axis=1)
        log_term, spread, sign = _subsets(log_free, 1 << members, -1.0)
        terms = log_term + table[s ^ spread]
        table[s] = logsumexp(terms[1:], b=-sign[1:])
    return table


def _subsets(
    log_factor: Float[np.ndarray, " m"], bit: Int[np.ndarray, " m"], flip: float
) -> tuple[Float[np.ndarray, " sets"], Int[np.ndarray, " sets"], Float[np.ndarray, " sets"]]:
    """For every subset of m vertices the log of its product, its bits, and `flip` to its size."""
    log_term, spread, sign = np.zeros(1), np.zeros(1, np.int64), np.ones(1)
    for factor, one in zip(log_factor.tolist(), bit.tolist(), strict=True):
        log_term = np.concatenate([log_term, log_term + factor])
        spread = np.concatenate([spread, spread | one])
        sign = np.concatenate([sign, flip * sign])
    return log_term, spread, sign


def _solve_in_logs(graph: LocalGraph) -> ExactScores:
    """The recursions of `fill_reached` and `finish_scores` in the log domain."""
    log_gap, c = np.log(graph.absent), len(graph)
    table = _log_table(log_gap)
    full, bits = table.size - 1, 1 << np.arange(c)
    reached, missed, met = np.zeros(table.size), np.zeros(c), np.zeros(c)  # F(R) / A(R) less 1
    for r in range(1, table.size, 2):  # the target is vertex 0
        share = max(1.0 + reached[r], 0.0)
        if share == 0.0:
            continue
        inside = (r & bits) > 0
        rest = full ^ r
        log_cut, spread, _ = _subsets(log_gap[inside][:, ~inside].sum(axis=0), bits[~inside], 1.0)
        log_cut += np.log(share) + table[r]
        union = r | spread[1:]
        reached[union] -= np.exp(log_cut[1:] + table[spread[1:]] - table[union])
        outside = np.flatnonzero(~inside)
        missed[outside] += np.exp(log_cut[-1] + table[rest ^ bits[outside]] - table[full ^ bits[outside]])
        met[inside] += np.exp(log_cut[-1] + table[rest] - table[full])
    scores = np.exp(log_gap.sum(axis=1) + table[full ^ bits] - table[full])
    scores[1:] *= 1.0 - missed[1:]
    met[0] = 1.0
    log_z = float(table[full])
    return ExactScores(np.clip(scores, 0.0, 1.0), log_z, log_z, np.clip(met, 0.0, 1.0))
