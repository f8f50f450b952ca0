"""Bags with real message definitions, in the forms that drivers record."""

import io
import struct
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from PIL import Image
from rosbags.rosbag1 import Writer as Writer1
from rosbags.rosbag2 import CompressionFormat, CompressionMode, StoragePlugin
from rosbags.rosbag2 import Writer as Writer2
from rosbags.typesys import Stores, get_typestore

from cpor.io.images import encode_png
from cpor.scene import Intrinsics
from cpor.testing import example_frame

IMAGE, COMPRESSED = "sensor_msgs/msg/Image", "sensor_msgs/msg/CompressedImage"
INFO, TF = "sensor_msgs/msg/CameraInfo", "tf2_msgs/msg/TFMessage"
FIRST_NS = 1_700_000_000 * 10**9
COLOR, DEPTH = "/camera/color/image_raw", "/camera/aligned_depth_to_color/image_raw"

SHAPE = (96, 128)
K = Intrinsics(150.0, 150.0, 63.5, 47.5)
PERIOD = 66_000_000  # 15 Hz


def recorded(k):
    """Colours and depth in millimetres of frame `k`, all different."""
    seen = example_frame(SHAPE)
    steps = np.rint(np.nan_to_num(seen.depth) * 1000).astype(np.uint16) + np.uint16(k)
    steps[:3, :5] = 0
    return np.roll(seen.rgb, k, axis=1), steps


@dataclass
class BagMaker:
    """Writes a bag; `ros1`, a storage and a distribution say in which form."""

    path: Path
    store: Stores = Stores.ROS2_HUMBLE
    ros1: bool = False
    plugin: StoragePlugin = StoragePlugin.MCAP
    compress: CompressionMode | None = None
    messages: list = field(default_factory=list)

    def __post_init__(self):
        self.types = get_typestore(Stores.ROS1_NOETIC if self.ros1 else self.store)
        self.kind = self.types.types

    def header(self, stamp_ns, frame):
        stamp = self.kind["builtin_interfaces/msg/Time"](stamp_ns // 10**9, stamp_ns % 10**9)
        before = (0,) if self.ros1 else ()
        return self.kind["std_msgs/msg/Header"](*before, stamp, frame)

    def add(self, topic, kind, message, time_ns):
        self.messages.append((time_ns, topic, kind, message))

    def image(self, topic, pixels, encoding, time_ns, stamp_ns=None, frame="optical", pad=0, big=False):
        height, width = pixels.shape[:2]
        rows = pixels.astype(pixels.dtype.newbyteorder(">" if big else "<")).reshape(height, -1)
        rows = np.frombuffer(rows.tobytes(), np.uint8).reshape(height, -1)
        rows = np.pad(rows, ((0, 0), (0, pad)))
        header = self.header(time_ns if stamp_ns is None else stamp_ns, frame)
        data = np.ascontiguousarray(rows).ravel()
        made = self.kind[IMAGE](header, height, width, encoding, int(big), rows.shape[1], data)
        self.add(topic, IMAGE, made, time_ns)

    def compressed(self, topic, data, form, time_ns, frame="optical"):
        made = self.kind[COMPRESSED](self.header(time_ns, frame), form, np.frombuffer(data, np.uint8))
        self.add(topic, COMPRESSED, made, time_ns)

    def info(self, topic, shape, k, time_ns, frame="optical", lens=()):
        fx, fy, cx, cy = k
        roi = self.kind["sensor_msgs/msg/RegionOfInterest"](0, 0, 0, 0, False)
        K = np.array([fx, 0, cx, 0, fy, cy, 0, 0, 1.0])
        parts = (np.array(lens, np.float64), K, np.eye(3).ravel(), np.zeros(12))
        made = self.kind[INFO](self.header(time_ns, frame), *shape, "plumb_bob", *parts, 0, 0, roi)
        self.add(topic, INFO, made, time_ns)

    def transform(self, translation, quaternion=(0.0, 0.0, 0.0, 1.0)):
        return self.kind["geometry_msgs/msg/Transform"](
            self.kind["geometry_msgs/msg/Vector3"](*translation),
            self.kind["geometry_msgs/msg/Quaternion"](*quaternion),
        )

    def tf_static(self, links, time_ns):
        """Links are `(parent, child, translation)`."""
        stamped = self.kind["geometry_msgs/msg/TransformStamped"]
        made = [stamped(self.header(time_ns, a), b, self.transform(t)) for a, b, t in links]
        self.add("/tf_static", TF, self.kind[TF](made), time_ns)

    def write(self):
        self.messages.sort(key=lambda each: each[0])
        if self.ros1:
            writer = Writer1(self.path)
            writer.set_compression(Writer1.CompressionFormat.LZ4)
        else:
            writer = Writer2(self.path, version=9, storage_plugin=self.plugin)
            if self.compress is not None:
                writer.set_compression(self.compress, CompressionFormat.ZSTD)
        with writer:
            connections = {}
            for time_ns, topic, kind, message in self.messages:
                if topic not in connections:
                    connections[topic] = writer.add_connection(topic, kind, typestore=self.types)
                put = self.types.serialize_ros1 if self.ros1 else self.types.serialize_cdr
                writer.write(connections[topic], time_ns, put(message, kind))
        return self.path


def depth_png(steps: np.ndarray, form: str) -> bytes:
    """As `compressed_depth_image_transport` sends it; metres for 32FC1, else steps of a millimetre."""
    if form.startswith("16UC1"):
        return struct.pack("<iff", 0, 0.0, 0.0) + encode_png(steps)
    a, b = np.float32(100.0 * 101.0), np.float32(1.0 - 100.0 * 101.0 / 10.0)
    inverse = np.where(np.isfinite(steps), a / steps + b, 0).astype(np.uint16)
    return struct.pack("<iff", 0, a, b) + encode_png(inverse)


def jpeg(rgb: np.ndarray) -> bytes:
    file = io.BytesIO()
    Image.fromarray(rgb).save(file, "JPEG", quality=90)
    return file.getvalue()


def plain(maker, frames=3, info=True, encoding="rgb8", pad=0, stamp=lambda k: None):
    order = {"rgb8": (0, 1, 2), "bgr8": (2, 1, 0)}
    for k in range(frames):
        rgb, steps = recorded(k)
        time_ns = FIRST_NS + k * PERIOD
        maker.image(COLOR, rgb[..., order[encoding]], encoding, time_ns, stamp(k), pad=pad)
        maker.image(DEPTH, steps, "16UC1", time_ns + 1000, stamp(k), pad=pad)
        if info:
            maker.info("/camera/color/camera_info", SHAPE, K, time_ns)
    return maker


def damaged_bags(folder: Path, rng: np.random.Generator, count: int):
    """Bags of three kinds, each cut short or overwritten at random; the file is made anew for every one."""
    made = [
        next(plain(BagMaker(folder / "m")).write().glob("*.mcap")),
        next(plain(BagMaker(folder / "s", plugin=StoragePlugin.SQLITE3)).write().glob("*.db3")),
        plain(BagMaker(folder / "o.bag", ros1=True)).write(),
    ]
    for k in range(count):
        whole = made[k % 3]
        content = bytearray(whole.read_bytes())
        if k % 2:
            content = content[: int(rng.integers(0, len(content)))]
        else:
            for _ in range(int(rng.integers(1, 40))):
                content[int(rng.integers(0, len(content)))] = int(rng.integers(0, 256))
        broken = folder / f"broken{whole.suffix}"
        broken.write_bytes(content)
        yield broken
