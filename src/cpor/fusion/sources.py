"""The two sources of evidence on a pair, and what it means when one of them is not there."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Shaped

from cpor.calibration.pairs import CalibrationInputError, check_scores


@dataclass(frozen=True, eq=False)
class Sources:
    """Evidence on n pairs, checked.

    Attributes:
        p_vlm: Calibrated semantic probability; NaN = absent. Shape (n,).
        p_cv: Geometric confidence; NaN = absent. Shape (n,).
        reliability: r in [0, 1], the depth support of the geometric source. Shape (n,).
    """

    p_vlm: Float[np.ndarray, " n"]
    p_cv: Float[np.ndarray, " n"]
    reliability: Float[np.ndarray, " n"]

    @property
    def has_vlm(self) -> Bool[np.ndarray, " n"]:
        """delta_vlm: whether the semantic source speaks. Shape (n,)."""
        return np.asarray(~np.isnan(self.p_vlm))

    @property
    def has_cv(self) -> Bool[np.ndarray, " n"]:
        """delta_cv: whether the geometric source speaks. Shape (n,)."""
        return np.asarray(~np.isnan(self.p_cv))

    @property
    def answered(self) -> Bool[np.ndarray, " n"]:
        """Whether any source speaks; a geometric one without support, r = 0, does not. Shape (n,)."""
        return self.has_vlm | (self.has_cv & (self.reliability > 0.0))

    def take(self, rows: Bool[np.ndarray, " n"]) -> "Sources":
        """The same of some pairs."""
        return Sources(self.p_vlm[rows], self.p_cv[rows], self.reliability[rows])


def check_sources(
    p_vlm: Shaped[np.ndarray, " n"] | None,
    p_cv: Shaped[np.ndarray, " n"] | None,
    reliability: Shaped[np.ndarray, " n"] | None,
) -> Sources:
    """Bring both sources into one form; a source that is None is absent for every pair.

    Args:
        p_vlm: Calibrated semantic probabilities; NaN = absent. Shape (n,).
        p_cv: Geometric confidences; NaN = absent. Shape (n,).
        reliability: r in [0, 1]; needed where `p_cv` is there, and looked at only there. Shape (n,).
    """
    if p_vlm is None and p_cv is None:
        raise CalibrationInputError("give at least one source: p_vlm, p_cv or both")
    n = np.asarray(p_vlm if p_vlm is not None else p_cv).size
    vlm = np.full(n, np.nan) if p_vlm is None else check_scores(p_vlm, "p_vlm")
    cv = np.full(n, np.nan) if p_cv is None else check_scores(p_cv, "p_cv")
    if p_cv is None:
        gate = np.zeros(n)
    elif reliability is None:
        raise CalibrationInputError(
            "the geometric source needs reliability: the share of each pair with valid depth"
        )
    else:
        gate = check_scores(reliability, "reliability")
    if not vlm.shape == cv.shape == gate.shape:
        raise CalibrationInputError(
            f"p_vlm, p_cv and reliability have {vlm.size}, {cv.size} and {gate.size} entries: give one a pair"
        )
    missing = np.flatnonzero(~np.isnan(cv) & np.isnan(gate))
    if missing.size:
        raise CalibrationInputError(f"pair {missing[0]} has a geometric confidence but no reliability (NaN)")
    # A reliability without its source gates nothing.
    return Sources(vlm, cv, np.where(np.isnan(cv), 0.0, gate))
