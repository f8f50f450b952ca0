"""What workers do with a scene that is kept: correct it, show it again, save it as a scene folder."""

import io
import zipfile
from typing import Any

import numpy as np

from cpor.corrections import CorrectionError, Corrections, correct_view, label_scene
from cpor.errors import InvalidSceneError, TooLargeError
from cpor.io.scene_folder import encode_scene
from cpor.scene import Intrinsics
from cpor.serve.api.asked import MOST_OBJECTS, CorrectRequest, FolderRequest, SceneDecideRequest, by_pair
from cpor.serve.api.kept_views import KeptView, answer_on_view, decide_on_view
from cpor.serve.api.look_jobs import Seen, believe_all, describe
from cpor.system import System
from cpor.viz.answer_page import answer_page, draw_answer
from cpor.viz.overlay import encode_picture


def correct(system: System, kept: KeptView, request: CorrectRequest) -> tuple[Seen, dict[str, Any] | None]:
    """Correct a scene, and decide on it where that is asked for."""
    seen = kept.seen or kept.view
    history = kept.history or Corrections.of(seen.scene)
    if request.correction is not None:
        history = history.make(request.correction.scaled(1.0 / kept.shrunk))
    else:
        history = history.undo() if request.do == "undo" else history.redo()
    if len(history.scene.objects) > MOST_OBJECTS:
        raise TooLargeError(f"a scene has at most {MOST_OBJECTS} objects; delete some first")
    view = correct_view(seen, history)
    believe_all(system, view)
    after = KeptView(view, kept.shrunk, kept.size, seen, history, kept.model)
    decision = None if request.decide is None else decide_on_view(after, request.decide)
    return (describe(system, after), after), decision


MOST_POINTS = 60_000
"""Points sent for the view in three dimensions."""

GUESSED_FOCAL = 1.1
"""Focal length by the width of the picture, where the camera's is unknown: about 50 degrees across."""

_POINT = np.dtype([("xyz", "<f4", 3), ("rgb0", "u1", 4), ("id", "<u2")])


def encode_points(kept: KeptView) -> bytes:
    """What the depth camera saw, as records of position, colour and object; see the route.

    Raises:
        InvalidSceneError: The scene has no depth.
    """
    scene = kept.view.scene
    seen, ids = scene.observation, scene.visible_ids
    if seen.depth is None or ids is None:
        raise InvalidSceneError("the scene has no depth; give a depth picture with the photograph")
    rows, columns = np.nonzero(np.isfinite(seen.depth) & (seen.depth > 0.0))
    step = max(1, int(np.ceil(np.sqrt(len(rows) / MOST_POINTS))))
    kept_rows = (rows % step == 0) & (columns % step == 0)
    rows, columns = rows[kept_rows][:MOST_POINTS], columns[kept_rows][:MOST_POINTS]
    height, width = seen.shape
    guessed = Intrinsics(GUESSED_FOCAL * width, GUESSED_FOCAL * width, width / 2, height / 2)
    fx, fy, cx, cy = seen.camera.intrinsics or guessed
    z = seen.depth[rows, columns]
    points = np.zeros(len(rows), _POINT)
    points["xyz"] = np.stack([(columns - cx) / fx * z, (rows - cy) / fy * z, z], axis=1)
    points["rgb0"][:, :3] = seen.rgb[rows, columns]
    points["id"] = ids[rows, columns]
    return points.tobytes()


def encode_decision(kept: KeptView, request: SceneDecideRequest, kind: str) -> bytes:
    """A decision to keep: a PNG picture, or one HTML page that needs nothing else."""
    answer = answer_on_view(kept, request)
    if kind == "html":
        return answer_page(answer).encode()
    return encode_picture(draw_answer(answer), kind="PNG")


def encode_folder(kept: KeptView, request: FolderRequest) -> bytes:
    """The scene as a zip of its labelled scene folder; without relations.json where some are not known."""
    view, beliefs = kept.view, kept.view.beliefs
    assert beliefs is not None
    said = dict(view.relations) | by_pair(request.relations)
    try:
        scene = label_scene(view.scene, beliefs, said)
    except CorrectionError:
        scene = view.scene
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in encode_scene(scene).items():
            archive.writestr(f"scene/{name}", data)
        if kept.history is not None:
            archive.writestr("scene/corrections.json", kept.history.to_json())
    return content.getvalue()
