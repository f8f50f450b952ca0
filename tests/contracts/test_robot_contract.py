"""One suite for every robot: what the loop relies on, whoever the robot is."""

from dataclasses import dataclass

import numpy as np
import pytest

from cpor.perception.segmenter import Segmenter
from cpor.robot.dry_arm import DryRunArm
from cpor.robot.protocol import Outcome, Robot
from cpor.robot.ur import Station, UniversalRobot
from cpor.sim.arm.simulated_robot import SimulatorMasks
from cpor.testing import check_robot
from tests.support.arm_cell import arm_world, at, named, robot_in
from tests.support.box_table import Box, BoxTable, OverTheTable, TableMasks


def simulated() -> tuple[Robot, Segmenter]:
    world = arm_world(
        {1: (named("red cube"), at(0.05, 0, 0.025)), 2: (named("blue L block"), at(-0.05, 0, 0.02))}
    )
    robot = robot_in(world)
    return robot, SimulatorMasks(robot)


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


def box_table() -> tuple[Robot, Segmenter]:
    table = Careful(boxes())
    return table, TableMasks(table)


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


def universal() -> tuple[Robot, Segmenter]:
    table = BoxTable(boxes())
    look = Station().T_world_look
    arm = DryRunArm(look, look)
    robot = UniversalRobot(arm, OverTheTable(table), TakingGripper(table, arm))
    return robot, TableMasks(table)


CELLS = {"simulated": simulated, "universal": universal, "box_table": box_table}


@pytest.mark.parametrize("make", CELLS.values(), ids=CELLS.keys())
def test_it_keeps_the_rules(make):
    check_robot(make)


@pytest.mark.parametrize("make", CELLS.values(), ids=CELLS.keys())
def test_a_heartbeat_neither_moves_the_arm_nor_clears_a_stop(make):
    robot, segmenter = make()
    robot.heartbeat()
    assert robot.status().state == "ready"
    scene = segmenter.segment(robot.observe())
    robot.stop()
    robot.heartbeat()
    assert robot.status().state == "stopped" and robot.grasp(scene, scene.ids[0]).kind == "stopped"


@pytest.mark.parametrize("make", CELLS.values(), ids=CELLS.keys())
def test_each_picture_is_newer_than_the_one_before(make):
    robot, _ = make()
    first, second = robot.observe(), robot.observe()
    assert first.number is not None and second.number > first.number
    assert first.time_s is not None and second.time_s >= first.time_s
    now = robot.status().time_s
    assert now is None or second.time_s <= now
