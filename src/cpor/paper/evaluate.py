"""Scores of predictions: per case, then means over tiers; missing answers as the caller says.

A case without an answer is never dropped in silence: `wrong` (the default) gives it the worst value of
every metric, `skip` leaves it out, `unobstructed` reads it as "nothing is in the way".
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np
from jaxtyping import Float

from cpor.errors import one_of
from cpor.paper.paths import NOTHING, Prediction, mp_ned, object_score, relation_score, relations_on
from cpor.paper.predictions import PredictionFile
from cpor.paper.unobench import UnobenchCase
from cpor.semantics.unograsp import FileAnswer

Missing: TypeAlias = Literal["wrong", "skip", "unobstructed"]
TierField: TypeAlias = Literal["difficulty", "new_difficulty"]

TIERS: dict[str, tuple[str, ...]] = {
    "difficulty": ("Easy", "Medium", "Hard"),
    "new_difficulty": ("No-Occ", "Easy", "Medium", "Hard"),
}
FIGURES = ("object_p", "object_r", "object_f1", "relation_p", "relation_r", "relation_f1", "mp_ned")
SHOWN = 5
"""Culprits of each kind that are named; all are counted."""


class Means(NamedTuple):
    """Means over cases; None where no case has the metric.

    Attributes:
        object_p, object_r, object_f1: Next objects (the paper's OR, UNOGrasp's SR).
        relation_p, relation_r, relation_f1: Relations (the paper's SR, UNOGrasp's OP / OR / F1), over the
            cases whose truth has any.
        mp_ned: Distance of the paths.
        n: Cases.
    """

    object_p: float | None
    object_r: float | None
    object_f1: float | None
    relation_p: float | None
    relation_r: float | None
    relation_f1: float | None
    mp_ned: float | None
    n: int


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Per-case scores and their means.

    Attributes:
        cases: The cases, in order.
        values: Per-case value of each of FIGURES; NaN where the metric does not count the case.
            Each of shape (n,).
        tiers: Means by tier.
        overall: Means over all cases; relations over the cases that have any.
    """

    cases: tuple[UnobenchCase, ...]
    values: Mapping[str, Float[np.ndarray, " n"]]
    tiers: Mapping[str, Means]
    overall: Means

    @property
    def balanced(self) -> Means:
        """Means over UNOBench's own tiers No-Occ, Easy, Medium, Hard, each counting the same.

        The challenge ranks by the object F1 of these, its SR-F1. None where a tier is absent; relation
        figures are over the tiers that have relations.
        """
        tier_of = np.array([case.new_difficulty or "" for case in self.cases])
        table = np.stack([self.values[name] for name in FIGURES], axis=1)
        tiers = [_means(table[tier_of == tier]) for tier in TIERS["new_difficulty"]]
        means: dict[str, float | None] = {}
        for name in FIGURES:
            each = [getattr(found, name) for found in tiers[name.startswith("relation") :]]
            means[name] = None if None in each else float(np.mean(each))
        return Means(n=sum(found.n for found in tiers), **means)

    def to_json(self) -> dict[str, Any]:
        """`tiers.<tier>.<figure>`, `overall.<figure>`, `balanced.<figure>`; null where it does not exist."""
        return {
            "tiers": {tier: figures._asdict() for tier, figures in self.tiers.items()},
            "overall": self.overall._asdict(),
            "balanced": self.balanced._asdict(),
        }


def parse_missing(name: str) -> Missing:
    """An option by its name; an unknown one is an error that lists the known ones."""
    known: tuple[Missing, ...] = get_args(Missing)
    return one_of("--missing", name, known)


def parse_tier_field(name: str) -> TierField:
    """A tier field by its name; an unknown one is an error that lists the known ones."""
    known: tuple[TierField, ...] = get_args(TierField)
    return one_of("tier field", name, known)


def fill_missing(case: UnobenchCase, prediction: Prediction | None, missing: Missing) -> Prediction | None:
    """The prediction that counts for a case; None: the case is left out."""
    if prediction is not None:
        return prediction
    if missing == "skip":
        return None
    return Prediction.unobstructed(case.target) if missing == "unobstructed" else NOTHING


def evaluate(
    cases: Sequence[UnobenchCase],
    predictions: Mapping[int, Prediction],
    missing: Missing = "wrong",
    tier_field: TierField = "difficulty",
) -> Evaluation:
    """Score predictions, by case index, against the truth."""
    filled = [fill_missing(case, predictions.get(case.index), missing) for case in cases]
    rows = [
        _score(case, None, None, None)
        if prediction is None
        else _score(case, prediction.objects, prediction.relations, prediction.paths)
        for case, prediction in zip(cases, filled, strict=True)
    ]
    return _collect(cases, rows, tier_field)


def evaluate_file(
    cases: Sequence[UnobenchCase],
    file: PredictionFile,
    missing: Missing = "wrong",
    tier_field: TierField = "difficulty",
) -> Evaluation:
    """Score a prediction file; objects and paths that could not be read are missing each by itself.

    Formats without paths have no relation figures and no MP-NED.
    """
    rows = []
    for case in cases:
        answer = file.answers.get(case.index, FileAnswer(None, None))
        objects, paths = answer.objects, answer.paths
        default = fill_missing(case, None, missing)
        if default is not None:
            objects = default.objects if objects is None else objects
            paths = default.paths if paths is None else paths
        if not file.has_paths:
            paths = None
        relations = None if paths is None else relations_on(paths)
        rows.append(_score(case, objects, relations, paths))
    return _collect(cases, rows, tier_field)


def problems_to_json(cases: Sequence[UnobenchCase], file: PredictionFile, missing: Missing) -> dict[str, Any]:
    """Counts of everything that is not as it should be, with the first few of each kind."""
    absent = [case.index for case in cases if case.index not in file.answers]
    counts = Counter(problem.kind for problem in file.problems)
    return {
        "counted_as": missing,
        "answered": len(file.answers),
        "missing": {"count": len(absent), "first": absent[:SHOWN]},
        "problems": {
            kind: {
                "count": count,
                "first": [
                    {"line": problem.line, "detail": problem.detail}
                    for problem in file.problems
                    if problem.kind == kind
                ][:SHOWN],
            }
            for kind, count in sorted(counts.items())
        },
    }


def _score(
    case: UnobenchCase,
    objects: frozenset[int] | None,
    relations: frozenset[Any] | None,
    paths: tuple[tuple[int, ...], ...] | None,
) -> tuple[float, ...]:
    none = (np.nan,) * 3
    named = none if objects is None else object_score(objects, case.top_objects)
    related = None if relations is None else relation_score(relations, case.paths)
    distance = np.nan if paths is None else mp_ned(paths, case.paths)
    return (*named, *(related or none), distance)


def _collect(
    cases: Sequence[UnobenchCase], rows: list[tuple[float, ...]], tier_field: TierField
) -> Evaluation:
    table = np.array(rows, np.float64).reshape(len(rows), len(FIGURES))
    tier_of = np.array([getattr(case, tier_field) or "" for case in cases])
    tiers = {tier: _means(table[tier_of == tier]) for tier in TIERS[tier_field]}
    values = {name: table[:, k] for k, name in enumerate(FIGURES)}
    return Evaluation(tuple(cases), values, tiers, _means(table))


def _means(table: Float[np.ndarray, "n f"]) -> Means:
    counted = ~np.isnan(table)
    means = [
        float(column[there].mean()) if there.any() else None
        for column, there in zip(table.T, counted.T, strict=True)
    ]
    return Means(**dict(zip(FIGURES, means, strict=True)), n=int(counted.any(axis=1).sum()))
