"""Exact binomial tests of an error rate, on arrays."""

import math

import numpy as np
from jaxtyping import Float, Int
from scipy.special import bdtr, bdtrik

from cpor.errors import CporError, InvalidSettingError


class RiskInputError(CporError, ValueError):
    """Scores and outcomes that no promise can be computed from."""


MOST_DELTA = 0.5
"""A promise that is likelier broken than kept is none."""


def check_levels(alpha: float, delta: float) -> None:
    """Alpha lies strictly between 0 and 1, delta between 0 and MOST_DELTA."""
    if not 0.0 < alpha < 1.0:
        raise InvalidSettingError(f"alpha is {alpha}; it must lie strictly between 0 and 1")
    if not 0.0 < delta <= MOST_DELTA:
        raise InvalidSettingError(f"delta is {delta}; it must lie above 0 and be at most {MOST_DELTA:g}")


def least_executed(alpha: float, delta: float) -> int:
    """Executed scenes below which no promise is possible, even without an error: ln delta / ln(1 - alpha)."""
    check_levels(alpha, delta)
    n = math.ceil(math.log(delta) / math.log1p(-alpha))
    # The quotient may round to the wrong side of a whole number.
    while (1.0 - alpha) ** n > delta:
        n += 1
    return n


def least_rate(n_executed: int, delta: float) -> float:
    """The least error rate that so many executed scenes without an error support: 1 - delta^(1/n)."""
    return 1.0 if n_executed < 1 else -math.expm1(math.log(delta) / n_executed)


def error_p_value(
    n_wrong: Int[np.ndarray, "*shape"], n_executed: Int[np.ndarray, "*shape"], alpha: float
) -> Float[np.ndarray, "*shape"]:
    """P(Bin(n_executed, alpha) <= n_wrong): small when the error rate is below alpha."""
    return np.asarray(bdtr(n_wrong, n_executed, alpha), dtype=np.float64)


def most_wrong(n_executed: Int[np.ndarray, " n"], alpha: float, delta: float) -> Int[np.ndarray, " n"]:
    """The most errors with which so many executed scenes still pass; -1 where even 0 do not. Shape (n,)."""
    guess = np.floor(np.nan_to_num(bdtrik(delta, n_executed, alpha), nan=-1.0)).astype(np.int64)
    # bdtrik solves in floating point: settle the last step with the test itself.
    guess = np.where((guess >= 0) & (error_p_value(guess, n_executed, alpha) > delta), guess - 1, guess)
    one_more = guess + 1
    passes = (one_more <= n_executed) & (error_p_value(one_more, n_executed, alpha) <= delta)
    return np.asarray(np.where(passes, one_more, guess))
