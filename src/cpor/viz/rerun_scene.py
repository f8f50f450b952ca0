"""A scene and a decision in a recording for the Rerun viewer.

world/camera                 pose, intrinsics; colour, depth, segmentation and outlines below it
world/points                 the coloured points of the depth image, in the world or in the camera's frame
decision/graph               objects where they are in the picture, an arrow from a blocker to what it blocks
decision/scores              a bar for every object, by its id
decision/words               the decision, why, every relation and, in a run, what came of it
score/object_7, score/tau    the same scores along the turns of a run
log                          what was decided and what came of it, line by line
"""

import io
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from jaxtyping import Float, UInt8
from PIL import Image

from cpor.decision import Action, Decision, Defer
from cpor.perception.object_list import list_objects
from cpor.pipeline import UNSEEN
from cpor.robot.cycle import Cycle, Ended
from cpor.scene import BlockedBy, Observation, Scene
from cpor.sim.dataset.recognition import Verdict
from cpor.viz.mask_outlines import trace_mask
from cpor.viz.overlay import LEAST_P, Marks, acted_on
from cpor.viz.overlay_marks import BLUE, ORANGE, SKY
from cpor.viz.rerun_file import RerunFile
from cpor.viz.words import (
    ENDS,
    OUTCOMES,
    namer,
    percent,
    ranked_scores,
    say_certificate,
    say_step,
    say_success,
    say_why,
    with_names,
)

MOST_POINTS = 100_000
"""Most points of a depth image; a finer one is thinned along rows and columns."""

_GREY = (190, 190, 190)


def write_scene(
    path: Path,
    scene: Scene,
    marks: Marks | None = None,
    decision: Decision | None = None,
    p_success: float | None = None,
) -> None:
    """Write the recording of one scene.

    Args:
        path: The file, like scene.rrd.
        scene: What was seen.
        marks: Target, action and relations.
        decision: What was decided, where anything was.
        p_success: How often such an action succeeds, where known.
    """
    marks = marks or Marks()
    with RerunFile(path, "scene" if decision is None else "decision") as file:
        file.at_cycle(0)
        log_scene(file, scene, marks)
        if decision is not None:
            log_decision(file, scene, marks, decision, p_success)


def log_scene(file: RerunFile, scene: Scene, marks: Marks) -> None:
    """Log what was seen: colour, depth, points, masks, outlines."""
    rr, seen = file.rerun, scene.observation
    height, width = seen.shape
    k, pose = seen.camera.intrinsics, seen.camera.T_world_camera
    if pose is not None:
        file.log("world/camera", rr.Transform3D(translation=pose[:3, 3], mat3x3=pose[:3, :3]))
    if k is not None:
        matrix = [[k.fx, 0.0, k.cx], [0.0, k.fy, k.cy], [0.0, 0.0, 1.0]]
        camera = rr.Pinhole(
            image_from_camera=matrix,
            resolution=(width, height),
            camera_xyz=rr.ViewCoordinates.RDF,
            image_plane_distance=0.1,
        )
        file.log("world/camera", camera)
    file.log("world/camera/colour", rr.EncodedImage(contents=_png(seen.rgb), media_type="image/png"))
    if seen.depth is not None:
        steps = np.rint(np.nan_to_num(seen.depth, nan=0.0).astype(np.float64) / seen.camera.depth_unit_m)
        depth = np.clip(steps, 0, 65535).astype(np.uint16)  # 0: no reading, as in a scene folder
        file.log("world/camera/depth", rr.DepthImage(depth, meter=1.0 / seen.camera.depth_unit_m))
        if k is not None:
            points, colours = _points(seen)
            file.log("world/points", rr.Points3D(points, colors=colours, radii=0.0006))
    if scene.visible_ids is not None:
        names = [(o.id, f"{o.id} {o.title or ''}".strip()) for o in scene.objects]
        file.log("world/camera", rr.AnnotationContext([(0, "", (0, 0, 0, 0)), *names]))
        file.log(
            "world/camera/segmentation",
            rr.SegmentationImage(scene.visible_ids.astype(np.uint16), opacity=0.4),
        )
        _log_outlines(file, scene, marks)


def log_decision(
    file: RerunFile,
    scene: Scene,
    marks: Marks,
    decision: Decision,
    p_success: float | None = None,
    came: tuple[str, ...] = (),
) -> None:
    """Log a decision: graph, bars, words.

    Args:
        file: Where to.
        scene: What it is about.
        marks: Target, action and relations.
        decision: What was decided; the action of `marks` may be another one.
        p_success: How often such an action succeeds, where known.
        came: What came of it, in sentences.
    """
    rr = file.rerun
    _log_graph(file, scene, marks)
    ids = sorted(int(obj) for obj in decision.scores)  # type: ignore[call-overload]
    scores = np.array([decision.scores[obj] for obj in ids], dtype=np.float64)
    file.log("decision/scores", rr.BarChart(scores, abscissa=np.array(ids, dtype=np.int64), color=BLUE))
    for obj, score in zip(ids, scores, strict=True):
        file.log(f"score/object_{obj}", rr.Scalars(float(score)))
    file.log("score/tau", rr.Scalars(decision.tau))
    words = say_decision(scene, marks, decision, p_success, came)
    file.log("decision/words", rr.TextDocument(words, media_type="text/markdown"))
    name = namer(scene)
    action = marks.action if marks.action is not None else decision.action
    file.log("log", rr.TextLog(say_step(action, name), level=_level(action)))


def say_decision(
    scene: Scene, marks: Marks, decision: Decision, p_success: float | None, came: tuple[str, ...]
) -> str:
    """The decision in Markdown."""
    name = namer(scene)
    action = marks.action if marks.action is not None else decision.action
    target = marks.target
    lines = [f"# {say_step(action, name)}", ""]
    if target is not None and action == decision.action:
        lines += [
            " ".join(filter(None, (say_why(decision, target, name), say_success(p_success, decision)))),
            "",
        ]
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


def _log_outlines(file: RerunFile, scene: Scene, marks: Marks) -> None:
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
    rr = file.rerun
    drawn = rr.LineStrips2D(strips, colors=colours, labels=labels, radii=radii, show_labels=False)
    file.log("world/camera/outlines", drawn)


def _log_graph(file: RerunFile, scene: Scene, marks: Marks) -> None:
    rr, name, chosen = file.rerun, namer(scene), acted_on(marks.action)
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
    shown = [b for b in _likely(marks.p_obstructs) if b.blocker != UNSEEN]
    edges = rr.GraphEdges([(str(b.blocker), str(b.blocked)) for b in shown], graph_type="directed")
    file.log("decision/graph", nodes, edges)


def _likely(p_obstructs: Mapping[BlockedBy, float | None]) -> list[BlockedBy]:
    """Relations worth an arrow: likely enough, as in our own pictures, or without an answer."""
    return sorted(pair for pair, p in p_obstructs.items() if p is None or p >= LEAST_P)


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


def _level(action: Action) -> str:
    return "WARN" if isinstance(action, Defer) else "INFO"


def _png(rgb: UInt8[np.ndarray, "h w 3"]) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(rgb).save(buffer, format="PNG", compress_level=3)
    return buffer.getvalue()


def log_cycle(file: RerunFile, cycle: Cycle, verdict: Verdict | None = None) -> None:
    """Log a cycle that is over.

    Args:
        file: Where to.
        cycle: What was seen, decided and done.
        verdict: Judgement of its action by the truth.
    """
    rr, name = file.rerun, namer(cycle.scene)
    file.at_cycle(cycle.index)
    p_obstructs = {BlockedBy(b.blocked, b.blocker): b.p for b in cycle.beliefs}
    marks = Marks(cycle.target, cycle.action, p_obstructs)
    log_scene(file, cycle.scene, marks)
    outcome = cycle.outcome
    came = "Nothing was moved." if outcome is None else f"{OUTCOMES[outcome.kind]}: {outcome.detail}."
    said = [with_names(each, name) for each in (came, *cycle.notes)]
    if verdict is not None:
        why = f": {verdict.because}" if verdict.because else ""
        said.append(f"In truth this was {'wrong' if verdict.is_wrong else 'right'}{why}.")
    if cycle.decision is None:
        for stale in ("decision/graph", "decision/scores"):
            file.clear(stale)
        headline = "No decision" if cycle.action is None else say_step(cycle.action, name)
        words = "\n\n".join([f"# {headline}", *said])
        file.log("decision/words", rr.TextDocument(words, media_type="text/markdown"))
    else:
        log_decision(file, cycle.scene, marks, cycle.decision, cycle.p_success, tuple(said))
    right = outcome is None or outcome.kind == "done"
    for sentence in said:
        file.log("log", rr.TextLog(sentence, level="INFO" if right else "WARN"))


def log_end(file: RerunFile, request: str, ended: Ended, detail: str) -> None:
    """Log how a run ended, with the last cycle.

    Args:
        file: Where to.
        request: What was asked for: "the red mug".
        ended: How it ended.
        detail: The same as a sentence.
    """
    words = f"{request[:1].upper()}{request[1:]} was {ENDS[ended]}: {detail}."
    level = "INFO" if ended == Ended.RETRIEVED else "WARN"
    file.log("log", file.rerun.TextLog(words, level=level))
