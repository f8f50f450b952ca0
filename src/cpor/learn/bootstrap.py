"""Confidence intervals by resampling whole scenes, and paired comparisons of two methods."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Shaped

from cpor.errors import FittingError

N_RESAMPLES = 2000
LEVEL = 0.95
_CHUNK = 1 << 21
"""Draws held in memory at once."""


class Interval(NamedTuple):
    """A confidence interval."""

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class PairedComparison:
    """What changes from one method to another on the same cases.

    Attributes:
        corrections: Cases that become better (b of the paper).
        regressions: Cases that become worse (c).
        delta: Mean change; (b - c) / n where cases are right or wrong.
        ci: Confidence interval of `delta`, images resampled.
        n: Cases.
    """

    corrections: int
    regressions: int
    delta: float
    ci: Interval
    n: int


def bootstrap_mean(
    values: Float[np.ndarray, " n"],
    image: Shaped[np.ndarray, " n"],
    rng: np.random.Generator,
    n_resamples: int = N_RESAMPLES,
    level: float = LEVEL,
) -> Interval:
    """Percentile interval of the mean over cases, whole images resampled: cases of one image go together.

    Args:
        values: One value a case. Shape (n,).
        image: Which image each case belongs to. Shape (n,).
        rng: Source of randomness.
        n_resamples: Resamples drawn.
        level: Probability that the interval shall cover the true mean.
    """
    numbers = np.asarray(values, np.float64)
    if numbers.ndim != 1 or numbers.size == 0 or np.shape(image) != numbers.shape:
        raise FittingError(
            f"values of shape {numbers.shape} and images of shape {np.shape(image)}: give one image a value"
        )
    if not np.isfinite(numbers).all():
        raise FittingError("a value is not a finite number; leave such cases out on purpose")
    _, group = np.unique(np.asarray(image), return_inverse=True)
    total = np.bincount(group, numbers)
    count = np.bincount(group).astype(np.float64)
    means = []
    left = n_resamples
    while left:
        rows = min(left, max(1, _CHUNK // total.size))
        drawn = rng.integers(total.size, size=(rows, total.size))
        means.append(total[drawn].sum(axis=1) / count[drawn].sum(axis=1))
        left -= rows
    low, high = np.quantile(np.concatenate(means), [(1.0 - level) / 2.0, (1.0 + level) / 2.0])
    return Interval(float(low), float(high))


def compare_paired(
    before: Float[np.ndarray, " n"],
    after: Float[np.ndarray, " n"],
    image: Shaped[np.ndarray, " n"],
    rng: np.random.Generator,
    n_resamples: int = N_RESAMPLES,
) -> PairedComparison:
    """Compare two methods case by case.

    Args:
        before: Score of each case under the first, higher is better; 0 / 1 for wrong / right. Shape (n,).
        after: The same under the second. Shape (n,).
        image: Which image each case belongs to. Shape (n,).
        rng: Source of randomness.
        n_resamples: Resamples drawn for the interval.
    """
    change = np.asarray(after, np.float64) - np.asarray(before, np.float64)
    interval = bootstrap_mean(change, image, rng, n_resamples)
    return PairedComparison(
        int((change > 0.0).sum()), int((change < 0.0).sum()), float(change.mean()), interval, change.size
    )
