"""One suite for every robot: what the loop relies on, whoever the robot is."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import get_args

import numpy as np
import pytest

from cpor.errors import CporError
from cpor.robot.protocol import Outcome, OutcomeKind, Robot, RobotState
from cpor.scene import Observation, Scene
from cpor.sim.simulator_masks import SimulatorMasks
from tests.support.arm_cell import arm_world, at, named, robot_in


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


CELLS = {"simulated": simulated}


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
    assert cell.robot.status().state == "stopped"
    assert cell.robot.grasp(scene, 1).kind == "stopped"
    assert cell.robot.remove(scene, 2).kind == "stopped"
    assert cell.robot.status().state == "stopped"
    assert set(cell.segment(cell.robot.observe()).ids) == {1, 2}
    assert cell.robot.home().kind == "done"
    assert cell.robot.status().state == "ready"


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
    with pytest.raises(CporError):
        cell.robot.grasp(flat, 1)
    assert cell.robot.status().state != "moving"
    assert cell.robot.home().kind == "done"
