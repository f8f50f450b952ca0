"""Reliability: does what happens with probability p happen a share p of the time."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int, Shaped

from cpor.errors import FittingError
from cpor.learn.scoring import auroc, brier, check_probabilities, nll

N_BINS = 10
"""Equal-width bins, as in the paper's protocol."""


@dataclass(frozen=True, eq=False)
class ReliabilityBins:
    """A reliability diagram as numbers; an empty bin has count 0 and NaN means.

    Attributes:
        edge: Bin k holds edge[k] <= p < edge[k + 1]; the last one its right edge too. Shape (b + 1,).
        count: Cases in each bin. Shape (b,).
        p_mean: Mean probability in each bin. Shape (b,).
        rate: Share of positive labels in each bin. Shape (b,).
    """

    edge: Float[np.ndarray, " edges"]
    count: Int[np.ndarray, " b"]
    p_mean: Float[np.ndarray, " b"]
    rate: Float[np.ndarray, " b"]


def reliability_bins(
    p: Shaped[np.ndarray, " n"], label: Shaped[np.ndarray, " n"], n_bins: int = N_BINS
) -> ReliabilityBins:
    """Count, mean probability and observed rate in bins of equal width.

    Args:
        p: Probabilities. Shape (n,).
        label: 0 / 1 or bool. Shape (n,).
        n_bins: Number of bins.
    """
    values, truth = check_probabilities(p, label)
    if n_bins < 1:
        raise FittingError(f"n_bins is {n_bins}; give at least 1")
    # The published figures put a probability of exactly 0.7 below linspace's 0.7000000000000001.
    edge = np.linspace(0.0, 1.0, n_bins + 1)
    bin_of = np.digitize(values, edge[1:-1])
    count = np.bincount(bin_of, minlength=n_bins)
    filled = count > 0
    p_mean = np.full(n_bins, np.nan)
    rate = np.full(n_bins, np.nan)
    p_mean[filled] = np.bincount(bin_of, values, minlength=n_bins)[filled] / count[filled]
    rate[filled] = np.bincount(bin_of, truth, minlength=n_bins)[filled] / count[filled]
    return ReliabilityBins(edge, count, p_mean, rate)


def ece(p: Shaped[np.ndarray, " n"], label: Shaped[np.ndarray, " n"], n_bins: int = N_BINS) -> float:
    """Expected calibration error: the mean over cases of |mean probability - rate| of their bin.

    Args:
        p: Probabilities. Shape (n,).
        label: 0 / 1 or bool. Shape (n,).
        n_bins: Number of bins of equal width.
    """
    bins = reliability_bins(p, label, n_bins)
    filled = bins.count > 0
    share = bins.count[filled] / bins.count.sum()
    return float(share @ np.abs(bins.p_mean[filled] - bins.rate[filled]))


@dataclass(frozen=True, slots=True)
class ReliabilitySummary:
    """How far a list of probabilities can be trusted.

    Attributes:
        n: Cases measured.
        n_unanswered: Cases left out because they had no answer.
        positive_rate: Share of positive labels.
        nll: Negative log-likelihood. [nats]
        brier: Brier score.
        ece: Expected calibration error, 10 bins of equal width.
        auroc: Area under the ROC curve; None where only one class is there.
    """

    n: int
    n_unanswered: int
    positive_rate: float
    nll: float
    brier: float
    ece: float
    auroc: float | None


def summarise_reliability(p: Shaped[np.ndarray, " n"], label: Shaped[np.ndarray, " n"]) -> ReliabilitySummary:
    """Measure the answered cases, and say how many had no answer.

    Args:
        p: Probabilities; NaN where there was no answer. Shape (n,).
        label: 0 / 1 or bool. Shape (n,).
    """
    values, truth = np.asarray(p, dtype=np.float64), np.asarray(label)
    if truth.shape != values.shape:
        raise FittingError(
            f"probabilities of shape {values.shape} and labels of shape {truth.shape} do not belong together"
        )
    answered = ~np.isnan(values)
    values, positive = check_probabilities(values[answered], truth[answered])
    two_classes = positive.any() and not positive.all()
    return ReliabilitySummary(
        n=values.size,
        n_unanswered=int((~answered).sum()),
        positive_rate=float(positive.mean()),
        nll=nll(values, positive),
        brier=brier(values, positive),
        ece=ece(values, positive),
        auroc=auroc(values, positive) if two_classes else None,
    )
