"""What a segmenter must be able to do: find the objects of a frame, visible and hidden parts.

And the objects of a scene as another program wants them: where each is, and a point that surely means it.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Protocol, cast, runtime_checkable

import numpy as np
from jaxtyping import Int64
from scipy import ndimage

from cpor.errors import MissingExtraError, say_count
from cpor.plugins import SEGMENTERS, make_plugin
from cpor.scene import MaskCrop, Observation, PixelPoint, Scene

DEFAULT = "embedded"
"""The one that needs nothing but the package."""


SAME_IOU = 0.5
"""Least overlap of what shows for two masks to be of one object."""


@runtime_checkable
class Segmenter(Protocol):
    """Finds objects in a frame."""

    def segment(self, observation: Observation) -> Scene:
        """The scene of a frame: objects with visible and, where known, amodal masks. May be empty."""
        ...


@runtime_checkable
class PointSegmenter(Segmenter, Protocol):
    """Can be told where an object is that it did not name by itself. A segmenter need not."""

    def segment_at(self, scene: Scene, point: PixelPoint) -> Scene | None:
        """A scene of its own with one more object, the one that shows at a point.

        Returns:
            The same objects and the new one with the next free id; None where it sees none there.
        """
        ...


def make_segmenter(name: str = DEFAULT, **options: object) -> Segmenter:
    """The segmenter of a name, or of `module:attribute`."""
    return cast(Segmenter, make_plugin(SEGMENTERS, name, **options))


def shared_pixels(scene: Scene, second: Scene) -> Int64[np.ndarray, "n m"]:
    """How many pixels each object of one look shows that each of another look at the frame shows, by ids.

    Row and column 0 are of no object.
    """
    assert scene.visible_ids is not None and second.visible_ids is not None
    height, width = (max(each.ids, default=0) + 1 for each in (scene, second))
    both = scene.visible_ids.astype(np.int64) * width + second.visible_ids
    return np.bincount(both.reshape(-1), minlength=height * width).reshape(height, width)


def guess_hidden_parts(scene: Scene, own: Callable[[], Segmenter]) -> tuple[Scene, str]:
    """The scene with the hidden parts that a segmenter sees, and a sentence on that; as it is if it has all.

    Most segmenters find what shows, not what is hidden behind others, and what obstructs what cannot be told
    from that alone. An object that this one does not see stays as it is: nothing is known of it.
    """
    if scene.visible_ids is None or all(o.amodal is not None for o in scene.objects):
        return scene, ""
    try:
        second = own().segment(scene.observation)
    except MissingExtraError:
        return scene, ""  # no network, no guess
    shared = shared_pixels(scene, second)
    here, there = shared.sum(axis=1), shared.sum(axis=0)
    overlap = shared / np.maximum(here[:, None] + there[None] - shared, 1)
    overlap[:, 0] = 0.0
    theirs = {o.id: o.amodal for o in second.objects}
    objects, count = [], 0
    for obj in scene.objects:
        best = int(overlap[obj.id].argmax())
        whole = theirs.get(best) if overlap[obj.id, best] >= SAME_IOU else None
        if obj.amodal is None and whole is not None:
            obj = replace(obj, amodal=MaskCrop.from_mask(scene.visible_ids == obj.id).join(whole))
            count += 1
        objects.append(obj)
    if not count:
        return scene, ""
    says = (
        f"The masks tell of no hidden parts: those of {say_count(count, 'object')} are our segmenter's guess."
    )
    return replace(scene, objects=tuple(objects)), says


def list_objects(scene: Scene) -> list[dict[str, Any]]:
    """Every object of a scene, by id, with the fields of `cpor.records.ObjectRecord`."""
    boxes: list[tuple[slice, slice] | None] = []
    ids = scene.visible_ids
    if ids is not None and scene.objects:
        boxes = ndimage.find_objects(ids, max_label=scene.objects[-1].id)
    listed = []
    for o in scene.objects:
        box = boxes[o.id - 1] if boxes else None
        point = corners = None
        shown = 0
        if box is not None and ids is not None:
            mask = ids[box] == o.id
            shown = int(mask.sum())
            inward = ndimage.distance_transform_edt(np.pad(mask, 1))[1:-1, 1:-1]
            row, col = np.unravel_index(int(inward.argmax()), mask.shape)
            point = [box[1].start + int(col), box[0].start + int(row)]
            corners = [box[1].start, box[0].start, box[1].stop, box[0].stop]
        area = 0 if o.amodal is None else int(o.amodal.pixels.sum())
        listed.append(
            {
                "id": o.id,
                "name": o.title,
                "point": point,
                "box": corners,
                "score": o.score,
                "occluded": o.occluded,
                "hidden_share": max(0.0, 1.0 - shown / area) if area else None,
            }
        )
    return listed
