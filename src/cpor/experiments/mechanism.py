"""Mechanism ablation (Table cpor-ablation, panel B) and the spread of conflict (Table mu).

Panel A's first two rows need the authors' VLM runs: give `cpor reproduce` a log of those scores where
there is one. Its last two rows differ by acyclicity alone, which is what is measured here.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from cpor.data.unobench import Case
from cpor.decoding.paper import object_ids, threshold_objects
from cpor.experiments.cases import ScoredCase, read_scored
from cpor.experiments.evaluate import TIERS
from cpor.experiments.paired import product_scores
from cpor.experiments.published import MECHANISM
from cpor.experiments.structure import solve_all
from cpor.metrics import object_score, summarise_reliability
from cpor.relations import ObstructionPosterior


@dataclass(frozen=True, slots=True)
class ConflictRow:
    """Objects with or without acyclicity on one group of cases, the paper's figures beside ours.

    Attributes:
        group: `mu_zero` or `mu_positive`.
        model: `product` (cyclic graphs included) or `dag`.
        n: Cases with a candidate relation in the group.
        object_f1, object_ece, object_auroc: Ours; AUROC is None where only one class is there.
        paper: The same three, as printed.
    """

    group: str
    model: str
    n: int
    object_f1: float
    object_ece: float
    object_auroc: float | None
    paper: tuple[float, float, float]


@dataclass(frozen=True, slots=True)
class ConflictSpread:
    """mu of one tier: how many scenes conflict, the mean over all, median and quartiles of those above 0."""

    tier: str
    n: int
    n_positive: int
    mean: float
    median: float | None
    quartiles: tuple[float, float] | None


def measure_conflict_effect(cases: Sequence[ScoredCase]) -> list[ConflictRow]:
    """Object F1, ECE and AUROC with and without acyclicity, where mu = 0 and where mu > 0."""
    known = [
        (c.case, c.posterior) for c in cases if c.posterior is not None and not c.posterior.has_unanswered
    ]
    exact = solve_all([posterior for _, posterior in known])
    rows = []
    for group, inside in (("mu_zero", exact.mu == 0.0), ("mu_positive", exact.mu > 0.0)):
        chosen = np.flatnonzero(inside).tolist()
        if not chosen:
            continue
        pairs = [known[k] for k in chosen]
        for model in ("product", "dag"):
            scores = [
                exact.scores[k] if model == "dag" or group == "mu_zero" else product_scores(known[k][1])
                for k in chosen
            ]
            rows.append(_measure(group, model, pairs, scores))
    return rows


def measure_conflict_spread(cases: Sequence[ScoredCase]) -> list[ConflictSpread]:
    """Table mu: every case of a tier counts, one without candidate relation with mu 0."""
    known = [
        (c.case, c.posterior) for c in cases if c.posterior is not None and not c.posterior.has_unanswered
    ]
    exact = solve_all([posterior for _, posterior in known])
    mu = dict(zip((case.index for case, _ in known), exact.mu.tolist(), strict=True))
    rows = []
    for tier in (*TIERS["difficulty"], "Overall"):
        values = np.array(
            [mu.get(c.case.index, 0.0) for c in cases if tier in ("Overall", c.case.difficulty)], np.float64
        )
        above = values[values > 0.0]
        low, middle, high = np.quantile(above, [0.25, 0.5, 0.75]).tolist() if above.size else (0.0,) * 3
        rows.append(
            ConflictSpread(
                tier,
                values.size,
                above.size,
                float(values.mean()) if values.size else 0.0,
                middle if above.size else None,
                (low, high) if above.size else None,
            )
        )
    return rows


def _measure(
    group: str,
    model: str,
    pairs: Sequence[tuple[Case, ObstructionPosterior]],
    scores: Sequence[Float[np.ndarray, " n"]],
) -> ConflictRow:
    f1, label = [], []
    for (case, scene), q in zip(pairs, scores, strict=True):
        ids = object_ids(scene)
        named = threshold_objects(dict(zip(ids, q.tolist(), strict=True)))
        f1.append(object_score(named, case.top_objects).f1)
        label += [o in case.top_objects for o in ids]
    found = summarise_reliability(np.concatenate(scores), np.array(label))
    paper = MECHANISM["conflict"][group][model]
    return ConflictRow(group, model, len(pairs), float(np.mean(f1)), found.ece, found.auroc, paper)


def mechanism_to_json(scores_file: str | Path, truth_file: str | Path, shift: float) -> dict[str, Any]:
    """Rows for the command line."""
    names = ("object_f1", "object_ece", "object_auroc")
    rows = []
    for row in measure_conflict_effect(read_scored(scores_file, truth_file, shift)):
        ours = {name: getattr(row, name) for name in names}
        paper = dict(zip(names, row.paper, strict=True))
        gap = {k: None if ours[k] is None else ours[k] - paper[k] for k in names}
        label = f"{row.group}, {row.model}, n {row.n}"
        rows.append({"name": label, "ours": ours, "paper": paper, "difference": gap})
    return {
        "rows": rows,
        "notes": ["The paper counts 1,660 cases with mu = 0 and 140 with mu > 0; the log has 87 of these."],
    }
