"""Predictions in the terms the benchmark scores, their obstruction paths, MP-NED, and scores of sets."""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence, Set
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple, TypeAlias

import numpy as np
from jaxtyping import Float

from cpor.relations import Label
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


class SetScore(NamedTuple):
    """Precision, recall and F1 of one set, each 0 where nothing is right."""

    p: float
    r: float
    f1: float


def set_score(predicted: Set[Hashable], true: Set[Hashable]) -> SetScore:
    """Precision, recall and F1 = 2 |S n T| / (|S| + |T|); all 0 where either set is empty."""
    hits = len(predicted & true)
    if hits == 0:
        return SetScore(0.0, 0.0, 0.0)
    return SetScore(hits / len(predicted), hits / len(true), 2.0 * hits / (len(predicted) + len(true)))


def object_score(predicted: Set[int], top_objects: Set[int]) -> SetScore:
    """Next objects (the paper's OR, UNOGrasp's SR): removable first, or the target where it is free."""
    return set_score(predicted, top_objects)


def relation_score(predicted: Set[tuple[int, int]], true_paths: Iterable[tuple[int, ...]]) -> SetScore | None:
    """Relations (the paper's SR, UNOGrasp's OP / OR / F1); None where the truth has none.

    Args:
        predicted: (blocked, blocker) pairs.
        true_paths: The true paths, top first; their consecutive pairs are the truth.
    """
    true = relations_on(true_paths)
    return set_score(predicted, true) if true else None


@dataclass(frozen=True)
class Prediction:
    """What is predicted for one target.

    Attributes:
        objects: Objects to act on next; the target alone where it is free. Empty: no object was named.
        relations: The relations said to hold on the target's chain.
        paths: Obstruction paths, top first; `((target,),)` where the target is free.
    """

    objects: frozenset[int]
    relations: frozenset[BlockedBy]
    paths: tuple[Path, ...]

    @classmethod
    def from_paths(cls, objects: Iterable[int], paths: Iterable[Path]) -> "Prediction":
        """A prediction whose relations are those on its paths."""
        paths = tuple(paths)
        return cls(frozenset(objects), relations_on(paths), paths)

    def without(self, label: Label | None) -> "Prediction":
        """The same less whatever names this label; the top of a path that leads to it is not known."""
        return Prediction(
            self.objects - {label},
            frozenset(pair for pair in self.relations if label not in pair),
            tuple(path for path in self.paths if label not in path),
        )

    @classmethod
    def unobstructed(cls, target: int) -> "Prediction":
        """The target is free."""
        return cls(frozenset({target}), frozenset(), ((target,),))


NOTHING = Prediction(frozenset(), frozenset(), ())
"""No answer, counted as wrong: every metric takes its worst value."""


def maximal_paths(target: int, graph: Iterable[BlockedBy]) -> tuple[Path, ...]:
    """All paths from the target outward that end where nothing obstructs, each turned top first."""
    blockers: dict[int, list[int]] = defaultdict(list)
    for blocked, blocker in graph:
        blockers[blocked].append(blocker)
    found: list[Path] = []
    todo: list[Path] = [(target,)]
    while todo:
        path = todo.pop()
        above = sorted(blockers.get(path[0], ()), reverse=True)
        if above:
            todo.extend((blocker, *path) for blocker in above)
        else:
            found.append(path)
    return tuple(found)
