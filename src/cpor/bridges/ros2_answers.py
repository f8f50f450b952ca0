"""What the ROS 2 node says, as messages: the decision, the objects, the picture."""

import io
import json
import math
import time
from typing import Any

import numpy as np
from jaxtyping import Float
from PIL.Image import Image
from scipy.spatial.transform import Rotation

from cpor.answer import Answer
from cpor.bridges.ros2_messages import RosMessage, new
from cpor.bridges.states import state_of
from cpor.records import record_action
from cpor.scene import Intrinsics
from cpor.view import View
from cpor.viz.overlay import draw_scene, marks_for


def say_decision(answer: Answer | None, header: RosMessage | None, why: str) -> RosMessage:
    """The message of an answer to a photograph; without answer it is `no_answer`, and says why."""
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


def make_image(pixels: np.ndarray, encoding: str, header: RosMessage) -> RosMessage:
    """An `Image` of pixels, in the byte order of little-endian machines."""
    height, width = pixels.shape[:2]
    data = np.ascontiguousarray(pixels, pixels.dtype.newbyteorder("<")).tobytes()
    image = new("sensor_msgs/Image", header=header, height=height, width=width, encoding=encoding)
    image.step, image.data = len(data) // height, data
    return image


def make_camera_info(k: Intrinsics, shape: tuple[int, int], header: RosMessage) -> RosMessage:
    """The `CameraInfo` of pictures without distortion."""
    height, width = shape
    info = new("sensor_msgs/CameraInfo", header=header, height=height, width=width)
    info.distortion_model, info.d = "plumb_bob", [0.0] * 5
    info.k = [k.fx, 0.0, k.cx, 0.0, k.fy, k.cy, 0.0, 0.0, 1.0]
    info.r = [1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0]
    info.p = [k.fx, 0.0, k.cx, 0.0, 0.0, k.fy, k.cy, 0.0, 0.0, 0.0, 1.0, 0.0]
    return info


def make_transform(T: Float[np.ndarray, "4 4"], parent: str, child: str, stamp: RosMessage) -> RosMessage:
    """The pose of a frame in another. [m]."""
    moved = new("geometry_msgs/Transform", rotation=make_quaternion(T))
    moved.translation = new("geometry_msgs/Vector3", **dict(zip("xyz", T[:3, 3].tolist(), strict=True)))
    header = new("std_msgs/Header", stamp=stamp, frame_id=parent)
    return new("geometry_msgs/TransformStamped", header=header, child_frame_id=child, transform=moved)


def make_quaternion(T: Float[np.ndarray, "4 4"]) -> RosMessage:
    """The rotation of a pose."""
    turn = Rotation.from_matrix(T[:3, :3]).as_quat().tolist()
    return new("geometry_msgs/Quaternion", **dict(zip("xyzw", turn, strict=True)))


def make_jpeg(picture: Image, header: RosMessage, quality: int) -> RosMessage:
    """A `CompressedImage` of a picture."""
    file = io.BytesIO()
    picture.convert("RGB").save(file, "JPEG", quality=quality)
    return new("sensor_msgs/CompressedImage", header=header, format="jpeg", data=file.getvalue())


def say_labels(view: View, header: RosMessage) -> RosMessage:
    """The label image: ids of the objects, 0 where there is none."""
    scene = view.scene
    ids = np.zeros(scene.observation.shape, np.int32) if scene.visible_ids is None else scene.visible_ids
    return make_image(ids.astype(np.uint16), "mono16", header)


def say_names(view: View, header: RosMessage) -> RosMessage:
    """Names of the ids."""
    names = {o.id: o.name or f"object {o.id}" for o in view.scene.objects}
    classes = [new("vision_msgs/VisionClass", class_id=k, class_name=name) for k, name in names.items()]
    return new("vision_msgs/LabelInfo", header=header, class_map=classes, threshold=0.0)


def say_boxes(view: View, header: RosMessage) -> RosMessage:
    """Boxes of the objects."""
    found = [_detection(each, header) for each in view.objects if each["box"]]
    return new("vision_msgs/Detection2DArray", header=header, detections=found)


def say_picture(view: View, header: RosMessage, answer: Answer | None) -> RosMessage:
    """The decision, drawn."""
    return make_jpeg(draw_scene(view.scene, marks_for(answer)), header, quality=80)


def say_health(level: int, message: str, values: dict[str, str]) -> RosMessage:
    """Diagnostics of the node."""
    pairs = [new("diagnostic_msgs/KeyValue", key=key, value=value) for key, value in values.items()]
    kind = "diagnostic_msgs/DiagnosticStatus"
    status = new(kind, level=level, name="cpor: decide", message=message, values=pairs)
    header = new("std_msgs/Header", stamp=now())
    return new("diagnostic_msgs/DiagnosticArray", header=header, status=[status])


def now() -> RosMessage:
    """This machine's time."""
    ns = time.time_ns()
    return new("builtin_interfaces/Time", sec=ns // 10**9, nanosec=ns % 10**9)


def _detection(listed: Any, header: RosMessage) -> RosMessage:
    left, top, right, bottom = listed["box"]
    place = new("vision_msgs/Point2D", x=(left + right) / 2, y=(top + bottom) / 2)
    center = new("vision_msgs/Pose2D", position=place)
    box = new("vision_msgs/BoundingBox2D", center=center, size_x=right - left, size_y=bottom - top)
    name = listed["name"] or "object"
    guess = new("vision_msgs/ObjectHypothesis", class_id=name, score=float(listed["score"] or 0.0))
    result = new("vision_msgs/ObjectHypothesisWithPose", hypothesis=guess)
    return new("vision_msgs/Detection2D", header=header, results=[result], bbox=box, id=str(listed["id"]))
