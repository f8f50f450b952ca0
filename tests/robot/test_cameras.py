"""Cameras give frames or say why not."""

import sys

import numpy as np
import pytest
from PIL import Image
from support.box_table import BoxTable, TableMasks, stack
from support.plain_system import plain_system

from cpor.errors import CameraError
from cpor.io.scene_folder import write_scene_folder
from cpor.robot.cameras import FolderCamera, FrameCamera, RealSenseCamera
from cpor.robot.cycle import as_recorded
from cpor.robot.loop import retrieve
from cpor.robot.run_folder import RunFolder


def test_a_folder_gives_its_frames_in_order_and_then_an_error(tmp_path):
    table = BoxTable()
    frames = []
    for k in (3, 2, 1):
        scene = TableMasks(table).segment(table.observe())
        write_scene_folder(scene, tmp_path / f"frame_{4 - k}")
        frames.append(as_recorded(scene.observation))
        del table.boxes[k]
    camera = FolderCamera(tmp_path)
    assert isinstance(camera, FrameCamera)
    assert [camera.frame() for _ in range(3)] == frames
    with pytest.raises(CameraError, match="no further frame after 3"):
        camera.frame()


def test_numbers_in_names_count_as_numbers(tmp_path):
    for name in ("cycle_100", "cycle_11", "cycle_9", "final"):
        table = BoxTable({1: stack()[1].moved(len(name), 0)})
        write_scene_folder(TableMasks(table).segment(table.observe()), tmp_path / name)
    camera = FolderCamera(tmp_path)
    tops = [int(np.flatnonzero((camera.frame().depth < 0.79).any(axis=1))[0]) for _ in range(4)]
    assert tops == [20 + len(name) for name in ("cycle_9", "cycle_11", "cycle_100", "final")]


def test_a_scene_folder_itself_is_one_frame(tmp_path):
    table = BoxTable()
    write_scene_folder(TableMasks(table).segment(table.observe()), tmp_path / "scene")
    assert FolderCamera(tmp_path / "scene").frame().shape == (96, 128)


def test_a_recorded_run_can_be_looked_at_again(tmp_path):
    table = BoxTable()
    result = retrieve(table, plain_system(TableMasks(table)), 1, record=RunFolder(tmp_path / "run"))
    assert FolderCamera(tmp_path / "run").frame() == result.cycles[0].scene.observation


def test_a_recording_of_pictures_is_read_as_decide_reads_it_and_a_guessed_unit_is_refused(tmp_path):
    frame = TableMasks(table := BoxTable()).segment(table.observe()).observation
    for k in (10, 9):
        Image.fromarray(frame.rgb).save(tmp_path / f"color_{k}.png")
        depth = np.rint(frame.depth * 1000).astype(np.uint16)
        Image.fromarray(depth + k).save(tmp_path / f"depth_{k}.png")
    with pytest.raises(CameraError, match="its depth has no unit; write the metres per step"):
        FolderCamera(tmp_path).frame()
    (tmp_path / "camera.json").write_text('{"depth_unit_m": 0.001}')
    camera = FolderCamera(tmp_path)
    first, second = camera.frame(), camera.frame()
    assert np.nanmedian(second.depth - first.depth) == pytest.approx(0.001, abs=1e-6)


def test_an_empty_folder_and_a_damaged_frame_are_camera_errors(tmp_path):
    with pytest.raises(CameraError, match="holds no photograph"):
        FolderCamera(tmp_path)
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "rgb.png").write_bytes(b"not a picture")
    with pytest.raises(CameraError, match="cannot be used"):
        FolderCamera(tmp_path).frame()


def test_a_realsense_that_is_not_there_says_what_to_do(monkeypatch):
    try:
        import pyrealsense2  # noqa: F401
    except ImportError:
        remedy = "pip install"
    else:
        remedy = "plugged into USB 3"
    with pytest.raises(CameraError, match=remedy):
        RealSenseCamera()


def test_a_realsense_without_its_library_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyrealsense2", None)
    with pytest.raises(CameraError, match=r"cpor-grasp\[robot\]"):
        RealSenseCamera()
