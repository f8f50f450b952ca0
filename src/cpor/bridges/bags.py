"""Frames of a bag: ROS 1 (RealSense's too), ROS 2 as SQLite or MCAP; found by type, paired by time, aligned.

Needs the extra `bags`. Nothing of a bag is trusted: what is damaged, or not there, is a `BagError`.
"""

import hashlib
import struct
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from cpor.bridges.bag_cameras import Alignment, BagError, align, first_message, size
from cpor.bridges.ros_images import CameraModel, is_colour, is_depth, read_colour, read_depth
from cpor.errors import CporError, list_labels, needing
from cpor.io.depth import DepthCamera
from cpor.io.frame_files import make_observation
from cpor.io.images import DAMAGED
from cpor.scene import Camera, Observation

if TYPE_CHECKING:
    from cpor.paper.runs.dataset import Dataset

SUFFIXES = (".bag", ".mcap", ".db3")

LARGEST_GAP_S = 0.04
"""Colour and depth may be this far apart: more than half a period at 15 Hz. Farther is no frame. [s]"""

SEARCH_S = 1.0
"""Partners are looked for among messages recorded within this time: a clock that jumps repeats stamps. [s]"""

_REALSENSE = "/device_"
"""Topics of RealSense's recordings begin so; there mono16 is depth."""

_IMAGES = ("sensor_msgs/msg/Image", "sensor_msgs/msg/CompressedImage")


class BagFrame(NamedTuple):
    """One frame of a bag, not read yet.

    Attributes:
        number: From 0, in the order of recording.
        time_s: When its photograph was recorded, since the bag began. [s]
        stamp_s: When it was taken, on the camera's clock. [s]
        color_ns, depth_ns: When its messages were recorded; depth None: the bag has none. [ns]
    """

    number: int
    time_s: float
    stamp_s: float
    color_ns: int
    depth_ns: int | None


def is_bag(path: Path) -> bool:
    """Whether a path looks like a bag: by its suffix, or as a folder with metadata.yaml."""
    return path.suffix.lower() in SUFFIXES or (path / "metadata.yaml").is_file()


@dataclass(frozen=True)
class Bag:
    """A bag that was looked through.

    Attributes:
        path: File or folder.
        color: Topic of the photographs.
        depth: Topic of depth; empty: there is none.
        frames: Those with all parts, in order.
        dropped: Photographs without a depth image near enough in time.
        alignment: How depth is brought to the photograph.
        notes: What to know, in sentences.
    """

    path: Path
    color: str
    depth: str
    frames: tuple[BagFrame, ...]
    dropped: int
    alignment: Alignment
    notes: tuple[str, ...] = ()

    def at(self, time_s: float | None = None) -> BagFrame:
        """The frame nearest to a time since the bag began, or to a Unix time; None: the first. [s].

        Raises:
            BagError: The bag is shorter.
        """
        if time_s is None:
            return self.frames[0]
        began = self.frames[0].color_ns * 1e-9 - self.frames[0].time_s
        since = time_s - began if time_s > 1e8 else time_s
        nearest = min(self.frames, key=lambda frame: abs(frame.time_s - since))
        if abs(nearest.time_s - since) > 1.0:
            raise BagError(
                f"{self.path} has no frame at {time_s:g} s; its frames are at {self.frames[0].time_s:.2f} to "
                f"{self.frames[-1].time_s:.2f} s"
            )
        return nearest

    def read(self, frame: BagFrame, depth_unit_m: float | None = None) -> Observation:
        """A frame's photograph and depth; `depth_unit_m` overrules what the bag says of a step. [m]."""
        with _reading(self.path) as reader:
            rgb = read_colour(_message(reader, self.path, self.color, frame.color_ns), self.color)
            model, sensor = self.alignment.color, self.alignment.depth
            if model is not None:
                self._check_size(self.color, model, rgb.shape)
            camera = Camera(None if model is None else model.intrinsics)
            steps, unit, depth_camera = None, None, None
            if frame.depth_ns is not None:
                steps, unit = read_depth(_message(reader, self.path, self.depth, frame.depth_ns), self.depth)
                if steps.dtype.kind == "u":
                    unit = self.alignment.unit_m or unit
            unit = depth_unit_m if depth_unit_m is not None else unit
            if sensor is not None and steps is not None:
                self._check_size(self.depth, sensor, steps.shape)
                depth_camera = DepthCamera(sensor.intrinsics, np.array(self.alignment.T_color_depth))
            seen, _ = make_observation(rgb, steps, camera, unit, depth_camera)
        return replace(seen, time_s=frame.stamp_s)

    def _check_size(self, topic: str, model: CameraModel, shape: tuple[int, ...]) -> None:
        if model.shape != shape[:2]:
            raise BagError(
                f"{self.path}: the camera info of {topic} is of an image of {size(model.shape)} pixels, "
                f"the image has {size(shape)}"
            )


def open_bag(path: str | Path, color: str | None = None, depth: str | None = None) -> Bag:
    """Look through a bag: topics, frames, cameras. No picture is decoded but the first of each topic.

    Args:
        path: A .bag, .mcap or .db3 file, or the folder of a ROS 2 bag.
        color: Topic of photographs; None: found by type.
        depth: Topic of depth; likewise; empty: go without.

    Raises:
        BagError: It is no bag, is damaged, or has no frames.
        MissingExtraError: The extra `bags` is not installed.
    """
    path = Path(path)
    with _reading(path) as reader:
        first = _first_images(reader)
        sure = {k for k, m in first.items() if not _is_grey(m)}
        plain = {k: m for k, m in first.items() if is_colour(m) and k in sure | {color}}
        sure |= {k for k in first if k.startswith(_REALSENSE)}
        deep = {k: m for k, m in first.items() if is_depth(m) and k in sure | {depth}}
        color = _choose(path, color, plain, first, "color")
        without = depth == "" or (depth is None and not deep)
        depth = None if without else _choose(path, depth, deep, first, "depth")
        alignment, notes = align(path, reader, first, color, depth)
        seen = _stamps(reader, color)
        if not seen:
            raise BagError(f"{path} has no message on {color}; choose another --color")
        others = _stamps(reader, depth) if depth is not None else None
        began = reader.start_time
    frames, dropped = _pair(seen, others, began)
    if not frames:
        raise BagError(
            f"no photograph of {path} has a depth image within {LARGEST_GAP_S:g} s; check the clocks, or "
            "choose another --depth"
        )
    if dropped:
        notes = (*notes, f"{dropped} of {len(seen)} photographs have no depth near in time; left out.")
    return Bag(path, color, depth or "", tuple(frames), dropped, alignment, notes)


def read_bag_dataset(path: Path, color: str | None = None, depth: str | None = None) -> "Dataset":
    """Every frame of a bag that has all its parts, for `cpor run`; see `open_bag`."""
    from cpor.paper.runs.dataset import Dataset, FrameItem

    bag = open_bag(path.resolve(), color, depth)
    digest = hashlib.sha256(repr((bag.color, bag.depth)).encode())
    for file in [bag.path] if bag.path.is_file() else sorted(bag.path.iterdir()):
        try:
            with file.open("rb") as content:
                digest.update(hashlib.file_digest(content, "sha256").digest())
        except OSError as error:
            raise BagError(f"cannot read {file}: {error.strerror}") from None
    one = replace(bag, frames=())  # each worker process is sent it with every frame
    items = [FrameItem(f"frame_{frame.number:04d}", partial(one.read, frame)) for frame in bag.frames]
    return Dataset("frames", digest.hexdigest(), tuple(items))


@contextmanager
def _reading(path: Path) -> Iterator[Any]:
    """An open reader whose complaints, of any kind, are ours."""
    with needing("bags", "a bag needs rosbags"):
        from rosbags.highlevel import AnyReader, AnyReaderError
        from rosbags.rosbag1 import ReaderError as ReaderError1
        from rosbags.rosbag2 import ReaderError as ReaderError2
        from rosbags.typesys import Stores, TypesysError, get_typestore
    if not path.exists():
        raise BagError(f"{path} is not there; give a .bag, .mcap or .db3 file, or a bag's folder")
    # Bags before Iron carry no definitions; those of images have not changed since.
    known = get_typestore(Stores.ROS2_HUMBLE)
    complaints: tuple[type[Exception], ...] = (AnyReaderError, ReaderError1, ReaderError2, TypesysError)
    complaints += (AssertionError, *DAMAGED)
    with suppress(ImportError):  # the SQLite under rosbags
        import apsw

        complaints += (apsw.Error,)
    try:
        with AnyReader([path], default_typestore=known) as reader:
            yield reader
    except BagError:
        raise
    except CporError as error:
        raise BagError(f"{path}: {error}") from error
    except complaints as error:
        what = (str(error).splitlines() or [type(error).__name__])[0][:160]
        raise BagError(f"{path} is damaged or no bag ({what}); record or fetch it again") from error


def _first_images(reader: Any) -> dict[str, Any]:
    """The first message of each image topic."""
    found = {}
    for connection in reader.connections:
        if connection.msgtype in _IMAGES and connection.topic not in found:
            message = first_message(reader, connection)
            if message is not None:
                found[connection.topic] = message
    return found


def _is_grey(message: Any) -> bool:
    """Whether an image may as well show labels or infrared: read as colour or depth only where asked for."""
    return str(getattr(message, "encoding", "")).lower() in ("mono8", "8uc1", "mono16")


def _choose(path: Path, named: str | None, fitting: dict[str, Any], all_: dict[str, Any], what: str) -> str:
    """The topic asked for, or the one that fits best."""
    if named is not None:
        if named not in fitting:
            why = "is not of that kind" if named in all_ else "is not in the bag"
            listed = list_labels(sorted(fitting)) or "none"
            raise BagError(f"{path}: --{what} {named} {why}; {what} topics: {listed}")
        return named
    if not fitting:
        others = list_labels(sorted(all_)) or "none"
        raise BagError(f"{path} has no {what} images; its image topics: {others}")

    def rank(topic: str) -> tuple[bool, bool]:
        preferred = ("align", "regist") if what == "depth" else ("color", "rgb")
        likely = any(word in topic.lower() for word in preferred)
        return not likely, not hasattr(fitting[topic], "encoding")

    best = min(map(rank, fitting))
    chosen = sorted(topic for topic in fitting if rank(topic) == best)
    if len(chosen) > 1:
        raise BagError(f"{path} has several {what} topics; choose one with --{what}: {list_labels(chosen)}")
    return chosen[0]


def _stamps(reader: Any, topic: str | None) -> list[tuple[int, int]]:
    """When each message of a topic was recorded, and its own stamp; no message is decoded for it. [ns]."""
    chosen = [each for each in reader.connections if each.topic == topic]
    found = []
    for _, recorded, raw in reader.messages(chosen):
        # Of ROS 1 after the sequence number, of ROS 2 after the header of the bytes.
        form = "<II" if not reader.is2 else "<iI" if raw[1] & 1 else ">iI"
        sec, nanosec = struct.unpack_from(form, raw, 4)
        stamp = sec * 10**9 + nanosec
        found.append((recorded, stamp or recorded))
    return found


def _pair(
    seen: list[tuple[int, int]], others: list[tuple[int, int]] | None, began: int
) -> tuple[list[BagFrame], int]:
    """Each photograph with the depth nearest by stamp among those recorded around it."""
    frames: list[BagFrame] = []
    gap, search = round(LARGEST_GAP_S * 1e9), round(SEARCH_S * 1e9)
    times = sorted(others or ())
    for recorded, stamp in seen:
        partner = None
        if others is not None:
            near = times[bisect_left(times, (recorded - search,)) : bisect_left(times, (recorded + search,))]
            near = [each for each in near if abs(each[1] - stamp) <= gap]
            if not near:
                continue
            # By stamp first; where a clock jumped, stamps repeat and the time of recording tells them apart.
            partner = min(near, key=lambda each: 2 * abs(each[1] - stamp) + abs(each[0] - recorded))[0]
        time_s = (recorded - began) * 1e-9
        frames.append(BagFrame(len(frames), time_s, stamp * 1e-9, recorded, partner))
    return frames, len(seen) - len(frames)


def _message(reader: Any, path: Path, topic: str, recorded: int) -> Any:
    for connection in reader.connections:
        if connection.topic == topic:
            message = first_message(reader, connection, start=recorded, stop=recorded + 1)
            if message is not None:
                return message
    raise BagError(f"{path} has changed: no message on {topic} where one was")
