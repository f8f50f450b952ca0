"""Several scorers on one truth (Table cross-vlm): raw scores, then the whole pipeline with nothing refitted.

Calibrator, fusion weights and decoding threshold are fitted to the first log (cross-fitted by image) and stay
fixed for the others; only the base rate of each log's candidate pool is recomputed. A log of fused scores
alone gives the pipeline's row as it stands.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from cpor.errors import InvalidSettingError
from cpor.learn.reliability import ece
from cpor.paper.cases import NO_SHIFT, score_cases, solve_cases
from cpor.paper.decoding import SHIFT
from cpor.paper.evaluate import Missing, evaluate
from cpor.paper.probability_ablation import FUSED, Stages, at_stage, cross_fit, object_reliability
from cpor.paper.table import PUBLISHED, Figures, Table, paper_rows
from cpor.paper.unobench import FusedScores, UnobenchCase, read_fused_scores, read_truth

AUTHORS_ALONE = "Needs that model's scores; the authors released none. Give its log with --scores NAME=FILE."


def parse_scorers(given: Sequence[str]) -> dict[str, Path]:
    """Read `NAME=FILE` arguments; a name given twice is an error."""
    named: dict[str, Path] = {}
    for text in given:
        name, equals, file = text.partition("=")
        if not (name.strip() and equals and file):
            raise InvalidSettingError(f"{text!r} names no score log; write NAME=FILE, such as gpt-4o=s.csv")
        if name.strip() in named:
            raise InvalidSettingError(f"the scorer {name.strip()!r} is given twice; give each its own name")
        named[name.strip()] = Path(file)
    return named


def compare_scorers(
    scores: Mapping[str, str | Path], truth_file: str | Path, missing: Missing = "wrong", shift: float = SHIFT
) -> Table:
    """The table from files.

    Args:
        scores: A log by scorer, the reference first: CSV with sample_id, edge, edge_confidence, label and,
            for the protocol, prob_edge, N_cand, p_geometry and reliability.
        truth_file: Ground truth, JSON lines or a JSON list.
        missing: What cases without candidate relation count as; the paper's tables: `unobstructed`.
        shift: Decoding shift of the pipeline's rows.
    """
    if not scores:
        raise InvalidSettingError("no scores are given; give at least one NAME=FILE")
    cases = read_truth(truth_file)
    logs = {name: read_fused_scores(file, len(cases)) for name, file in scores.items()}
    return scorer_table(cases, logs, missing, shift)


def scorer_table(
    cases: tuple[UnobenchCase, ...], logs: Mapping[str, FusedScores], missing: Missing, shift: float
) -> Table:
    """The table from logs; the first that has raw scores is the reference."""
    reference = next((log for log in logs.values() if log.sources), None)
    ours: dict[str, Figures] = {}
    for name, log in logs.items():
        known = _known_name(name)
        if not log.sources or reference is None:
            ours[f"{known}, pipeline"] = measure_scorer(cases, log, log.p, missing, shift)
            continue
        stages: Stages = cross_fit(cases, reference, None if log is reference else log)
        ours[f"{known}, raw"] = measure_scorer(cases, log, stages["raw"], missing, NO_SHIFT)
        ours[f"{known}, pipeline"] = measure_scorer(cases, log, stages[FUSED], missing, shift)
    notes = (
        "raw: scores as they come. pipeline: calibrator, weights and threshold of the first log; only the "
        "base rate of the candidate pool is each log's own.",
        f"Reliability before the decoding shift of {shift:g}. "
        f"{len(cases)} cases; those without candidate relation count as {missing!r}, in the paper as "
        "'unobstructed'.",
    )
    return Table("cross-vlm", "Scorers", paper_rows("cross-vlm", ours, {}, AUTHORS_ALONE), notes)


def measure_scorer(
    cases: tuple[UnobenchCase, ...], log: FusedScores, p: np.ndarray, missing: Missing, shift: float
) -> Figures:
    """Relation and object F1 decoded as in the paper; both ECEs are of probabilities before the shift."""
    at = at_stage(log, p)
    solved = solve_cases(score_cases(cases, at, shift))
    overall = evaluate(cases, solved.decode(), missing).overall
    answered = ~np.isnan(p)
    plain = solved if shift == NO_SHIFT else solve_cases(score_cases(cases, at))
    return {
        "relation_f1": overall.relation_f1,
        "object_f1": overall.object_f1,
        "relation_ece": ece(p[answered], log.label[answered]),
        "object_ece": object_reliability(plain, "dag").ece,
    }


def _known_name(name: str) -> str:
    """The paper's name of a scorer, found by its letters and digits alone: `gpt4o` is `GPT-4o`."""
    printed = {_plain(row.rsplit(",", 1)[0]): row.rsplit(",", 1)[0] for row in PUBLISHED["cross-vlm"]}
    return printed.get(_plain(name), name)


def _plain(name: str) -> str:
    return "".join(c for c in name.lower() if c.isalnum())
