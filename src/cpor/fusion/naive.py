"""Naive fusion, for comparison: the two log-odds added as they come."""

from typing import Literal

import numpy as np
from jaxtyping import Float, Shaped

from cpor.calibration.pairs import clipped_logit, clipped_sigmoid
from cpor.calibration.versioned import VersionedModel
from cpor.fusion.sources import check_sources


class NaiveFusion(VersionedModel):
    """p = sigmoid(logit p_vlm + logit p_cv): unit weights, no gate, no prior term.

    It counts the base rate twice and trusts both sources alike. A source that is absent adds nothing; a
    pair with none has no answer (NaN).
    """

    kind: Literal["naive-fusion"] = "naive-fusion"
    version: Literal[1] = 1

    def apply(
        self,
        *,
        p_vlm: Shaped[np.ndarray, " n"] | None = None,
        p_cv: Shaped[np.ndarray, " n"] | None = None,
        reliability: object = None,
    ) -> Float[np.ndarray, " n"]:
        """Fused probabilities; NaN where a pair has no source. Shape (n,).

        Args:
            p_vlm: Calibrated semantic probabilities; NaN = absent. Shape (n,).
            p_cv: Geometric confidences; NaN = absent. Shape (n,).
            reliability: Not looked at.
        """
        # Without a gate every geometric confidence counts in full.
        full = None if p_cv is None else np.ones(np.asarray(p_cv).shape)
        sources = check_sources(p_vlm, p_cv, full)
        logit_p = np.where(sources.has_vlm, clipped_logit(sources.p_vlm), 0.0) + np.where(
            sources.has_cv, clipped_logit(sources.p_cv), 0.0
        )
        return clipped_sigmoid(np.where(sources.answered, logit_p, np.nan))
