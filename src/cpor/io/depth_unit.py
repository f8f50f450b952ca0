"""The unit a depth picture counts in, guessed from how far away its middle would be.

p(unit | picture) ~ p(unit) exp(-ln(d / TYPICAL_M)² / (2 SPREAD²)),    d = unit * median of the middle
"""

from dataclasses import dataclass

import numpy as np

TYPICAL_M = 0.75
"""Median distance of the middles of 57 photographs and MetaGraspNet views; they lie 0.50 to 1.27 away. [m]"""

PLAUSIBLE_M = (0.15, 4.0)
"""Nearer than depth cameras measure well, farther than any arm's table. A unit ten times too large or too
small puts the middles of all those frames outside. [m]"""

USUAL_M = (0.25, 2.5)
"""Beyond these a scene is unlike all of them, by a factor of two. [m]"""

SPREAD = 0.45
"""Spread of ln(distance): more than twice that of those frames, since they are few."""

COMMON_INTEGERS = {0.001: 0.80, 0.0001: 0.08, 0.00025: 0.05, 0.0002: 0.03, 0.01: 0.04}
"""How common units of whole steps are, by our judgement: millimetres, then a 0.1 mm of rendered sets, that
of close-range cameras, that of the TUM data sets, centimetres."""

COMMON_FLOATS = {1.0: 0.85, 0.001: 0.12, 0.01: 0.03}
"""The same for pictures with fractions: metres, millimetres, centimetres."""

SURE = 0.95
"""At least this probable: sure enough not to ask."""

WORTH_NAMING = 0.05
"""Other units at least this probable are named."""


@dataclass(frozen=True)
class DepthUnit:
    """A guess at what one step of depth means.

    Attributes:
        unit_m: The likeliest unit; None where none puts the scene on a table in front of the camera. [m]
        probability: Probability of that unit among those known here; 0 without one.
        alternatives: Other units that remain plausible, the likeliest first. [m]
    """

    unit_m: float | None
    probability: float
    alternatives: tuple[float, ...] = ()

    @property
    def sure(self) -> bool:
        """Whether the guess can be used without asking."""
        return self.probability >= SURE


def middle_of(picture: np.ndarray) -> np.ndarray:
    """The middle half of each axis, at most about 40,000 pixels of it: what is to be grasped lies there."""
    height, width = picture.shape[:2]
    stride = max(1, round((height * width / 160_000) ** 0.5))
    return picture[height // 4 : height - height // 4 : stride, width // 4 : width - width // 4 : stride]


def guess_depth_unit(steps: np.ndarray) -> DepthUnit:
    """Guess the unit of a depth picture as its file has it.

    Args:
        steps: Raw values, of any integer or floating type; 0, negative and not finite: no reading.
            Shape (h, w).
    """
    values = middle_of(steps).astype(np.float64)
    values = values[np.isfinite(values) & (values > 0.0)]
    if values.size == 0:
        return DepthUnit(None, 0.0)
    common = COMMON_FLOATS if steps.dtype.kind == "f" else COMMON_INTEGERS
    distance = {unit: unit * float(np.median(values)) for unit in common}
    weight = {
        unit: common[unit] * float(np.exp(-0.5 * (np.log(d / TYPICAL_M) / SPREAD) ** 2))
        for unit, d in distance.items()
        if PLAUSIBLE_M[0] <= d <= PLAUSIBLE_M[1]
    }
    if not weight:
        return DepthUnit(None, 0.0)
    total = sum(weight.values())
    best, *others = sorted(weight, key=lambda unit: -weight[unit])
    return DepthUnit(
        best, weight[best] / total, tuple(u for u in others if weight[u] >= WORTH_NAMING * total)
    )
