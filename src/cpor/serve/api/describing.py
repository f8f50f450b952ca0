"""Objects of a scene, and which of them is meant, as they go over the wire."""

from cpor.perception.grounding_answers import AmbiguousRequest, Candidate, Found, Grounding
from cpor.perception.object_list import list_objects
from cpor.scene import Scene
from cpor.serve.api.messages import CandidateMessage, GroundReply, ObjectMessage, Point
from cpor.viz.mask_outlines import trace_mask


def describe_objects(scene: Scene, scale: int = 1) -> list[ObjectMessage]:
    """The objects of a scene with their outlines, in pixels of a picture `scale` times as large."""
    described = []
    ids = scene.visible_ids
    by_id = {o.id: o for o in scene.objects}
    for each in list_objects(scene):
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


def describe_grounding(meant: Grounding) -> GroundReply:
    """Which object is meant, as it goes over the wire."""
    if isinstance(meant, Found):
        state, obj, question, ranked = "found", meant.id, None, meant.ranked or (Candidate(meant.id, 1.0),)
    elif isinstance(meant, AmbiguousRequest):
        state, obj, question, ranked = "ambiguous", None, meant.question, meant.candidates
    else:
        state, obj, question, ranked = "not_found", None, meant.reason, meant.ranked
    candidates = [CandidateMessage(id=each.id, fit=each.fit) for each in ranked]
    return GroundReply.model_validate(
        {
            "state": state,
            "id": obj,
            "question": question,
            "candidates": candidates,
            "unchecked": list(meant.unchecked),
        }
    )


def _scaled(outlines: list[list[Point]], scale: int) -> list[list[Point]]:
    if scale == 1:
        return outlines
    return [[(scale * x, scale * y) for x, y in outline] for outline in outlines]
