"""What pixels say of the objects of a view: worked out once, and shared by names and by every request."""

import threading
from functools import cached_property

import numpy as np

from cpor.scene import Scene
from cpor.words.appearance import Appearance, describe_objects
from cpor.words.nouns import judge_classes
from cpor.words.pieces import MaskReading, read_masks
from cpor.words.workspace import in_workspace

KEPT = 8
"""Descriptions that are kept: those of the views that were last asked about."""


class Description:
    """Looks, place and pieces of the objects of one scene, each worked out when it is first needed.

    Args:
        scene: With visible masks, or without, where nothing can be said.
    """

    def __init__(self, scene: Scene) -> None:
        self._scene = scene

    @cached_property
    def looks(self) -> dict[int, Appearance]:
        """Colours, shape and outline of each object that shows, by id."""
        return describe_objects(self._scene)

    @cached_property
    def classes(self) -> dict[int, np.ndarray]:
        """How much more than usual each ImageNet class is said of each object. Shape (1000,) each."""
        return judge_classes(self._scene)

    @cached_property
    def inside(self) -> frozenset[int]:
        """Objects that lie in the workspace."""
        return in_workspace(self._scene)

    @cached_property
    def readings(self) -> list[MaskReading]:
        """The likely ways to read the masks: some may show one thing together."""
        return read_masks(self._scene, {k: look for k, look in self.looks.items() if k in self.inside})


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
