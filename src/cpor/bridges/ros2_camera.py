"""The topics of a ROS 2 camera as a camera: photograph, depth aligned to it, and its pose by TF."""

import os
import time
from dataclasses import replace

from cpor.bridges.ros2_frames import Frame, FrameTopics, stamp_of
from cpor.bridges.ros2_tf import TransformTree
from cpor.bridges.ros2_transport import DdsTransport, Transport
from cpor.bridges.ros_images import RosImageError
from cpor.errors import CameraError, InvalidSettingError, one_of
from cpor.scene import Observation


def open_transport(transport: str = "dds", domain: int | None = None, name: str = "/cpor") -> Transport:
    """A transport by name.

    Args:
        transport: `dds`, or `rclpy` where ROS 2 is installed.
        domain: The ROS domain; None: ROS_DOMAIN_ID, else 0.
        name: Name of the node with rclpy.
    """
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
        frame_id: Frame of the camera; None: as the photographs say.
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
        frame_id: str | None = None,
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
        self._world, self._frame_id, self._settle_s, self._wait_s = world, frame_id, settle_s, wait_s
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
        except RosImageError as error:
            raise CameraError(str(error)) from error
        if self._world is not None and self.tree is not None:
            if seen.camera.intrinsics is None:
                raise CameraError(f"no camera info came on {self._topics[2]} for pictures of this size")
            at = self._frame_id or str(frame.color.header.frame_id)
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
