"""Frames of camera topics: a photograph and its depth, the newest first."""

import itertools
import math
import statistics
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

from cpor.answer import View
from cpor.bridges.ros2_messages import Message, WireError
from cpor.bridges.ros2_transport import Transport
from cpor.bridges.ros_images import CameraModel, RosImageError, read_camera, read_colour, read_depth
from cpor.io.frame_files import make_observation
from cpor.scene import Camera, Observation

LARGEST_GAP_NS = 40_000_000
"""Colour and depth of one frame may be this far apart. [ns]"""

Topics: TypeAlias = tuple[str, str | None, str | None]

WAKE_S = 0.25
"""Polling interval. [s]"""


@dataclass
class Frame:
    """Messages of one frame; when the photograph was sent, and when the last of them came. [s]."""

    color: Message
    depth: Message | None
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
        self._colors: deque[tuple[Message, float]] = deque(maxlen=8)
        self._depths: deque[Message] = deque(maxlen=8)
        self._came: deque[float] = deque(maxlen=9)  # when the last frames were whole
        self._waiting: Frame | None = None
        self._newest_s = -math.inf  # when the newest whole frame was sent
        self.whole = self.passed = 0
        self.ended = False
        color, depth, info = topics
        self._ends = []
        if info is not None:
            self._ends.append(transport.subscribe(info, "sensor_msgs/CameraInfo", self._hear_info))
        if depth is not None:
            self._ends.append(transport.subscribe(depth, _image_kind(depth), self._hear_depth))
        self._ends.append(transport.subscribe(color, _image_kind(color), self._hear_color))

    def end(self) -> None:
        """Hear nothing any more: release all waiters."""
        while self._ends:
            self._ends.pop()()
        with self._change:
            self.ended = True
            self._change.notify_all()

    def read(self, frame: Frame) -> Observation:
        """The pictures of a frame; its time is the stamp of the photograph.

        Raises:
            CporError: A message cannot be read.
        """
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
                    self._change.wait_for(
                        lambda: self.ended or self._waiting is not frame, 1.25 * period - waited
                    )
            frame, self._waiting = self._waiting, None
            return frame

    def _hear_info(self, message: Message | WireError, sent_s: float) -> None:
        if isinstance(message, WireError):
            self._garbled(f"camera info: {message}")
            return
        try:
            self._model = read_camera(message, self.topics[2] or "")
        except RosImageError as error:
            self._garbled(str(error))

    def _hear_color(self, message: Message | WireError, sent_s: float) -> None:
        if isinstance(message, WireError):
            self._garbled(f"colour: {message}")
        else:
            self._colors.append((message, sent_s))
            self._pair()

    def _hear_depth(self, message: Message | WireError, sent_s: float) -> None:
        if isinstance(message, WireError):
            self._garbled(f"depth: {message}")
        else:
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


def stamp_of(message: Message) -> int:
    """The stamp of a message's header. [ns]."""
    return int(message.header.stamp.sec) * 10**9 + int(message.header.stamp.nanosec)
