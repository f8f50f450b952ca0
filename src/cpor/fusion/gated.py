"""Reliability-gated fusion of the two sources (eq. fusion, fusion-loss)."""

from collections.abc import Sequence
from typing import Literal

import numpy as np
from jaxtyping import Bool, Float, Shaped
from pydantic import Field, NonNegativeFloat
from scipy.special import expit, logit

from cpor.calibration.conditioned import GRADIENT_TOLERANCE, check_penalty
from cpor.calibration.cross_validation import N_FOLDS, PENALTY_GRID, PenaltyCurve, Predict, penalty_curve
from cpor.calibration.pairs import CalibrationInputError, check_labels, clipped_logit, clipped_sigmoid
from cpor.calibration.versioned import VersionedModel
from cpor.fusion.prior import check_prior
from cpor.fusion.sources import Sources, check_sources


def fusion_loss(
    theta: Float[np.ndarray, " 3"],
    evidence: Float[np.ndarray, "n 2"],
    label: Bool[np.ndarray, " n"],
    penalty: float,
) -> tuple[float, Float[np.ndarray, " 3"]]:
    """Mean negative log-likelihood plus lambda / 2 |beta|^2, and its gradient; eq. fusion-loss.

    Args:
        theta: (gamma, beta_vlm, beta_cv).
        evidence: Columns delta_vlm h_vlm and delta_cv r h_cv. Shape (n, 2).
        label: Shape (n,).
        penalty: lambda_fus; the intercept gamma is not penalised.
    """
    beta = theta[1:]
    logit_p = theta[0] + evidence @ beta
    loss = np.mean(np.logaddexp(0.0, logit_p) - label * logit_p) + 0.5 * penalty * beta @ beta
    residual = (expit(logit_p) - label) / label.size
    return float(loss), np.concatenate([[residual.sum()], evidence.T @ residual + penalty * beta])


class GatedFusion(VersionedModel):
    """Weighted sum of centred log-odds, the geometric ones gated by their depth support; eq. fusion.

    g = gamma + delta_vlm beta_vlm h_vlm + delta_cv beta_cv r h_cv, h = logit p - logit pi_0, p = sigmoid(g).
    A source that is absent adds nothing; a pair with none has no answer (NaN).

    Attributes:
        gamma: Intercept.
        beta_vlm: Weight of the semantic source, at least 0.
        beta_cv: Weight of the geometric source, at least 0.
        prior: pi_0, the share of true relations among the pairs fitted to.
        penalty: lambda_fus.
        objective: Value of eq. fusion-loss at the fit.
    """

    kind: Literal["gated-fusion"] = "gated-fusion"
    version: Literal[1] = 1
    gamma: float
    beta_vlm: NonNegativeFloat
    beta_cv: NonNegativeFloat
    prior: float = Field(gt=0.0, lt=1.0)
    penalty: NonNegativeFloat
    objective: float

    @classmethod
    def fit(
        cls,
        label: Shaped[np.ndarray, " n"],
        *,
        p_vlm: Shaped[np.ndarray, " n"] | None = None,
        p_cv: Shaped[np.ndarray, " n"] | None = None,
        reliability: Shaped[np.ndarray, " n"] | None = None,
        penalty: float,
    ) -> "GatedFusion":
        """Minimise eq. fusion-loss over the pairs with at least one source.

        Args:
            label: 0 / 1 or bool. Shape (n,).
            p_vlm: Calibrated semantic probabilities; NaN = absent. Shape (n,).
            p_cv: Geometric confidences; NaN = absent. Shape (n,).
            reliability: r in [0, 1]. Shape (n,).
            penalty: lambda_fus; see `penalty_curve`.
        """
        sources = check_sources(p_vlm, p_cv, reliability)
        return cls._fit_sources(sources, check_labels(label, sources.p_vlm.size), penalty)

    @classmethod
    def _fit_sources(cls, sources: Sources, label: Bool[np.ndarray, " n"], penalty: float) -> "GatedFusion":
        check_penalty(penalty)
        answered = sources.answered
        truth = label[answered]
        if truth.size == 0:
            raise CalibrationInputError("there is nothing to fit to: no labelled pair has a source")
        if truth.all() or not truth.any():
            raise CalibrationInputError(
                f"all {truth.size} labels are {int(truth[0])}: weights can only be learnt where both occur"
            )
        prior = float(truth.mean())
        evidence = _evidence(sources.take(answered), prior)
        from scipy.optimize import minimize  # takes 0.2 s to import, and only fitting needs it

        found = minimize(
            fusion_loss,
            np.array([logit(prior), 1.0, 1.0]),
            args=(evidence, truth, penalty),
            jac=True,
            method="L-BFGS-B",
            bounds=[(None, None), (0.0, None), (0.0, None)],
            options={"maxiter": 10_000, "ftol": 1e-15, "gtol": 1e-9},
        )
        gamma, beta_vlm, beta_cv = np.asarray(found.x, dtype=np.float64).tolist()
        # At a weight of 0 the loss may still fall on the forbidden side.
        held = np.array([False, beta_vlm == 0.0, beta_cv == 0.0])
        slope = np.where(held, np.minimum(found.jac, 0.0), found.jac)
        if not np.isfinite(found.x).all() or np.abs(slope).max() > GRADIENT_TOLERANCE:
            raise CalibrationInputError(
                f"the fit to {truth.size} pairs did not settle: the sources may tell the labels apart "
                "completely; give a penalty above 0"
            )
        return cls(
            gamma=gamma,
            beta_vlm=beta_vlm,
            beta_cv=beta_cv,
            prior=prior,
            penalty=penalty,
            objective=float(found.fun),
        )

    def apply(
        self,
        *,
        p_vlm: Shaped[np.ndarray, " n"] | None = None,
        p_cv: Shaped[np.ndarray, " n"] | None = None,
        reliability: Shaped[np.ndarray, " n"] | None = None,
        prior: float | None = None,
    ) -> Float[np.ndarray, " n"]:
        """Fused probabilities; NaN where a pair has no source. Shape (n,).

        Args:
            p_vlm: Calibrated semantic probabilities; NaN = absent. Shape (n,).
            p_cv: Geometric confidences; NaN = absent. Shape (n,).
            reliability: r in [0, 1]. Shape (n,).
            prior: Share of true relations where this is used, if it differs from `self.prior`; the
                log-odds move by logit(prior) - logit(self.prior).
        """
        return self._apply_sources(check_sources(p_vlm, p_cv, reliability), prior)

    def _apply_sources(self, sources: Sources, prior: float | None = None) -> Float[np.ndarray, " n"]:
        logit_p = self.gamma + _evidence(sources, self.prior) @ np.array([self.beta_vlm, self.beta_cv])
        if prior is not None:
            check_prior(prior, "prior")
            logit_p = logit_p + logit(prior) - logit(self.prior)
        return clipped_sigmoid(np.where(sources.answered, logit_p, np.nan))

    @classmethod
    def penalty_curve(
        cls,
        label: Shaped[np.ndarray, " n"],
        group: Shaped[np.ndarray, " n"],
        *,
        p_vlm: Shaped[np.ndarray, " n"] | None = None,
        p_cv: Shaped[np.ndarray, " n"] | None = None,
        reliability: Shaped[np.ndarray, " n"] | None = None,
        grid: Sequence[float] = PENALTY_GRID,
        n_folds: int = N_FOLDS,
        rng: np.random.Generator | None = None,
    ) -> PenaltyCurve:
        """Choose lambda_fus by cross-validation over images.

        Args:
            label: 0 / 1 or bool. Shape (n,).
            group: Which image each pair belongs to. Shape (n,).
            p_vlm: Calibrated semantic probabilities; NaN = absent. Shape (n,).
            p_cv: Geometric confidences; NaN = absent. Shape (n,).
            reliability: r in [0, 1]. Shape (n,).
            grid: Penalties to try.
            n_folds: Number of folds.
            rng: Shuffles the images before they are dealt out to folds.
        """
        sources = check_sources(p_vlm, p_cv, reliability)
        truth = check_labels(label, sources.p_vlm.size)

        def predict_with(penalty: float) -> Predict:
            def predict(
                fitted: Bool[np.ndarray, " n"], held_out: Bool[np.ndarray, " n"]
            ) -> Float[np.ndarray, " m"]:
                fit = cls._fit_sources(sources.take(fitted), truth[fitted], penalty)
                return fit._apply_sources(sources.take(held_out))

            return predict

        return penalty_curve(predict_with, truth, group, grid, n_folds, rng)


def _evidence(sources: Sources, prior: float) -> Float[np.ndarray, "n 2"]:
    """Columns delta_vlm h_vlm and delta_cv r h_cv of eq. fusion. Shape (n, 2)."""
    h_vlm = clipped_logit(sources.p_vlm) - logit(prior)
    h_cv = clipped_logit(sources.p_cv) - logit(prior)
    return np.column_stack(
        [
            np.where(sources.has_vlm, h_vlm, 0.0),
            np.where(sources.has_cv, sources.reliability * h_cv, 0.0),
        ]
    )
