"""Frames of a bag: ROS 1 (RealSense's too), ROS 2 as SQLite or MCAP; found by type, paired by time, aligned.

Needs the extra `bags`. Nothing of a bag is trusted: what is damaged, or not there, is a `BagError`.
"""

import struct
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from cpor.bridges.bag_cameras import Alignment, BagError, align, size
from cpor.bridges.ros_images import is_colour, is_depth, read_colour, read_depth
from cpor.errors import CporError, MissingExtraError, list_labels
from cpor.io.depth import DepthCamera
from cpor.io.frame_files import make_observation
from cpor.io.images import DAMAGED
from cpor.scene import Camera, Observation

SUFFIXES = (".bag", ".mcap", ".db3")

LARGEST_GAP_S = 0.04
"""Colour and depth may be this far apart: more than half a period at 15 Hz. Farther is no frame. [s]"""

SEARCH_S = 1.0
"""Partners are looked for among messages recorded within this time: a clock that jumps repeats stamps. [s]"""

_REALSENSE = "/device_"
"""Topics of RealSense's recordings begin so; there mono16 is depth."""

_IMAGES = ("sensor_msgs/msg/Image", "sensor_msgs/msg/CompressedImage")


@dataclass(frozen=True)
class Topics:
    """Topics by name; None: found by type.

    Attributes:
        color: Photographs.
        depth: Depth; an empty name: go without.
    """

    color: str | None = None
    depth: str | None = None


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
        topics: Where photographs and depth are.
        frames: Those with all parts, in order.
        dropped: Photographs without a depth image near enough in time.
        alignment: How depth is brought to the photograph.
        notes: What to know, in sentences.
    """

    path: Path
    topics: Topics
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
        """A frame's photograph and depth.

        Args:
            frame: Which.
            depth_unit_m: Metres that one step of depth means; None: as the bag says. [m]
        """
        return read_bag_frame(self.path, self.topics, self.alignment, frame, depth_unit_m)


def open_bag(path: str | Path, topics: Topics | None = None) -> Bag:
    """Look through a bag: topics, frames, cameras. No picture is decoded but the first of each topic.

    Args:
        path: A .bag, .mcap or .db3 file, or the folder of a ROS 2 bag.
        topics: Where to look; by default topics are found by type.

    Raises:
        BagError: It is no bag, is damaged, or has no frames.
        MissingExtraError: The extra `bags` is not installed.
    """
    path, topics = Path(path), topics or Topics()
    with _reading(path) as reader:
        first = _first_images(reader)
        plain = {k: m for k, m in first.items() if is_colour(m) and not (k != topics.color and _is_grey(m))}
        color = _choose(path, topics.color, plain, first, "color")
        deep = {
            k: m
            for k, m in first.items()
            if is_depth(m) and not (k != topics.depth and _is_grey(m) and not k.startswith(_REALSENSE))
        }
        depth = None
        if topics.depth != "" and (topics.depth is not None or deep):
            depth = _choose(path, topics.depth, deep, first, "depth")
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
    return Bag(path, Topics(color, depth or ""), tuple(frames), dropped, alignment, notes)


def read_bag_frame(
    path: Path, topics: Topics, alignment: Alignment, frame: BagFrame, depth_unit_m: float | None = None
) -> Observation:
    """Read one frame; see `Bag.read`. A function of plain values, so that other processes can call it."""
    assert topics.color is not None
    with _reading(path) as reader:
        rgb = read_colour(_message(reader, path, topics.color, frame.color_ns), topics.color)
        model = alignment.color
        if model is not None and model.shape != rgb.shape[:2]:
            raise BagError(
                f"{path}: the camera info of {topics.color} is of an image of {size(model.shape)} pixels, "
                f"the image has {size(rgb.shape[:2])}"
            )
        camera = Camera(None if model is None else model.intrinsics)
        steps, unit = None, None
        if frame.depth_ns is not None:
            assert topics.depth
            steps, unit = read_depth(_message(reader, path, topics.depth, frame.depth_ns), topics.depth)
            if steps.dtype.kind == "u":
                unit = alignment.unit_m or unit
        unit = depth_unit_m if depth_unit_m is not None else unit
        sensor = None
        if alignment.depth is not None and steps is not None:
            if steps.shape != alignment.depth.shape:
                raise BagError(
                    f"{path}: the camera info of {topics.depth} is of an image of "
                    f"{size(alignment.depth.shape)} pixels, the image has {size(steps.shape)}"
                )
            sensor = DepthCamera(alignment.depth.intrinsics, np.array(alignment.T_color_depth))
        seen, _ = make_observation(rgb, steps, camera, unit, sensor)
    return replace(seen, time_s=frame.stamp_s)


@contextmanager
def _reading(path: Path) -> Iterator[Any]:
    """An open reader whose complaints, of any kind, are ours."""
    try:
        from rosbags.highlevel import AnyReader, AnyReaderError
        from rosbags.rosbag1 import ReaderError as ReaderError1
        from rosbags.rosbag2 import ReaderError as ReaderError2
        from rosbags.typesys import Stores, TypesysError, get_typestore
    except ImportError:
        raise MissingExtraError(
            "a bag needs rosbags, which is not installed; get it with: pip install 'cpor-grasp[bags]'"
        ) from None
    if not path.exists():
        raise BagError(f"{path} is not there; give a .bag, .mcap or .db3 file, or a bag's folder")
    # Bags before Iron carry no definitions; those of images have not changed since.
    known = get_typestore(Stores.ROS2_HUMBLE)
    complaints: tuple[type[Exception], ...] = (
        AnyReaderError,
        ReaderError1,
        ReaderError2,
        TypesysError,
        AssertionError,
    )
    complaints += _sqlite_errors() + DAMAGED
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


def _sqlite_errors() -> tuple[type[Exception], ...]:
    """What the SQLite under rosbags raises at a damaged file."""
    try:
        import apsw
    except ImportError:
        return ()
    return (apsw.Error,)


def _first_images(reader: Any) -> dict[str, Any]:
    """The first message of each image topic."""
    found = {}
    for connection in reader.connections:
        if connection.msgtype in _IMAGES and connection.topic not in found:
            for _, _, raw in reader.messages([connection]):
                found[connection.topic] = reader.deserialize(raw, connection.msgtype)
                break
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
        words, message = topic.lower(), fitting[topic]
        preferred = (
            "align" in words or "regist" in words if what == "depth" else "color" in words or ("rgb" in words)
        )
        return not preferred, not hasattr(message, "encoding")

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
        if reader.is2:
            sec, nanosec = struct.unpack_from("<iI" if raw[1] & 1 else ">iI", raw, 4)
        else:
            sec, nanosec = struct.unpack_from("<II", raw, 4)  # after the sequence number
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
    chosen = [each for each in reader.connections if each.topic == topic]
    for connection, _, raw in reader.messages(chosen, start=recorded, stop=recorded + 1):
        return reader.deserialize(raw, connection.msgtype)
    raise BagError(f"{path} has changed: no message on {topic} where one was")
