"""The authors' released scores, where they are; the tests that need them skip where they are not."""

import csv
import json
from types import SimpleNamespace

import numpy as np
import pytest
from support.data import DATA

from cpor.learn.graph_features import graph_features


@pytest.fixture(scope="session")
def unobench():
    folder = DATA / "unobench"
    if not folder.is_dir():
        pytest.skip(
            f"needs the UNOBench outputs; set CPOR_DATA to the folder that holds unobench/ ({folder})"
        )
    return folder


@pytest.fixture(scope="session")
def vlm_pairs(unobench):
    """`train_adaptive.csv`: real VLM scores with labels."""
    with (unobench / "calibration" / "train_adaptive.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    return SimpleNamespace(
        score=np.array([float(row["prob_edge"]) for row in rows]),
        label=np.array([int(row["label"]) for row in rows]),
        image=np.array([row["image"] for row in rows]),
        n_candidates=np.array([int(row["N_cand"]) for row in rows]),
    )


@pytest.fixture(scope="session")
def synthetic_rows(unobench):
    """`scores_synthetic.csv` as it stands: scores and labels of 6,467 rows."""
    with (unobench / "scores_synthetic.csv").open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="session")
def synthetic_cases(unobench, synthetic_rows):
    """The cases with a candidate relation: graph features, labels, image, truth. Self-loops dropped."""
    with (unobench / "gt_synthetic.jsonl").open() as file:
        truth = [json.loads(line) for line in file]
    pairs: dict[int, dict[tuple[int, int], tuple[float, int]]] = {}
    for row in synthetic_rows:
        blocker, blocked = (int(part) for part in row["edge"].split("->"))
        if blocked == blocker:
            continue
        of_case = pairs.setdefault(int(row["sample_id"]), {})
        found = (float(row["edge_confidence"]), int(row["label"]))
        of_case[blocked, blocker] = max(found, of_case.get((blocked, blocker), (-1.0, 0)))
    cases = []
    for sample, of_case in pairs.items():
        case = truth[sample]
        graph = graph_features(
            [blocked for blocked, _ in of_case],
            [blocker for _, blocker in of_case],
            case["query_object"],
            np.array([score for score, _ in of_case.values()]),
        )
        cases.append(
            SimpleNamespace(
                graph=graph,
                label=np.array([label for _, label in of_case.values()]),
                image=case["image_id"],
                target=case["query_object"],
                objects=sorted({case["query_object"]} | {o for pair in of_case for o in pair}),
                top_objects=set(case["top_objects"]),
            )
        )
    return cases
