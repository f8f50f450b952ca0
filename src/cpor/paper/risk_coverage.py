"""Selective execution: what deferring the least certain cases buys (risk-coverage, AURC, ECR)."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from cpor.errors import FittingError


@dataclass(frozen=True, eq=False)
class RiskCoverage:
    """Mean loss of the cases that are kept, as fewer and fewer are deferred.

    Attributes:
        coverage: Share of cases kept, 1/n to 1. Shape (n,).
        risk: Mean loss of those kept; cases of equal confidence share their mean loss. Shape (n,).
    """

    coverage: Float[np.ndarray, " n"]
    risk: Float[np.ndarray, " n"]

    @property
    def area(self) -> float:
        """Area under the curve (AURC): its mean over the n coverages; lower is better."""
        return float(self.risk.mean())

    @property
    def captured(self) -> Float[np.ndarray, " n"]:
        """Share of all loss among the cases not kept; zeros where there is no loss. Shape (n,)."""
        loss = self.coverage * self.risk
        return 1.0 - loss / loss[-1] if loss[-1] > 0.0 else np.zeros_like(loss)

    def ecr(self, defer_rate: float) -> float:
        """Error capture rate ECR(D) = 1 - (1 - D) rho(D) / rho(0): share of all loss that deferring removes.

        Deferring at random gives D. A case on the border is deferred in part.
        """
        loss = np.concatenate([[0.0], self.coverage * self.risk])
        if not 0.0 <= defer_rate <= 1.0:
            raise FittingError(f"the defer rate is {defer_rate}; it must lie in [0, 1]")
        if loss[-1] == 0.0:
            raise FittingError("no case has a loss: there is no error to capture")
        return float(1.0 - np.interp(1.0 - defer_rate, [0.0, *self.coverage], loss) / loss[-1])


def risk_coverage(confidence: Float[np.ndarray, " n"], loss: Float[np.ndarray, " n"]) -> RiskCoverage:
    """The risk-coverage curve of a score: keep the most confident first.

    Args:
        confidence: Higher is surer. Shape (n,).
        loss: What each case costs if acted on, such as 1 - F1. Shape (n,).
    """
    score, cost = np.asarray(confidence, np.float64), np.asarray(loss, np.float64)
    if score.ndim != 1 or score.shape != cost.shape or score.size == 0:
        raise FittingError(
            f"confidences of shape {score.shape} and losses of shape {cost.shape}: give one loss a case"
        )
    if not (np.isfinite(score).all() and np.isfinite(cost).all()):
        raise FittingError("a confidence or a loss is not a finite number; leave such cases out on purpose")
    _, level, ties = np.unique(-score, return_inverse=True, return_counts=True)
    fair = np.repeat(np.bincount(level, cost) / ties, ties)
    count = np.arange(1, fair.size + 1)
    return RiskCoverage(count / fair.size, np.cumsum(fair) / count)
