"""Selective execution (Fig. selective): what deferring the least certain cases does to the object F1.

The paper shows curves and prints no numbers. Its claims: acyclicity lowers the area under the risk-coverage
curve, and CPOR-Grasp has the highest error capture rate.
"""

import csv
import io
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from cpor.learn.bootstrap import Interval, bootstrap_mean
from cpor.paper.cases import SolvedCases, image_of
from cpor.paper.mechanism import object_f1
from cpor.paper.risk_coverage import RiskCoverage, risk_coverage
from cpor.paper.table import Row, Table

DEFER_RATES = (0.1, 0.2, 0.3, 0.5)
NAMES = {"dag": "exact (DAG)", "no_dag": "no acyclicity", "map": "single MAP"}


class SelectiveRow(NamedTuple):
    """One way to score objects.

    Attributes:
        forced_f1: Object F1 where every case is acted on.
        forced_ci: Its interval, images resampled.
        ecr: Error capture rate by defer rate; deferring at random gives the defer rate itself.
        curve: The risk-coverage curve of 1 - F1.
    """

    forced_f1: float
    forced_ci: Interval
    ecr: Mapping[float, float]
    curve: RiskCoverage


def measure_selective(solved: SolvedCases, rng: np.random.Generator) -> dict[str, SelectiveRow]:
    """Exact marginals, No-DAG and Single-MAP; the confidence of a case is its largest score."""
    images = image_of(solved.cases)
    rows = {}
    for name, scores in solved.models.items():
        f1 = object_f1(solved, name)
        confidence, loss = np.array([q.max() for q in scores]), 1.0 - f1
        curve = risk_coverage(confidence, loss)
        caught = {d: curve.ecr(d) for d in DEFER_RATES}
        rows[name] = SelectiveRow(float(f1.mean()), bootstrap_mean(f1, images, rng), caught, curve)
    return rows


def selective_table(rows: Mapping[str, SelectiveRow]) -> Table:
    """The figure as numbers, with a verdict on its two claims."""
    ours = [
        Row(
            NAMES[name],
            {"forced_f1": row.forced_f1, "aurc": row.curve.area}
            | {f"ecr_{rate:g}": caught for rate, caught in row.ecr.items()},
            {},
            ci={"forced_f1": row.forced_ci},
        )
        for name, row in rows.items()
    ]
    best = min(rows, key=lambda name: rows[name].curve.area)
    holds = all(rows["dag"].ecr[d] >= max(row.ecr[d] for row in rows.values()) for d in DEFER_RATES)
    most = {d: max(rows, key=lambda name, d=d: rows[name].ecr[d]) for d in DEFER_RATES}  # type: ignore[misc]
    notes = [
        "Claim: acyclicity lowers AURC. "
        f"Here the least area has: {NAMES[best]}, {rows[best].curve.area:.4f}.",
        "Claim: CPOR-Grasp has the highest error capture rate. Here it "
        + ("does." if holds else f"does not: {_say(most)}."),
        "ECR D: share of the forced error that deferring the share D of cases removes. The paper prints no "
        "numbers.",
    ]
    return Table("selective", "Selective execution", ours, notes)


def curves_csv(rows: Mapping[str, SelectiveRow]) -> str:
    """The curves: model, coverage, risk (1 - object F1) and error capture rate at that coverage."""
    text = io.StringIO()
    out = csv.writer(text, lineterminator="\n")
    out.writerow(("model", "coverage", "risk", "ecr"))
    for name, row in rows.items():
        columns = (row.curve.coverage, row.curve.risk, row.curve.captured)
        out.writerows((name, *(f"{value:.6f}" for value in point)) for point in zip(*columns, strict=True))
    return text.getvalue()


def _say(most: Mapping[float, str]) -> str:
    return ", ".join(f"{NAMES[name]} at D = {d:g}" for d, name in most.items())
