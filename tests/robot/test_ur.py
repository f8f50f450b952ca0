"""A UR as a robot: dry by default, grasps in order, and what is held is not dropped."""

from dataclasses import replace

import numpy as np
import pytest
from robot.ur_cell import TOOL, one_box
from support.box_table import OverTheTable, TableMasks
from support.plain_system import plain_system

from cpor.errors import CameraError, RobotError
from cpor.robot import arm as arms
from cpor.robot.arm import MotionStoppedError, from_ur_pose, to_ur_pose
from cpor.robot.cameras import FrameCamera
from cpor.robot.cycle import LoopSettings
from cpor.robot.dry_arm import DryRunArm
from cpor.robot.grippers import DryRunGripper
from cpor.robot.limits import Box as Region
from cpor.robot.limits import Limits
from cpor.robot.loop import retrieve
from cpor.robot.protocol import Robot
from cpor.robot.robot_file import build_ur
from cpor.robot.ur import LOOK_JOINTS, Station, facing_down


def dry(camera=None, **options):
    options.setdefault("limits", None)
    return build_ur("192.0.2.1", camera or OverTheTable(one_box()), **options)


def see(robot):
    return TableMasks(robot.camera.table).segment(robot.observe())


def test_it_is_a_robot_and_dry_by_default():
    robot = dry()
    assert isinstance(robot, Robot) and isinstance(robot.arm, DryRunArm)
    assert isinstance(robot.camera, FrameCamera) and "nothing moves" in robot.status().detail


def test_a_dry_grasp_approaches_closes_lifts_and_delivers_in_order():
    robot = dry()
    outcome = robot.grasp(see(robot), 1)
    assert outcome.kind == "done"
    assert [m.split()[0] for m in robot.gripper.motions] == ["open", "close", "open"]
    lines = [m for m in robot.arm.motions if m.startswith("line")]
    heights = [float(m.split(", ")[2].split(")")[0]) for m in lines]
    down = heights.index(min(heights))
    assert 0.0 <= heights[down] < 0.04 and heights[down + 2] >= robot.station.travel_height - 1e-6
    assert "(0.100, -0.340, 0.100)" in lines[6]
    assert robot.arm.motions[-1].startswith("joints") and robot.arm.motions[0].startswith("joints")
    slow = [m for m in lines if "at 0.030 m/s" in m]
    assert lines[down] in slow and lines[0] not in slow


def test_removing_goes_to_the_other_place():
    robot = dry()
    assert robot.remove(see(robot), 1).kind == "done"
    assert any("(0.100, 0.340, 0.100)" in m for m in robot.arm.motions)


def test_a_grasp_outside_of_the_workspace_is_unreachable_and_nothing_moves():
    small = Limits(Region((0.05, -0.42, 0.06), (0.5, 0.42, 0.5), "the workspace"))
    robot = dry(limits=small)
    scene = see(robot)
    before = list(robot.arm.motions)
    outcome = robot.grasp(scene, 1)
    assert outcome.kind == "unreachable" and "outside of the workspace" in outcome.detail
    assert robot.arm.motions == before


def test_a_forbidden_box_on_the_way_is_unreachable_and_nothing_moves():
    post = Region((0.2, -0.3, 0.0), (0.5, -0.15, 0.5), "the camera post")
    robot = dry(limits=Limits(keep_out=(post,)))
    scene = see(robot)
    before = list(robot.arm.motions)
    assert "camera post" in robot.grasp(scene, 1).detail and robot.arm.motions == before
    assert robot.remove(scene, 1).kind == "done"


def test_beyond_reach_is_unreachable():
    robot = dry()
    scene = see(robot)
    robot.arm.reach = 0.3
    assert "no posture" in robot.grasp(scene, 1).detail


def test_places_outside_of_the_limits_are_refused_at_once():
    with pytest.raises(RobotError, match="outside of the workspace"):
        dry(station=Station(T_world_deliver=facing_down(0.9, 0.0, 0.1)))


def test_without_depth_there_is_no_grasp():
    robot = dry()
    scene = see(robot)
    blind = replace(scene, observation=replace(scene.observation, depth=None))
    assert robot.grasp(blind, 1).kind == "no_grasp"


class Slippery(DryRunGripper):
    """Loses what it holds at the n-th question."""

    lose_at = 1

    def holding(self):
        if not super().holding():
            return False
        self.lose_at -= 1
        return self.lose_at > 0


@pytest.mark.parametrize(("lose_at", "kind"), [(1, "missed"), (3, "dropped")])
def test_an_empty_gripper_is_missed_or_dropped_never_done(lose_at, kind):
    robot = dry()
    scene = see(robot)
    robot.gripper = Slippery()
    robot.gripper.lose_at = lose_at
    assert robot.grasp(scene, 1).kind == kind
    assert robot.gripper.motions[-1] == "open" and robot.arm.motions[-1].startswith("joints")
    assert not any("-0.340, 0.100" in m for m in robot.arm.motions)


def test_after_stop_nothing_moves_until_home():
    robot = dry()
    scene = see(robot)
    robot.stop()
    before = len(robot.arm.motions)
    assert robot.grasp(scene, 1).kind == "stopped" and robot.status().state == "stopped"
    with pytest.raises(MotionStoppedError):
        robot.observe()
    assert len(robot.arm.motions) == before
    assert robot.home().kind == "done" and robot.status().state == "ready"
    assert robot.grasp(scene, 1).kind == "done"


@pytest.mark.parametrize("can_tell", [True, False])
def test_what_is_held_at_a_stop_is_put_aside_by_home_not_dropped_over_the_heap(can_tell):
    robot = dry()
    scene = see(robot)
    if not can_tell:
        robot.gripper.holding = lambda: None
    close = robot.gripper.close
    robot.gripper.close = lambda: (close(), robot.stop())
    assert robot.grasp(scene, 1).kind == "stopped"
    robot.gripper.close = close
    robot.arm.motions = robot.gripper.motions = done = []
    assert robot.grasp(scene, 1).kind == "stopped" and done == []
    outcome = robot.home()
    assert outcome.kind == "done" and "put aside" in outcome.detail
    let_go = done.index("open")
    assert "(0.100, 0.340, 0.100)" in done[let_go - 1] and "(0.100, 0.340, 0.250)" in done[let_go - 2]
    assert done[-1].startswith("joints") and robot.home().detail == "in the looking posture"
    assert robot.grasp(scene, 1).kind == "done"


def test_a_pick_without_home_after_a_fault_does_not_open_what_may_be_full():
    robot = dry()
    scene = see(robot)
    lift, robot.arm.move_line = robot.arm.move_line, None
    lines = []

    def fails_at_the_lift(T, speed, acceleration):
        lines.append(1)
        if len(lines) == 5:
            raise arms.ArmFaultError("protective stop")
        lift(T, speed, acceleration)

    robot.arm.move_line = fails_at_the_lift
    assert robot.grasp(scene, 1).kind == "fault"
    said = len(robot.gripper.motions)
    outcome = robot.remove(scene, 1)
    assert outcome.kind == "stopped" and "call home" in outcome.detail and len(robot.gripper.motions) == said


def test_a_gripper_that_feels_nothing_just_opens_on_the_way_home():
    robot = dry()
    robot.allow_emptying()
    assert robot.home().kind == "done" and robot.gripper.motions == ["open"]
    assert not any("0.340" in m for m in robot.arm.motions)


def test_the_loop_runs_dry_and_says_so_when_nothing_changes():
    robot = dry()
    result = retrieve(robot, plain_system(TableMasks(robot.camera.table)), 1)
    assert result.ended == "deferred" and result.actions == LoopSettings().failures_before_asking
    assert "a dry run: nothing moved" in " ".join(result.cycles[0].notes)


def test_the_loop_ends_stopped_when_the_arm_is_stopped_on_its_way_to_look():
    robot = dry()
    robot.camera.frame, frame = lambda: (robot.stop(), frame())[1], robot.camera.frame
    result = retrieve(robot, plain_system(TableMasks(robot.camera.table)), 1)
    assert result.ended == "stopped" and robot.status().state == "stopped"


def test_the_looking_posture_is_where_the_station_says():
    d, a = (0.15185, 0, 0, 0.13105, 0.08535, 0.0921), (0, -0.24355, -0.2132, 0, 0, 0)
    T = np.eye(4)
    for k, alpha in enumerate((np.pi / 2, 0, 0, np.pi / 2, -np.pi / 2, 0)):
        c, s, ca, sa = np.cos(LOOK_JOINTS[k]), np.sin(LOOK_JOINTS[k]), np.cos(alpha), np.sin(alpha)
        T = T @ np.array(
            [[c, -s * ca, s * sa, a[k] * c], [s, c * ca, -c * sa, a[k] * s], [0, sa, ca, d[k]], [0, 0, 0, 1]]
        )
    np.testing.assert_allclose(T @ TOOL, Station().T_world_look, atol=2e-3)


def test_a_real_arm_needs_a_gripper_and_an_answer():
    camera = OverTheTable(one_box())
    with pytest.raises(RobotError, match="needs a gripper"):
        build_ur("127.0.0.1", camera, dry_run=False)
    with pytest.raises(RobotError, match=r"cpor-grasp\[robot\]|no UR answers"):
        build_ur("127.0.0.1", camera, DryRunGripper(), dry_run=False)


def test_ur_poses_go_there_and_back(rng):
    pose = from_ur_pose(np.array([0.3, -0.1, 0.2, 0.4, 2.0, -1.0]))
    np.testing.assert_allclose(from_ur_pose(to_ur_pose(pose)), pose, atol=1e-12)


def test_a_camera_that_fails_is_a_camera_error():
    robot = dry()

    def fail():
        raise CameraError("no frame")

    robot.camera.frame = fail
    with pytest.raises(CameraError):
        robot.observe()
