"""What the ROS 2 node says, as messages: the decision, the objects, the picture."""

import io
import json
import math
import time
from types import SimpleNamespace
from typing import Any

import numpy as np

from cpor.answer import Answer, View
from cpor.bridges.ros2_messages import new
from cpor.bridges.states import state_of
from cpor.records import record_action
from cpor.viz.overlay import Marks, draw_scene, relations_to_draw


def say_decision(answer: Answer | None, header: SimpleNamespace | None, why: str) -> SimpleNamespace:
    """The message of an answer; without one it is `no_answer`.

    Args:
        answer: What was decided; None: nothing.
        header: Header of the photograph; None: there is none.
        why: Why there is no answer.
    """
    said = new("cpor_msgs/Decision", state="no_answer", action="ask", reason=why)
    said.header = header if header is not None else new("std_msgs/Header", stamp=now())
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


def say_labels(view: View, header: SimpleNamespace) -> SimpleNamespace:
    """The label image: ids of the objects, 0 where there is none."""
    scene = view.scene
    ids = np.zeros(scene.observation.shape, np.int32) if scene.visible_ids is None else scene.visible_ids
    height, width = ids.shape
    labels = new("sensor_msgs/Image", header=header, height=height, width=width, encoding="mono16")
    labels.step, labels.data = 2 * width, ids.astype("<u2").tobytes()
    return labels


def say_names(view: View, header: SimpleNamespace) -> SimpleNamespace:
    """Names of the ids."""
    names = {o.id: o.name or f"object {o.id}" for o in view.scene.objects}
    classes = [new("vision_msgs/VisionClass", class_id=k, class_name=name) for k, name in names.items()]
    return new("vision_msgs/LabelInfo", header=header, class_map=classes, threshold=0.0)


def say_boxes(view: View, header: SimpleNamespace) -> SimpleNamespace:
    """Boxes of the objects."""
    found = [_detection(each, header) for each in view.objects if each["box"]]
    return new("vision_msgs/Detection2DArray", header=header, detections=found)


def say_picture(view: View, header: SimpleNamespace, answer: Answer | None) -> SimpleNamespace:
    """The decision, drawn."""
    marks = Marks()
    if answer is not None and answer.posterior is not None and isinstance(answer.target, int):
        marks = Marks(answer.target, answer.action, relations_to_draw(answer.posterior))
    file = io.BytesIO()
    draw_scene(view.scene, marks).convert("RGB").save(file, "JPEG", quality=80)
    return new("sensor_msgs/CompressedImage", header=header, format="jpeg", data=file.getvalue())


def say_health(level: int, message: str, values: dict[str, str]) -> SimpleNamespace:
    """Diagnostics of the node."""
    pairs = [new("diagnostic_msgs/KeyValue", key=key, value=value) for key, value in values.items()]
    kind = "diagnostic_msgs/DiagnosticStatus"
    status = new(kind, level=level, name="cpor: decide", message=message, values=pairs)
    header = new("std_msgs/Header", stamp=now())
    return new("diagnostic_msgs/DiagnosticArray", header=header, status=[status])


def now() -> SimpleNamespace:
    """This machine's time."""
    ns = time.time_ns()
    return new("builtin_interfaces/Time", sec=ns // 10**9, nanosec=ns % 10**9)


def _detection(listed: Any, header: SimpleNamespace) -> SimpleNamespace:
    left, top, right, bottom = listed["box"]
    place = new("vision_msgs/Point2D", x=(left + right) / 2, y=(top + bottom) / 2)
    center = new("vision_msgs/Pose2D", position=place)
    box = new("vision_msgs/BoundingBox2D", center=center, size_x=right - left, size_y=bottom - top)
    name = listed["name"] or "object"
    guess = new("vision_msgs/ObjectHypothesis", class_id=name, score=float(listed["score"] or 0.0))
    result = new("vision_msgs/ObjectHypothesisWithPose", hypothesis=guess)
    return new("vision_msgs/Detection2D", header=header, results=[result], bbox=box, id=str(listed["id"]))
