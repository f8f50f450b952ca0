"""Poses between the frames of a ROS 2 graph, from `/tf` and `/tf_static`."""

import threading
from collections import deque

import numpy as np
from jaxtyping import Float

from cpor.bridges.bag_cameras import pose_between
from cpor.bridges.ros2_frames import stamp_of
from cpor.bridges.ros2_messages import Message, WireError
from cpor.bridges.ros2_transport import Transport
from cpor.bridges.ros_images import RosImageError, pose_matrix
from cpor.errors import CameraError

NEAR_NS = 50_000_000
"""A pose that moves is taken for a time where its stamp is nearer than this. [ns]"""

KEPT = 200
"""Poses of a moving frame that are kept: 2 s at 100 a second."""


class TransformTree:
    """The frames of a graph.

    Args:
        transport: How it hears.
    """

    def __init__(self, transport: Transport) -> None:
        self._change = threading.Condition()
        self._fixed: dict[str, tuple[str, np.ndarray]] = {}
        self._moving: dict[str, deque[tuple[int, str, np.ndarray]]] = {}
        transport.subscribe("/tf_static", "tf2_msgs/TFMessage", self._hear_fixed, latched=True)
        transport.subscribe("/tf", "tf2_msgs/TFMessage", self._hear_moving)

    def lookup(self, target: str, source: str, stamp_ns: int, wait_s: float) -> Float[np.ndarray, "4 4"]:
        """Pose of a frame in another at a time. Shape (4, 4). [m].

        Args:
            target: The frame it is wanted in.
            source: The frame.
            stamp_ns: When, on the clock of the stamps. [ns]
            wait_s: A pose that comes later is not waited for. [s]

        Raises:
            CameraError: The graph does not say it, or not for that time.
        """
        target, source = target.lstrip("/"), source.lstrip("/")
        found: list[np.ndarray] = []

        def is_there() -> bool:
            pose = pose_between(self._parents(stamp_ns), target, source)
            found.extend([] if pose is None else [pose])
            return pose is not None

        with self._change:
            if not self._change.wait_for(is_there, wait_s):
                known = ", ".join(sorted({*self._fixed, *self._moving})) or "none"
                raise CameraError(
                    f"/tf gave no pose of {source!r} in {target!r} for the wanted time within {wait_s:g} s; "
                    f"it has: {known}"
                )
        return found[-1]

    def _parents(self, stamp_ns: int) -> dict[str, tuple[str, np.ndarray]]:
        """Parent and pose of each frame at a time; a moving frame without a pose for it is left out."""
        parents = dict(self._fixed)
        for frame, poses in self._moving.items():
            at_ns, parent, pose = min(poses, key=lambda each: abs(each[0] - stamp_ns))
            if abs(at_ns - stamp_ns) <= NEAR_NS:
                parents[frame] = (parent, pose)
        return parents

    def _hear_fixed(self, message: Message | WireError, sent_s: float) -> None:
        for frame, _, parent, pose in _poses(message):
            with self._change:
                self._fixed[frame] = (parent, pose)
                self._change.notify_all()

    def _hear_moving(self, message: Message | WireError, sent_s: float) -> None:
        for frame, at_ns, parent, pose in _poses(message):
            with self._change:
                self._moving.setdefault(frame, deque(maxlen=KEPT)).append((at_ns, parent, pose))
                self._change.notify_all()


def _poses(message: Message | WireError) -> list[tuple[str, int, str, np.ndarray]]:
    if isinstance(message, WireError):
        return []
    found = []
    for each in message.transforms:
        try:
            pose = pose_matrix(each.transform.translation, each.transform.rotation)
        except RosImageError:
            continue  # a rotation that is none
        parent, frame = each.header.frame_id.lstrip("/"), each.child_frame_id.lstrip("/")
        found.append((frame, stamp_of(each), parent, pose))
    return found
