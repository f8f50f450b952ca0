"""Ranking: are positives scored above negatives, whatever the scale of the scores."""

import numpy as np
from jaxtyping import Shaped

from cpor.learn.checks import MetricInputError, check_scores


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
        raise MetricInputError(
            f"AUROC compares positives with negatives: there are {n_positive} and {n_negative}"
        )
    # Ties share the mean of their ranks; scipy.stats, which has this too, takes half a second to import.
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks = np.cumsum(counts) - (counts - 1) / 2.0
    rank_sum = float(ranks[place][truth].sum())
    return (rank_sum - n_positive * (n_positive + 1) / 2.0) / (n_positive * n_negative)
