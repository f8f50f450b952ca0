"""Isotonic regression: the best non-decreasing map, by pooling adjacent violators."""

from typing import ClassVar, Literal

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped
from pydantic import model_validator

from cpor.learn.pairs import ZETA, answered_pairs, check_scores
from cpor.learn.versioned import VersionedModel


def rates_by_score(
    score: Float[np.ndarray, " n"], label: Bool[np.ndarray, " n"]
) -> tuple[Float[np.ndarray, " u"], Float[np.ndarray, " u"], Int[np.ndarray, " u"]]:
    """The different scores, increasing, the rate at each, and the cases it rests on. Shape (u,) each."""
    at, index = np.unique(score, return_inverse=True)
    count = np.bincount(index, minlength=at.size)
    return at, np.bincount(index, label, minlength=at.size) / count, count


def isotonic_knots(
    score: Float[np.ndarray, " u"], rate: Float[np.ndarray, " u"], count: Int[np.ndarray, " u"]
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Knots of the non-decreasing weighted least-squares fit; between knots it is linear.

    Args:
        score: Increasing. Shape (u,).
        rate: Rate at each score. Shape (u,).
        count: Cases it rests on. Shape (u,).

    Returns:
        Scores, increasing, and rates, non-decreasing.
    """
    from scipy.optimize import isotonic_regression  # takes 0.2 s to import, and only fitting needs it

    fitted = np.asarray(isotonic_regression(rate, weights=count).x)
    # Of a level stretch its two ends say everything.
    level = np.zeros(score.size, dtype=bool)
    level[1:-1] = (fitted[1:-1] == fitted[:-2]) & (fitted[1:-1] == fitted[2:])
    return tuple(score[~level].tolist()), tuple(fitted[~level].tolist())


class IsotonicCalibrator(VersionedModel):
    """A non-decreasing map given by its knots; level beyond the first and the last.

    Attributes:
        score_knots: Scores, increasing.
        p_knots: Probabilities there, non-decreasing.
    """

    monotone: ClassVar[bool] = True

    kind: Literal["isotonic"] = "isotonic"
    version: Literal[1] = 1
    score_knots: tuple[float, ...]
    p_knots: tuple[float, ...]

    @model_validator(mode="after")
    def _check_knots(self) -> "IsotonicCalibrator":
        if not 0 < len(self.score_knots) == len(self.p_knots):
            raise ValueError("score_knots and p_knots must be there, as many of each")
        if np.any(np.diff(self.score_knots) <= 0.0) or np.any(np.diff(self.p_knots) < 0.0):
            raise ValueError("score_knots must increase and p_knots must not decrease")
        return self

    @classmethod
    def fit(
        cls,
        score: Shaped[np.ndarray, " n"],
        label: Shaped[np.ndarray, " n"],
        *,
        n_candidates: object = None,
    ) -> "IsotonicCalibrator":
        """Fit by pooling adjacent violators."""
        _, values, truth = answered_pairs(score, label)
        score_knots, p_knots = isotonic_knots(*rates_by_score(values, truth))
        return cls(score_knots=score_knots, p_knots=p_knots)

    def apply(
        self, score: Shaped[np.ndarray, " n"], *, n_candidates: object = None
    ) -> Float[np.ndarray, " n"]:
        """Probabilities, shape (n,), clipped to [zeta, 1 - zeta]; NaN stays NaN."""
        # np.interp lets NaN through as NaN.
        p = np.interp(check_scores(score), self.score_knots, self.p_knots)
        return np.asarray(np.clip(p, ZETA, 1.0 - ZETA))
