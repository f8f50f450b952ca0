"""Cameras by name, and the rules that they keep."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest
from support.box_table import BoxTable, TableMasks

from cpor.cli.options import camera_name
from cpor.errors import CameraError, InvalidSettingError
from cpor.io.scene_folder import write_scene_folder
from cpor.robot.cameras import FolderCamera, OpenCvCamera, open_camera, opened_camera, parse_camera
from cpor.scene import Observation
from cpor.testing import check_camera


@pytest.fixture
def devices(monkeypatch):
    """An OpenCV whose devices give one buffer again and again, as drivers do; the devices opened."""
    opened = []

    class VideoCapture:
        def __init__(self, device):
            opened.append(device)
            self.buffer, self.released = np.zeros((48, 64, 3), np.uint8), False

        def set(self, *_):
            return True

        def grab(self):
            return True

        def read(self):
            self.buffer[...] += 1
            self.buffer[..., 0] = 200
            return opened[-1] != 9, self.buffer

        def release(self):
            self.released = True

    fake = SimpleNamespace(
        VideoCapture=VideoCapture, CAP_PROP_BUFFERSIZE=38, COLOR_BGR2RGB=4, cvtColor=lambda x, _: x[..., ::-1]
    )
    monkeypatch.setitem(sys.modules, "cv2", fake)
    return opened


@pytest.fixture
def frames(tmp_path):
    table = BoxTable()
    for k in (1, 2):
        write_scene_folder(TableMasks(table).segment(table.observe()), tmp_path / f"frame_{k}")
    return tmp_path


def test_ours_keep_the_rules(devices, frames):
    check_camera(lambda: open_camera("opencv=1"))
    check_camera(lambda: open_camera(f"folder={frames}"))
    check_camera(lambda: open_camera(str(frames)))
    assert devices == [1]


def test_opencv_gives_colours_without_depth_and_takes_addresses(devices):
    with opened_camera("opencv=rtsp:/lab/one") as camera:  # a path has lost a slash
        seen = camera.frame()
    assert devices == ["rtsp://lab/one"] and camera._device.released
    assert seen.depth is None and seen.rgb[0, 0, 2] == 200 and seen.rgb[0, 0, 0] == 1
    with pytest.raises(CameraError, match="opencv=9 gives no picture"):
        OpenCvCamera("9").frame()


def test_names(frames, devices, monkeypatch):
    assert parse_camera("realsense=1234") == ("realsense", "1234") and parse_camera("opencv") == (
        "opencv",
        "",
    )
    assert parse_camera("my.own:Camera=x") == ("my.own:Camera", "x")
    assert parse_camera("out/a=b") == ("folder", "out/a=b")
    assert isinstance(open_camera(str(frames), np.eye(4)), FolderCamera)  # its frames carry their own pose
    monkeypatch.chdir(frames)
    path = type(frames)
    assert (
        camera_name([path("camera:opencv=1")]) == "opencv=1"
        and camera_name([path("realsense")]) == "realsense"
    )
    assert camera_name([path("frame_1")]) is None and camera_name([path("opencv"), path("depth.png")]) is None
    with pytest.raises(InvalidSettingError, match="cannot be loaded"):
        open_camera("no_module:Camera")
    monkeypatch.setitem(sys.modules, "cv2", None)
    with pytest.raises(CameraError, match="pip install opencv"):
        open_camera("opencv")


class OutOfOrder:
    """A camera whose second frame has the smaller number."""

    def __init__(self):
        self.count = 0

    def frame(self):
        self.count += 1
        return Observation(np.zeros((4, 4, 3), np.uint8), number=3 - self.count)

    def now(self):
        return None


def test_a_camera_that_breaks_a_rule_is_named():
    with pytest.raises(AssertionError, match="number of the next frame must be larger: 2, then 1"):
        check_camera(OutOfOrder)
    late = type("Late", (OutOfOrder,), {"now": lambda self: 5.0})
    with pytest.raises(AssertionError, match="needs its time_s"):
        check_camera(late)
