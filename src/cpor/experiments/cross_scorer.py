"""Cross-scorer comparison (Table cross-vlm): any number of score logs on one truth, side by side.

The paper's arrow leads from a VLM's raw answers to the whole pipeline. One log holds one kind of scores,
so the arrow here leads from the log as it stands to the same log with the paper's edge prior taken out.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cpor.data.unobench import Case, FusedScores, read_fused_scores, read_truth
from cpor.decoding.paper import SHIFT, assemble_paper, map_graph, object_ids
from cpor.errors import InvalidSettingError
from cpor.experiments.cases import NO_SHIFT, score_cases
from cpor.experiments.evaluate import Missing, evaluate
from cpor.experiments.structure import solve_all
from cpor.fusion import shift_for_decoding
from cpor.metrics import ece

FIGURES = ("relation_f1", "object_f1", "relation_ece", "object_ece")


@dataclass(frozen=True, slots=True)
class ScorerFigures:
    """One scorer under one shift, decoded as in the paper; relation_f1 is None without true relations."""

    relation_f1: float | None
    object_f1: float | None
    relation_ece: float
    object_ece: float

    def to_json(self) -> dict[str, float | None]:
        """By name."""
        return {name: getattr(self, name) for name in FIGURES}


PAPER: dict[str, tuple[ScorerFigures, ScorerFigures]] = {
    "Gemini Robotics-ER-1.6": (
        ScorerFigures(0.4705, 0.6767, 0.1416, 0.4718),
        ScorerFigures(0.6174, 0.7222, 0.0185, 0.0824),
    ),
    "GPT-4o": (
        ScorerFigures(0.3817, 0.5511, 0.2568, 0.6504),
        ScorerFigures(0.6100, 0.6930, 0.1417, 0.1046),
    ),
    "Qwen3.5": (
        ScorerFigures(0.4335, 0.5266, 0.2484, 0.5781),
        ScorerFigures(0.6129, 0.6521, 0.1503, 0.1399),
    ),
    "InternVL3.5": (
        ScorerFigures(0.3549, 0.4201, 0.3135, 0.5655),
        ScorerFigures(0.5696, 0.6365, 0.2157, 0.1105),
    ),
    "Gemma3": (
        ScorerFigures(0.1971, 0.2213, 0.3253, 0.7589),
        ScorerFigures(0.5799, 0.6791, 0.2582, 0.0914),
    ),
}
"""Table cross-vlm: raw answers, and after the whole pipeline."""


@dataclass(frozen=True, slots=True)
class ScorerRow:
    """One score log.

    Attributes:
        name: As given.
        backbone: The paper's row of that name; None where it has none.
        n_missing: Cases without a usable candidate relation.
        plain: As the log stands.
        shifted: With the paper's edge prior taken out.
    """

    name: str
    backbone: str | None
    n_missing: int
    plain: ScorerFigures
    shifted: ScorerFigures

    def to_json(self) -> list[dict[str, Any]]:
        """A row as the log stands and a row shifted, the paper's raw and pipeline figures beside them."""
        theirs = PAPER[self.backbone] if self.backbone else (None, None)
        rows = []
        for step, found, paper in zip(("plain", "shifted"), (self.plain, self.shifted), theirs, strict=True):
            ours, printed = found.to_json(), paper.to_json() if paper else dict.fromkeys(FIGURES)
            gap = {k: _subtract(ours[k], printed[k]) for k in FIGURES}
            rows.append(
                {
                    "name": f"{self.name}, {step}",
                    "scorer": self.name,
                    "step": step,
                    "n_missing": self.n_missing,
                    "ours": ours,
                    "paper": printed if paper else None,
                    "difference": gap,
                }
            )
        return rows


@dataclass(frozen=True, eq=False)
class CrossScorer:
    """The table; `missing` says what cases without candidate relation count as."""

    rows: tuple[ScorerRow, ...]
    n_cases: int
    missing: Missing

    def to_json(self) -> dict[str, Any]:
        """Rows, the paper's rows nobody gave scores for, and what to know about them."""
        given = {row.backbone for row in self.rows}
        absent = [name for name in PAPER if name not in given]
        notes = [
            f"plain: the log as it stands; shifted: edge prior {SHIFT:g} taken out, which the authors chose "
            f"on the test split. The paper's two figures are raw VLM answers and the whole pipeline, so "
            "only a log of the same stage is comparable.",
            f"{self.n_cases} cases; those without candidate relation count as {self.missing!r}, in the "
            "paper as 'unobstructed'.",
        ]
        if absent:
            notes.append(
                f"No scores given for {', '.join(absent)}: only the authors' runs of these VLMs could "
                "produce those rows; the paper's figures stand under `only_authors`."
            )
        return {
            "rows": [each for row in self.rows for each in row.to_json()],
            "only_authors": {
                name: {"plain": PAPER[name][0].to_json(), "shifted": PAPER[name][1].to_json()}
                for name in absent
            },
            "missing": self.missing,
            "notes": notes,
        }


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
    scores: Mapping[str, str | Path], truth_file: str | Path, missing: Missing = "wrong"
) -> CrossScorer:
    """Decode every log as the paper does, with and without its shift.

    Args:
        scores: A log of fused scores by scorer: CSV with sample_id, edge, edge_confidence, label.
        truth_file: Ground truth, JSON lines or a JSON list.
        missing: What cases without candidate relation count as; the paper's tables: `unobstructed`.
    """
    if not scores:
        raise InvalidSettingError("no scores are given; give at least one NAME=FILE")
    cases = read_truth(truth_file)
    rows = []
    for name, file in scores.items():
        log = read_fused_scores(file, len(cases))
        plain, n_missing = _measure(name, cases, log, NO_SHIFT, missing)
        shifted, _ = _measure(name, cases, log, SHIFT, missing)
        rows.append(ScorerRow(name, _backbone(name), n_missing, plain, shifted))
    return CrossScorer(tuple(rows), len(cases), missing)


def _measure(
    name: str, cases: Sequence[Case], log: FusedScores, shift: float, missing: Missing
) -> tuple[ScorerFigures, int]:
    """The same figures as `reproduce`, without the decoders and graphs this table does not show."""
    known = [
        (c.case, c.posterior)
        for c in score_cases(cases, log, shift)
        if c.posterior is not None and not c.posterior.has_unanswered
    ]
    if not known:
        raise InvalidSettingError(f"the scores of {name!r} hold no candidate relation of any case")
    scores = solve_all([posterior for _, posterior in known]).scores
    predictions, label = {}, []
    for (case, posterior), q in zip(known, scores, strict=True):
        ids = object_ids(posterior)
        marginals = dict(zip(ids, q.tolist(), strict=True))
        predictions[case.index] = assemble_paper(marginals, map_graph(posterior), case.target)
        label += [o in case.top_objects for o in ids]
    overall = evaluate(cases, predictions, missing).overall
    answered = ~np.isnan(log.p)
    p = shift_for_decoding(log.p[answered], shift)
    relation_ece, object_ece = ece(p, log.label[answered]), ece(np.concatenate(scores), np.array(label))
    figures = ScorerFigures(overall.relation_f1, overall.object_f1, relation_ece, object_ece)
    return figures, len(cases) - len(known)


def _backbone(name: str) -> str | None:
    plain = {_plain(printed): printed for printed in PAPER}
    return plain.get(_plain(name))


def _plain(name: str) -> str:
    """Letters and digits alone, so that `gpt4o` is found as well as `GPT-4o`."""
    return "".join(c for c in name.lower() if c.isalnum())


def _subtract(ours: float | None, paper: float | None) -> float | None:
    return None if ours is None or paper is None else ours - paper
