"""How near every ordered pair of objects lies in the picture: a cheap score to choose candidates by."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float
from scipy import ndimage

from cpor.errors import InvalidSceneError
from cpor.evidence.geometry import GeometricEvidence
from cpor.scene import Scene

_WIDTH = 160
"""Distances are measured at about this width: finer ones tell nothing more, and cost more. [px]"""


def nearness(scene: Scene) -> Float[np.ndarray, "n n"]:
    """Minus the least distance from the blocked object's amodal mask to the blocker's visible one.

    In diagonals of the picture: 0 where they touch, and where a mask is missing, so that no such pair is too
    far. Row i is the blocked object. Shape (n, n).
    """
    if scene.visible_ids is None:
        raise InvalidSceneError("the scene has no masks; segment it first")
    step = max(1, scene.visible_ids.shape[1] // _WIDTH)
    seen = scene.visible_ids[::step, ::step]
    shown = np.isin(scene.ids, seen)
    near = np.zeros((len(scene.ids),) * 2)
    for i, obj in enumerate(scene.objects):
        own = scene.visible_ids == obj.id
        if obj.amodal is not None:
            crop, (height, width) = obj.amodal, obj.amodal.pixels.shape
            own[crop.top : crop.top + height, crop.left : crop.left + width] |= crop.pixels
        own = own[::step, ::step]
        if own.any():
            far = ndimage.minimum(ndimage.distance_transform_edt(~own), seen, scene.ids)
            near[i, shown] = -np.asarray(far)[shown] / np.hypot(*seen.shape)
    return near


@dataclass(frozen=True)
class WithNearness:
    """A measure of geometry that also tells how near pairs are.

    Attributes:
        measure: The measure; its fingerprint counts.
    """

    measure: Callable[[Scene], GeometricEvidence]

    def __call__(self, scene: Scene) -> GeometricEvidence:
        """Geometric evidence with nearness."""
        return replace(self.measure(scene), nearness=nearness(scene))

    @property
    def fingerprint(self) -> str | None:
        """That of the measure: nearness has no weights."""
        return getattr(self.measure, "fingerprint", None)
