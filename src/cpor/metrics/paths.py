"""Obstruction paths, top first (top blocker, ..., target): their relations and their distance MP-NED."""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import TypeAlias

import numpy as np
from jaxtyping import Float

from cpor.scene import BlockedBy

Path: TypeAlias = tuple[int, ...]
"""Objects from the top blocker down to the target; a free target is the path (target,)."""


def relations_on(paths: Iterable[Sequence[int]]) -> frozenset[BlockedBy]:
    """The relations that consecutive objects of the paths state."""
    return frozenset(BlockedBy(blocked, blocker) for path in paths for blocker, blocked in pairwise(path))


def edit_distance(a: Sequence[int], b: Sequence[int]) -> int:
    """Least number of insertions, deletions and substitutions that turn one path into the other."""
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        diagonal, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            diagonal, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, diagonal + (x != y))
    return row[-1]


def ned(a: Sequence[int], b: Sequence[int]) -> float:
    """Edit distance over the longer length: 0 for equal paths, 1 for paths with nothing in common."""
    longest = max(len(a), len(b))
    return edit_distance(a, b) / longest if longest else 0.0


def mp_ned(predicted: Sequence[Sequence[int]], true: Sequence[Sequence[int]]) -> float:
    """Multi-path normalised edit distance, in [0, 1]; lower is better.

    The cost of a pair of paths is `ned`; paths without a partner cost 1; the cheapest assignment,
    divided by the larger number of paths. No path predicted against some costs 1.

    Args:
        predicted: Predicted paths, top first.
        true: True paths, top first.
    """
    if not predicted and not true:
        return 0.0
    cost = np.array([[ned(a, b) for b in true] for a in predicted]).reshape(len(predicted), len(true))
    return assignment_cost(cost)


def assignment_cost(cost: Float[np.ndarray, "m n"]) -> float:
    """The cheapest assignment of m to n paths, those left over costing 1, over the larger number.

    Padding to a square with ones leaves the assignment among the given pairs as it is, so nothing is
    padded here.

    Args:
        cost: Cost of each pair, in [0, 1]. Shape (m, n).
    """
    few, many = sorted(cost.shape)
    if few == 0:
        return 1.0 if many else 0.0
    if few == 1:
        best = float(cost.min())
    else:
        from scipy.optimize import linear_sum_assignment  # takes 0.2 s to import, and only this needs it

        rows, columns = linear_sum_assignment(cost)
        best = float(cost[rows, columns].sum())
    return (best + float(many - few)) / float(many)
