"""The objects of a scene with their outlines, as they go over the wire."""

from collections.abc import Sequence

from cpor.perception.object_list import ListedObject, list_objects
from cpor.scene import Scene
from cpor.serve.api.messages import ObjectMessage, Point
from cpor.viz.mask_outlines import trace_mask


def describe_objects(
    scene: Scene, scale: int = 1, listed: Sequence[ListedObject] | None = None
) -> list[ObjectMessage]:
    """The objects of a scene with their outlines.

    Args:
        scene: The scene.
        scale: The picture is this many times as large along each side; lengths are in its pixels.
        listed: The objects of the scene, where they were listed already.
    """
    described = []
    ids = scene.visible_ids
    by_id = {o.id: o for o in scene.objects}
    for each in list_objects(scene) if listed is None else listed:
        visible: list[list[Point]] = []
        if each["box"] is not None and ids is not None:
            left, top, right, bottom = each["box"]
            visible = trace_mask(ids[top:bottom, left:right] == each["id"], top, left)
        crop = by_id[each["id"]].amodal
        amodal = [] if crop is None else trace_mask(crop.pixels, crop.top, crop.left)
        described.append(
            ObjectMessage(
                id=each["id"],
                name=each["name"],
                # The middle of the pixel, so that it lies inside of the outline.
                point=None
                if each["point"] is None
                else ((each["point"][0] + 0.5) * scale, (each["point"][1] + 0.5) * scale),
                box=None if each["box"] is None else tuple(scale * side for side in each["box"]),
                visible=_scaled(visible, scale),
                amodal=_scaled(amodal, scale),
                score=each["score"],
                occluded=each["occluded"],
                hidden_share=each["hidden_share"],
            )
        )
    return described


def _scaled(outlines: list[list[Point]], scale: int) -> list[list[Point]]:
    if scale == 1:
        return outlines
    return [[(scale * x, scale * y) for x, y in outline] for outline in outlines]
