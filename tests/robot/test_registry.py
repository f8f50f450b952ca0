"""Robots by name, and what pyproject.toml registers."""

import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from cpor.errors import InvalidSettingError
from cpor.plugins import ROBOTS, load_plugin
from cpor.robot.cameras import FolderCamera
from cpor.robot.protocol import Robot
from cpor.robot.robot_file import build_ur, make_robot

ROOT = Path(__file__).parents[2]


def test_the_robots_are_registered_and_can_be_loaded():
    points = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"][ROBOTS.name]
    assert set(points) == {"ros2", "simulated", "template", "ur"}
    for name, value in points.items():
        assert callable(EntryPoint(name, value, ROBOTS.name).load())


def test_a_module_where_the_command_is_called_from_is_found(tmp_path, monkeypatch):
    (tmp_path / "lab_of_mine.py").write_text("class Mine: pass\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", ["/nowhere"])
    assert load_plugin(ROBOTS, "lab_of_mine:Mine").__name__ == "Mine"


def test_the_simulated_arm_stands_beside_a_heap():
    pytest.importorskip("mujoco", reason="pip install 'cpor-grasp[sim]'")
    robot = make_robot("cpor.sim.arm.simulated_robot:build", seed=1, sensor="none")
    assert isinstance(robot, Robot) and robot.status().state == "ready"
    assert robot.observe().depth is not None


def test_a_ur_is_a_dry_run_unless_told_otherwise():
    camera = FolderCamera(ROOT / "examples" / "scenes" / "sim")
    robot = make_robot("cpor.robot.robot_file:build_ur", host="192.0.2.1", camera=camera)
    assert type(robot) is type(build_ur("192.0.2.1", camera)) and robot.status().dry_run


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("nobody", {}, "unknown robot 'nobody'; installed are: "),
        ("math:gone", {}, "the robot 'math:gone' cannot be loaded"),
        ("cpor.robot.robot_file:build_ur", {"arms": 2}, "takes other options"),
        ("pathlib:Path", {}, "has no method `observe`"),
    ],
)
def test_what_is_wrong_is_said(name, options, message):
    with pytest.raises(InvalidSettingError, match=message):
        make_robot(name, **options)
