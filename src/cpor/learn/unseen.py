"""How likely something without a mask obstructs an object, learnt from scenes with masks dropped.

With x_k = log(1 + s_k / s_0) for the shares s of `UnseenEvidence` and x_flag its flag, 0 or 1:

    p = sigmoid(b + sum_k w_k x_k),   w_k >= 0

No cue argues backwards: more hidden pixels without an owner never make an unseen blocker less likely. The
logarithm is there because a hundredth of a mask is noise, while a tenth says nearly as much as a half.
"""

from collections.abc import Sequence
from typing import Literal

import numpy as np
from jaxtyping import Bool, Float
from pydantic import NonNegativeFloat
from scipy.special import expit

from cpor.errors import FittingError
from cpor.evidence import UnseenEvidence
from cpor.learn.pairs import clipped_sigmoid
from cpor.learn.versioned import VersionedModel

SHARE_SCALE = 0.01
"""s_0: shares below it are noise at the edges of masks."""

PENALTY = 1e-3
"""Ridge on the weights: keeps the fit finite where the cues tell the labels apart completely."""


class UnseenCalibrator(VersionedModel):
    """Weights of the cues.

    Attributes:
        bias: b, the log-odds where nothing speaks for an unseen blocker.
        before, level, unread, ring_before, flagged: Weight of each cue.
        n: Objects it was fitted to.
        n_obstructed: Those of them that something unsegmented obstructed.
    """

    kind: Literal["unseen-blocker"] = "unseen-blocker"
    version: Literal[1] = 1
    bias: float
    before: NonNegativeFloat
    level: NonNegativeFloat
    unread: NonNegativeFloat
    ring_before: NonNegativeFloat
    flagged: NonNegativeFloat
    n: int
    n_obstructed: int

    @classmethod
    def fit(cls, scenes: Sequence[tuple[UnseenEvidence, Bool[np.ndarray, " _"]]]) -> "UnseenCalibrator":
        """Fit by penalised maximum likelihood to objects of which something can be said.

        Args:
            scenes: Evidence of each, and whether something unsegmented obstructs each of its objects.
        """
        x = np.concatenate([_cues(cues)[_usable(cues)] for cues, _ in scenes] or [np.zeros((0, 5))])
        truth = np.concatenate([label[_usable(cues)] for cues, label in scenes] or [np.zeros(0, bool)])
        if truth.size == 0 or truth.all() or not truth.any():
            raise FittingError(
                f"of {truth.size} objects something unsegmented obstructs {int(truth.sum())}: unseen "
                "blockers can only be learnt where both occur"
            )

        def loss(theta: Float[np.ndarray, " k"]) -> tuple[float, Float[np.ndarray, " k"]]:
            logit = theta[0] + x @ theta[1:]
            off = (expit(logit) - truth) / truth.size
            value = np.mean(np.logaddexp(0.0, logit) - truth * logit) + 0.5 * PENALTY * theta[1:] @ theta[1:]
            return float(value), np.concatenate([[off.sum()], x.T @ off + PENALTY * theta[1:]])

        free = [(None, None)] + [(0.0, None)] * x.shape[1]
        from scipy.optimize import minimize  # takes 0.2 s to import, and only fitting needs it

        found = minimize(loss, np.zeros(x.shape[1] + 1), jac=True, method="L-BFGS-B", bounds=free)
        bias, *weights = (float(value) for value in found.x)
        names = ("before", "level", "unread", "ring_before", "flagged")
        counts = {"n": int(truth.size), "n_obstructed": int(truth.sum())}
        return cls(bias=bias, **dict(zip(names, weights, strict=True)), **counts)

    def apply(self, evidence: UnseenEvidence) -> Float[np.ndarray, " n"]:
        """Probability that something unsegmented obstructs each object; NaN: no answer. Shape (n,).

        Objects without an amodal mask, on which it was not fitted, are left to the strict rule.
        """
        weights = np.array([self.before, self.level, self.unread, self.ring_before, self.flagged])
        p = clipped_sigmoid(self.bias + _cues(evidence) @ weights)
        return np.where(_usable(evidence), p, evidence.strict_p())


def _usable(evidence: UnseenEvidence) -> Bool[np.ndarray, " n"]:
    return np.asarray(evidence.has_amodal & ~evidence.is_unknowable)


def _cues(evidence: UnseenEvidence) -> Float[np.ndarray, "n 5"]:
    shares = np.column_stack([evidence.before, evidence.level, evidence.unread, evidence.ring_before])
    return np.column_stack([np.log1p(shares / SHARE_SCALE), evidence.flagged])
