"""What words for forms, places and sizes measure on the outline of an object."""

from collections.abc import Callable, Mapping
from typing import TypeAlias

import numpy as np

from cpor.words.grounding_answers import CLEAR_RATIO, LEAST_FIT
from cpor.words.layout import ramp
from cpor.words.outlines import Outline

LEAST_SHOWN = 0.1
"""An object that fits worse is not shown where a word is asked back."""

MAYBE = 0.2
"""An object that fits this much as well as the best may be one of those that are compared or counted."""

Measure: TypeAlias = Callable[[Outline], float | None]


def _known(value: float | None, low: float, high: float) -> float | None:
    return None if value is None else ramp(value, low, high)


def _round(o: Outline) -> float:
    return ramp(o.roundness, 0.66, 0.82)


def _ball(o: Outline) -> float:
    return _round(o) if o.bulge is None else _round(o) * ramp(o.bulge, 0.05, 0.25)


def _box(o: Outline) -> float:
    return ramp(o.rectangularity, 0.8, 0.9) * ramp(o.roundness, 0.88, 0.8)


FORMS: Mapping[str, Measure] = {
    "round": _round,
    "spherical": _ball,
    "long": lambda o: ramp(o.elongation, 1.6, 2.6),
    "rectangular": _box,
    "square": lambda o: _box(o) * ramp(o.elongation, 1.6, 1.25),
    "flat": lambda o: _known(o.height, 0.045, 0.02),
}
"""How well an outline fits a word for a form, in [0, 1]; None where it cannot be told."""

FORM_OF_SHAPE: Mapping[str, str] = {
    **dict.fromkeys(("box", "block", "book"), "rectangular"),
    **dict.fromkeys(("ball", "fruit"), "spherical"),
    "plate": "round",
    "pen": "long",
}
"""What a word for a shape means where shapes were not judged."""

MEASURES: Mapping[str, tuple[Measure, float]] = {
    "left": (lambda o: -o.x, 0.06),
    "right": (lambda o: o.x, 0.06),
    "back": (lambda o: -o.y, 0.06),
    "front": (lambda o: o.y, 0.06),
    "middle": (lambda o: -(((o.x - 0.5) ** 2 + (o.y - 0.5) ** 2) ** 0.5), 0.06),
    "big": (lambda o: o.size, 0.0),
    "small": (lambda o: 1.0 / o.size, 0.0),
    "longest": (lambda o: o.elongation, 0.0),
    "high": (lambda o: o.height, 0.012),
    "low": (lambda o: None if o.height is None else -o.height, 0.012),
}
"""What a word asks the most of, and the difference that tells two apart: in the measure itself, or, where 0,
a fifth of the larger."""

SIZES = frozenset(("big", "small", "longest"))
"""Measures of the whole object, which are not known of what hardly shows."""

TWO_SENSES: Mapping[str, tuple[str, str]] = {"top": ("high", "back"), "bottom": ("low", "front")}
"""Words for the heap and for the picture: an object that fits either fits, and two are asked about."""


def nth_chance(
    n: int, obj: int, values: Mapping[int, float], scale: float, fit: Mapping[int, float]
) -> float:
    """Probability that n - 1 of the other objects both fit and come before an object."""
    counts = np.zeros(n)  # of those before it, probability of 0 to n - 1
    counts[0] = 1.0
    for k, value in values.items():
        if k != obj:
            before = fit[k] / (1.0 + np.exp(np.clip(-4.0 * (value - values[obj]) / scale, -50.0, 50.0)))
            counts[1:] = counts[1:] * (1.0 - before) + counts[:-1] * before
            counts[0] *= 1.0 - before
    return float(counts[-1])


def members(fit: dict[int, float], asks: bool) -> tuple[list[int], list[int]]:
    """Those that fit so far, and those that perhaps do."""
    most = max(fit.values(), default=0.0)
    least = LEAST_SHOWN if asks else max(LEAST_FIT, CLEAR_RATIO * most)
    sure = [k for k, value in fit.items() if value >= least]
    return sure, [k for k, value in fit.items() if MAYBE * most <= value < least]


def add_doubtful(objects: set[int], fit: dict[int, float]) -> None:
    """Objects that would be meant if they did fit: too good to be passed over without asking."""
    most = max(fit.values(), default=0.0)
    for k in objects:
        fit[k] = max(fit[k], 1.1 * CLEAR_RATIO * most)
