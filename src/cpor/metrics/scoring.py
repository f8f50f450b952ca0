"""Proper scoring rules, lower is better: only the true probability attains the least mean."""

import math

import numpy as np
from jaxtyping import Shaped

from cpor.metrics.checks import check_probabilities

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


def truncation_tv(log_z_kept: float, log_z: float) -> float:
    """d_TV(P_D, P_K) = 1 - Z_K / Z, of a posterior cut down to the graphs kept and renormalised.

    Args:
        log_z_kept: Log mass of the graphs kept.
        log_z: Log mass of all graphs.
    """
    return max(0.0, -math.expm1(min(log_z_kept - log_z, 0.0)))
