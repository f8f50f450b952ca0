"""Cameras that give frames, by name: a RealSense, any device of OpenCV (colour alone), a folder of frames.

`NAME` or `NAME=WHICH`, such as `realsense`, `opencv=1`, `folder=out/run`; see `open_camera`.
"""

import inspect
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, cast, runtime_checkable

import numpy as np
from jaxtyping import Float

from cpor.errors import CameraError, SceneFileError
from cpor.io.frame_files import list_inputs, read_input
from cpor.plugins import CAMERAS, list_plugins, load_plugin, make_plugin
from cpor.scene import Camera, Intrinsics, Observation


@runtime_checkable
class FrameCamera(Protocol):
    """Gives RGB-D frames, depth in the colour image's pixels."""

    def frame(self) -> Observation:
        """The next frame.

        Raises:
            CameraError: None came.
        """
        ...

    def now(self) -> float | None:
        """The present on the clock of the frames' `time_s`; None where unknown. [s]."""
        ...


def parse_camera(name: str) -> tuple[str, str]:
    """The plug-in that a name means, and which of its cameras; a path means the plug-in `folder`."""
    kind, _, which = name.partition("=")
    is_plugin = kind in list_plugins(CAMERAS) or re.fullmatch(r"[\w.]+:\w+", kind)
    return (kind, which) if is_plugin else ("folder", name)


def open_camera(name: str, T_world_camera: Float[np.ndarray, "4 4"] | None = None) -> FrameCamera:
    """The camera of a name.

    Args:
        name: `NAME` or `NAME=WHICH` of an installed plug-in of `cpor.cameras`, or of `module:attribute`; or a
            folder of frames. The plug-in gets WHICH as its option `which`.
        T_world_camera: Pose, for a camera that takes it; frames of others carry their own. Shape (4, 4). [m]

    Raises:
        InvalidSettingError: There is no such plug-in, or it takes other options.
        CameraError: It cannot be used.
    """
    kind, which = parse_camera(name)
    options: dict[str, object] = {"which": which} if which else {}
    if T_world_camera is not None:
        made = load_plugin(CAMERAS, kind)
        if callable(made) and "T_world_camera" in inspect.signature(made).parameters:
            options["T_world_camera"] = T_world_camera
    return cast(FrameCamera, make_plugin(CAMERAS, kind, **options))


def close_camera(camera: FrameCamera) -> None:
    """Let go of a camera that has to be closed."""
    close: Callable[[], None] | None = getattr(camera, "close", None)
    if close is not None:
        close()


@contextmanager
def opened_camera(name: str) -> Iterator[FrameCamera]:
    """The camera of a name, closed afterwards."""
    camera = open_camera(name)
    try:
        yield camera
    finally:
        close_camera(camera)


class FolderCamera:
    """Recorded frames, in the order of their names and of the numbers in them; each once.

    A depth image whose unit is not known is refused: a robot must not act on a guess.

    Args:
        which: Scene folders, a recording, or one of them; what `cpor decide` reads. A recorded run will do.

    Raises:
        CameraError: There is no frame in it.
    """

    def __init__(self, which: str | Path) -> None:
        self.folder = Path(which)
        try:
            self._frames = list_inputs(self.folder)
        except SceneFileError as error:
            raise CameraError(str(error)) from None
        self._next = 0

    def frame(self) -> Observation:
        """The next frame; a CameraError after the last."""
        if self._next == len(self._frames):
            raise CameraError(f"{self.folder} has no further frame after {len(self._frames)}; record more")
        place, number = self._frames[self._next]
        self._next += 1
        which = place if number is None else f"{place}, number {number},"
        try:
            seen = read_input(place, frame=number)[0].observation
            if seen.depth is not None and seen.camera.p_unit < 1.0:
                raise SceneFileError(
                    "its depth has no unit; write the metres per step as depth_unit_m into camera.json"
                )
        except SceneFileError as error:
            raise CameraError(f"the frame {which} cannot be used: {error}") from error
        return seen

    def now(self) -> float | None:
        """Unknown: the frames were taken long ago."""
        return None


class RealSenseCamera:
    """A RealSense depth camera through `pyrealsense2`, depth aligned to colour. Use it in a `with` block.

    Args:
        T_world_camera: Pose of the colour camera, from hand-eye calibration (docs/hand-eye.md). None gives
            frames without a pose, which will do to decide but not to grasp. Shape (4, 4). [m]
        width, height: Size of both streams. [px]
        fps: Frames a second.
        which: Its serial number, where there are several.
        warm_up: Frames to throw away while exposure settles.
        timeout_ms: Longest wait for a frame. [ms]

    Raises:
        CameraError: `pyrealsense2` is not installed, or no camera answers.
    """

    def __init__(
        self,
        T_world_camera: Float[np.ndarray, "4 4"] | None = None,
        width: int = 640,
        height: int = 480,
        fps: int = 30,
        which: str | None = None,
        warm_up: int = 30,
        timeout_ms: int = 5000,
    ) -> None:
        try:
            import pyrealsense2 as rs
        except ImportError:
            raise CameraError("a RealSense needs pyrealsense2: pip install 'cpor-grasp[robot]'") from None
        self._pose, self._timeout_ms = T_world_camera, timeout_ms
        self._pipeline, config = rs.pipeline(), rs.config()
        if which is not None:
            config.enable_device(which)
        config.enable_stream(rs.stream.depth, width, height, rs.format.z16, fps)
        config.enable_stream(rs.stream.color, width, height, rs.format.rgb8, fps)
        try:
            profile = self._pipeline.start(config)
        except RuntimeError as error:
            raise CameraError(
                f"no RealSense gives {width} x {height} at {fps} frames a second ({error}); check that it is "
                "plugged into USB 3, that no other program uses it, and the serial number"
            ) from None
        self._align = rs.align(rs.stream.color)
        self._unit = float(profile.get_device().first_depth_sensor().get_depth_scale())
        k = profile.get_stream(rs.stream.color).as_video_stream_profile().get_intrinsics()
        self._intrinsics = Intrinsics(k.fx, k.fy, k.ppx, k.ppy)
        for _ in range(max(warm_up, 1)):
            raw = self._wait()
        ours = (rs.timestamp_domain.system_time, rs.timestamp_domain.global_time)
        self._on_our_clock = raw.get_frame_timestamp_domain() in ours

    def now(self) -> float | None:
        """The computer's clock, where the camera's own is kept in step with it. [s]."""
        return time.time() if self._on_our_clock else None

    def frame(self) -> Observation:
        """A frame taken now."""
        asked_at = self.now()
        raw = self._wait()
        while asked_at is not None and raw.get_timestamp() / 1000.0 < asked_at:
            raw = self._wait()  # it was waiting in a queue
        both = self._align.process(raw)
        depth, colour = both.get_depth_frame(), both.get_color_frame()
        if not depth or not colour:
            raise CameraError("a frame came without depth or colour; check the USB cable")
        steps = np.asanyarray(depth.get_data())
        return Observation(
            np.array(colour.get_data(), np.uint8),
            (steps.astype(np.float64) * self._unit).astype(np.float32),
            Camera(self._intrinsics, self._pose, self._unit),
            # Of the older one: a stream that hangs shows in both.
            min(depth.get_timestamp(), colour.get_timestamp()) / 1000.0,
            min(depth.get_frame_number(), colour.get_frame_number()),
        )

    def close(self) -> None:
        """Let go of the camera."""
        self._pipeline.stop()

    def __enter__(self) -> "RealSenseCamera":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _wait(self) -> Any:
        try:
            return self._pipeline.wait_for_frames(self._timeout_ms)
        except RuntimeError as error:
            raise CameraError(f"no frame within {self._timeout_ms} ms ({error}); check the cable") from None


class OpenCvCamera:
    """Any device or stream that OpenCV opens; colour alone, so geometry has no answer.

    Args:
        which: Number of the device, or address of a stream.

    Raises:
        CameraError: OpenCV is not installed, or gives no picture.
    """

    def __init__(self, which: str = "0") -> None:
        try:
            import cv2
        except ImportError:
            raise CameraError("this camera needs OpenCV: pip install opencv-python-headless") from None
        self._cv2, self._which = cv2, which
        # A path has lost one of the two slashes of an address.
        self._device = cv2.VideoCapture(int(which) if which.isdecimal() else re.sub(r":/+", "://", which))
        self._device.set(cv2.CAP_PROP_BUFFERSIZE, 1)
        self._count = 0

    def frame(self) -> Observation:
        """A frame taken now."""
        self._device.grab()  # what waited in the queue
        got, picture = self._device.read()
        if not got:
            raise CameraError(f"the camera opencv={self._which} gives no picture; check number and cable")
        self._count += 1
        rgb = np.array(self._cv2.cvtColor(picture, self._cv2.COLOR_BGR2RGB), np.uint8)
        return Observation(rgb, None, time_s=time.time(), number=self._count)

    def now(self) -> float | None:
        """The computer's clock. [s]."""
        return time.time()

    def close(self) -> None:
        """Let go of the device."""
        self._device.release()
