"""The objects of a scene with their outlines, as they go over the wire."""

from collections.abc import Sequence
from typing import Any

from cpor.perception.segmenter import list_objects
from cpor.scene import Scene
from cpor.serve.api.answered import ObjectMessage
from cpor.serve.api.asked import Point
from cpor.viz.mask_outlines import trace_mask


def describe_objects(
    scene: Scene, scale: int = 1, listed: Sequence[dict[str, Any]] | None = None
) -> list[ObjectMessage]:
    """The objects of a scene with their outlines, in pixels of a picture `scale` times as large."""
    ids = scene.visible_ids
    by_id = {o.id: o for o in scene.objects}
    described = []
    for each in list_objects(scene) if listed is None else listed:
        point, box, crop = each["point"], each["box"], by_id[each["id"]].amodal
        visible: list[list[Point]] = []
        if box is not None and ids is not None:
            left, top, right, bottom = box
            visible = trace_mask(ids[top:bottom, left:right] == each["id"], top, left)
        amodal = [] if crop is None else trace_mask(crop.pixels, crop.top, crop.left)
        in_picture = {
            # The middle of the pixel, so that it lies inside of the outline.
            "point": point and tuple((side + 0.5) * scale for side in point),
            "box": box and tuple(scale * side for side in box),
            "visible": _scaled(visible, scale),
            "amodal": _scaled(amodal, scale),
        }
        described.append(ObjectMessage.model_validate({**each, **in_picture}))
    return described


def _scaled(outlines: list[list[Point]], scale: int) -> list[list[Point]]:
    if scale == 1:
        return outlines
    return [[(scale * x, scale * y) for x, y in outline] for outline in outlines]
