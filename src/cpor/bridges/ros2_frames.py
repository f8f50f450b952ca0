"""Frames of camera topics: a photograph and its depth, the newest first."""

import itertools
import math
import statistics
import threading
import time
from collections import deque
from dataclasses import dataclass, replace
from types import SimpleNamespace

from cpor.answer import View
from cpor.bridges.ros_images import CameraModel, read_colour, read_depth
from cpor.io.frame_files import make_observation
from cpor.scene import Camera, Observation

LARGEST_GAP_NS = 40_000_000
"""Colour and depth of one frame may be this far apart. [ns]"""

WAKE_S = 0.25
"""Polling interval. [s]"""


@dataclass
class Frame:
    """Messages of one frame; when the photograph was sent, and when the last of them came. [s]."""

    color: SimpleNamespace
    depth: SimpleNamespace | None
    sent_s: float
    whole_s: float
    seen: View | None = None


class FramePairs:
    """Pairs photographs with their depth, and keeps the newest whole frame until it is taken.

    Args:
        change: Told of each new frame.
        with_depth: Whether a frame needs depth.

    Attributes:
        whole: Frames that were whole so far.
        passed: Those of them that were not taken since a newer one came.
    """

    def __init__(self, change: threading.Condition, with_depth: bool) -> None:
        self._change, self._with_depth = change, with_depth
        self._colors: deque[tuple[SimpleNamespace, float]] = deque(maxlen=8)
        self._depths: deque[SimpleNamespace] = deque(maxlen=8)
        self._came: deque[float] = deque(maxlen=9)  # when the last frames were whole
        self._waiting: Frame | None = None
        self._newest_s = -math.inf  # when the newest whole frame was sent
        self.whole = self.passed = 0
        self.ended = False

    def add_color(self, message: SimpleNamespace, sent_s: float) -> None:
        """A photograph, and when it was sent. [s]."""
        self._colors.append((message, sent_s))
        self._pair()

    def add_depth(self, message: SimpleNamespace) -> None:
        """A depth image."""
        self._depths.append(message)
        self._pair()

    def end(self) -> None:
        """No more frames: release all waiters."""
        with self._change:
            self.ended = True
            self._change.notify_all()

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

    def _pair(self) -> None:
        """The newest photograph that has its depth, if it is newer than what was whole before."""
        for color, sent_s in reversed(self._colors):
            depth = None
            if self._with_depth:
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


def image_kind(topic: str) -> str:
    """The type of an image topic, by its name."""
    compressed = topic.rsplit("/", 1)[-1] in ("compressed", "compressedDepth")
    return "sensor_msgs/CompressedImage" if compressed else "sensor_msgs/Image"


def read_frame(
    frame: Frame, model: CameraModel | None, topics: tuple[str, str | None, str | None]
) -> Observation:
    """The pictures of a frame; its time is the stamp of the photograph.

    Args:
        frame: The messages.
        model: The camera, as its camera info says; None: unknown.
        topics: Names of photograph, depth and camera info, for messages.

    Raises:
        CporError: A message cannot be read.
    """
    rgb = read_colour(frame.color, topics[0])
    steps, unit = (None, None) if frame.depth is None else read_depth(frame.depth, topics[1] or "")
    known = model.intrinsics if model is not None and model.shape == rgb.shape[:2] else None
    seen, _ = make_observation(rgb, steps, Camera(known), unit)
    return replace(seen, time_s=stamp_of(frame.color) * 1e-9)


def stamp_of(message: SimpleNamespace) -> int:
    """The stamp of a message's header. [ns]."""
    return int(message.header.stamp.sec) * 10**9 + int(message.header.stamp.nanosec)
