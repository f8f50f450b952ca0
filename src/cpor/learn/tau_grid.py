"""Which taus to test and where to begin: decided on the fitting part, before the test."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Shaped
from scipy.special import bdtr, betaincinv

from cpor.errors import FittingError
from cpor.learn.control import (
    by_kind,
    check_levels,
    check_outcomes,
    count_executed,
    least_executed,
    most_wrong,
)

N_TAUS = 100
"""Taus at equal steps of coverage: one percent of the scenes apart."""

N_QUANTILES = 16
"""Points at which the uncertain error rate is averaged over when a start is judged."""


def choose_tau_grid(
    score_fit: Shaped[np.ndarray, " n"],
    wrong_fit: Shaped[np.ndarray, " n"],
    alpha: float,
    delta: float,
    *,
    n_calibration: int | None = None,
    n_taus: int = N_TAUS,
    stratum: Sequence[str] = (),
) -> Float[np.ndarray, " t"]:
    """Decreasing taus for `control_risk`, beginning where the first test is most likely to pass.

    The first test decides whether anything is promised at all. Too high a tau executes too few scenes
    to pass with a single error, too low a tau executes scenes that are too hard. So each tau is judged
    by the probability that the calibration scenes will pass it, the error rate being known only as
    well as the fitting part shows it (Beta(k + 1/2, n - k + 1/2)). From there the grid goes down.

    Args:
        score_fit: Best action score of each scene of the fitting part; NaN = no answer. Shape (n,).
        wrong_fit: Whether that action would have been wrong. Shape (n,).
        alpha: Allowed rate of wrong actions among those executed.
        delta: Allowed probability of a broken promise.
        n_calibration: Scenes that the test will have; as many as here by default.
        n_taus: Most taus in the grid.
        stratum: The kind of each case where kinds are tested apart, as in `control_risk`.
    """
    check_levels(alpha, delta)
    score, wrong = check_outcomes(score_fit, wrong_fit)
    if n_taus < 1 or (n_calibration is not None and n_calibration < 1):
        raise FittingError("n_taus and n_calibration must be at least 1")
    answered = score[~np.isnan(score)]
    if answered.size == 0:
        raise FittingError("no scene of the fitting part has an answer: there is no score to set tau by")
    # Just below the least score everything is executed, save what has no chance at all (score 0).
    everything = max(0.0, float(np.nextafter(answered.min(), -np.inf)))
    levels = np.quantile(answered, np.linspace(0.0, 1.0, n_taus, endpoint=False), method="lower")
    tau = np.unique(np.append(levels, everything))[::-1]
    chance, is_feasible = np.ones(tau.size), np.ones(tau.size, np.bool_)
    for at in by_kind(stratum, score.size).values():
        n_executed, n_wrong = count_executed(score[at], wrong[at], tau)
        n_test = np.floor(n_executed * ((n_calibration or score.size) / score.size)).astype(np.int64)
        chance *= _chance_to_pass(n_executed, n_wrong, n_test, alpha, delta)
        is_feasible &= n_test >= least_executed(alpha, delta)
    feasible = np.flatnonzero(is_feasible)
    # Where no tau can pass, testing the most scenes at once gives the plainest refusal.
    start = int(feasible[np.argmax(chance[feasible])]) if feasible.size else tau.size - 1
    return np.array(tau[start:])


def _chance_to_pass(
    n_executed: Shaped[np.ndarray, " t"],
    n_wrong: Shaped[np.ndarray, " t"],
    n_test: Shaped[np.ndarray, " t"],
    alpha: float,
    delta: float,
) -> Float[np.ndarray, " t"]:
    """Probability that n_test scenes pass at each tau, averaged over what the error rate may be."""
    quantile = (np.arange(N_QUANTILES) + 0.5) / N_QUANTILES
    rate = betaincinv(n_wrong[:, None] + 0.5, n_executed[:, None] - n_wrong[:, None] + 0.5, quantile)
    allowed = most_wrong(n_test, alpha, delta)
    passing = bdtr(np.maximum(allowed, 0)[:, None], n_test[:, None], rate).mean(axis=1)
    return np.where(allowed >= 0, passing, 0.0)
