"""Platt scaling: p = sigmoid(a logit(score) + c), two numbers for all scenes."""

from typing import ClassVar, Literal

import numpy as np
from jaxtyping import Float, Shaped
from pydantic import PositiveFloat

from cpor.calibration.conditioned import fit_conditioned_platt
from cpor.calibration.pairs import answered_pairs, check_scores, clipped_logit, clipped_sigmoid
from cpor.calibration.versioned import VersionedModel


class PlattCalibrator(VersionedModel):
    """Slope and bias on the log-odds.

    Attributes:
        a: Slope, within [exp(-5), exp(5)]: positive, so that scores keep their order.
        c: Bias.
    """

    monotone: ClassVar[bool] = True

    kind: Literal["platt"] = "platt"
    version: Literal[1] = 1
    a: PositiveFloat
    c: float

    @classmethod
    def fit(
        cls,
        score: Shaped[np.ndarray, " n"],
        label: Shaped[np.ndarray, " n"],
        *,
        n_candidates: object = None,
        graph: object = None,
        penalty: float = 0.0,
    ) -> "PlattCalibrator":
        """Fit by maximum likelihood; see `Calibrator.fit`.

        Args:
            score: In [0, 1], NaN = no answer. Shape (n,).
            label: 0 / 1 or bool. Shape (n,).
            n_candidates: Not looked at.
            graph: Not looked at.
            penalty: Draws slope and bias towards leaving scores as they are; with none, scores that tell the
                labels apart completely have no best fit.
        """
        _, values, truth = answered_pairs(score, label)
        theta, _ = fit_conditioned_platt(
            clipped_logit(values), np.empty((values.size, 0)), truth, penalty=0.0, base_penalty=penalty
        )
        return cls(a=float(np.exp(np.clip(theta[0], -5.0, 5.0))), c=float(theta[1]))

    def apply(
        self, score: Shaped[np.ndarray, " n"], *, n_candidates: object = None, graph: object = None
    ) -> Float[np.ndarray, " n"]:
        """Probabilities, shape (n,); see `Calibrator.apply`."""
        return clipped_sigmoid(self.a * clipped_logit(check_scores(score)) + self.c)
