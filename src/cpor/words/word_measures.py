"""What words for forms, places and sizes measure on the outline of an object."""

from collections.abc import Callable, Mapping
from typing import TypeAlias

from cpor.words.layout import ramp
from cpor.words.outlines import Outline

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
"""What a word for a shape means where nobody judged shapes."""

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
"""Measures of the whole object, which nobody knows of what hardly shows."""

TWO_SENSES: Mapping[str, tuple[str, str]] = {"top": ("high", "back"), "bottom": ("low", "front")}
"""Words for the heap and for the picture: an object that fits either fits, and two are asked about."""
