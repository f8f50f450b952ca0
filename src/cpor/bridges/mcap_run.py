"""A recorded run of the loop as an MCAP file of ROS 2 messages, for Foxglove, Rerun and `ros2 bag play`.

/cpor/color/image_raw, /cpor/color/camera_info    the photograph and its camera
/tf                                               the camera in the frame world
/cpor/depth/image_raw                             depth, registered to it
/cpor/masks                                       ids of the objects, mono16; 0 is background
/cpor/annotated/compressed                        what was decided, drawn
/cpor/decision, /cpor/outcome                     JSON as the run folder has it
/cpor/log                                         sentences
"""

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy.spatial.transform import Rotation

from cpor.errors import InvalidSettingError, MissingExtraError
from cpor.io.whole_files import write_bytes
from cpor.robot.cycle import Cycle
from cpor.robot.records import cycle_to_record
from cpor.robot.run_folder import RecordedRun
from cpor.scene import BlockedBy, Observation, Scene
from cpor.viz.overlay import Marks, draw_scene

FRAME_ID = "cpor_camera"

_INFO, _WARN = 20, 30  # levels of rcl_interfaces/Log


def write_run_mcap(run: RecordedRun, path: str | Path) -> int:
    """Write a recorded run as one MCAP file; the number of messages in it.

    Args:
        run: As `cpor.robot.run_folder.read_run` reads it.
        path: File to write.

    Raises:
        MissingExtraError: The extra `bags` is not installed.
        InputFileError: The file cannot be written.
    """
    try:
        from mcap.writer import CompressionType, Writer
        from rosbags.typesys import Stores, get_typestore
    except ImportError:
        raise MissingExtraError(
            "an MCAP file needs mcap and rosbags; get them with: pip install 'cpor-grasp[bags]'"
        ) from None
    if Path(path).suffix != ".mcap":
        raise InvalidSettingError(f"--mcap is {path}; give a file whose name ends with .mcap")
    types = get_typestore(Stores.ROS2_HUMBLE)
    content = io.BytesIO()
    file: Any = Writer(content, compression=CompressionType.ZSTD)
    file.start(profile="ros2", library="cpor")
    schemas: dict[str, int] = {}
    channels: dict[str, int] = {}
    count = 0
    for topic, kind, message, time_ns in _messages(run, types.types):
        if kind not in schemas:
            text = types.generate_msgdef(kind, ros_version=2)[0]
            schemas[kind] = file.register_schema(kind, "ros2msg", text.encode())
        if topic not in channels:
            channels[topic] = file.register_channel(topic, "cdr", schemas[kind])
        data = bytes(types.serialize_cdr(message, kind))
        file.add_message(channels[topic], time_ns, data, time_ns, sequence=count)
        count += 1
    file.finish()
    write_bytes(Path(path), content.getvalue())
    return count


def _messages(run: RecordedRun, types: Any) -> Iterator[tuple[str, str, Any, int]]:
    """Topic, type, message and time of everything, in order. [ns]."""
    last = 0
    for cycle in run.cycles:
        # A clock that stands still or runs back would put a cycle on top of another.
        time_ns = max(_stamp(cycle.scene.observation, cycle.index), last + 10**6)
        yield from _scene_messages(cycle.scene, types, time_ns)
        picture = draw_scene(cycle.scene, _marks(cycle))
        yield _annotated(picture, types, time_ns)
        record = cycle_to_record(cycle).model_dump(mode="json")
        outcome = {key: record.pop(key) for key in ("attempt", "outcome")}
        yield _text("/cpor/decision", record, types, time_ns)
        wrong = cycle.outcome is not None and cycle.outcome.kind != "done"
        said = cycle.notes if cycle.outcome is None else (*cycle.notes, cycle.outcome.detail)
        for sentence in said:
            yield _log(sentence, _WARN if wrong else _INFO, types, time_ns)
        last = time_ns + round(1e9 * (cycle.outcome.duration_s if cycle.outcome is not None else 0.0))
        yield _text("/cpor/outcome", outcome, types, last)
    if run.final_scene is not None:
        last = max(_stamp(run.final_scene.observation, len(run.cycles)), last + 10**6)
        yield from _scene_messages(run.final_scene, types, last)
    ended = f"ended: {run.ended}; {run.head.detail}" if run.ended is not None else "the run has no end"
    yield _log(ended, _INFO if run.ended == "retrieved" else _WARN, types, last + 10**6)


def _scene_messages(scene: Scene, types: Any, time_ns: int) -> Iterator[tuple[str, str, Any, int]]:
    seen = scene.observation
    header = _header(types, time_ns)
    yield _image("/cpor/color/image_raw", seen.rgb, "rgb8", header, types, time_ns)
    k = seen.camera.intrinsics
    if k is not None:
        yield _camera_info(k, seen.shape, header, types, time_ns)
    if seen.camera.T_world_camera is not None:
        yield _camera_pose(seen.camera.T_world_camera, types, time_ns)
    if seen.depth is not None:
        depth, encoding = seen.depth, "32FC1"
        if seen.camera.depth_unit_m == 0.001:
            depth, encoding = np.rint(np.nan_to_num(seen.depth) * 1e3).astype(np.uint16), "16UC1"
        yield _image("/cpor/depth/image_raw", depth, encoding, header, types, time_ns)
    if scene.visible_ids is not None:
        ids = scene.visible_ids.astype(np.uint16)
        yield _image("/cpor/masks", ids, "mono16", header, types, time_ns)


def _image(
    topic: str, pixels: np.ndarray, encoding: str, header: Any, types: Any, time_ns: int
) -> tuple[str, str, Any, int]:
    kind = "sensor_msgs/msg/Image"
    height, width = pixels.shape[:2]
    data = np.frombuffer(pixels.tobytes(), np.uint8)
    message = types[kind](header, height, width, encoding, 0, data.size // height, data)
    return topic, kind, message, time_ns


def _camera_info(
    k: Any, shape: tuple[int, int], header: Any, types: Any, time_ns: int
) -> tuple[str, str, Any, int]:
    kind = "sensor_msgs/msg/CameraInfo"
    K = np.array([k.fx, 0.0, k.cx, 0.0, k.fy, k.cy, 0.0, 0.0, 1.0])
    P = np.array([k.fx, 0.0, k.cx, 0.0, 0.0, k.fy, k.cy, 0.0, 0.0, 0.0, 1.0, 0.0])
    roi = types["sensor_msgs/msg/RegionOfInterest"](0, 0, 0, 0, False)
    message = types[kind](header, *shape, "plumb_bob", np.zeros(5), K, np.eye(3).ravel(), P, 0, 0, roi)
    return "/cpor/color/camera_info", kind, message, time_ns


def _camera_pose(T: np.ndarray, types: Any, time_ns: int) -> tuple[str, str, Any, int]:
    """The camera in the frame `world`."""
    kind = "tf2_msgs/msg/TFMessage"
    place = types["geometry_msgs/msg/Vector3"](*T[:3, 3].tolist())
    turn = types["geometry_msgs/msg/Quaternion"](*Rotation.from_matrix(T[:3, :3]).as_quat().tolist())
    header = types["std_msgs/msg/Header"](_header(types, time_ns).stamp, "world")
    pose = types["geometry_msgs/msg/Transform"](place, turn)
    link = types["geometry_msgs/msg/TransformStamped"](header, FRAME_ID, pose)
    return "/tf", kind, types[kind]([link]), time_ns


def _annotated(picture: Any, types: Any, time_ns: int) -> tuple[str, str, Any, int]:
    kind = "sensor_msgs/msg/CompressedImage"
    file = io.BytesIO()
    picture.convert("RGB").save(file, "JPEG", quality=88)
    data = np.frombuffer(file.getvalue(), np.uint8)
    return "/cpor/annotated/compressed", kind, types[kind](_header(types, time_ns), "jpeg", data), time_ns


def _text(topic: str, content: object, types: Any, time_ns: int) -> tuple[str, str, Any, int]:
    kind = "std_msgs/msg/String"
    return topic, kind, types[kind](json.dumps(content, allow_nan=False)), time_ns


def _log(sentence: str, level: int, types: Any, time_ns: int) -> tuple[str, str, Any, int]:
    kind = "rcl_interfaces/msg/Log"
    message = types[kind](_header(types, time_ns).stamp, level, "cpor", sentence, "", "", 0)
    return "/cpor/log", kind, message, time_ns


def _header(types: Any, time_ns: int) -> Any:
    stamp = types["builtin_interfaces/msg/Time"](time_ns // 10**9, time_ns % 10**9)
    return types["std_msgs/msg/Header"](stamp, FRAME_ID)


def _stamp(seen: Observation, index: int) -> int:
    return round(1e9 * (seen.time_s if seen.time_s is not None else float(index)))


def _marks(cycle: Cycle) -> Marks:
    return Marks(cycle.target, cycle.action, {BlockedBy(b.blocked, b.blocker): b.p for b in cycle.beliefs})
