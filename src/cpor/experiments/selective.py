"""Selective execution (Fig. selective): what deferring the least certain cases does to the object F1.

The paper shows curves and prints no numbers; its claim to check is that conditioning on acyclicity has
the smallest area under the risk-coverage curve and the highest error capture.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cpor.decoding.paper import object_ids, threshold_objects
from cpor.experiments.cases import ScoredCase, image_of, read_scored
from cpor.experiments.paired import map_scores, product_scores
from cpor.experiments.structure import solve_all
from cpor.metrics import Interval, RiskCoverage, aurc, bootstrap_mean, ecr, object_score, risk_coverage

DEFER_RATES = (0.1, 0.2, 0.3, 0.5)


@dataclass(frozen=True, eq=False)
class SelectiveRow:
    """One way to score objects, over the cases that have a candidate relation.

    Attributes:
        forced_f1: Object F1 where every case is acted on.
        forced_ci: Its interval, images resampled.
        aurc: Area under the risk-coverage curve of 1 - F1; lower is better.
        ecr: Error capture rate by defer rate; deferring at random gives the defer rate itself.
        curve: The risk-coverage curve.
    """

    forced_f1: float
    forced_ci: Interval
    aurc: float
    ecr: Mapping[float, float]
    curve: RiskCoverage


def measure_selective(cases: Sequence[ScoredCase], rng: np.random.Generator) -> dict[str, SelectiveRow]:
    """Exact marginals, No-DAG and Single-MAP; the confidence of a case is its largest score."""
    known = [
        (c.case, c.posterior) for c in cases if c.posterior is not None and not c.posterior.has_unanswered
    ]
    scenes = [posterior for _, posterior in known]
    ways = {
        "dag": list(solve_all(scenes).scores),
        "no_dag": [product_scores(scene) for scene in scenes],
        "map": [map_scores(scene) for scene in scenes],
    }
    images = image_of([case for case, _ in known])
    rows = {}
    for name, scores in ways.items():
        f1 = np.array(
            [
                object_score(
                    threshold_objects(dict(zip(object_ids(scene), q.tolist(), strict=True))), case.top_objects
                ).f1
                for (case, scene), q in zip(known, scores, strict=True)
            ]
        )
        confidence, loss = np.array([q.max() for q in scores]), 1.0 - f1
        rows[name] = SelectiveRow(
            float(f1.mean()),
            bootstrap_mean(f1, images, rng),
            aurc(confidence, loss),
            {d: ecr(confidence, loss, d) for d in DEFER_RATES},
            risk_coverage(confidence, loss),
        )
    return rows


def selective_to_json(scores_file: str | Path, truth_file: str | Path, shift: float) -> dict[str, Any]:
    """Rows for the command line; the paper prints curves without numbers, so there are none beside ours."""
    rows = measure_selective(read_scored(scores_file, truth_file, shift), np.random.default_rng(0))
    return {
        "rows": [
            {
                "name": name,
                "ours": {"forced_f1": row.forced_f1, "aurc": row.aurc}
                | {f"ecr_{rate:g}": caught for rate, caught in row.ecr.items()},
                "paper": None,
                "difference": {},
            }
            for name, row in rows.items()
        ],
        "notes": [
            "Cases with a candidate relation only. ecr_D: share of the forced error caught at defer rate D."
        ],
    }
