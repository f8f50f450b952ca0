"""What every fit asks of its input, and the clipped log-odds that all of them start from."""

import numpy as np
from jaxtyping import Bool, Float, Shaped
from scipy.special import expit, logit

from cpor.errors import FittingError

EPSILON = 1e-6
"""epsilon_vlm: scores are clipped to [epsilon, 1 - epsilon] before the logit (the paper's value)."""

ZETA = 1e-9
"""Probabilities that leave a calibrator lie in [zeta, 1 - zeta] (the paper's zeta)."""


def clipped_logit(score: Float[np.ndarray, "*n"], epsilon: float = EPSILON) -> Float[np.ndarray, "*n"]:
    """Log-odds of a score clipped to [epsilon, 1 - epsilon]; NaN stays NaN. Shape (*n,).

    Args:
        score: In [0, 1], NaN = no answer. Shape (*n,).
        epsilon: Distance kept from 0 and 1.
    """
    return np.asarray(logit(np.clip(score, epsilon, 1.0 - epsilon)), dtype=np.float64)


def clipped_sigmoid(logit_p: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """Probabilities from log-odds, clipped to [zeta, 1 - zeta]; NaN stays NaN. Shape (n,)."""
    return np.asarray(np.clip(expit(logit_p), ZETA, 1.0 - ZETA))


def check_scores(score: Shaped[np.ndarray, " n"], name: str = "score") -> Float[np.ndarray, " n"]:
    """Scores as float64; each in [0, 1], or NaN where there was no answer."""
    values = np.asarray(score, dtype=np.float64)
    if values.ndim != 1:
        raise FittingError(f"{name} has shape {values.shape}; give one number a case, shape (n,)")
    bad = np.flatnonzero((values < 0.0) | (values > 1.0))
    if bad.size:
        raise FittingError(
            f"{name} {bad[0]} is {values[bad[0]]}; it must lie in [0, 1], or be NaN where there was no answer"
        )
    return values


def check_labels(label: Shaped[np.ndarray, " n"], n: int) -> Bool[np.ndarray, " n"]:
    """Labels as bool; 0 / 1 or bool, one a case."""
    truth = np.asarray(label)
    if truth.shape != (n,):
        raise FittingError(f"{n} scores and labels of shape {truth.shape}: give one label a score")
    wrong = np.flatnonzero((truth != 0) & (truth != 1))
    if wrong.size:
        raise FittingError(f"label {wrong[0]} is {truth[wrong[0]]}; labels are 0 or 1")
    return truth.astype(bool)


def check_candidates(n_candidates: Shaped[np.ndarray, " n"] | None, n: int) -> Float[np.ndarray, " n"]:
    """Numbers of scored pairs in the scene of each pair, as float64."""
    if n_candidates is None:
        raise FittingError(
            "scene-conditioned calibration needs n_candidates: the number of pairs scored in each scene"
        )
    counts = np.asarray(n_candidates, dtype=np.float64)
    if counts.shape != (n,):
        raise FittingError(f"{n} scores and n_candidates of shape {counts.shape}: give one number a score")
    bad = np.flatnonzero(~(np.isfinite(counts) & (counts >= 1.0)))
    if bad.size:
        raise FittingError(
            f"n_candidates {bad[0]} is {counts[bad[0]]}; a scored pair's scene has at least that one pair"
        )
    return counts


def answered_pairs(
    score: Shaped[np.ndarray, " n"], label: Shaped[np.ndarray, " n"]
) -> tuple[Bool[np.ndarray, " n"], Float[np.ndarray, " m"], Bool[np.ndarray, " m"]]:
    """The pairs that can be fitted to: those with an answer, of which both labels must be there.

    Args:
        score: In [0, 1], NaN = no answer. Shape (n,).
        label: 0 / 1 or bool. Shape (n,).

    Returns:
        Which pairs have an answer, shape (n,), and the scores and labels of these, shape (m,).
    """
    values = check_scores(score)
    truth = check_labels(label, values.size)
    answered = ~np.isnan(values)
    values, truth = values[answered], truth[answered]
    if values.size == 0:
        raise FittingError("there is nothing to fit to: no labelled pair has an answer")
    if truth.all() or not truth.any():
        raise FittingError(
            f"all {truth.size} labels are {int(truth[0])}: a rate can only be learnt where both labels occur"
        )
    return answered, values, truth
