"""Precision, recall and F1 of one case's predicted set: next objects, or relations."""

from collections.abc import Hashable, Iterable, Set
from typing import NamedTuple

from cpor.metrics.paths import relations_on


class SetScore(NamedTuple):
    """Precision, recall and F1 of one set, each 0 where nothing is right."""

    p: float
    r: float
    f1: float


def set_score(predicted: Set[Hashable], true: Set[Hashable]) -> SetScore:
    """Precision, recall and F1 = 2 |S n T| / (|S| + |T|); all 0 where either set is empty.

    Args:
        predicted: S.
        true: T.
    """
    hits = len(predicted & true)
    if hits == 0:
        return SetScore(0.0, 0.0, 0.0)
    return SetScore(hits / len(predicted), hits / len(true), 2.0 * hits / (len(predicted) + len(true)))


def object_score(predicted: Set[int], top_objects: Set[int]) -> SetScore:
    """Next objects (the paper's OR, UNOGrasp's SR): removable first, or the target where it is free.

    Args:
        predicted: Objects said to be next.
        top_objects: The truth's `top_objects`, which is not always the set of path heads.
    """
    return set_score(predicted, top_objects)


def relation_score(predicted: Set[tuple[int, int]], true_paths: Iterable[tuple[int, ...]]) -> SetScore | None:
    """Relations (the paper's SR, UNOGrasp's OP / OR / F1); None where the truth has none.

    Args:
        predicted: (blocked, blocker) pairs.
        true_paths: The true paths, top first; their consecutive pairs are the truth.
    """
    true = relations_on(true_paths)
    return set_score(predicted, true) if true else None
