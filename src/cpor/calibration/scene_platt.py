"""Scene-conditioned Platt scaling (eq. calibration, cal-loss): slope and bias vary with the scene's size."""

from collections.abc import Sequence
from typing import ClassVar, Literal

import numpy as np
from jaxtyping import Bool, Float, Shaped
from pydantic import NonNegativeFloat, PositiveFloat

from cpor.calibration.conditioned import conditioned_platt, fit_conditioned_platt
from cpor.calibration.cross_validation import N_FOLDS, PENALTY_GRID, PenaltyCurve, Predict, penalty_curve
from cpor.calibration.pairs import (
    CalibrationInputError,
    answered_pairs,
    check_candidates,
    check_scores,
    clipped_logit,
    clipped_sigmoid,
)
from cpor.calibration.versioned import VersionedModel

PAPER_PENALTY = 1.0
"""lambda_cal of the paper for the VLM source."""


class ScenePlattCalibrator(VersionedModel):
    """Platt scaling whose slope and bias depend on how many pairs the scene has.

    With N the number of scored pairs of the scene, phi = (log(1 + N) - mu_phi) / sigma_phi:
    a = exp[clip(alpha_0 + alpha_n phi, -5, 5)], c = c_0 + c_n phi, p = sigmoid(a logit(score) + c).
    Within a scene a > 0 keeps the order of the scores.

    Attributes:
        alpha_0: Log slope at phi = 0.
        alpha_n: Its change with phi.
        c_0: Bias at phi = 0.
        c_n: Its change with phi.
        mu_phi: Mean of log(1 + N) over the pairs fitted to.
        sigma_phi: Population standard deviation of the same.
        penalty: lambda_cal.
        objective: Value of eq. cal-loss at the fit.
    """

    monotone: ClassVar[bool] = True

    kind: Literal["scene-platt"] = "scene-platt"
    version: Literal[1] = 1
    alpha_0: float
    alpha_n: float
    c_0: float
    c_n: float
    mu_phi: float
    sigma_phi: PositiveFloat
    penalty: NonNegativeFloat
    objective: float

    @classmethod
    def fit(
        cls,
        score: Shaped[np.ndarray, " n"],
        label: Shaped[np.ndarray, " n"],
        *,
        n_candidates: Shaped[np.ndarray, " n"] | None = None,
        graph: object = None,
        penalty: float = PAPER_PENALTY,
        base_penalty: float = 0.0,
    ) -> "ScenePlattCalibrator":
        """Minimise eq. cal-loss; see `Calibrator.fit`.

        Args:
            score: In [0, 1], NaN = no answer. Shape (n,).
            label: 0 / 1 or bool. Shape (n,).
            n_candidates: Number of scored pairs in each pair's scene. Shape (n,).
            graph: Not looked at.
            penalty: lambda_cal; see `penalty_curve`.
            base_penalty: The same on alpha_0 and c_0; the paper has none.
        """
        answered, values, truth = answered_pairs(score, label)
        log_count = np.log1p(check_candidates(n_candidates, answered.size)[answered])
        mu, sigma = float(log_count.mean()), float(log_count.std())
        if sigma == 0.0:
            sigma = 1.0  # every scene has the same size: phi is 0 and nothing is learnt about it
        condition = ((log_count - mu) / sigma)[:, None]
        theta, objective = fit_conditioned_platt(
            clipped_logit(values), condition, truth, penalty, base_penalty
        )
        alpha_0, alpha_n, c_0, c_n = theta.tolist()
        return cls(
            alpha_0=alpha_0,
            alpha_n=alpha_n,
            c_0=c_0,
            c_n=c_n,
            mu_phi=mu,
            sigma_phi=sigma,
            penalty=penalty,
            objective=objective,
        )

    def apply(
        self,
        score: Shaped[np.ndarray, " n"],
        *,
        n_candidates: Shaped[np.ndarray, " n"] | None = None,
        graph: object = None,
    ) -> Float[np.ndarray, " n"]:
        """Probabilities, shape (n,); see `Calibrator.apply`."""
        values = check_scores(score)
        phi = (np.log1p(check_candidates(n_candidates, values.size)) - self.mu_phi) / self.sigma_phi
        theta = np.array([self.alpha_0, self.alpha_n, self.c_0, self.c_n])
        logit_p = conditioned_platt(theta, clipped_logit(values), phi[:, None])
        return clipped_sigmoid(logit_p)

    @classmethod
    def penalty_curve(
        cls,
        score: Shaped[np.ndarray, " n"],
        label: Shaped[np.ndarray, " n"],
        group: Shaped[np.ndarray, " n"],
        *,
        n_candidates: Shaped[np.ndarray, " n"] | None = None,
        grid: Sequence[float] = PENALTY_GRID,
        n_folds: int = N_FOLDS,
        rng: np.random.Generator | None = None,
    ) -> PenaltyCurve:
        """Choose lambda_cal by cross-validation over images.

        Args:
            score: In [0, 1], NaN = no answer. Shape (n,).
            label: 0 / 1 or bool. Shape (n,).
            group: Which image each pair belongs to. Shape (n,).
            n_candidates: Number of scored pairs in each pair's scene. Shape (n,).
            grid: Penalties to try.
            n_folds: Number of folds.
            rng: Shuffles the images before they are dealt out to folds.
        """
        if n_candidates is None:
            raise CalibrationInputError("choosing the penalty needs n_candidates")
        values, truth, counts = np.asarray(score), np.asarray(label), np.asarray(n_candidates)

        def predict_with(penalty: float) -> Predict:
            def predict(
                fitted: Bool[np.ndarray, " n"], held_out: Bool[np.ndarray, " n"]
            ) -> Float[np.ndarray, " m"]:
                fit = cls.fit(values[fitted], truth[fitted], n_candidates=counts[fitted], penalty=penalty)
                return fit.apply(values[held_out], n_candidates=counts[held_out])

            return predict

        return penalty_curve(predict_with, truth, group, grid, n_folds, rng)
