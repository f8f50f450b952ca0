"""Probability ablation (Table prob-ablation, relation level): calibrators fitted to one log, told on another.

The rows with fusion need both sources of every pair, and the object rows the graphs; neither is in a
score log.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from cpor.data.score_log import ScoreLog, read_score_log
from cpor.fitting.score_log import calibrate_log
from cpor.metrics import Interval, ReliabilitySummary, bootstrap_mean, summarise_reliability
from cpor.metrics.scoring import ZETA

FIGURES = ("ece", "brier", "nll", "auroc")

PAPER: dict[str, dict[str, float]] = {
    name: dict(zip(FIGURES, values, strict=True))
    for name, values in {
        "raw": (0.1416, 0.2149, 0.6777, 0.5985),
        "temperature": (0.0278, 0.1941, 0.5759, 0.5962),
        "platt": (0.0619, 0.1979, 0.5837, 0.5985),
        "isotonic": (0.0453, 0.1963, 0.6347, 0.6033),
        "adaptive-platt": (0.0478, 0.1978, 0.5823, 0.6084),
    }.items()
}
"""Table prob-ablation, relation level, before fusion; on the authors' test scores."""

ORIGIN = (
    "The paper's figures come from the authors' raw scores of the test set, which were not released in "
    "this form: a difference tells how the data differ as much as how the methods do."
)
SEED = 0
"""Of the bootstrap, so that the same files give the same intervals."""


@dataclass(frozen=True, eq=False)
class AblationRow:
    """One way to turn the test log's scores into probabilities.

    Attributes:
        method: `raw`, or the calibrator fitted to the other log.
        found: Figures on the test log.
        ci: Intervals of `brier` and `nll`, images resampled. The ECE has none: it is no mean over pairs.
    """

    method: str
    found: ReliabilitySummary
    ci: Mapping[str, Interval]

    def to_json(self) -> dict[str, Any]:
        """Ours, the paper's and the difference."""
        ours = {name: getattr(self.found, name) for name in FIGURES}
        paper = PAPER[self.method]
        gap = {name: None if value is None else value - paper[name] for name, value in ours.items()}
        return {"name": self.method, "ours": ours, "ci": dict(self.ci), "paper": paper, "difference": gap}


@dataclass(frozen=True, eq=False)
class ProbabilityAblation:
    """The table.

    Attributes:
        rows: `raw`, then the calibrators.
        n_fit: Pairs fitted to.
        n_shared_images: Images of the test log that were fitted to as well; should be 0.
    """

    rows: tuple[AblationRow, ...]
    n_fit: int
    n_shared_images: int

    def to_json(self) -> dict[str, Any]:
        """Rows, and what to know about them."""
        test = self.rows[0].found
        notes = [
            f"Fitted to {self.n_fit} pairs, told on {test.n} others; {test.n_unanswered} had no answer.",
            ORIGIN,
        ]
        if self.n_shared_images:
            notes.append(
                f"{self.n_shared_images} images are in both logs: the figures are better than they should be."
            )
        return {
            "rows": [row.to_json() for row in self.rows],
            "test": asdict(test),
            "n_fit": self.n_fit,
            "n_shared_images": self.n_shared_images,
            "notes": notes,
        }


def measure_probability_ablation(fit_file: str | Path, test_file: str | Path) -> ProbabilityAblation:
    """Fit each calibrator to one score log and measure it on another.

    Args:
        fit_file: CSV with image, prob_edge, N_cand, label.
        test_file: The same columns, other images.
    """
    fit, test = read_score_log(fit_file), read_score_log(test_file)
    rng = np.random.default_rng(SEED)
    rows = [_measure("raw", test.score, test, rng)]
    for method in PAPER:
        if method != "raw":
            calibrator = calibrate_log(fit, method).calibrator
            p = calibrator.apply(test.score, n_candidates=test.n_candidates)
            rows.append(_measure(method, p, test, rng))
    return ProbabilityAblation(tuple(rows), len(fit), np.intersect1d(fit.image, test.image).size)


def _measure(method: str, p: Float[np.ndarray, " n"], log: ScoreLog, rng: np.random.Generator) -> AblationRow:
    found = summarise_reliability(p, log.label)  # first, since it refuses a log without any answer
    answered = ~np.isnan(p)
    values, label, image = p[answered], log.label[answered], log.image[answered]
    clipped = np.clip(values, ZETA, 1.0 - ZETA)
    losses = {
        "brier": (values - label) ** 2,
        "nll": -np.where(label, np.log(clipped), np.log1p(-clipped)),
    }
    ci = {name: bootstrap_mean(loss, image, rng) for name, loss in losses.items()}
    return AblationRow(method, found, ci)
