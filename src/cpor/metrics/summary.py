"""The four figures that describe a list of probabilities, side by side."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Shaped

from cpor.metrics.checks import MetricInputError, check_probabilities
from cpor.metrics.ranking import auroc
from cpor.metrics.reliability import ece
from cpor.metrics.scoring import brier, nll


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
        raise MetricInputError(
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
