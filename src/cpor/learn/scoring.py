"""Proper scoring rules, lower is better: only the true probability attains the least mean."""

import numpy as np
from jaxtyping import Shaped

from cpor.learn.checks import check_probabilities

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
