"""What pixels say of the objects of a view: worked out once, and shared by names and by every request."""

import threading
from dataclasses import replace
from functools import cached_property

import numpy as np

from cpor.scene import Scene
from cpor.words.appearance import (
    Appearance,
    ShapeWeights,
    describe_objects,
    fitted_shapes,
    how_sure,
    recognise,
)
from cpor.words.labels import read_labels
from cpor.words.nouns import judge_classes, lift
from cpor.words.workspace import in_workspace

KEPT = 8
"""Descriptions that are kept: those of the views that were last asked about."""


class Description:
    """Looks and place of the objects of one scene, each worked out when it is first needed.

    Args:
        scene: With visible masks, or without, where nothing can be said.

    Attributes:
        shape_weights: By which the shapes of objects are told; None: the fitted ones.
    """

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self.shape_weights: ShapeWeights | None = None

    @cached_property
    def seen(self) -> dict[int, Appearance]:
        """Colours, outline, and shape by the shape network alone, of each object that shows, by id."""
        return describe_objects(self._scene)

    @cached_property
    def sure(self) -> float:
        """How sure the shape network is of what it sees, in [0, 1]."""
        return how_sure(self.seen.values())

    @cached_property
    def looks(self) -> dict[int, Appearance]:
        """Colours, outline, and shape by all that tells, of each object that shows, by id."""
        weights = self.shape_weights or fitted_shapes()
        return {
            k: replace(look, shapes=recognise(look, self.classes[k], self.sure, weights))
            if look.shapes is not None and k in self.classes
            else look
            for k, look in self.seen.items()
        }

    @cached_property
    def said(self) -> dict[int, np.ndarray]:
        """Probability of each ImageNet class for each object. Shape (1000,) each."""
        return judge_classes(self._scene)

    @cached_property
    def classes(self) -> dict[int, np.ndarray]:
        """How much more than usual each ImageNet class is said of each object. Shape (1000,) each."""
        return {k: lift(p) for k, p in self.said.items()}

    @cached_property
    def labels(self) -> dict[int, tuple[str, ...]]:
        """Words printed on each object; read where a request is not settled otherwise."""
        return read_labels(self._scene)

    @cached_property
    def inside(self) -> frozenset[int]:
        """Objects that lie in the workspace."""
        return in_workspace(self._scene)


_kept: dict[tuple[int, ...], tuple[Scene, Description]] = {}
_lock = threading.Lock()


def describe(scene: Scene) -> Description:
    """The description of a scene; the same object for scenes that share frame, masks and given names."""
    parts = (
        scene.observation,
        scene.visible_ids,
        *(part for o in scene.objects for part in (o.amodal, o.name)),
    )
    key = (*scene.ids, *map(id, parts))
    with _lock:
        # The kept scene holds the parts, so no other object can get their ids meanwhile.
        kept = _kept.pop(key, None) or (scene, Description(scene))
        _kept[key] = kept
        if len(_kept) > KEPT:
            del _kept[next(iter(_kept))]
    return kept[1]
