"""Score logs, CSV files of labelled relation scores: read one, calibrate it, compare before with after."""

import csv
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float, Shaped

from cpor.errors import InputFileError, InvalidSettingError, list_labels, one_of
from cpor.learn.cross_validation import N_FOLDS, PenaltyCurve
from cpor.learn.isotonic import IsotonicCalibrator
from cpor.learn.logistic import Calibrator, LogisticCalibrator
from cpor.learn.reliability import ReliabilitySummary, summarise_reliability

COLUMNS = ("image", "prob_edge", "N_cand", "label")
METHODS = ("adaptive-platt", "platt", "temperature", "isotonic")


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


@dataclass(frozen=True, eq=False)
class LogCalibration:
    """A calibrator fitted to a score log.

    Attributes:
        method: One of METHODS.
        calibrator: The fit.
        curve: Cross-validation of the penalty; None for methods without one.
        before: Figures of the raw scores.
        after: Figures of the calibrated probabilities, on the same rows.
    """

    method: str
    calibrator: Calibrator
    curve: PenaltyCurve | None
    before: ReliabilitySummary
    after: ReliabilitySummary

    @property
    def penalty(self) -> float | None:
        """lambda_cal; None for methods without one."""
        fit = self.calibrator
        return fit.penalty if isinstance(fit, LogisticCalibrator) and fit.sees == "scene" else None

    @property
    def parameters(self) -> dict[str, float | list[float]]:
        """The fitted numbers under the names the paper gives them."""
        fit = self.calibrator
        if isinstance(fit, IsotonicCalibrator):
            return {"score_knots": list(fit.score_knots), "p_knots": list(fit.p_knots)}
        if fit.sees == "score":
            return {"T": 1.0 / fit.slope} if self.method == "temperature" else {"a": fit.slope, "c": fit.bias}
        names = ("alpha0", "alphaN", "c0", "cN")
        assert fit.objective is not None
        return {
            "mu_phi": fit.mean[0],
            "sigma_phi": fit.scale[0],
            **dict(zip(names, fit.theta, strict=True)),
            "objective": fit.objective,
        }


def calibrate_log(log: ScoreLog, method: str, penalty: float | None = None) -> LogCalibration:
    """Fit a calibrator to a score log.

    Args:
        log: Labelled scores.
        method: One of METHODS; `adaptive-platt` is the paper's, conditioned on the scene.
        penalty: lambda_cal of `adaptive-platt`; chosen by cross-validation over images where None.
    """
    one_of("method", method, METHODS)
    if penalty is not None and method != "adaptive-platt":
        raise InvalidSettingError(f"{method} has no penalty; only adaptive-platt does")
    curve = None
    fit: Calibrator
    if method == "adaptive-platt":
        counts = log.n_candidates
        folds = min(N_FOLDS, np.unique(log.image).size)
        if folds > 1:
            curve = LogisticCalibrator.penalty_curve(
                log.score, log.label, log.image, n_candidates=counts, n_folds=folds
            )
        if curve is None and penalty is None:
            raise InvalidSettingError(
                "all rows belong to one image, so no penalty can be chosen; give --penalty"
            )
        chosen = curve.best if penalty is None and curve is not None else penalty
        assert chosen is not None
        fit = LogisticCalibrator.fit(log.score, log.label, sees="scene", n_candidates=counts, penalty=chosen)
    elif method == "platt":
        fit = LogisticCalibrator.fit(log.score, log.label)
    elif method == "temperature":
        fit = LogisticCalibrator.fit(log.score, log.label, with_bias=False)
    else:
        fit = IsotonicCalibrator.fit(log.score, log.label)
    after = fit.apply(log.score, n_candidates=log.n_candidates)
    return LogCalibration(
        method,
        fit,
        curve,
        summarise_reliability(log.score, log.label),
        summarise_reliability(after, log.label),
    )
