"""Conditioned Platt scaling (eq. calibration, cal-loss): slope and bias that depend on what is known.

With u the clipped log-odds of a score and psi the standardised conditions of its scene or pair:

    a = exp[clip(alpha_0 + alpha . psi, -5, 5)],   c = c_0 + c . psi,   p = sigmoid(a u + c)

The paper's scene-conditioned form has one condition, phi_s; ours adds those of the candidate graph; with
none it is Platt scaling with a positive slope.
"""

import numpy as np
from jaxtyping import Bool, Float
from scipy.special import expit

from cpor.errors import FittingError, InvalidSettingError

LOG_SLOPE_LIMIT = 5.0
"""|log a| is clipped to this, eq. calibration."""

GRADIENT_TOLERANCE = 1e-4
"""A fit whose gradient is still larger than this has not converged."""


def conditioned_platt(
    theta: Float[np.ndarray, " params"],
    logit_score: Float[np.ndarray, " n"],
    condition: Float[np.ndarray, "n k"],
) -> Float[np.ndarray, " n"]:
    """Log-odds a u + c, eq. calibration.

    Args:
        theta: (alpha_0, alpha_1..k, c_0, c_1..k). Shape (2 k + 2,).
        logit_score: u. Shape (n,).
        condition: psi. Shape (n, k).
    """
    k = condition.shape[1]
    log_slope = np.clip(theta[0] + condition @ theta[1 : k + 1], -LOG_SLOPE_LIMIT, LOG_SLOPE_LIMIT)
    return np.asarray(np.exp(log_slope) * logit_score + theta[k + 1] + condition @ theta[k + 2 :])


def conditioned_platt_loss(
    theta: Float[np.ndarray, " params"],
    logit_score: Float[np.ndarray, " n"],
    condition: Float[np.ndarray, "n k"],
    label: Bool[np.ndarray, " n"],
    penalty: float,
    base_penalty: float = 0.0,
) -> tuple[float, Float[np.ndarray, " params"]]:
    """Mean negative log-likelihood plus lambda / 2 (|alpha|^2 + |c|^2), and its gradient; eq. cal-loss.

    Args:
        theta: (alpha_0, alpha_1..k, c_0, c_1..k). Shape (2 k + 2,).
        logit_score: u. Shape (n,).
        condition: psi. Shape (n, k).
        label: Shape (n,).
        penalty: lambda.
        base_penalty: The same on alpha_0 and c_0, which the paper leaves free: it draws towards p = score.
    """
    n, k = condition.shape
    alpha, c = theta[1 : k + 1], theta[k + 2 :]
    log_slope = theta[0] + condition @ alpha
    inside = np.abs(log_slope) < LOG_SLOPE_LIMIT
    stretched = np.exp(np.clip(log_slope, -LOG_SLOPE_LIMIT, LOG_SLOPE_LIMIT)) * logit_score
    logit_p = stretched + theta[k + 1] + condition @ c
    loss = np.mean(np.logaddexp(0.0, logit_p) - label * logit_p)
    d_bias = (expit(logit_p) - label) / n
    # Where the clip holds the slope, moving alpha moves nothing.
    d_log_slope = np.where(inside, d_bias * stretched, 0.0)
    weight = np.full(theta.size, penalty)
    weight[[0, k + 1]] = base_penalty
    gradient = weight * theta
    gradient[0] += d_log_slope.sum()
    gradient[1 : k + 1] += condition.T @ d_log_slope
    gradient[k + 1] += d_bias.sum()
    gradient[k + 2 :] += condition.T @ d_bias
    return float(loss + 0.5 * weight @ theta**2), gradient


def fit_conditioned_platt(
    logit_score: Float[np.ndarray, " n"],
    condition: Float[np.ndarray, "n k"],
    label: Bool[np.ndarray, " n"],
    penalty: float,
    base_penalty: float = 0.0,
    with_bias: bool = True,
) -> tuple[Float[np.ndarray, " params"], float]:
    """Minimise `conditioned_platt_loss`.

    Args:
        logit_score: u. Shape (n,).
        condition: psi. Shape (n, k).
        label: Both values present. Shape (n,).
        penalty: lambda, at least 0.
        base_penalty: The same on alpha_0 and c_0.
        with_bias: False holds c_0 at 0: temperature scaling, where k = 0.

    Returns:
        theta, shape (2 k + 2,), and the loss there.
    """
    check_penalty(penalty)
    check_penalty(base_penalty)
    k = condition.shape[1]
    bounds: list[tuple[float | None, float | None]] = [(None, None)] * (2 * k + 2)
    if not with_bias:
        bounds[k + 1] = (0.0, 0.0)
    from scipy.optimize import minimize  # takes 0.2 s to import, and only fitting needs it

    found = minimize(
        conditioned_platt_loss,
        np.zeros(2 * k + 2),
        args=(logit_score, condition, label, penalty, base_penalty),
        jac=True,
        method="L-BFGS-B",
        bounds=bounds,
        options={"maxiter": 10_000, "maxfun": 20_000, "ftol": 1e-15, "gtol": 1e-9},
    )
    theta = np.asarray(found.x, dtype=np.float64)
    gradient = np.array(found.jac)
    if not with_bias:
        gradient[k + 1] = 0.0
    if not np.isfinite(theta).all() or np.abs(gradient).max() > GRADIENT_TOLERANCE:
        raise FittingError(
            f"the fit to {label.size} pairs did not settle (largest slope {np.abs(gradient).max():.2g}): "
            "the conditions may tell the labels apart completely; give a penalty above 0"
        )
    return theta, float(found.fun)


def check_penalty(penalty: float) -> None:
    """A penalty is a finite number of at least 0."""
    if not (np.isfinite(penalty) and penalty >= 0.0):
        raise InvalidSettingError(f"the penalty is {penalty}; it must be a finite number of at least 0")
