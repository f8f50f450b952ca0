"""One suite for every robot: what the loop relies on, whoever the robot is."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import get_args

import numpy as np
import pytest

from cpor.errors import CporError
from cpor.robot.arm import DryRunArm
from cpor.robot.protocol import Outcome, OutcomeKind, Robot, RobotState
from cpor.robot.ur import Station, UniversalRobot
from cpor.scene import Observation, Scene
from cpor.sim.dataset.simulator_masks import SimulatorMasks
from tests.support.arm_cell import arm_world, at, named, robot_in
from tests.support.box_table import Box, BoxTable, TableMasks


@dataclass
class Cell:
    """A robot before two objects with a free way to them, and who finds them in its pictures."""

    robot: Robot
    segment: Callable[[Observation], Scene]


def simulated() -> Cell:
    world = arm_world(
        {1: (named("red cube"), at(0.05, 0, 0.025)), 2: (named("blue L block"), at(-0.05, 0, 0.02))}
    )
    robot = robot_in(world)
    return Cell(robot, SimulatorMasks(robot).segment)


class Careful(BoxTable):
    """Boxes on a table, and a robot that knows what it cannot take."""

    def _take(self, scene, obj, verb):
        if self.stopped.is_set():
            return Outcome("stopped", "the robot was stopped before")
        if scene.observation.depth is None or not (scene.visible_ids == obj).any():
            return Outcome("no_grasp", "nothing to close on")
        return super()._take(scene, obj, verb)


def boxes() -> dict[int, Box]:
    """Two where a UR3e reaches them, so small that its gripper can go around them."""
    return {1: Box((40, 56), (54, 66), 0.04, (200, 30, 30)), 2: Box((40, 56), (24, 36), 0.04, (30, 30, 200))}


def box_table() -> Cell:
    table = Careful(boxes())
    return Cell(table, TableMasks(table).segment)


@dataclass
class OverTheTable:
    """A camera over boxes before the arm."""

    table: BoxTable

    def frame(self) -> Observation:
        frame = self.table.observe()
        pose = np.array(frame.camera.T_world_camera)
        pose[0, 3] = 0.35
        return replace(frame, camera=replace(frame.camera, T_world_camera=pose))


@dataclass
class TakingGripper:
    """Takes the box between its fingers off the table; the world for an arm that only writes down."""

    table: BoxTable
    arm: DryRunArm
    held: Box | None = None

    def open(self, width: float | None = None) -> None:
        self.held = None

    def close(self) -> None:
        camera = OverTheTable(self.table).frame().camera
        x, y, z = (np.linalg.inv(camera.T_world_camera) @ self.arm.pose()[:, 3])[:3]
        row, col = round(camera.intrinsics.cy + 200.0 * y / z), round(camera.intrinsics.cx + 200.0 * x / z)
        here = [k for k, box in self.table.boxes.items() if box.mask()[row, col]]
        self.held = self.table.boxes.pop(here[0]) if here else None

    def holding(self) -> bool:
        return self.held is not None


def universal() -> Cell:
    table = BoxTable(boxes())
    look = Station().T_world_look
    arm = DryRunArm(look, look)
    robot = UniversalRobot(arm, OverTheTable(table), TakingGripper(table, arm))
    return Cell(robot, TableMasks(table).segment)


CELLS = {"simulated": simulated, "universal": universal, "box_table": box_table}


@pytest.fixture(params=CELLS.values(), ids=CELLS.keys())
def cell(request) -> Cell:
    return request.param()


def test_is_a_robot(cell):
    assert isinstance(cell.robot, Robot)
    status = cell.robot.status()
    assert status.state in get_args(RobotState)
    assert status.state == "ready"
    assert status.detail


def test_picture_has_colour_depth_and_calibration(cell):
    seen = cell.robot.observe()
    assert seen.rgb.dtype == np.uint8
    assert seen.depth is not None and np.isfinite(seen.depth).mean() > 0.5
    assert seen.camera.intrinsics is not None and seen.camera.T_world_camera is not None


def test_what_is_removed_or_grasped_is_gone_from_the_next_picture(cell):
    for act, obj in ((cell.robot.remove, 1), (cell.robot.grasp, 2)):
        outcome = act(cell.segment(cell.robot.observe()), obj)
        assert isinstance(outcome, Outcome)
        assert outcome.kind == "done", outcome.detail
        assert outcome.detail and outcome.duration_s > 0.0
        assert obj not in cell.segment(cell.robot.observe()).ids
        assert cell.robot.status().state == "ready"


def test_after_stop_nothing_moves_until_home(cell):
    scene = cell.segment(cell.robot.observe())
    cell.robot.stop()
    cell.robot.stop()
    assert cell.robot.status().state == "stopped" and "stop" in cell.robot.status().detail
    assert cell.robot.grasp(scene, 1).kind == "stopped"
    assert cell.robot.remove(scene, 2).kind == "stopped"
    assert cell.robot.status().state == "stopped"
    assert cell.robot.home().kind == "done"
    assert cell.robot.status().state == "ready"
    assert set(cell.segment(cell.robot.observe()).ids) == {1, 2}


def test_home_twice_is_fine(cell):
    assert cell.robot.home().kind == "done"
    assert cell.robot.home().kind == "done"


def test_object_without_a_pixel_is_not_reported_as_done(cell):
    scene = cell.segment(cell.robot.observe())
    unseen = Scene(scene.observation, scene.objects, np.zeros_like(scene.visible_ids))
    outcome = cell.robot.remove(unseen, 1)
    assert outcome.kind in get_args(OutcomeKind) and outcome.kind != "done"
    assert cell.robot.status().state == "ready"


def test_scene_without_depth_is_refused_and_leaves_the_arm_at_rest(cell):
    scene = cell.segment(cell.robot.observe())
    flat = Scene(Observation(scene.observation.rgb), scene.objects, scene.visible_ids)
    try:
        outcome = cell.robot.grasp(flat, 1)
    except CporError:
        pass  # to refuse aloud will do as well
    else:
        assert outcome.kind == "no_grasp"
    assert cell.robot.status().state != "moving"
    assert cell.robot.home().kind == "done"
