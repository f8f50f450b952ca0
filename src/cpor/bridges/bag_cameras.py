"""How the depth of a bag lies to its photographs: camera infos, transforms, and what RealSense writes."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cpor.bridges.ros_images import CameraModel, is_depth, pose_matrix, read_camera, read_colour, read_depth
from cpor.errors import SceneFileError

_INFO = "sensor_msgs/msg/CameraInfo"
_TF = "tf2_msgs/msg/TFMessage"
_TRANSFORM = "geometry_msgs/msg/Transform"
_FLOAT = "std_msgs/msg/Float32"


class BagError(SceneFileError):
    """A bag that cannot be read, or does not hold what is asked for."""


@dataclass(frozen=True)
class Alignment:
    """How depth is brought to the photograph.

    Attributes:
        color: The photograph's camera; None where the bag does not say.
        depth: The depth camera; None: depth lies on the photograph already.
        T_color_depth: Pose of the depth camera in the photograph's, row by row; empty where `depth` is None.
        unit_m: Metres of one step of whole-numbered depth. [m]
    """

    color: CameraModel | None = None
    depth: CameraModel | None = None
    T_color_depth: tuple[tuple[float, ...], ...] = ()
    unit_m: float | None = None


def align(
    path: Path, reader: Any, first: dict[str, Any], color: str, depth: str | None
) -> tuple[Alignment, tuple[str, ...]]:
    """How depth lies to the photograph, from camera infos and transforms."""
    color_camera = _camera(reader, color)
    notes: list[str] = []
    if color_camera is None:
        notes.append(f"No camera info for {color}: the camera is not known.")
    elif color_camera.distorted:
        notes.append(f"The lens of {color} distorts; nothing is corrected here. Record rectified images.")
    if depth is None:
        return Alignment(color_camera), (*notes, "The bag has no depth.")
    unit = _depth_unit(reader, depth)
    a, b = _image_shape(first[color], color), _image_shape(first[depth], depth)
    frames = (_frame_of(first[color]), _frame_of(first[depth]))
    T = _between(reader, color, depth, frames)
    depth_camera = _camera(reader, depth)
    if a == b and _is_aligned(color_camera, depth_camera, T, "align" in depth.lower() or not all(frames)):
        if T is None:
            notes.append(f"No transform says how {depth} lies to {color}; it is taken to be aligned.")
        return Alignment(color_camera, unit_m=unit), tuple(notes)
    needed: dict[str, object] = {f"camera info of {color}": color_camera}
    needed |= {f"camera info of {depth}": depth_camera, f"/tf_static from {frames[1]} to {frames[0]}": T}
    if lacks := [name for name, there in needed.items() if there is None]:
        raise BagError(
            f"{path}: depth is of another camera than the photograph ({size(b)} in {frames[1] or '?'}, "
            f"{size(a)} in {frames[0] or '?'}), and the bag lacks {' and '.join(lacks)}; record aligned depth"
        )
    assert depth_camera is not None and T is not None
    notes.append(f"Depth of {depth} was moved onto the photograph by the cameras' poses.")
    return Alignment(color_camera, depth_camera, tuple(map(tuple, T.tolist())), unit), tuple(notes)


def _is_aligned(
    color: CameraModel | None, depth: CameraModel | None, T: np.ndarray | None, said: bool
) -> bool:
    """Whether depth of the photograph's size lies on it: by pose and intrinsics, or by what is said."""
    if T is not None and not np.allclose(T, np.eye(4), atol=1e-6):
        return False
    if color is not None and depth is not None:
        return bool(np.allclose(color.intrinsics, depth.intrinsics, atol=0.5)) and (T is not None or said)
    return T is not None or said


def first_message(reader: Any, connection: Any, **times: int) -> Any:
    """The first message of a connection, within `start` and `stop` where given; None without one. [ns]."""
    for _, _, raw in reader.messages([connection], **times):
        return reader.deserialize(raw, connection.msgtype)
    return None


def _camera(reader: Any, topic: str) -> CameraModel | None:
    """The camera info that belongs to an image topic: `camera_info` in the longest namespace of its own."""
    known = [each for each in reader.connections if each.msgtype == _INFO]
    infos = {each.topic.rsplit("/", 1)[0].removesuffix("/info"): each for each in known}
    fitting = [space for space in infos if topic.startswith(f"{space}/")]
    if fitting == [""] and len(infos) > 1 and topic.count("/") > 1:
        return None  # the bag does not say which one is at the root
    if not fitting:
        return None
    info = infos[max(fitting, key=len)]
    message = first_message(reader, info)
    return None if message is None else read_camera(message, info.topic)


def _between(reader: Any, color: str, depth: str, frames: tuple[str, str]) -> np.ndarray | None:
    """Pose of the depth camera in the photograph's frame; None where unknown. Shape (4, 4). [m]."""
    own = [_stream_pose(reader, topic) for topic in (color, depth)]
    if own[0] is not None and own[1] is not None:
        return np.asarray(own[0] @ np.linalg.inv(own[1]))
    if frames[0] == frames[1]:
        return np.eye(4)
    parents: dict[str, tuple[str, np.ndarray]] = {}
    tf = [each for each in reader.connections if each.msgtype == _TF and each.topic.endswith("tf_static")]
    if tf:
        for connection, _, raw in reader.messages(tf):
            for each in reader.deserialize(raw, connection.msgtype).transforms:
                pose = pose_matrix(each.transform.translation, each.transform.rotation)
                parents[each.child_frame_id.lstrip("/")] = (each.header.frame_id.lstrip("/"), pose)
    return pose_between(parents, *frames)


def pose_between(parents: dict[str, tuple[str, np.ndarray]], target: str, source: str) -> np.ndarray | None:
    """Pose of a frame in another, from the parent and pose of each; None where unknown. Shape (4, 4). [m]."""
    up = [_to_root(parents, frame) for frame in (target, source)]
    common = next((frame for frame in up[0] if frame in up[1]), None)
    if common is None:
        return None
    return np.asarray(np.linalg.inv(up[0][common]) @ up[1][common])


def _to_root(parents: dict[str, tuple[str, np.ndarray]], frame: str) -> dict[str, np.ndarray]:
    """Pose of a frame in itself and in each of those above it."""
    found = {frame: np.eye(4)}
    pose = np.eye(4)
    while frame in parents and parents[frame][0] not in found:
        frame, step = parents[frame]
        pose = step @ pose
        found[frame] = pose
    return found


def _stream_pose(reader: Any, topic: str) -> np.ndarray | None:
    """Where a RealSense recording says a stream is: from the device's reference to it. Shape (4, 4). [m]."""
    stream = topic.removesuffix("/image/data")
    told = [each for each in reader.connections if each.msgtype == _TRANSFORM]
    near = [each for each in told if each.topic.startswith(f"{stream}/tf/")]
    transform = first_message(reader, near[0]) if near and stream != topic else None
    return None if transform is None else pose_matrix(transform.translation, transform.rotation)


def _depth_unit(reader: Any, topic: str) -> float | None:
    """Metres per step as a RealSense recording has it; None elsewhere."""
    sensor = "/".join(topic.split("/")[:3])
    for connection in reader.connections:
        if connection.msgtype == _FLOAT and connection.topic == f"{sensor}/option/Depth Units/value":
            unit = first_message(reader, connection)
            # A float32 of 0.001 is not 0.001.
            return None if unit is None else float(f"{float(unit.data):.6g}")
    return None


def _image_shape(message: Any, topic: str) -> tuple[int, int]:
    if hasattr(message, "encoding"):
        return message.height, message.width
    found = read_depth(message, topic)[0] if is_depth(message) else read_colour(message, topic)
    return found.shape[0], found.shape[1]


def _frame_of(message: Any) -> str:
    return str(message.header.frame_id).lstrip("/")


def size(shape: tuple[int, ...]) -> str:
    """Width and height, for messages."""
    return f"{shape[1]} x {shape[0]}"
