"""Score logs: CSV files of labelled relation scores, one row a pair."""

import csv
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float, Shaped

from cpor.errors import InputFileError, list_labels

COLUMNS = ("image", "prob_edge", "N_cand", "label")


@dataclass(frozen=True, eq=False)
class ScoreLog:
    """Labelled relation scores.

    Attributes:
        image: Which image each pair belongs to. Shape (n,).
        score: In [0, 1]; NaN where the cell is empty: no answer. Shape (n,).
        n_candidates: Pairs scored in the pair's scene. Shape (n,).
        label: Whether the relation is true. Shape (n,).
    """

    image: Shaped[np.ndarray, " n"]
    score: Float[np.ndarray, " n"]
    n_candidates: Float[np.ndarray, " n"]
    label: Bool[np.ndarray, " n"]

    def __len__(self) -> int:
        return len(self.score)


def read_score_log(path: str | Path) -> ScoreLog:
    """Read a CSV with the columns image, prob_edge, N_cand and label; others are ignored."""
    path = Path(path)
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = csv.DictReader(file)
            missing = [name for name in COLUMNS if name not in (rows.fieldnames or [])]
            if missing:
                raise InputFileError(
                    f"{path} has no column {missing[0]!r}; it needs {list_labels(COLUMNS)}, "
                    f"it has: {list_labels(rows.fieldnames or ['nothing'])}"
                )
            read = [_read_row(path, rows.line_num, row) for row in rows]
    except (OSError, UnicodeDecodeError, csv.Error) as problem:
        raise InputFileError(f"cannot read the score log {path}: {problem}") from None
    if not read:
        raise InputFileError(f"{path} has no rows below its header")
    image, score, count, label = zip(*read, strict=True)
    return ScoreLog(np.array(image), np.array(score), np.array(count), np.array(label, bool))


def _read_row(path: Path, line: int, row: dict[str, str | None]) -> tuple[str, float, float, bool]:
    cells = [row[name] for name in COLUMNS]
    if any(cell is None for cell in cells):
        raise InputFileError(f"{path}, line {line}: fewer cells than the header has columns")
    image, score, count, label = (str(cell).strip() for cell in cells)
    if label not in ("0", "1", "0.0", "1.0"):
        raise InputFileError(f"{path}, line {line}: label is {label!r}; it must be 0 or 1")
    return (
        image,
        math.nan if score == "" else _number(path, line, "prob_edge", score, 0.0, 1.0),
        _number(path, line, "N_cand", count, 1.0, math.inf),
        label.startswith("1"),
    )


def _number(path: Path, line: int, name: str, cell: str, low: float, high: float) -> float:
    try:
        value = float(cell)
    except ValueError:
        value = math.nan
    if not (low <= value <= high and math.isfinite(value)):
        limits = f"in [{low:g}, {high:g}]" if math.isfinite(high) else f"of at least {low:g}"
        empty = ", or nothing where there was no answer" if name == "prob_edge" else ""
        raise InputFileError(f"{path}, line {line}: {name} is {cell!r}; give a number {limits}{empty}")
    return value
