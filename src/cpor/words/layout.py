"""How objects lie to each other in the picture and in the heap, as words like "behind" ask for it."""

from collections.abc import Mapping
from functools import cached_property

import numpy as np
from jaxtyping import Float
from scipy import ndimage

from cpor.scene import DetectedObject, Scene
from cpor.words.outlines import Outline, ramp

_STEP = 4
"""Distances are measured on every fourth pixel."""

_REACH = 3
"""Objects meet where what shows of them is so close. [px]"""

DIRECTIONS: Mapping[str, tuple[float, float]] = {
    "left": (-1.0, 0.0),
    "right": (1.0, 0.0),
    "back": (0.0, -1.0),
    "front": (0.0, 1.0),
}
"""To the right and down in the picture; farther from the camera is up."""


HEAPED = frozenset(("on", "under"))
"""Relations that hidden parts tell."""

TWO_WAYS: Mapping[str, tuple[str, str]] = {"above": ("on", "back"), "below": ("under", "front")}
"""Relations of the heap or of the picture: either holds."""


class Layout:
    """Where the objects of a scene lie.

    Args:
        scene: With visible masks.
        outlines: Outlines of the objects that show.
    """

    def __init__(self, scene: Scene, outlines: Mapping[int, Outline]) -> None:
        assert scene.visible_ids is not None
        self.ids, self.outlines = scene.visible_ids, outlines
        self.objects: dict[int, DetectedObject] = {o.id: o for o in scene.objects}
        self._depth = scene.observation.depth
        self._areas = np.bincount(self.ids.ravel(), minlength=max(self.objects, default=0) + 1)
        self._gaps: dict[int, dict[int, float]] = {}

    @property
    def knows_hidden(self) -> bool:
        """Whether hidden parts are known, which "on" and "under" are judged by."""
        return any(o.amodal is not None for o in self.objects.values())

    @cached_property
    def _size(self) -> float:
        """Side of a usual object. [px]."""
        return float(np.sqrt(np.median([self._areas[k] for k in self.outlines] or [1])))

    def fit(self, key: str, obj: int, others: tuple[int, ...]) -> float:
        """How well a relation of the vocabulary holds between an object and others, in [0, 1]."""
        if obj in others or obj not in self.outlines or not all(k in self.outlines for k in others):
            return 0.0
        other = others[0]
        if key in TWO_WAYS:
            return max(self.fit(each, obj, others) for each in TWO_WAYS[key])
        if key == "near":
            return self._nearness(obj, other)
        if key == "on":
            return ramp(self._lies_on(obj, other), 0.1, 0.3)
        if key == "under":
            return ramp(self._lies_on(other, obj), 0.1, 0.3)
        if key == "between":
            return self._between(obj, other, others[1])
        along = np.array(DIRECTIONS[key])
        way = self._middles[obj] - self._middles[other]
        far = float(np.linalg.norm(way))
        cosine = float(way @ along) / max(far, 1e-9)
        # In a heap most things touch: the one is meant whose middle is next.
        least = 0.5 * self._size
        return ramp(cosine, 0.4, 0.75) * (least / max(far + self._gap(obj, other), least)) ** 2

    def _at(self, obj: int) -> Float[np.ndarray, "2"]:
        o = self.outlines[obj]
        return np.array([o.x * self.ids.shape[1], o.y * self.ids.shape[0]])

    @cached_property
    def _middles(self) -> dict[int, Float[np.ndarray, "2"]]:
        """Distance between the middle of what shows of each object and that of the whole. [px]."""
        labels = list(self.outlines)
        shown = ndimage.center_of_mass(self.ids > 0, self.ids, labels)
        middles = {k: np.array((col, row)) for k, (row, col) in zip(labels, shown, strict=True)}
        return {k: 0.5 * (self._at(k) + middle) for k, middle in middles.items()}

    def _nearness(self, obj: int, other: int) -> float:
        """1 for objects that touch, less by the gap between them."""
        return float(np.exp(-self._gap(obj, other) / (0.7 * self._size)))

    def _gap(self, obj: int, other: int) -> float:
        """Smallest distance between what shows of two objects. [px]."""
        if other not in self._gaps:
            coarse = self.ids[::_STEP, ::_STEP]
            away = ndimage.distance_transform_edt(coarse != other) * _STEP
            labels = list(self.outlines)
            gaps = ndimage.minimum(away, coarse, labels)
            self._gaps[other] = {k: max(0.0, float(gap) - _STEP) for k, gap in zip(labels, gaps, strict=True)}
        return self._gaps[other][obj]

    def _lies_on(self, upper: int, lower: int) -> float:
        """Share of the smaller object's outline in which the upper one shows over the lower one."""
        hidden = self.objects[lower].amodal
        if hidden is None or self._is_deeper(upper, lower):
            return 0.0
        rows, cols = hidden.pixels.shape
        here = self.ids[hidden.top : hidden.top + rows, hidden.left : hidden.left + cols]
        over = int(((here == upper) & hidden.pixels).sum())
        return over / max(1, min(int(self._areas[upper]), int(hidden.pixels.sum())))

    def _is_deeper(self, upper: int, lower: int) -> bool:
        """Whether an object is farther away than another where both meet; as wholes where they do not.

        A box may well lie on another whose front is nearer to the camera.
        """
        if self._depth is None:
            return False
        masks = [self.ids == k for k in (upper, lower)]
        near = [ndimage.binary_dilation(mask, iterations=_REACH) for mask in masks]
        meet = [masks[0] & near[1], masks[1] & near[0]]
        z = [self._depth[mask] for mask in (meet if meet[0].any() and meet[1].any() else masks)]
        if any(not np.isfinite(each).any() for each in z):
            return False
        return bool(np.nanmedian(z[0]) > np.nanmedian(z[1]) + 0.004)

    def _between(self, obj: int, first: int, second: int) -> float:
        a, b, at = self._at(first), self._at(second), self._at(obj)
        length = max(float(np.linalg.norm(b - a)), 1e-9)
        along = float((at - a) @ (b - a)) / length**2
        aside = float(np.linalg.norm(at - a - np.clip(along, 0.0, 1.0) * (b - a)))
        return ramp(along, 0.0, 0.2) * ramp(along, 1.0, 0.8) * ramp(aside / length, 0.5, 0.2)
