"""A ROS 2 node that looks at camera topics and says what may be grasped; over any `Transport`.

It decides on the newest whole frame only. A publisher that is lost, a frame that cannot be read and a
decision that comes too late are `no_answer`; nothing is ever answered from an old picture.
"""

import io
import json
import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import numpy as np

from cpor.answer import Answer, View
from cpor.bridges.ros2_messages import WireError, new
from cpor.bridges.ros2_transport import Transport
from cpor.bridges.ros_images import CameraModel, read_camera, read_colour, read_depth
from cpor.bridges.states import state_of
from cpor.data.frame_files import make_observation
from cpor.errors import CporError, InvalidSettingError
from cpor.records.decision import record_action
from cpor.scene import Camera, Observation, PixelPoint
from cpor.system import System
from cpor.viz.overlay import Marks, draw_scene, relations_to_draw

LARGEST_GAP_NS = 40_000_000
"""Colour and depth of one frame may be this far apart. [ns]"""

OK, WARN, ERROR, STALE = range(4)
"""Levels of a diagnostic status."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class NodeSettings:
    """What to hear and to say.

    Attributes:
        color: Topic of photographs; `.../compressed` is a CompressedImage.
        depth: Topic of depth registered to them; `.../compressedDepth` is compressed. None: none.
        info: Topic of the camera info; None: the camera is not known.
        prefix: Of the topics and the service.
        request, target, point: Which object is decided on in every frame; all None: none, on call alone.
        max_age_s: A frame that was sent longer ago is old. [s]
        annotate: Whether the annotated picture is made.
    """

    color: str
    depth: str | None = None
    info: str | None = None
    prefix: str = "/cpor"
    request: str | None = None
    target: int | None = None
    point: tuple[float, float] | None = None
    max_age_s: float = 1.0
    annotate: bool = True

    def __post_init__(self) -> None:
        for topic in (self.color, self.depth, self.info, self.prefix):
            if topic is not None and not topic.startswith("/"):
                raise InvalidSettingError(f"the topic {topic!r} must begin with /")
        if sum(way is not None for way in (self.request, self.target, self.point)) > 1:
            raise InvalidSettingError("say which object in one way: request, target or point")
        if not self.max_age_s > 0.0:
            raise InvalidSettingError(f"max_age_s is {self.max_age_s}; it must be above 0")


@dataclass
class NodeCounts:
    """What happened so far."""

    frames: int = 0
    decided: int = 0
    no_answer: int = 0
    garbled: int = 0
    lost: int = 0


@dataclass
class _Frame:
    """Messages of one frame, and when the photograph was sent. [s]."""

    color: SimpleNamespace
    depth: SimpleNamespace | None
    sent_s: float
    seen: View | None = None
    header: SimpleNamespace = field(init=False)

    def __post_init__(self) -> None:
        self.header = self.color.header


class DecideNode:
    """The node; `close` ends it.

    Args:
        transport: How it hears and speaks.
        settings: What.
        system: Who looks and decides; `System()` by default.
    """

    def __init__(self, transport: Transport, settings: NodeSettings, system: System | None = None) -> None:
        self.settings, self.counts = settings, NodeCounts()
        self._transport, self._system = transport, system or System()
        self._camera: CameraModel | None = None
        self._colors: deque[tuple[SimpleNamespace, float]] = deque(maxlen=8)
        self._depths: deque[SimpleNamespace] = deque(maxlen=8)
        self._waiting: _Frame | None = None
        self._taken_s = -math.inf  # when the last frame was sent that was taken
        self._newest: _Frame | None = None  # the last one that was looked at
        self._problem = "no picture has come yet"
        self._change = threading.Condition()
        self._deciding = threading.Lock()
        self._ended = False
        s, say = settings, transport.publish
        self._say_labels = say(f"{s.prefix}/labels", "sensor_msgs/Image")
        self._say_info = say(f"{s.prefix}/label_info", "vision_msgs/LabelInfo")
        self._say_found = say(f"{s.prefix}/detections", "vision_msgs/Detection2DArray")
        self._say_picture = say(f"{s.prefix}/annotated/compressed", "sensor_msgs/CompressedImage")
        self._say_decision = say(f"{s.prefix}/decision", "cpor_msgs/Decision")
        self._say_health = say("/diagnostics", "diagnostic_msgs/DiagnosticArray")
        transport.serve(f"{s.prefix}/decide", "cpor_msgs/Decide", self._answer_call)
        if s.info is not None:
            transport.subscribe(s.info, "sensor_msgs/CameraInfo", self._hear_info)
        if s.depth is not None:
            transport.subscribe(s.depth, _image_kind(s.depth), self._hear_depth)
        transport.subscribe(s.color, _image_kind(s.color), self._hear_color)
        self._thread = threading.Thread(target=self._work, name="cpor-ros2", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End, and close the transport."""
        with self._change:
            self._ended = True
            self._change.notify_all()
        self._thread.join()
        self._transport.close()

    def _hear_info(self, message: SimpleNamespace | WireError, sent_s: float) -> None:
        if isinstance(message, WireError):
            self._garbled(f"camera info: {message}")
            return
        try:
            self._camera = read_camera(message, "camera info")
        except CporError as error:
            self._garbled(str(error))

    def _hear_color(self, message: SimpleNamespace | WireError, sent_s: float) -> None:
        if isinstance(message, WireError):
            self._garbled(f"colour: {message}")
            return
        self._colors.append((message, sent_s))
        self._pair()

    def _hear_depth(self, message: SimpleNamespace | WireError, sent_s: float) -> None:
        if isinstance(message, WireError):
            self._garbled(f"depth: {message}")
            return
        self._depths.append(message)
        self._pair()

    def _garbled(self, why: str) -> None:
        with self._change:
            self.counts.garbled += 1
            self._problem = f"a message cannot be read: {why}"
        _log.warning(self._problem)

    def _pair(self) -> None:
        """The newest photograph that has its depth, if it is newer than what was taken before."""
        for color, sent_s in reversed(self._colors):
            depth = None
            if self.settings.depth is not None:
                stamp = _stamp(color)
                near = [each for each in self._depths if abs(_stamp(each) - stamp) <= LARGEST_GAP_NS]
                if not near:
                    continue
                depth = min(near, key=lambda each: abs(_stamp(each) - stamp))
            with self._change:
                if sent_s > self._taken_s:
                    self.counts.frames += 1
                    self._taken_s = sent_s
                    self._waiting = _Frame(color, depth, sent_s)
                    self._change.notify_all()
            return

    def _work(self) -> None:
        """Look at the newest frame, again and again; where none comes, say so."""
        told_at = time.monotonic()
        while True:
            with self._change:
                self._change.wait_for(lambda: self._ended or self._waiting is not None, 0.25)
                if self._ended:
                    return
                frame, self._waiting = self._waiting, None
            now = time.monotonic()
            if frame is not None:
                self._look(frame)
            elif self._newest is None or now - self._newest.sent_s > self.settings.max_age_s:
                if now - told_at < self.settings.max_age_s:
                    continue
                self.counts.lost += 1
                self._tell(None, None, f"no whole frame for {self.settings.max_age_s:g} s; {self._problem}")
            else:
                continue
            told_at = time.monotonic()
            self._tell_health()

    def _look(self, frame: _Frame) -> None:
        s, before = self.settings, self._newest
        try:
            with self._deciding:
                previous = before.seen if before is not None else None
                frame.seen = self._system.look(self._observation(frame), previous=previous)
        except CporError as error:
            with self._change:
                self.counts.garbled += 1
                self._problem = str(error)
            self._tell(None, frame, str(error))
            return
        self._newest = frame
        self._tell_objects(frame)
        if any(way is not None for way in (s.request, s.target, s.point)):
            answer, why = self._decide(frame, s.request, s.target, s.point, None)
            self._tell(answer, frame, why)
            if s.annotate:
                self._tell_picture(frame, answer)

    def _decide(
        self,
        frame: _Frame,
        request: str | None,
        target: int | None,
        point: tuple[float, float] | None,
        mode: str | None,
    ) -> tuple[Answer | None, str]:
        """The answer, or None and why there is none."""
        assert frame.seen is not None
        try:
            with self._deciding:
                place = None if point is None else PixelPoint(*point)
                answer = self._system.decide(frame.seen, target, point=place, request=request, mode=mode)
        except CporError as error:
            return None, str(error)
        return answer, ""

    def _said(self, answer: Answer | None, frame: _Frame | None, why: str) -> SimpleNamespace:
        """The message of an answer; `no_answer` where the picture is too old by now."""
        said = _decision(answer, frame, why)
        late = 0.0 if frame is None else time.monotonic() - frame.sent_s
        if said.state != "no_answer" and late > self.settings.max_age_s:
            return _decision(None, frame, f"the picture is {late:.1f} s old; that is too old to act on")
        return said

    def _answer_call(self, call: SimpleNamespace) -> SimpleNamespace:
        frame = self._newest
        age = math.inf if frame is None else time.monotonic() - frame.sent_s
        reply = new("cpor_msgs/Decide_Response")
        asked = (call.request or None, call.target or None, (call.x, call.y) if call.x >= 0 else None)
        if frame is None or age > self.settings.max_age_s:
            answer, why = None, f"there is no picture newer than {self.settings.max_age_s:g} s"
        elif sum(way is not None for way in asked) != 1:
            answer, why = None, "say which object in one way: request, target or x and y"
        else:
            answer, why = self._decide(frame, *asked, call.mode or None)
        reply.decision = self._said(answer, frame, why)
        return reply

    def _observation(self, frame: _Frame) -> Observation:
        s = self.settings
        rgb = read_colour(frame.color, s.color)
        steps, unit = (None, None) if frame.depth is None else read_depth(frame.depth, s.depth or "")
        model = self._camera
        known = model.intrinsics if model is not None and model.shape == rgb.shape[:2] else None
        seen, _ = make_observation(rgb, steps, Camera(known), unit)
        return replace(seen, time_s=_stamp(frame.color) * 1e-9)

    def _tell(self, answer: Answer | None, frame: _Frame | None, why: str) -> None:
        said = self._said(answer, frame, why)
        with self._change:
            self.counts.decided += 1
            self.counts.no_answer += said.state == "no_answer"
        self._say_decision(said)

    def _tell_objects(self, frame: _Frame) -> None:
        assert frame.seen is not None
        scene, header = frame.seen.scene, frame.header
        ids = np.zeros(scene.observation.shape, np.int32) if scene.visible_ids is None else scene.visible_ids
        height, width = ids.shape
        labels = new("sensor_msgs/Image", header=header, height=height, width=width, encoding="mono16")
        labels.step, labels.data = 2 * width, ids.astype("<u2").tobytes()
        self._say_labels(labels)
        names = {o.id: o.name or f"object {o.id}" for o in scene.objects}
        classes = [new("vision_msgs/VisionClass", class_id=k, class_name=name) for k, name in names.items()]
        self._say_info(new("vision_msgs/LabelInfo", header=header, class_map=classes, threshold=0.0))
        found = [_detection(each, header) for each in frame.seen.objects if each["box"]]
        self._say_found(new("vision_msgs/Detection2DArray", header=header, detections=found))

    def _tell_picture(self, frame: _Frame, answer: Answer | None) -> None:
        assert frame.seen is not None
        marks = Marks()
        if answer is not None and answer.posterior is not None and isinstance(answer.target, int):
            marks = Marks(answer.target, answer.action, relations_to_draw(answer.posterior))
        file = io.BytesIO()
        draw_scene(frame.seen.scene, marks).convert("RGB").save(file, "JPEG", quality=80)
        kind = "sensor_msgs/CompressedImage"
        self._say_picture(new(kind, header=frame.header, format="jpeg", data=file.getvalue()))

    def _tell_health(self) -> None:
        c, newest = self.counts, self._newest
        age = math.inf if newest is None else time.monotonic() - newest.sent_s
        fresh = age <= self.settings.max_age_s
        level, says = (OK, "decides on fresh frames") if fresh else (STALE, self._problem)
        values = {"age_s": f"{age:.3f}", **{key: str(value) for key, value in vars(c).items()}}
        pairs = [new("diagnostic_msgs/KeyValue", key=key, value=value) for key, value in values.items()]
        status = new(
            "diagnostic_msgs/DiagnosticStatus", level=level, name="cpor: decide", message=says, values=pairs
        )
        header = new("std_msgs/Header", stamp=_now())
        self._say_health(new("diagnostic_msgs/DiagnosticArray", header=header, status=[status]))


def _decision(answer: Answer | None, frame: _Frame | None, why: str) -> SimpleNamespace:
    """The message of an answer; without one it is `no_answer`."""
    said = new("cpor_msgs/Decision", state="no_answer", action="ask", reason=why)
    said.header = frame.header if frame is not None else new("std_msgs/Header", stamp=_now())
    if answer is None:
        return said
    said.state = state_of(answer.action)
    said.target = answer.target if isinstance(answer.target, int) else 0
    said.tau = answer.tau if answer.tau is not None else 0.0
    said.reason = answer.question or " ".join(answer.notes)
    said.json = json.dumps(answer.to_json(0), allow_nan=False)
    if answer.promise is not None:
        said.promised, said.alpha, said.confidence = True, answer.promise.alpha, answer.promise.confidence
    if answer.action is not None and answer.decision is not None:
        action = record_action(answer.action)
        if action.type != "defer":
            said.action, said.object = action.type, int(action.object or 0)
            said.score = float(answer.scores[answer.action.obj])  # type: ignore[union-attr]
    if answer.posterior is not None:
        for each in answer.posterior.relations():
            said.blocked.append(int(each.blocked))  # type: ignore[call-overload]
            said.blocker.append(int(each.blocker))  # type: ignore[call-overload]
            said.p.append(math.nan if each.p is None else float(each.p))
    return said


def _detection(listed: Any, header: SimpleNamespace) -> SimpleNamespace:
    left, top, right, bottom = listed["box"]
    place = new("vision_msgs/Point2D", x=(left + right) / 2, y=(top + bottom) / 2)
    center = new("vision_msgs/Pose2D", position=place)
    box = new("vision_msgs/BoundingBox2D", center=center, size_x=right - left, size_y=bottom - top)
    name = listed["name"] or "object"
    guess = new("vision_msgs/ObjectHypothesis", class_id=name, score=float(listed["score"] or 0.0))
    result = new("vision_msgs/ObjectHypothesisWithPose", hypothesis=guess)
    return new("vision_msgs/Detection2D", header=header, results=[result], bbox=box, id=str(listed["id"]))


def _image_kind(topic: str) -> str:
    compressed = topic.rsplit("/", 1)[-1] in ("compressed", "compressedDepth")
    return "sensor_msgs/CompressedImage" if compressed else "sensor_msgs/Image"


def _stamp(message: SimpleNamespace) -> int:
    return int(message.header.stamp.sec) * 10**9 + int(message.header.stamp.nanosec)


def _now() -> SimpleNamespace:
    now = time.time_ns()
    return new("builtin_interfaces/Time", sec=now // 10**9, nanosec=now % 10**9)


def spin(node: DecideNode, tell: Callable[[str], None], every_s: float = 10.0) -> None:
    """Run until interrupted; a line on what happened now and then. [s]."""
    try:
        while True:
            time.sleep(every_s)
            c = node.counts
            tell(f"{c.frames} frames, {c.decided} answers ({c.no_answer} no answer), {c.garbled} garbled")
    except KeyboardInterrupt:
        tell("Ended.")
    finally:
        node.close()
