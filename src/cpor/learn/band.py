"""How far fused probabilities may be off: a confidence band around the whole calibration curve.

Labels of pairs that no stage was fitted to are regressed on the log-odds x that the stages give them:

    P(obstructs | x) = sigmoid(a x + c)

Perfect calibration is a = 1, c = 0. The covariance of (a, c) counts pairs of one image together. With
z = sqrt(-2 log delta), the band a x + c ± z se(x) holds the true line at all x at once with probability
1 - delta (Scheffé; two parameters), up to what a normal approximation costs with few images.
"""

import math
from typing import Literal

import numpy as np
from jaxtyping import Bool, Float, Shaped
from pydantic import Field

from cpor.errors import FittingError
from cpor.learn.versioned import VersionedModel

LEAST_P = 1e-6
"""Probabilities are clipped to [LEAST_P, 1 - LEAST_P]: beyond, a line in log-odds says nothing."""

_PRIOR = 1.0
"""Precision of the normal prior on a - 1 and c: it keeps a separable sample from having no best line."""

_STEPS, _SMALL = 50, 1e-10

FEWEST_IMAGES = 20
"""Fewer images than this say nothing of a covariance over images."""


class BeliefBand(VersionedModel):
    """A line in log-odds and its covariance.

    Attributes:
        slope: a.
        bias: c.
        covariance: Var a, Cov(a, c), Var c.
        delta: Probability, over the draw of the images, that the band misses the true line somewhere.
        n_images: Images it was fitted to.
    """

    kind: Literal["belief-band"] = "belief-band"
    version: Literal[1] = 1
    slope: float
    bias: float
    covariance: tuple[float, float, float]
    delta: float = Field(gt=0.0, lt=1.0)
    n_images: int = Field(ge=FEWEST_IMAGES)

    @classmethod
    def fit(
        cls,
        p: Float[np.ndarray, " n"],
        label: Bool[np.ndarray, " n"],
        image: Shaped[np.ndarray, " n"],
        delta: float = 0.1,
    ) -> "BeliefBand":
        """Fit the line by Newton's method, and its covariance over images.

        Args:
            p: Fused probabilities of pairs that no stage was fitted to; no NaN. Shape (n,).
            label: Whether each pair obstructs. Shape (n,).
            image: The image of each pair. Shape (n,).
            delta: See the class.
        """
        _, group = np.unique(image, return_inverse=True)
        n_images = int(group.max(initial=-1)) + 1
        if n_images < FEWEST_IMAGES:
            raise FittingError(f"{n_images} images; a band takes {FEWEST_IMAGES} or more")
        rows = np.stack([_logit(p), np.ones(p.size)], axis=1)
        line = np.array([1.0, 0.0])
        for _ in range(_STEPS):
            mean = 1.0 / (1.0 + np.exp(-(rows @ line)))
            curvature = (rows * (mean * (1.0 - mean))[:, None]).T @ rows + _PRIOR * np.eye(2)
            step = np.linalg.solve(curvature, rows.T @ (label - mean) - _PRIOR * (line - [1.0, 0.0]))
            line = line + step * min(1.0, 1.0 / max(float(np.abs(step).max()), _SMALL))
            if np.abs(step).max() < _SMALL:
                break
        score = np.zeros((n_images, 2))
        np.add.at(score, group, rows * (label - mean)[:, None])
        inverse = np.linalg.inv(curvature)
        covariance = inverse @ (score.T @ score) @ inverse * (n_images / (n_images - 1.0))
        covariance += _PRIOR * inverse @ inverse  # what the prior adds to the mean squared error
        return cls(
            slope=float(line[0]),
            bias=float(line[1]),
            covariance=(float(covariance[0, 0]), float(covariance[0, 1]), float(covariance[1, 1])),
            delta=delta,
            n_images=n_images,
        )

    def interval(
        self, p: Float[np.ndarray, "*shape"]
    ) -> tuple[Float[np.ndarray, "*shape"], Float[np.ndarray, "*shape"]]:
        """The ends of the band at each probability, widened to hold the probability itself."""
        x = _logit(p)
        var_slope, both, var_bias = self.covariance
        variance = var_slope * x**2 + 2.0 * both * x + var_bias
        half = math.sqrt(-2.0 * math.log(self.delta)) * np.sqrt(np.maximum(variance, 0.0))
        middle = self.slope * x + self.bias
        least = 1.0 / (1.0 + np.exp(half - middle))
        most = 1.0 / (1.0 + np.exp(-half - middle))
        return np.minimum(least, p), np.maximum(most, p)


def _logit(p: Float[np.ndarray, "*shape"]) -> Float[np.ndarray, "*shape"]:
    clipped = np.clip(p, LEAST_P, 1.0 - LEAST_P)
    odds: Float[np.ndarray, "*shape"] = np.log(clipped) - np.log1p(-clipped)
    return odds
