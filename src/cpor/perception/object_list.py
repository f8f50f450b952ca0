"""The objects of a scene as another program wants them: where each is, and a point that surely means it."""

from typing import TypedDict

import numpy as np
from scipy import ndimage

from cpor.scene import MaskCrop, Scene


class ListedObject(TypedDict):
    """One object.

    Attributes:
        id: Id of the object.
        name: What it is called, unique in the scene; None where it was not named.
        point: x and y of a pixel that shows it, well inside; None where none does. [px]
        box: Left, top, right and bottom of what shows, the last two exclusive; None likewise. [px]
        score: Confidence of the detector.
        occluded: Whether the detector says that part of it is hidden.
        hidden_share: Share of its amodal mask that does not show; None where that is not known.
    """

    id: int
    name: str | None
    point: list[int] | None
    box: list[int] | None
    score: float | None
    occluded: bool | None
    hidden_share: float | None


def list_objects(scene: Scene) -> list[ListedObject]:
    """Every object of a scene, by id."""
    boxes: list[tuple[slice, slice] | None] = []
    ids = scene.visible_ids
    if ids is not None and scene.objects:
        boxes = ndimage.find_objects(ids, max_label=scene.objects[-1].id)
    listed: list[ListedObject] = []
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
        listed.append(
            ListedObject(
                id=o.id,
                name=o.title,
                point=point,
                box=corners,
                score=o.score,
                occluded=o.occluded,
                hidden_share=_hidden_share(o.amodal, shown),
            )
        )
    return listed


def _hidden_share(amodal: MaskCrop | None, shown: int) -> float | None:
    area = 0 if amodal is None else int(amodal.pixels.sum())
    return max(0.0, 1.0 - shown / area) if area else None
