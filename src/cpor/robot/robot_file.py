"""A robot described in a file: TOML whose table `[robot]` holds the options of the one it is for.

[robot]                        # of `ur`
host = "192.168.0.10"
camera = "realsense"           # or a folder of frames, to try
gripper = "robotiq"
T_world_camera = [[...], [...], [...], [0, 0, 0, 1]]
limits = { speed = 0.1, workspace = { low = [0.05, -0.4, 0.0], high = [0.5, 0.4, 0.5] } }
station = { travel_height = 0.25 }

[loop]                         # see `LoopSettings`
budget = 12
"""

import inspect
import tomllib
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np

from cpor.errors import InvalidSettingError, RobotError
from cpor.plugins import ROBOTS, load_plugin, make_plugin
from cpor.robot.arm import RtdeArm
from cpor.robot.cameras import FrameCamera, open_camera
from cpor.robot.cycle import LoopSettings
from cpor.robot.dry_arm import DryRunArm
from cpor.robot.grasps import GraspFinder
from cpor.robot.grippers import DryRunGripper, GripperDevice, RobotiqGripper
from cpor.robot.limits import Box, Limits
from cpor.robot.protocol import Robot
from cpor.robot.ur import Station, UniversalRobot

_Kind = TypeVar("_Kind")


def read_robot_file(path: Path | None) -> tuple[dict[str, Any], LoopSettings]:
    """Options of the robot, and settings of the loop; the defaults where there is no file.

    Raises:
        InvalidSettingError: It cannot be read, or holds something else.
    """
    if path is None:
        return {}, LoopSettings()
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidSettingError(f"cannot read {path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidSettingError(f"{path} is no TOML: {error}") from None
    if other := set(content) - {"robot", "loop"}:
        raise InvalidSettingError(f"{path} has {min(other)!r}; it takes the tables [robot] and [loop]")
    return dict(content.get("robot", {})), fill(LoopSettings, content.get("loop", {}), "[loop]")


def can_run_dry(name: str) -> bool:
    """Whether a robot takes the option `dry_run`."""
    made = load_plugin(ROBOTS, name)
    return callable(made) and "dry_run" in inspect.signature(made).parameters


def open_robot(name: str, options: Mapping[str, Any], live: bool) -> Robot:
    """A robot by name, dry unless it is wanted live; the simulated one moves nothing real.

    Raises:
        InvalidSettingError: It cannot run dry, and is not wanted live.
    """
    if "dry_run" in options:
        raise InvalidSettingError("leave dry_run out of the file; --live says that the arm may move")
    takes_dry = can_run_dry(name)
    robot = make_robot(name, **options, **({"dry_run": not live} if takes_dry else {}))
    if not (live or takes_dry or getattr(robot, "is_simulated", False)):
        raise InvalidSettingError(
            f"the robot {name!r} has no dry run (option dry_run); say --live to move it"
        )
    return robot


def build_ur(
    host: str,
    camera: str | FrameCamera = "realsense",
    gripper: str | GripperDevice | None = None,
    T_world_camera: list[list[float]] | None = None,
    limits: Limits | Mapping[str, Any] | None = None,
    station: Station | Mapping[str, Any] | None = None,
    payload_kg: float = 1.0,
    dry_run: bool = True,
    grasps: GraspFinder | None = None,
) -> UniversalRobot:
    """The robot `ur`, from plain values or objects. Run it dry first: it logs every motion and sends none.

    Args:
        host: Address of the controller.
        camera: Name of a camera, such as `realsense` or a folder of frames (`open_camera`), or a camera whose
            frames have `T_world_camera`.
        gripper: `robotiq`, or a gripper; none is needed in a dry run.
        T_world_camera: Pose of a camera that is named, row by row. [m]
        limits: Where and how fast: `Limits`, or its fields.
        station: Where things are: `Station`, or its fields.
        payload_kg: Mass of the gripper. [kg]
        dry_run: Move nothing.
        grasps: Finds grasps; `find_grasps` by default.

    Raises:
        RobotError: The controller cannot be reached, or there is no gripper to work with.
    """
    if isinstance(camera, str):
        camera = open_camera(camera, None if T_world_camera is None else np.array(T_world_camera, np.float64))
    if isinstance(gripper, str):
        if gripper != "robotiq":
            raise InvalidSettingError(f"unknown gripper {gripper!r}; known is: robotiq")
        gripper = None if dry_run else RobotiqGripper(host)
    bounds, places = make_limits(limits), make_station(station)
    if dry_run:
        look = np.linalg.inv(places.T_world_base) @ places.T_world_look
        return UniversalRobot(DryRunArm(look, look), camera, DryRunGripper(), bounds, places, grasps=grasps)
    if gripper is None:
        raise RobotError("a real arm needs a gripper: give a RobotiqGripper or a DigitalOutputGripper")
    arm = RtdeArm(host, places.T_flange_tool, payload_kg)
    return UniversalRobot(arm, camera, gripper, bounds, places, grasps=grasps)


def make_limits(limits: Limits | Mapping[str, Any] | None) -> Limits:
    """`Limits` from plain values."""
    if isinstance(limits, Limits):
        return limits
    bounds = dict(limits or {})
    if "workspace" in bounds:
        bounds["workspace"] = _box(bounds["workspace"])
    if "keep_out" in bounds:
        bounds["keep_out"] = tuple(_box(each) for each in bounds["keep_out"])
    return fill(Limits, bounds, "limits")


def make_station(station: Station | Mapping[str, Any] | None) -> Station:
    """`Station` from plain values."""
    if isinstance(station, Station):
        return station
    places = {
        key: np.array(value, np.float64) if key.startswith("T_") else value
        for key, value in dict(station or {}).items()
    }
    return fill(Station, places, "station")


def _box(written: Any) -> Box:
    if isinstance(written, Box):
        return written
    plain = {key: tuple(value) if isinstance(value, list) else value for key, value in dict(written).items()}
    return fill(Box, plain, "a box of the limits")


def fill(kind: type[_Kind], values: Any, where: str) -> _Kind:
    """An object of ours from a table of a file, which messages call `where`.

    Raises:
        InvalidSettingError: It has other fields.
    """
    known = {each.name for each in fields(cast(Any, kind))}
    if not isinstance(values, Mapping) or (other := set(values) - known):
        what = f"has {min(other)!r}; it" if isinstance(values, Mapping) else "must be a table; it"
        raise InvalidSettingError(f"{where} {what} takes: {', '.join(sorted(known))}")
    try:
        return kind(**values)
    except TypeError as error:
        raise InvalidSettingError(f"{where}: {error}") from None


def make_robot(name: str, **options: object) -> Robot:
    """The robot of a name, or of `module:attribute`.

    Raises:
        InvalidSettingError: No such robot, or other options than it takes.
    """
    return cast(Robot, make_plugin(ROBOTS, name, **options))
