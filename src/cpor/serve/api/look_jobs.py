"""What the workers that look at pictures do: an upload becomes a view, and what is said of it."""

import math
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from cpor.corrections.history import Corrections
from cpor.errors import MissingExtraError, TooLargeError
from cpor.evidence.pair_crops import near_pairs
from cpor.gate.check import Check
from cpor.io.frame_files import read_input
from cpor.learn.modes import DEFAULT_MODE
from cpor.perception.segmenter import list_objects
from cpor.scene import DetectedObject, MaskCrop, Observation, Scene
from cpor.serve.api.answered import ObjectMessage, SceneReply
from cpor.serve.api.asked import MOST_RELATIONS, Point, RelationMessage, SceneDecideRequest
from cpor.serve.api.kept_views import KeptView, asked_of, decide_on_view
from cpor.serve.http.uploads import (
    ANALYSED_PIXELS,
    Received,
    Upload,
    UploadLimits,
    read_upload,
    shrink_camera,
)
from cpor.system import System
from cpor.view import View
from cpor.viz.mask_outlines import trace_mask

Seen: TypeAlias = tuple[SceneReply, KeptView]
"""What looking at an upload gives: the reply, without an id yet, and what to keep."""


def load_system(model: Path | None = None) -> System:
    """Ours, with everything read and compiled, so that no caller waits for it; `model`: another than ours."""
    system = System(model=model)
    ids = np.zeros((48, 64), np.int32)
    ids[8:40, 8:32], ids[8:40, 32:56] = 1, 2
    objects = tuple(DetectedObject(k, MaskCrop.from_mask(ids == k)) for k in (1, 2))
    frame = Observation(np.full((48, 64, 3), 99, np.uint8), np.full((48, 64), 0.8, np.float32))
    with suppress(MissingExtraError):  # masks that are given can still be decided on
        system.look(frame)
    received = Received(Scene(frame, objects, ids), 1, (64, 48))
    kept = _view(system, received, {})
    describe(system, kept)
    decide_on_view(kept, SceneDecideRequest(target=1))
    return system


def look(system: System, upload: Upload, limits: UploadLimits) -> Seen:
    """Read an upload, find its objects, and say what is believed of every pair."""
    kept = _read(system, upload, limits)
    return describe(system, kept), kept


def look_at_input(system: System, place: Path, number: int | None) -> Seen:
    """Find the objects of a frame in files of this machine; masks beside it do not count."""
    frame = read_input(place, frame=number)[0].observation
    step = math.ceil(math.sqrt(frame.rgb[..., 0].size / ANALYSED_PIXELS))
    depth = None if frame.depth is None else frame.depth[::step, ::step]
    small = replace(
        frame, rgb=frame.rgb[::step, ::step], depth=depth, camera=shrink_camera(frame.camera, step)
    )
    return look_at_frame(system, frame if step == 1 else small)


def look_at_frame(system: System, frame: Observation) -> Seen:
    """Find the objects of a camera's frame, and say what is believed of every pair."""
    height, width = frame.rgb.shape[:2]
    kept = _view(system, Received(Scene(frame), 1, (width, height)), {})
    return describe(system, kept), kept


def look_and_decide(
    system: System, upload: Upload, limits: UploadLimits, request: SceneDecideRequest
) -> tuple[dict[str, Any], KeptView]:
    """Read an upload, and decide for the object asked for."""
    kept = look_closer(system, _read(system, upload, limits), request)
    return decide_on_view(kept, request), kept


def look_closer(system: System, kept: KeptView, request: SceneDecideRequest) -> KeptView:
    """A view with what shows where a request points, if the segmenter saw it faintly."""
    point = asked_of(request, kept.shrunk).point
    if point is None or (view := system.look_closer(kept.view, point)) is kept.view:
        return kept
    believe_all(system, view)
    return replace(kept, view=view)


def _read(system: System, upload: Upload, limits: UploadLimits) -> KeptView:
    start = time.perf_counter()
    received = read_upload(upload, limits)
    return _view(system, received, {"read": 1e3 * (time.perf_counter() - start)})


def _view(system: System, received: Received, times_ms: dict[str, float]) -> KeptView:
    """The view of an upload, with its beliefs."""
    view = system.look(received.scene)
    view = replace(
        view,
        checks=view.checks + _check_size(received.shrunk),
        notes=received.notes + view.notes,
        times_ms=dict(view.times_ms) | times_ms,
    )
    believe_all(system, view)
    return KeptView(view, received.shrunk, received.size, model=system.model)


def believe_all(system: System, view: View) -> None:
    """Fill in the beliefs of a view, if that is not too much work."""
    if (near := len(near_pairs(view.seen))) > MOST_RELATIONS:
        raise TooLargeError(f"{near} pairs of objects are near each other; send fewer objects")
    beliefs = system.believe(view).beliefs
    assert beliefs is not None
    if (count := int(np.count_nonzero(beliefs.p_fused))) > MOST_RELATIONS:
        raise TooLargeError(
            f"{count} pairs of objects may obstruct each other; at most {MOST_RELATIONS} are decided on. "
            "Send fewer objects, or masks for all of them"
        )


def _check_size(shrunk: int) -> tuple[Check, ...]:
    """A picture that was made smaller is not what the promise was tested with."""
    if shrunk == 1:
        return ()
    says = f"The picture is large: it was analysed at 1/{shrunk} of its size."
    return (Check("picture_size", "doubt", says, "Send a picture of at most 2.5 million pixels."),)


def describe(system: System, kept: KeptView) -> SceneReply:
    """What is said of a view; its id is not known yet."""
    start = time.perf_counter()
    view, outlook = kept.view, system.outlook(kept.view)
    assert view.beliefs is not None
    evidence, taus = view.beliefs.list_pairs(), system.taus(view)
    objects = describe_objects(view.scene, kept.shrunk, view.objects)
    width, height = kept.size
    believed = {(each.blocked, each.blocker): each.p for each in evidence} | dict(view.relations)
    corrections = kept.history or Corrections.of(view.scene)
    times = {**view.times_ms, "describe": 1e3 * (time.perf_counter() - start)}
    return SceneReply.model_validate(
        {
            "id": "",
            "width": width,
            "height": height,
            "has_depth": view.scene.observation.depth is not None,
            "masks": view.masks,
            "scorer": view.beliefs.scorer,
            "objects": objects,
            "evidence": evidence,
            "relations": [RelationMessage(blocked=i, blocker=j, p=p) for (i, j), p in believed.items()],
            "done": len(corrections.done),
            "undone": len(corrections.undone),
            "checks": outlook.checks,
            "mode": DEFAULT_MODE,
            "tau": outlook.tau,
            "modes": taus,
            "promise": outlook.promise,
            "notes": list(outlook.notes),
            "times_ms": {stage: round(value, 3) for stage, value in times.items()},
        }
    )


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
