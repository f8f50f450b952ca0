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

from cpor.bridges.ros2_answers import make_camera_info, make_image, make_jpeg, make_transform
from cpor.bridges.ros2_messages import RosMessage, encode, new, type_store
from cpor.errors import InvalidSettingError, needing
from cpor.io.whole_files import write_bytes
from cpor.robot.run_folder import CycleRecord, RecordedRun
from cpor.scene import Observation, Scene
from cpor.viz.overlay import draw_scene, marks_of

FRAME_ID = "cpor_camera"

_INFO, _WARN = 20, 30  # levels of rcl_interfaces/Log


def write_run_mcap(run: RecordedRun, path: str | Path) -> int:
    """Write a recorded run as one MCAP file; the number of messages in it."""
    with needing("bags", "an MCAP file needs mcap"):
        from mcap.writer import CompressionType, Writer
    if Path(path).suffix != ".mcap":
        raise InvalidSettingError(f"--mcap is {path}; give a file whose name ends with .mcap")
    content = io.BytesIO()
    file: Any = Writer(content, compression=CompressionType.ZSTD)
    file.start(profile="ros2", library="cpor")
    schemas: dict[str, int] = {}
    channels: dict[str, int] = {}
    count = 0
    for topic, message, time_ns in _messages(run):
        kind = message.__msgtype__
        if kind not in schemas:
            text = type_store().generate_msgdef(kind, ros_version=2)[0]
            schemas[kind] = file.register_schema(kind, "ros2msg", text.encode())
        if topic not in channels:
            channels[topic] = file.register_channel(topic, "cdr", schemas[kind])
        file.add_message(channels[topic], time_ns, encode(message, kind), time_ns, sequence=count)
        count += 1
    file.finish()
    write_bytes(Path(path), content.getvalue())
    return count


def _messages(run: RecordedRun) -> Iterator[tuple[str, RosMessage, int]]:
    """Topic, message and time of everything, in order. [ns]."""
    last = 0
    for cycle in run.cycles:
        # A clock that stands still or runs back would put a cycle on top of another.
        time_ns = max(_stamp(cycle.scene.observation, cycle.index), last + 10**6)
        yield from _scene_messages(cycle.scene, time_ns)
        picture = draw_scene(cycle.scene, marks_of(cycle))
        yield "/cpor/annotated/compressed", make_jpeg(picture, _header(time_ns), quality=88), time_ns
        record = CycleRecord.of(cycle).model_dump(mode="json")
        outcome = {key: record.pop(key) for key in ("attempt", "outcome")}
        yield "/cpor/decision", _text(record), time_ns
        wrong = cycle.outcome is not None and cycle.outcome.kind != "done"
        said = cycle.notes if cycle.outcome is None else (*cycle.notes, cycle.outcome.detail)
        for sentence in said:
            yield "/cpor/log", _log(sentence, _WARN if wrong else _INFO, time_ns), time_ns
        last = time_ns + round(1e9 * (cycle.outcome.duration_s if cycle.outcome is not None else 0.0))
        yield "/cpor/outcome", _text(outcome), last
    if run.final_scene is not None:
        last = max(_stamp(run.final_scene.observation, len(run.cycles)), last + 10**6)
        yield from _scene_messages(run.final_scene, last)
    ended = f"ended: {run.ended}; {run.head.detail}" if run.ended is not None else "the run has no end"
    level, last = _INFO if run.ended == "retrieved" else _WARN, last + 10**6
    yield "/cpor/log", _log(ended, level, last), last


def _scene_messages(scene: Scene, time_ns: int) -> Iterator[tuple[str, RosMessage, int]]:
    seen = scene.observation
    header, camera = _header(time_ns), seen.camera
    yield "/cpor/color/image_raw", make_image(seen.rgb, "rgb8", header), time_ns
    if camera.intrinsics is not None:
        info = make_camera_info(camera.intrinsics, seen.shape, header)
        yield "/cpor/color/camera_info", info, time_ns
    if camera.T_world_camera is not None:
        pose = make_transform(camera.T_world_camera, "world", FRAME_ID, header.stamp)
        yield "/tf", new("tf2_msgs/TFMessage", transforms=[pose]), time_ns
    if seen.depth is not None:
        depth, encoding = seen.depth, "32FC1"
        if camera.depth_unit_m == 0.001:
            depth, encoding = np.rint(np.nan_to_num(seen.depth) * 1e3).astype(np.uint16), "16UC1"
        yield "/cpor/depth/image_raw", make_image(depth, encoding, header), time_ns
    if scene.visible_ids is not None:
        ids = scene.visible_ids.astype(np.uint16)
        yield "/cpor/masks", make_image(ids, "mono16", header), time_ns


def _text(content: object) -> RosMessage:
    return new("std_msgs/String", data=json.dumps(content, allow_nan=False))


def _log(sentence: str, level: int, time_ns: int) -> RosMessage:
    stamp = _header(time_ns).stamp
    return new("rcl_interfaces/Log", stamp=stamp, level=level, name="cpor", msg=sentence)


def _header(time_ns: int) -> RosMessage:
    stamp = new("builtin_interfaces/Time", sec=time_ns // 10**9, nanosec=time_ns % 10**9)
    return new("std_msgs/Header", stamp=stamp, frame_id=FRAME_ID)


def _stamp(seen: Observation, index: int) -> int:
    return round(1e9 * (seen.time_s if seen.time_s is not None else float(index)))
