"""Settings of the geometric evidence, eq. mask-support and geometry-score, in two presets."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from types import MappingProxyType

from cpor.errors import InvalidSettingError


@dataclass(frozen=True, slots=True)
class GeometrySettings:
    """How masks and depth become a score; the defaults are the preset `default`.

    Attributes:
        rho: Width of the clearance ring: the ring holds what lies within this Euclidean distance of the
            amodal mask (a disk is the structuring element) and inside the image. [px]
        sigma_z: Depth difference at which the ordering cue saturates. [m]
        kappa_o: Weight of hidden overlap, >= 0.
        kappa_c: Weight of clearance, >= 0.
        kappa_z: Weight of depth order, >= 0.
        o_star: Hidden overlap that speaks neither for nor against.
        c_star: Clearance that speaks neither for nor against.
        b_cv: Log-odds of a pair with neutral cues.
        min_readings: A pair is scored when at least this fraction of its overlap has a depth reading.
    """

    rho: int = 8
    sigma_z: float = 0.06
    kappa_o: float = 30.0
    kappa_c: float = 1.2
    kappa_z: float = 2.0
    o_star: float = 0.1
    c_star: float = 0.15
    b_cv: float = -0.3
    min_readings: float = 0.5

    def __post_init__(self) -> None:
        for f in fields(self):
            if not math.isfinite(getattr(self, f.name)):
                raise InvalidSettingError(f"{f.name} is {getattr(self, f.name)}; it must be a finite number")
        if not isinstance(self.rho, int) or not 0 <= self.rho <= 1000:
            raise InvalidSettingError(f"rho is {self.rho}; it must be a whole number of pixels, 0 to 1000")
        if self.sigma_z <= 0.0:
            raise InvalidSettingError(f"sigma_z is {self.sigma_z}; it must be above 0, in metres")
        if min(self.kappa_o, self.kappa_c, self.kappa_z) < 0.0:
            raise InvalidSettingError(
                "kappa_o, kappa_c and kappa_z must be 0 or more: no cue argues backwards"
            )
        if not 0.0 < self.min_readings <= 1.0:
            raise InvalidSettingError(f"min_readings is {self.min_readings}; it must lie in (0, 1]")


_PAPER = GeometrySettings(
    rho=8, sigma_z=0.06, kappa_o=12.0, o_star=0.15, kappa_c=0.0, c_star=0.0, kappa_z=0.0, b_cv=0.0
)

GEOMETRY_PRESETS: Mapping[str, GeometrySettings] = MappingProxyType(
    {"default": GeometrySettings(), "paper": _PAPER}
)
"""Presets by name.

`default`: rho and sigma_z as in the paper. The other numbers are, rounded, the non-negative logistic
regression of "j hides more than 5% of i" on o_ij, c_ij and d_ij over the 11,900 candidate pairs of 400 drawn
scenes, u = -3.50 + 30.2 o + 1.20 c + 1.99 d (`tests/evidence/test_default_coefficients.py` draws scenes and
fits again). A constant can move between b_cv, o_star and c_star: the latter two are the mean cues of a
candidate, rounded, and b_cv takes the rest. The scenes are objects dropped on a table seen at a slant, with
wandering mask edges, hidden parts found only partly or guessed too large, noise and gaps in the depth. No
labelled photograph or rendered scene went into it.

`paper`: what the paper's settings say, rho 8 px, sigma_z 60 mm, one kappa 12 with o_star 0.15. They name no
kappa_c, kappa_z, c_star and b_cv; here these are 0, so that nothing is invented and the score is that of
hidden overlap alone.
"""
