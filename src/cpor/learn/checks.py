"""What every metric asks of its input: probabilities and labels, as many of each, none missing."""

import numpy as np
from jaxtyping import Bool, Float, Shaped

from cpor.errors import CporError


class MetricInputError(CporError, ValueError):
    """Numbers that a metric cannot be computed from."""


def check_scores(
    score: Shaped[np.ndarray, " n"], label: Shaped[np.ndarray, " n"]
) -> tuple[Float[np.ndarray, " n"], Bool[np.ndarray, " n"]]:
    """Scores of any scale and their labels, as float64 and bool.

    Args:
        score: Any finite numbers. Shape (n,).
        label: 0 / 1 or bool. Shape (n,).

    Raises:
        MetricInputError: Empty input, lengths that differ, a NaN, or a label that is neither 0 nor 1.
    """
    values = np.asarray(score, dtype=np.float64)
    truth = np.asarray(label)
    if values.ndim != 1 or truth.shape != values.shape:
        raise MetricInputError(
            f"scores of shape {values.shape} and labels of shape {truth.shape}: give one label a score"
        )
    if values.size == 0:
        raise MetricInputError("there is nothing to measure: the scores are empty")
    bad = np.flatnonzero(~np.isfinite(values))
    if bad.size:
        raise MetricInputError(
            f"score {bad[0]} is {values[bad[0]]} ({bad.size} such in all): a pair with no answer has no "
            "place in a metric; leave such pairs out, or count them on purpose"
        )
    wrong = np.flatnonzero((truth != 0) & (truth != 1))
    if wrong.size:
        raise MetricInputError(f"label {wrong[0]} is {truth[wrong[0]]}; labels are 0 or 1")
    return values, truth.astype(bool)


def check_probabilities(
    p: Shaped[np.ndarray, " n"], label: Shaped[np.ndarray, " n"]
) -> tuple[Float[np.ndarray, " n"], Bool[np.ndarray, " n"]]:
    """As `check_scores`, for scores that must lie in [0, 1]."""
    values, truth = check_scores(p, label)
    bad = np.flatnonzero((values < 0.0) | (values > 1.0))
    if bad.size:
        raise MetricInputError(f"probability {bad[0]} is {values[bad[0]]}; it must lie in [0, 1]")
    return values, truth
