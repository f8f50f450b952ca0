"""What each segmenter, scorer, source of belief, robot and camera must do, as checks for those who write one.

Each check takes a function that makes the thing and raises AssertionError with a sentence that says what is
wrong. Our own are checked by the same functions. docs/extending.md has an example of each.
"""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from typing import get_args

import numpy as np
from jaxtyping import Float32, Int32, UInt8

from cpor.errors import CporError, InvalidSceneError, InvalidSettingError
from cpor.evidence.source import SEMANTIC, Source, SourceError, load_sources, score_with
from cpor.perception.segmenter import Segmenter
from cpor.pipeline import Pipeline
from cpor.robot.cameras import FrameCamera, close_camera
from cpor.robot.protocol import Outcome, OutcomeKind, Robot, RobotState
from cpor.robot.safe_stop import stopping
from cpor.scene import BlockedBy, DetectedObject, MaskCrop, Observation, Scene
from cpor.semantics.scorer import RelationScorer, score_scene

SHAPE = (240, 320)
"""Height and width of the frame that a segmenter must find something in, or nothing, but not fail. [px]"""

_BOXES = {
    (200, 30, 30): (0.1, 0.1, 0.5, 0.4),
    (30, 160, 50): (0.2, 0.4, 0.6, 0.75),
    (30, 60, 200): (0.55, 0.2, 0.95, 0.5),
}


def example_frame(shape: tuple[int, int] = SHAPE, with_depth: bool = True) -> Observation:
    """A red, a green and a blue box on a grey table, each 5 cm high and overlapping the one before."""
    rgb, depth, _ = _draw(shape)
    return Observation(rgb, depth if with_depth else None)


def example_scene() -> Scene:
    """`example_frame` with its true masks; the red box is 1, the green one 2, the blue one 3."""
    _, _, visible_ids = _draw(SHAPE)
    objects = []
    for k, box in enumerate(_BOXES.values(), start=1):
        mask = np.zeros(SHAPE, np.bool_)
        mask[_place(box, SHAPE)] = True
        objects.append(DetectedObject(k, MaskCrop.from_mask(mask)))
    return Scene(example_frame(), tuple(objects), visible_ids)


def check_segmenter(make: Callable[[], Segmenter]) -> None:
    """Check a segmenter.

    Args:
        make: Makes the segmenter; called several times.

    Raises:
        AssertionError: It breaks a rule; the message says which.
    """
    segmenter = make()
    _require(isinstance(segmenter, Segmenter), "a segmenter has a method segment(observation)")
    frame = example_frame()
    found = segmenter.segment(frame)
    _require(isinstance(found, Scene), f"segment must give a Scene, not {type(found).__name__}")
    _require(found.observation is frame, "the scene must hold the observation that was given, not a copy")
    _check_masks(found)
    _require(segmenter.segment(frame) == found, "the same frame must give the same scene twice")
    _require(make().segment(frame) == found, "another instance must give the same scene for the same frame")
    for value in (0, 255):
        rgb = np.full((*SHAPE, 3), value, np.uint8)
        empty = segmenter.segment(Observation(rgb, np.full(SHAPE, 0.8, np.float32)))
        _require(isinstance(empty, Scene), f"a frame of {value} everywhere must give a Scene, perhaps empty")
    for shape in (SHAPE, (32, 32), (1080, 1920)):
        for with_depth in (True, False):
            try:
                scene = segmenter.segment(example_frame(shape, with_depth))
            except CporError:
                continue  # to refuse a frame in plain words is fine
            _check_masks(scene)


def check_scorer(make: Callable[[], RelationScorer], scene: Scene | None = None) -> None:
    """Check a relation scorer.

    Args:
        make: Makes the scorer.
        scene: A scene with masks that it can judge; `example_scene()` by default.

    Raises:
        AssertionError: It breaks a rule; the message says which.
    """
    scorer, scene = make(), scene or example_scene()
    _require(isinstance(scorer, RelationScorer), "a scorer has a name, pairs(scene) and score(scene, pairs)")
    _require(isinstance(scorer.name, str) and bool(scorer.name), "the name must be a text that is not empty")
    own = scorer.pairs(scene)
    _require(len(set(own)) == len(own), "pairs must list each pair once")
    _require(
        all(a in scene.ids and b in scene.ids and a != b for a, b in own),
        "pairs must list pairs of two different objects of the scene",
    )
    _require(scorer.pairs(scene) == own, "pairs must be the same for the same scene")
    everyone = [BlockedBy(a, b) for a in scene.ids[::-1] for b in scene.ids if a != b]
    _check_scores(scorer, scene, everyone)
    _check_scores(scorer, replace(scene, observation=Observation(scene.observation.rgb)), everyone)
    first, second = (scorer.score(scene, everyone).scores for _ in range(2))
    _require(first == second, "the same question must have the same answer")
    nothing = scorer.score(scene, [])
    _require(not nothing.scores and nothing.spent.calls == 0, "no pairs must give no scores and cost nothing")
    for pair, what in (
        (BlockedBy(scene.ids[0], max(scene.ids) + 1), "an object that is not in the scene"),
        (BlockedBy(scene.ids[0], scene.ids[0]), "an object and itself"),
    ):
        try:
            scorer.score(scene, [pair])
        except InvalidSceneError:
            continue
        raise AssertionError(f"a pair of {what} must raise InvalidSceneError; call `check_pairs` first")
    beliefs = Pipeline().believe(replace(scene, semantic_scores=score_scene(scorer, scene)))
    asked = beliefs.scores[SEMANTIC].asked
    _require(int(asked.sum()) == len(own), "the pipeline must get an answer or None for each of its pairs")


def check_source(make: Callable[[], Source], scene: Scene | None = None) -> None:
    """Check a source of belief.

    Args:
        make: Makes the source; called several times.
        scene: A scene with masks that it can judge; `example_scene()` by default.

    Raises:
        AssertionError: It breaks a rule; the message says which.
    """
    source, scene = make(), scene or example_scene()
    _require(isinstance(source, Source), "a source has a name and a method score(scene)")
    try:
        load_sources([source])
    except InvalidSettingError as error:
        raise AssertionError(str(error)) from None
    untouched = deepcopy(scene)
    for each in (scene, replace(scene, observation=Observation(scene.observation.rgb))):
        try:
            first, second, other = (score_with(maker, each) for maker in (source, source, make()))
        except SourceError as error:
            raise AssertionError(str(error)) from None
        for again, what in ((second, "the same scene twice"), (other, "the same scene by another instance")):
            alike = np.array_equal(first.score, again.score, equal_nan=True)
            _require(alike and np.array_equal(first.asked, again.asked), f"{what} must give the same scores")
    _require(scene == untouched, "a source must not change the scene")
    beliefs = Pipeline(sources=(source,)).believe(scene)
    told = ~np.isnan(beliefs.scores[source.name].score)
    contradicted = np.isnan(beliefs.p_fused) & told
    _require(
        bool(((beliefs.p_fused > 0.0) | contradicted)[told].all()), "a scored pair must stay a candidate"
    )


def check_robot(make: Callable[[], tuple[Robot, Segmenter]]) -> None:
    """Check a robot.

    Args:
        make: Puts a robot before two objects that it can take, and gives it with a segmenter that finds both
            and keeps their ids from picture to picture. Called several times, each time from the start.

    Raises:
        AssertionError: It breaks a rule; the message says which.
    """
    for check in (_check_picture, _check_taking, _check_stop, _check_unseen, _check_without_depth):
        robot, segmenter = make()
        methods = "observe, grasp, remove, home, stop, heartbeat and status"
        _require(isinstance(robot, Robot), f"a robot has {methods}")
        with stopping(robot):
            check(robot, segmenter)


def check_camera(make: Callable[[], FrameCamera]) -> None:
    """Check a camera.

    Args:
        make: Opens the camera; it must give at least two frames.

    Raises:
        AssertionError: It breaks a rule; the message says which.
    """
    camera = make()
    try:
        _require(isinstance(camera, FrameCamera), "a camera has the methods frame() and now()")
        first = camera.frame()
        kept = first.rgb.copy()
        second, now = camera.frame(), camera.now()
        for seen in (first, second):
            _require(isinstance(seen, Observation), "frame must give an Observation")
            _require(seen.rgb.dtype == np.uint8, "the picture must have 8-bit colours")
            _require(now is None or seen.time_s is not None, "with a clock, every frame needs its time_s")
            late = now is not None and seen.time_s is not None and seen.time_s > now
            _require(not late, "a frame must not be younger than now()")
        _require(bool((first.rgb == kept).all()), "the next frame must not overwrite the one before")
        for name in ("time_s", "number"):
            before, after = getattr(first, name), getattr(second, name)
            ordered = before is None or after is None or before < after
            _require(ordered, f"the {name} of the next frame must be larger: {before}, then {after}")
    finally:
        close_camera(camera)


def _check_picture(robot: Robot, segmenter: Segmenter) -> None:
    status = robot.status()
    _require(status.state in get_args(RobotState), f"unknown state {status.state!r}; see RobotState")
    _require(status.state == "ready" and bool(status.detail), "a new robot must be ready and say so")
    seen = robot.observe()
    _require(seen.rgb.dtype == np.uint8, "the picture must have 8-bit colours")
    _require(
        seen.depth is not None and float(np.isfinite(seen.depth).mean()) > 0.5,
        "more than half of the picture must have depth",
    )
    _require(
        seen.camera.intrinsics is not None and seen.camera.T_world_camera is not None,
        "the picture must come with the camera's intrinsics and pose",
    )
    _require(
        len(segmenter.segment(seen).ids) == 2, "`make` must put two objects before the robot, both visible"
    )
    for _ in range(2):
        _require(robot.home().kind == "done", "home must be done, also twice in a row")


def _check_taking(robot: Robot, segmenter: Segmenter) -> None:
    first, second = segmenter.segment(robot.observe()).ids
    for act, obj in ((robot.remove, first), (robot.grasp, second)):
        outcome = act(segmenter.segment(robot.observe()), obj)
        _require(isinstance(outcome, Outcome), "grasp and remove must give an Outcome")
        _require(outcome.kind == "done", f"object {obj} was not taken: {outcome.detail}")
        _require(bool(outcome.detail) and outcome.duration_s > 0.0, "an outcome says what was done, how long")
        left = segmenter.segment(robot.observe()).ids
        _require(obj not in left, f"object {obj} was reported as done, but the next picture shows it")
        _require(robot.status().state == "ready", "the robot must be ready after an action")


def _check_stop(robot: Robot, segmenter: Segmenter) -> None:
    scene = segmenter.segment(robot.observe())
    robot.stop()
    robot.stop()
    status = robot.status()
    _require(status.state == "stopped" and "stop" in status.detail, "after stop the status must say stopped")
    for act, obj in zip((robot.grasp, robot.remove), scene.ids, strict=True):
        _require(act(scene, obj).kind == "stopped", "after stop every action must come back as stopped")
    _require(robot.status().state == "stopped", "only home may clear a stop")
    _require(robot.home().kind == "done" and robot.status().state == "ready", "home must clear a stop")
    _require(
        segmenter.segment(robot.observe()).ids == scene.ids, "a stopped robot must not have moved anything"
    )


def _check_unseen(robot: Robot, segmenter: Segmenter) -> None:
    scene = segmenter.segment(robot.observe())
    unseen = Scene(scene.observation, scene.objects, np.zeros(scene.observation.shape, np.int32))
    kind = robot.remove(unseen, scene.ids[0]).kind
    _require(kind in get_args(OutcomeKind), f"unknown outcome {kind!r}; see OutcomeKind")
    _require(kind != "done", "an object without a pixel cannot be taken: it must not be reported as done")
    _require(robot.status().state == "ready", "the robot must be ready after refusing an object")


def _check_without_depth(robot: Robot, segmenter: Segmenter) -> None:
    scene = segmenter.segment(robot.observe())
    flat = Scene(Observation(scene.observation.rgb), scene.objects, scene.visible_ids)
    try:
        kind = robot.grasp(flat, scene.ids[0]).kind
    except CporError:
        pass  # to refuse aloud will do as well
    else:
        _require(kind == "no_grasp", f"without depth the outcome must be no_grasp, not {kind}")
    _require(robot.status().state != "moving", "the arm must be at rest after a refusal")
    _require(robot.home().kind == "done", "home must work after a refusal")


def _check_masks(scene: Scene) -> None:
    ids = scene.visible_ids
    if ids is None:
        _require(not scene.objects, "objects need visible_ids, the image that says where each shows")
        return
    shape = scene.observation.shape
    _require(ids.shape == shape, f"visible_ids is {ids.shape}, the picture {shape}; they must be one size")
    _require(set(np.unique(ids).tolist()) - {0} <= {*scene.ids}, "visible_ids shows an id without an object")
    for o in scene.objects:
        if o.amodal is not None:
            hidden = (ids == o.id) & ~o.amodal.to_mask(shape)
            _require(not hidden.any(), f"the amodal mask of object {o.id} must hold its visible mask")


def _check_scores(scorer: RelationScorer, scene: Scene, pairs: list[BlockedBy]) -> None:
    said = scorer.score(scene, pairs)
    _require(list(said.scores) == pairs, "scores must have every pair asked about, in order, and no other")
    for pair, score in said.scores.items():
        _require(
            score is None or 0.0 <= score <= 1.0,
            f"the score of {tuple(pair)} is {score}; it must lie within 0 and 1, or be None for no answer",
        )
    _require(said.scorer == scorer.name, "the scores must carry the scorer's name")


def _draw(
    shape: tuple[int, int],
) -> tuple[UInt8[np.ndarray, "h w 3"], Float32[np.ndarray, "h w"], Int32[np.ndarray, "h w"]]:
    """Colours, depth [m] and ids of the boxes."""
    rgb, depth = np.full((*shape, 3), 120, np.uint8), np.full(shape, 0.8, np.float32)
    ids = np.zeros(shape, np.int32)
    for k, (colour, box) in enumerate(_BOXES.items(), start=1):
        here = _place(box, shape)
        rgb[here], depth[here], ids[here] = colour, 0.8 - 0.05 * k, k
    return rgb, depth, ids


def _place(box: tuple[float, float, float, float], shape: tuple[int, int]) -> tuple[slice, slice]:
    top, left, bottom, right = box
    rows, cols = shape
    return slice(round(top * rows), round(bottom * rows)), slice(round(left * cols), round(right * cols))


def _require(condition: bool, sentence: str) -> None:
    if not condition:
        raise AssertionError(sentence)
