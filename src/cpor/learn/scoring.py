"""Scores against labels: checks of both, ranking (AUROC), proper scoring rules (Brier, NLL)."""

import numpy as np
from jaxtyping import Bool, Float, Shaped

from cpor.errors import FittingError


def check_scores(
    score: Shaped[np.ndarray, " n"], label: Shaped[np.ndarray, " n"]
) -> tuple[Float[np.ndarray, " n"], Bool[np.ndarray, " n"]]:
    """Scores of any scale and their labels, as float64 and bool.

    Args:
        score: Any finite numbers. Shape (n,).
        label: 0 / 1 or bool. Shape (n,).

    Raises:
        FittingError: Empty input, lengths that differ, a NaN, or a label that is neither 0 nor 1.
    """
    values = np.asarray(score, dtype=np.float64)
    truth = np.asarray(label)
    if values.ndim != 1 or truth.shape != values.shape:
        raise FittingError(
            f"scores of shape {values.shape} and labels of shape {truth.shape}: give one label a score"
        )
    if values.size == 0:
        raise FittingError("there is nothing to measure: the scores are empty")
    bad = np.flatnonzero(~np.isfinite(values))
    if bad.size:
        raise FittingError(
            f"score {bad[0]} is {values[bad[0]]} ({bad.size} such in all): a pair with no answer has no "
            "place in a metric; leave such pairs out, or count them on purpose"
        )
    wrong = np.flatnonzero((truth != 0) & (truth != 1))
    if wrong.size:
        raise FittingError(f"label {wrong[0]} is {truth[wrong[0]]}; labels are 0 or 1")
    return values, truth.astype(bool)


def check_probabilities(
    p: Shaped[np.ndarray, " n"], label: Shaped[np.ndarray, " n"]
) -> tuple[Float[np.ndarray, " n"], Bool[np.ndarray, " n"]]:
    """As `check_scores`, for scores that must lie in [0, 1]."""
    values, truth = check_scores(p, label)
    bad = np.flatnonzero((values < 0.0) | (values > 1.0))
    if bad.size:
        raise FittingError(f"probability {bad[0]} is {values[bad[0]]}; it must lie in [0, 1]")
    return values, truth


def auroc(score: Shaped[np.ndarray, " n"], label: Shaped[np.ndarray, " n"]) -> float:
    """Area under the ROC curve: P(a positive is scored above a negative), a tie counting one half.

    Exact, by the rank sum of Mann and Whitney.

    Args:
        score: Any finite numbers. Shape (n,).
        label: 0 / 1 or bool, both present. Shape (n,).
    """
    values, truth = check_scores(score, label)
    n_positive = int(truth.sum())
    n_negative = truth.size - n_positive
    if n_positive == 0 or n_negative == 0:
        raise FittingError(
            f"AUROC compares positives with negatives: there are {n_positive} and {n_negative}"
        )
    # Ties share the mean of their ranks; scipy.stats, which has this too, takes half a second to import.
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks = np.cumsum(counts) - (counts - 1) / 2.0
    rank_sum = float(ranks[place][truth].sum())
    return (rank_sum - n_positive * (n_positive + 1) / 2.0) / (n_positive * n_negative)


ZETA = 1e-9
"""Probabilities are clipped to [zeta, 1 - zeta] (the paper's zeta): no mistake is infinitely bad."""


def brier(p: Shaped[np.ndarray, " n"], label: Shaped[np.ndarray, " n"]) -> float:
    """Brier score: mean of (p - label)^2.

    Args:
        p: Probabilities. Shape (n,).
        label: 0 / 1 or bool. Shape (n,).
    """
    values, truth = check_probabilities(p, label)
    return float(np.mean((values - truth) ** 2))


def nll(p: Shaped[np.ndarray, " n"], label: Shaped[np.ndarray, " n"], zeta: float = ZETA) -> float:
    """Negative log-likelihood: mean of -log P(label), in nats.

    Args:
        p: Probabilities. Shape (n,).
        label: 0 / 1 or bool. Shape (n,).
        zeta: Probabilities are clipped to [zeta, 1 - zeta] first.
    """
    values, truth = check_probabilities(p, label)
    values = np.clip(values, zeta, 1.0 - zeta)
    return float(-np.mean(np.where(truth, np.log(values), np.log1p(-values))))
