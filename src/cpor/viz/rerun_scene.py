"""A scene and a decision in a recording for the Rerun viewer.

world/camera                 pose, intrinsics; colour, depth, segmentation and outlines below it
world/points                 the coloured points of the depth image, in the world or in the camera's frame
decision/graph               objects where they are in the picture, an arrow from a blocker to what it blocks
decision/scores              a bar for every object, by its id
decision/words               the decision, why, every relation and, in a run, what came of it
score/object_7, score/tau    the same scores along the turns of a run
log                          what was decided and what came of it, line by line

Rerun comes with the extra `viz`. It is imported only where a recording is asked for.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, UInt8

from cpor.decision import Decision, Defer
from cpor.errors import InputFileError, InvalidSettingError, MissingExtraError
from cpor.io.images import encode_png
from cpor.perception.segmenter import list_objects
from cpor.pipeline import UNSEEN
from cpor.robot.cycle import Cycle, Ended
from cpor.scene import Observation, Scene
from cpor.sim.dataset.recognition import Verdict
from cpor.viz.mask_outlines import trace_mask
from cpor.viz.overlay import LEAST_P, Marks, acted_on, marks_of
from cpor.viz.overlay_marks import BLUE, ORANGE, SKY
from cpor.viz.words import (
    ENDS,
    namer,
    percent,
    ranked_scores,
    say_all,
    say_certificate,
    say_outcome,
    say_step,
    say_verdict,
    with_names,
)

MOST_POINTS = 100_000
"""Most points of a depth image; a finer one is thinned along rows and columns."""

_GREY = (190, 190, 190)


TIMELINE = "cycle"
"""Counts the turns of the loop; a single scene is at 0."""

SUFFIX = ".rrd"


def check_recording(path: Path) -> None:
    """Say what is wrong with a recording that is to be made before any work is done for it.

    Raises:
        MissingExtraError: Rerun is not installed.
        InvalidSettingError: The file cannot be there.
    """
    if find_spec("rerun") is None:
        raise MissingExtraError(
            "a recording needs Rerun, which is not installed; get it with: pip install 'cpor-grasp[viz]'"
        )
    if path.suffix != SUFFIX:
        raise InvalidSettingError(f"--rerun is {path}; give a file name that ends with {SUFFIX}")
    if path.is_dir():
        raise InvalidSettingError(f"--rerun is {path}, which is a folder; give a file")
    if not path.parent.is_dir():
        raise InvalidSettingError(f"there is no folder {path.parent}; make it, or choose another --rerun")


@contextmanager
def open_recording(path: Path, name: str) -> Iterator[Any]:
    """A stream of Rerun's into a file, like run.rrd, with a name for the viewer's list.

    The file is there under its name once the block ends, with an error or without: what was recorded up to an
    error helps to understand it. Nothing is sent anywhere, and no viewer is started.
    """
    check_recording(path)
    import rerun

    scratch = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    stream: Any = rerun.RecordingStream("cpor-grasp")
    try:
        stream.save(scratch, default_blueprint=_layout(rerun))
    except RuntimeError as error:
        raise InputFileError(f"cannot write {path}: {error}; choose another --rerun") from None
    stream.send_recording_name(name)
    try:
        yield stream
    finally:
        stream.flush()
        stream.disconnect()
        try:
            scratch.replace(path)
        except OSError as problem:
            raise InputFileError(f"cannot write {path}: {problem.strerror}") from None


def write_scene(
    path: Path,
    scene: Scene,
    marks: Marks | None = None,
    decision: Decision | None = None,
    p_success: float | None = None,
) -> None:
    """Write the recording of one scene, and of a decision where one was made."""
    marks = marks or Marks()
    with open_recording(path, "scene" if decision is None else "decision") as stream:
        stream.set_time(TIMELINE, sequence=0)
        log_scene(stream, scene, marks)
        if decision is not None:
            log_decision(stream, scene, marks, decision, p_success)


def log_scene(stream: Any, scene: Scene, marks: Marks) -> None:
    """Log what was seen: colour, depth, points, masks, outlines."""
    import rerun as rr

    seen = scene.observation
    height, width = seen.shape
    k, pose = seen.camera.intrinsics, seen.camera.T_world_camera
    if pose is not None:
        stream.log("world/camera", rr.Transform3D(translation=pose[:3, 3], mat3x3=pose[:3, :3]))
    if k is not None:
        matrix = [[k.fx, 0.0, k.cx], [0.0, k.fy, k.cy], [0.0, 0.0, 1.0]]
        size, axes = (width, height), rr.ViewCoordinates.RDF
        pinhole = rr.Pinhole(
            image_from_camera=matrix, resolution=size, camera_xyz=axes, image_plane_distance=0.1
        )
        stream.log("world/camera", pinhole)
    stream.log("world/camera/colour", rr.EncodedImage(contents=encode_png(seen.rgb), media_type="image/png"))
    if seen.depth is not None:
        steps = np.rint(np.nan_to_num(seen.depth, nan=0.0).astype(np.float64) / seen.camera.depth_unit_m)
        depth = np.clip(steps, 0, 65535).astype(np.uint16)  # 0: no reading, as in a scene folder
        stream.log("world/camera/depth", rr.DepthImage(depth, meter=1.0 / seen.camera.depth_unit_m))
        if k is not None:
            points, colours = _points(seen)
            stream.log("world/points", rr.Points3D(points, colors=colours, radii=0.0006))
    if scene.visible_ids is not None:
        names = [(o.id, f"{o.id} {o.title or ''}".strip()) for o in scene.objects]
        stream.log("world/camera", rr.AnnotationContext([(0, "", (0, 0, 0, 0)), *names]))
        ids = scene.visible_ids.astype(np.uint16)
        stream.log("world/camera/segmentation", rr.SegmentationImage(ids, opacity=0.4))
        _log_outlines(stream, scene, marks)


def log_decision(
    stream: Any,
    scene: Scene,
    marks: Marks,
    decision: Decision,
    p_success: float | None = None,
    came: tuple[str, ...] = (),
) -> None:
    """Log a decision and what came of it: graph, bars, words; the action of `marks` may be another one."""
    import rerun as rr

    _log_graph(stream, scene, marks)
    ids = sorted(int(obj) for obj in decision.scores)  # type: ignore[call-overload]
    scores = np.array([decision.scores[obj] for obj in ids], dtype=np.float64)
    stream.log("decision/scores", rr.BarChart(scores, abscissa=np.array(ids, dtype=np.int64), color=BLUE))
    for obj, score in zip(ids, scores, strict=True):
        stream.log(f"score/object_{obj}", rr.Scalars(float(score)))
    stream.log("score/tau", rr.Scalars(decision.tau))
    words = say_decision(scene, marks, decision, p_success, came)
    stream.log("decision/words", rr.TextDocument(words, media_type="text/markdown"))
    name = namer(scene)
    action = marks.action if marks.action is not None else decision.action
    level = "WARN" if isinstance(action, Defer) else "INFO"
    stream.log("log", rr.TextLog(say_step(action, name), level=level))


def say_decision(
    scene: Scene, marks: Marks, decision: Decision, p_success: float | None, came: tuple[str, ...]
) -> str:
    """The decision in Markdown."""
    name = namer(scene)
    action = marks.action if marks.action is not None else decision.action
    target = marks.target
    lines = [f"# {say_step(action, name)}", ""]
    if target is not None and action == decision.action:
        lines += [say_all(decision, target, name, p_success), ""]
    lines += [*(f"{sentence}\n" for sentence in came), f"*{say_certificate(decision)}*", ""]
    lines += [f"| action | P(right) (it acts above {percent(decision.tau)}) |", "|---|---|"]
    for obj, low, high in ranked_scores(decision):
        verb = "grasp" if obj == target else "remove"
        said = percent(low) if high - low < 5e-3 else f"{percent(low)} to {percent(high)}"
        lines.append(f"| {verb} {name(obj)} | {said} |")
    lines += ["", "| lies in the way | of | probability |", "|---|---|---|"]
    for (blocked, blocker), p in sorted(marks.p_obstructs.items(), key=lambda item: -(item[1] or 0.0)):
        lines.append(f"| {name(blocker)} | {name(blocked)} | {'no answer' if p is None else percent(p)} |")
    return "\n".join(lines) + "\n"


def _log_outlines(stream: Any, scene: Scene, marks: Marks) -> None:
    """Amodal outlines, the visible one where the hidden part is not known; target and action stand out."""
    name, chosen = namer(scene), acted_on(marks.action)
    strips, colours, labels, radii = [], [], [], []
    for o in scene.objects:
        if o.amodal is not None and o.amodal.pixels.any():
            rings = trace_mask(o.amodal.pixels, o.amodal.top, o.amodal.left)
        else:
            assert scene.visible_ids is not None
            rings = trace_mask(scene.visible_ids == o.id)
        stands_out = o.id in (marks.target, chosen)
        for ring in rings:
            strips.append([*ring, ring[0]])
            colours.append(ORANGE if o.id == marks.target else SKY if o.id == chosen else _GREY)
            labels.append(f"{o.id} {name(o.id)}")
            radii.append(-2.5 if stands_out else -1.0)  # below 0: points of the screen, whatever the zoom
    import rerun as rr

    drawn = rr.LineStrips2D(strips, colors=colours, labels=labels, radii=radii, show_labels=False)
    stream.log("world/camera/outlines", drawn)


def _log_graph(stream: Any, scene: Scene, marks: Marks) -> None:
    import rerun as rr

    name, chosen = namer(scene), acted_on(marks.action)
    listed = list_objects(scene)
    places = [each["point"] or [0, 0] for each in listed]
    colours = [
        ORANGE if each["id"] == marks.target else SKY if each["id"] == chosen else _GREY for each in listed
    ]
    star = {marks.target: " (asked for)", None: ""}
    labels = [f"{each['id']} {name(each['id'])}{star.get(each['id'], '')}" for each in listed]
    ids = [str(each["id"]) for each in listed]
    nodes = rr.GraphNodes(ids, positions=places, colors=colours, labels=labels)
    # What was not segmented has no place in the picture; the text names it.
    likely = sorted(pair for pair, p in marks.p_obstructs.items() if p is None or p >= LEAST_P)
    shown = [pair for pair in likely if pair.blocker != UNSEEN]
    edges = rr.GraphEdges([(str(b.blocker), str(b.blocked)) for b in shown], graph_type="directed")
    stream.log("decision/graph", nodes, edges)


def _points(seen: Observation) -> tuple[Float[np.ndarray, "n 3"], UInt8[np.ndarray, "n 3"]]:
    """The points of a depth image and their colours, in the world where the pose is known. [m]."""
    k = seen.camera.intrinsics
    assert k is not None and seen.depth is not None
    step = int(np.ceil(np.sqrt(seen.depth.size / MOST_POINTS)))
    rows, columns = step * np.array(np.nonzero(np.isfinite(seen.depth[::step, ::step])))
    z = seen.depth[rows, columns].astype(np.float64)
    points = np.stack([(columns - k.cx) / k.fx * z, (rows - k.cy) / k.fy * z, z], axis=1)
    pose = seen.camera.T_world_camera
    if pose is not None:
        points = points @ pose[:3, :3].T + pose[:3, 3]
    return points, seen.rgb[rows, columns]


def log_cycle(stream: Any, cycle: Cycle, verdict: Verdict | None = None) -> None:
    """Log a cycle that is over."""
    import rerun as rr

    name = namer(cycle.scene)
    stream.set_time(TIMELINE, sequence=cycle.index)
    marks = marks_of(cycle)
    log_scene(stream, cycle.scene, marks)
    outcome = cycle.outcome
    said = [say_outcome(cycle, name), *(with_names(each, name) for each in cycle.notes)]
    if verdict is not None:
        said.append(say_verdict(verdict))
    if cycle.decision is None:
        for stale in ("decision/graph", "decision/scores"):
            stream.log(stale, rr.Clear(recursive=True))
        headline = "No decision" if cycle.action is None else say_step(cycle.action, name)
        words = "\n\n".join([f"# {headline}", *said])
        stream.log("decision/words", rr.TextDocument(words, media_type="text/markdown"))
    else:
        log_decision(stream, cycle.scene, marks, cycle.decision, cycle.p_success, tuple(said))
    right = outcome is None or outcome.kind == "done"
    for sentence in said:
        stream.log("log", rr.TextLog(sentence, level="INFO" if right else "WARN"))


def log_end(stream: Any, request: str, ended: Ended, detail: str) -> None:
    """Log how a run ended, with the last cycle."""
    import rerun as rr

    words = f"{request[:1].upper()}{request[1:]} was {ENDS[ended]}: {detail}."
    level = "INFO" if ended == Ended.RETRIEVED else "WARN"
    stream.log("log", rr.TextLog(words, level=level))


def _layout(rerun: Any) -> Any:
    """Initial layout of the viewer."""
    views = rerun.blueprint
    return views.Blueprint(
        views.Horizontal(
            views.Vertical(
                views.Spatial2DView(origin="world/camera", name="What was seen"),
                views.Spatial3DView(origin="world", name="In space"),
            ),
            views.Vertical(
                views.TextDocumentView(origin="decision/words", name="Decision"),
                views.BarChartView(origin="decision/scores", name="How likely each action is right"),
                views.GraphView(origin="decision/graph", name="What lies in the way of what"),
                views.TextLogView(origin="log", name="Log"),
            ),
        ),
        collapse_panels=True,
    )
