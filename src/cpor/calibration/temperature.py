"""Temperature scaling: p = sigmoid(logit(score) / T), one number for all scenes."""

from typing import ClassVar, Literal

import numpy as np
from jaxtyping import Float, Shaped
from pydantic import PositiveFloat

from cpor.calibration.conditioned import fit_conditioned_platt
from cpor.calibration.pairs import answered_pairs, check_scores, clipped_logit, clipped_sigmoid
from cpor.calibration.versioned import VersionedModel


class TemperatureCalibrator(VersionedModel):
    """One temperature; T > 1 makes scores less certain, and 0.5 stays 0.5.

    Attributes:
        temperature: T, within [exp(-5), exp(5)].
    """

    monotone: ClassVar[bool] = True

    kind: Literal["temperature"] = "temperature"
    version: Literal[1] = 1
    temperature: PositiveFloat

    @classmethod
    def fit(
        cls,
        score: Shaped[np.ndarray, " n"],
        label: Shaped[np.ndarray, " n"],
        *,
        n_candidates: object = None,
        graph: object = None,
    ) -> "TemperatureCalibrator":
        """Fit by maximum likelihood; see `Calibrator.fit`."""
        _, values, truth = answered_pairs(score, label)
        theta, _ = fit_conditioned_platt(
            clipped_logit(values), np.empty((values.size, 0)), truth, penalty=0.0, with_bias=False
        )
        return cls(temperature=float(np.exp(-np.clip(theta[0], -5.0, 5.0))))

    def apply(
        self, score: Shaped[np.ndarray, " n"], *, n_candidates: object = None, graph: object = None
    ) -> Float[np.ndarray, " n"]:
        """Probabilities, shape (n,); see `Calibrator.apply`."""
        return clipped_sigmoid(clipped_logit(check_scores(score)) / self.temperature)
