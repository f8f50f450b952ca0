"""Calibrate a score log: fit one method to it, and compare before with after."""

from dataclasses import dataclass

import numpy as np

from cpor.errors import InvalidSettingError, one_of
from cpor.io.score_log import ScoreLog
from cpor.learn.cross_validation import N_FOLDS, PenaltyCurve
from cpor.learn.isotonic import IsotonicCalibrator
from cpor.learn.logistic import Calibrator, LogisticCalibrator
from cpor.learn.reliability import ReliabilitySummary, summarise_reliability

METHODS = ("adaptive-platt", "platt", "temperature", "isotonic")


@dataclass(frozen=True, eq=False)
class LogCalibration:
    """A calibrator fitted to a score log.

    Attributes:
        method: One of METHODS.
        calibrator: The fit.
        curve: Cross-validation of the penalty; None for methods without one.
        before: Figures of the raw scores.
        after: Figures of the calibrated probabilities, on the same rows.
    """

    method: str
    calibrator: Calibrator
    curve: PenaltyCurve | None
    before: ReliabilitySummary
    after: ReliabilitySummary

    @property
    def penalty(self) -> float | None:
        """lambda_cal; None for methods without one."""
        fit = self.calibrator
        return fit.penalty if isinstance(fit, LogisticCalibrator) and fit.sees == "scene" else None

    @property
    def parameters(self) -> dict[str, float | list[float]]:
        """The fitted numbers under the names the paper gives them."""
        fit = self.calibrator
        if isinstance(fit, IsotonicCalibrator):
            return {"score_knots": list(fit.score_knots), "p_knots": list(fit.p_knots)}
        if fit.sees == "score":
            return {"T": 1.0 / fit.slope} if self.method == "temperature" else {"a": fit.slope, "c": fit.bias}
        names = ("alpha0", "alphaN", "c0", "cN")
        assert fit.objective is not None
        return {
            "mu_phi": fit.mean[0],
            "sigma_phi": fit.scale[0],
            **dict(zip(names, fit.theta, strict=True)),
            "objective": fit.objective,
        }


def calibrate_log(log: ScoreLog, method: str, penalty: float | None = None) -> LogCalibration:
    """Fit a calibrator to a score log.

    Args:
        log: Labelled scores.
        method: One of METHODS; `adaptive-platt` is the paper's, conditioned on the scene.
        penalty: lambda_cal of `adaptive-platt`; chosen by cross-validation over images where None.
    """
    one_of("method", method, METHODS)
    if penalty is not None and method != "adaptive-platt":
        raise InvalidSettingError(f"{method} has no penalty; only adaptive-platt does")
    curve = None
    fit: Calibrator
    if method == "adaptive-platt":
        counts = log.n_candidates
        folds = min(N_FOLDS, np.unique(log.image).size)
        if folds > 1:
            curve = LogisticCalibrator.penalty_curve(
                log.score, log.label, log.image, n_candidates=counts, n_folds=folds
            )
        if curve is None and penalty is None:
            raise InvalidSettingError(
                "all rows belong to one image, so no penalty can be chosen; give --penalty"
            )
        chosen = curve.best if penalty is None and curve is not None else penalty
        assert chosen is not None
        fit = LogisticCalibrator.fit(log.score, log.label, sees="scene", n_candidates=counts, penalty=chosen)
    elif method == "platt":
        fit = LogisticCalibrator.fit(log.score, log.label)
    elif method == "temperature":
        fit = LogisticCalibrator.fit(log.score, log.label, with_bias=False)
    else:
        fit = IsotonicCalibrator.fit(log.score, log.label)
    after = fit.apply(log.score, n_candidates=log.n_candidates)
    return LogCalibration(
        method,
        fit,
        curve,
        summarise_reliability(log.score, log.label),
        summarise_reliability(after, log.label),
    )
