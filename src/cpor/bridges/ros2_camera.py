"""The topics of a ROS 2 camera as a camera: photograph, depth aligned to it, and its pose by TF."""

import itertools
import math
import os
import statistics
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeAlias

import numpy as np
from jaxtyping import Float

from cpor.bridges.bag_cameras import pose_between
from cpor.bridges.ros2_messages import RosMessage
from cpor.bridges.ros2_transport import DdsTransport, Transport
from cpor.bridges.ros_images import CameraModel, pose_matrix, read_camera, read_colour, read_depth
from cpor.errors import CameraError, InvalidSettingError, SceneFileError, one_of
from cpor.io.frame_files import make_observation
from cpor.scene import Camera, Observation
from cpor.view import View

NEAR_NS = 50_000_000
"""A pose that moves is taken for a time where its stamp is nearer than this. [ns]"""

KEPT = 200
"""Poses of a moving frame that are kept: 2 s at 100 a second."""


class TransformTree:
    """The frames of a graph."""

    def __init__(self, transport: Transport) -> None:
        self._change = threading.Condition()
        self._fixed: dict[str, tuple[str, np.ndarray]] = {}
        self._moving: dict[str, deque[tuple[int, str, np.ndarray]]] = {}
        transport.subscribe("/tf_static", "tf2_msgs/TFMessage", partial(self._hear, True), latched=True)
        transport.subscribe("/tf", "tf2_msgs/TFMessage", partial(self._hear, False))

    def lookup(self, target: str, source: str, stamp_ns: int, wait_s: float) -> Float[np.ndarray, "4 4"]:
        """Pose of a frame in another at a stamp, waited for up to `wait_s`. Shape (4, 4). [m], [ns], [s]."""
        target, source = target.lstrip("/"), source.lstrip("/")
        found: list[np.ndarray] = []

        def is_there() -> bool:
            pose = pose_between(self._parents(stamp_ns), target, source)
            found.extend([] if pose is None else [pose])
            return pose is not None

        with self._change:
            if not self._change.wait_for(is_there, wait_s):
                known = ", ".join(sorted({*self._fixed, *self._moving})) or "none"
                which = f"{source!r} in {target!r} for the wanted time within {wait_s:g} s"
                raise CameraError(f"/tf gave no pose of {which}; it has: {known}")
        return found[-1]

    def _parents(self, stamp_ns: int) -> dict[str, tuple[str, np.ndarray]]:
        """Parent and pose of each frame at a time; a moving frame without a pose for it is left out."""
        parents = dict(self._fixed)
        for frame, poses in self._moving.items():
            at_ns, parent, pose = min(poses, key=lambda each: abs(each[0] - stamp_ns))
            if abs(at_ns - stamp_ns) <= NEAR_NS:
                parents[frame] = (parent, pose)
        return parents

    def _hear(self, fixed: bool, message: RosMessage, sent_s: float) -> None:
        for each in message.transforms:
            try:
                pose = pose_matrix(each.transform.translation, each.transform.rotation)
            except SceneFileError:
                continue  # a rotation that is none
            parent, frame = each.header.frame_id.lstrip("/"), each.child_frame_id.lstrip("/")
            with self._change:
                if fixed:
                    self._fixed[frame] = (parent, pose)
                else:
                    kept = self._moving.setdefault(frame, deque(maxlen=KEPT))
                    kept.append((stamp_of(each), parent, pose))
                self._change.notify_all()


LARGEST_GAP_NS = 40_000_000
"""Colour and depth of one frame may be this far apart. [ns]"""

Topics: TypeAlias = tuple[str, str | None, str | None]

WAKE_S = 0.25
"""Polling interval. [s]"""


@dataclass
class Frame:
    """Messages of one frame; when the photograph was sent, and when the last of them came. [s]."""

    color: RosMessage
    depth: RosMessage | None
    sent_s: float
    whole_s: float
    seen: View | None = None


class FrameTopics:
    """Hears the topics of a camera, pairs photographs with their depth, and keeps the newest whole frame.

    Args:
        transport: How it hears.
        topics: Names of photograph, depth (None: frames have none) and camera info (None: unknown camera).
        garbled: Called with the reason where a message cannot be read.

    Attributes:
        whole: Frames that were whole so far.
        passed: Those of them that were not taken since a newer one came.
    """

    def __init__(self, transport: Transport, topics: Topics, garbled: Callable[[str], None]) -> None:
        self.topics, self._garbled = topics, garbled
        self._model: CameraModel | None = None
        self._change = threading.Condition()
        self._colors: deque[tuple[RosMessage, float]] = deque(maxlen=8)
        self._depths: deque[RosMessage] = deque(maxlen=8)
        self._came: deque[float] = deque(maxlen=9)  # when the last frames were whole
        self._waiting: Frame | None = None
        self._newest_s = -math.inf  # when the newest whole frame was sent
        self.whole = self.passed = 0
        self.ended = False
        color, depth, info = topics
        hear = {
            info: ("sensor_msgs/CameraInfo", self._hear_info),
            depth: (_image_kind(depth or ""), self._hear_depth),
            color: (_image_kind(color), self._hear_color),
        }
        self._ends = [
            transport.subscribe(topic, kind, heard, garbled=garbled)
            for topic, (kind, heard) in hear.items()
            if topic is not None
        ]

    def unsubscribe(self) -> None:
        """Hear other topics from now on; a transport that is about to close needs no such call."""
        while self._ends:
            self._ends.pop()()
        self.end()

    def end(self) -> None:
        """No more frames: release all waiters."""
        with self._change:
            self.ended = True
            self._change.notify_all()

    def read(self, frame: Frame) -> Observation:
        """The pictures of a frame; its time is the stamp of the photograph."""
        rgb = read_colour(frame.color, self.topics[0])
        steps, unit = (None, None) if frame.depth is None else read_depth(frame.depth, self.topics[1] or "")
        model = self._model
        known = model.intrinsics if model is not None and model.shape == rgb.shape[:2] else None
        seen, _ = make_observation(rgb, steps, Camera(known), unit)
        return replace(seen, time_s=stamp_of(frame.color) * 1e-9)

    def take(self) -> Frame | None:
        """The newest frame; None where none comes for a while.

        Where the next is due sooner than this one has waited already, that one: the answer is about a newer
        picture, and comes hardly later.
        """
        with self._change:
            self._change.wait_for(lambda: self.ended or self._waiting is not None, WAKE_S)
            frame = self._waiting
            if frame is not None and len(self._came) > 2:
                period = statistics.median(b - a for a, b in itertools.pairwise(self._came))
                waited = time.monotonic() - frame.whole_s
                if period / 2 < waited < period:
                    left = 1.25 * period - waited
                    self._change.wait_for(lambda: self.ended or self._waiting is not frame, left)
            frame, self._waiting = self._waiting, None
            return frame

    def _hear_info(self, message: RosMessage, sent_s: float) -> None:
        try:
            self._model = read_camera(message, self.topics[2] or "")
        except SceneFileError as error:
            self._garbled(str(error))

    def _hear_color(self, message: RosMessage, sent_s: float) -> None:
        self._colors.append((message, sent_s))
        self._pair()

    def _hear_depth(self, message: RosMessage, sent_s: float) -> None:
        self._depths.append(message)
        self._pair()

    def _pair(self) -> None:
        """The newest photograph that has its depth, if it is newer than what was whole before."""
        for color, sent_s in reversed(self._colors):
            depth = None
            if self.topics[1] is not None:
                stamp = stamp_of(color)
                near = [each for each in self._depths if abs(stamp_of(each) - stamp) <= LARGEST_GAP_NS]
                if not near:
                    continue
                depth = min(near, key=lambda each: abs(stamp_of(each) - stamp))
            with self._change:
                if sent_s > self._newest_s:
                    self.whole += 1
                    self.passed += self._waiting is not None
                    self._newest_s, now = sent_s, time.monotonic()
                    self._came.append(now)
                    self._waiting = Frame(color, depth, sent_s, now)
                    self._change.notify_all()
            return


def _image_kind(topic: str) -> str:
    """The type of an image topic, by its name."""
    compressed = topic.rsplit("/", 1)[-1] in ("compressed", "compressedDepth")
    return "sensor_msgs/CompressedImage" if compressed else "sensor_msgs/Image"


def stamp_of(message: RosMessage) -> int:
    """The stamp of a message's header. [ns]."""
    return int(message.header.stamp.sec) * 10**9 + int(message.header.stamp.nanosec)


def open_transport(transport: str = "dds", domain: int | None = None, name: str = "/cpor") -> Transport:
    """A transport by name: dds, or rclpy where ROS 2 is installed; domain None: ROS_DOMAIN_ID, else 0."""
    if domain is None:
        text = os.environ.get("ROS_DOMAIN_ID") or "0"
        if not text.isdecimal():
            raise InvalidSettingError(f"ROS_DOMAIN_ID is {text!r}; set it to a whole number")
        domain = int(text)
    if one_of("transport", transport, ("dds", "rclpy")) == "dds":
        return DdsTransport(domain)
    from cpor.bridges.ros2_rclpy import RclpyTransport

    return RclpyTransport(name, domain)


class Ros2Camera:
    """The newest frame of a camera's topics that was sent after it was asked for.

    Args:
        which: Namespace of the camera; its topics are named as realsense2_camera names them, unless given.
        color: Topic of photographs.
        depth: Topic of depth aligned to them; empty: none.
        info: Topic of the camera info.
        world: Frame of the world; None: the pose is not looked up, which will do to decide, not to grasp.
        settle_s: A frame sent sooner than this after it was asked for may have been taken before. [s]
        wait_s: Longest wait for a frame, and then for its pose. [s]
        transport: How to hear; None: over DDS, in the domain of ROS_DOMAIN_ID.

    Attributes:
        tree: The frames of the graph; None where no pose is looked up.
    """

    def __init__(
        self,
        which: str = "/camera",
        color: str | None = None,
        depth: str | None = None,
        info: str | None = None,
        world: str | None = None,
        settle_s: float = 0.15,
        wait_s: float = 5.0,
        transport: Transport | None = None,
    ) -> None:
        space = "/" + which.strip("/")
        self._topics = (
            color or f"{space}/color/image_raw",
            f"{space}/aligned_depth_to_color/image_raw" if depth is None else depth or None,
            info or f"{space}/color/camera_info",
        )
        self._world, self._settle_s, self._wait_s = world, settle_s, wait_s
        self._transport = transport or open_transport()
        self.tree = None if world is None else TransformTree(self._transport)
        self._problem = "check the names of its topics and the ROS domain"
        self._frames = FrameTopics(self._transport, self._topics, self._note)

    def frame(self) -> Observation:
        """A frame taken now."""
        asked_s = time.monotonic()
        frame = self._next(asked_s)
        try:
            seen = self._frames.read(frame)
        except SceneFileError as error:
            raise CameraError(str(error)) from error
        if self._world is not None and self.tree is not None:
            if seen.camera.intrinsics is None:
                raise CameraError(f"no camera info came on {self._topics[2]} for pictures of this size")
            at = str(frame.color.header.frame_id)
            pose = self.tree.lookup(self._world, at, stamp_of(frame.color), self._wait_s)
            seen = replace(seen, camera=replace(seen.camera, T_world_camera=pose))
        return replace(seen, time_s=frame.sent_s)

    def now(self) -> float:
        """This machine's clock, on which it is estimated when a frame was sent. [s]."""
        return time.monotonic()

    def close(self) -> None:
        """Stop listening, and close the transport."""
        self._frames.end()
        self._transport.close()

    def _next(self, asked_s: float) -> Frame:
        while time.monotonic() - asked_s < self._wait_s:
            frame = self._frames.take()
            if frame is not None and frame.sent_s >= asked_s + self._settle_s:
                return frame
        heard = " and ".join(topic for topic in self._topics[:2] if topic)
        raise CameraError(f"no frame on {heard} within {self._wait_s:g} s; {self._problem}")

    def _note(self, problem: str) -> None:
        self._problem = problem
