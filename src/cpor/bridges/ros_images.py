"""ROS images as arrays: `sensor_msgs` Image, CompressedImage and CameraInfo, from a bag or off the wire.

Messages are taken by their fields, so any library's classes will do.
"""

import struct
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Shaped, UInt8
from scipy.spatial.transform import Rotation

from cpor.errors import SceneFileError
from cpor.io import images
from cpor.scene import Intrinsics

MILLIMETRE = 0.001
"""One step of 16UC1 depth, by REP 118. [m]"""

MAX_STEP_BYTES = 2**28
"""A longer row is taken for garbage."""

# Encoding: channels of one byte, and where red, green and blue are among them.
_COLOURS: dict[str, tuple[int, slice | list[int]]] = {
    "rgb8": (3, slice(0, 3)),
    "bgr8": (3, slice(2, None, -1)),
    "rgba8": (4, slice(0, 3)),
    "bgra8": (4, slice(2, None, -1)),
    "8uc3": (3, slice(2, None, -1)),  # OpenCV's order
    "mono8": (1, [0, 0, 0]),
    "8uc1": (1, [0, 0, 0]),
}
_DEPTHS = {"16uc1": "u2", "mono16": "u2", "32fc1": "f4"}


@dataclass(frozen=True)
class CameraModel:
    """What a CameraInfo says.

    Attributes:
        shape: Height and width. [px]
        intrinsics: Intrinsics of the image.
        distorted: Whether the lens bends lines; no pixel is moved for it here.
    """

    shape: tuple[int, int]
    intrinsics: Intrinsics
    distorted: bool


def is_depth(message: Any) -> bool:
    """Whether an image message holds depth, by its encoding or format."""
    if hasattr(message, "encoding"):
        return str(message.encoding).lower() in _DEPTHS
    return "compresseddepth" in str(message.format).lower() or _is_16_bit_png(bytes(message.data[:32]))


def is_colour(message: Any) -> bool:
    """Whether an image message holds a photograph that we read."""
    if hasattr(message, "encoding"):
        return str(message.encoding).lower() in _COLOURS
    return not is_depth(message)


def read_colour(message: Any, name: str) -> UInt8[np.ndarray, "h w 3"]:
    """The photograph of an Image or CompressedImage; errors call it `name`. Shape (h, w, 3)."""
    if not hasattr(message, "encoding"):
        # What is decoded says itself how its channels lie; `format` only repeats what was encoded.
        return images.decode_photograph(bytes(message.data), name)[0]
    channels, order = _COLOURS[_encoding(message, name, _COLOURS, "colour")]
    rows = _rows(message, name, channels)
    pixels = rows.reshape(message.height, message.width, channels)
    return np.ascontiguousarray(pixels[:, :, order])


def read_depth(message: Any, name: str) -> tuple[Shaped[np.ndarray, "h w"], float]:
    """Steps of depth of an Image or CompressedImage, of any number type, and the metres of one step."""
    if not hasattr(message, "encoding"):
        return _read_compressed_depth(bytes(message.data), str(message.format).lower(), name)
    order = ">" if message.is_bigendian else "<"
    kind = np.dtype(order + _DEPTHS[_encoding(message, name, _DEPTHS, "depth")])
    steps = _rows(message, name, kind.itemsize).view(kind).astype(kind.newbyteorder("="))
    return (steps, 1.0 if kind.kind == "f" else MILLIMETRE)


def read_camera(message: Any, name: str) -> CameraModel | None:
    """The camera of a CameraInfo; None where it was never calibrated (focal length 0)."""
    K = np.asarray(message.k if hasattr(message, "k") else message.K, np.float64)
    lens = np.asarray(message.d if hasattr(message, "d") else message.D, np.float64)
    if K.size != 9:
        raise SceneFileError(f"{name} has a matrix K of {K.size} numbers; it must be 9")
    fx, fy, cx, cy = (float(K[k]) for k in (0, 4, 2, 5))
    if not (np.isfinite(K).all() and fx > 0.0 and fy > 0.0):
        return None
    return CameraModel((message.height, message.width), Intrinsics(fx, fy, cx, cy), bool(np.any(lens)))


def pose_matrix(translation: Any, rotation: Any) -> Float[np.ndarray, "4 4"]:
    """The matrix [m] of a ROS translation and quaternion. Shape (4, 4)."""
    quaternion = np.array([float(getattr(rotation, each)) for each in "xyzw"])
    if not quaternion @ quaternion > 1e-12:
        raise SceneFileError("a transform has a quaternion of length 0")
    T = np.eye(4)
    T[:3, :3] = Rotation.from_quat(quaternion).as_matrix()
    T[:3, 3] = [float(getattr(translation, each)) for each in "xyz"]
    return T


def _encoding(message: Any, name: str, known: Collection[str], what: str) -> str:
    encoding = str(message.encoding).lower()
    if encoding not in known:
        we_read = f"as {what} we read: {', '.join(known)}"
        raise SceneFileError(f"{name} has the encoding {message.encoding!r}; {we_read}")
    return encoding


def _rows(message: Any, name: str, pixel_bytes: int) -> UInt8[np.ndarray, "h bytes"]:
    """Rows of an Image without what pads them."""
    height, width, step = int(message.height), int(message.width), int(message.step)
    data = np.frombuffer(message.data, np.uint8)
    used = width * pixel_bytes
    if height < 1 or width < 1 or height * width > images.MAX_PIXELS or step > MAX_STEP_BYTES:
        raise SceneFileError(f"{name} has an image of {width} x {height} pixels in rows of {step} bytes")
    if step < used or data.size < step * height:
        raise SceneFileError(
            f"{name} has {data.size} bytes in rows of {step} for {width} x {height} pixels of {pixel_bytes}; "
            "the message is cut short or garbled"
        )
    return np.ascontiguousarray(data[: step * height].reshape(height, step)[:, :used])


def _read_compressed_depth(data: bytes, kind: str, name: str) -> tuple[Shaped[np.ndarray, "h w"], float]:
    """16-bit PNG alone, or with the header of `compressed_depth_image_transport` before it."""
    if "compresseddepth" not in kind:
        return (images.decode_grey(data, name, images.DEPTH), MILLIMETRE)
    if "rvl" in kind or data[12:16] != b"\x89PNG":
        raise SceneFileError(f"{name} is compressed as {kind!r}; of compressed depth we read PNG only")
    steps = images.decode_grey(data[12:], name, images.DEPTH)
    if not kind.startswith("32fc1"):
        return (steps, MILLIMETRE)
    # 32FC1 travels as 16-bit inverse depth: steps = a / depth + b, 0 where there is no reading.
    a, b = struct.unpack("<ff", data[4:12])
    with np.errstate(divide="ignore", invalid="ignore"):
        depth = np.float32(a) / (steps.astype(np.float32) - np.float32(b))
    return (np.where(steps == 0, np.float32(np.nan), depth), 1.0)


def _is_16_bit_png(head: bytes) -> bool:
    """By the header of the file: one channel of 16 bits."""
    return head[:4] == b"\x89PNG" and head[24:26] == b"\x10\x00"
