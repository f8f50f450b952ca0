"""The arm of Universal Robots itself: motions that end, brake or fail, against a controller of ours."""

import re
import threading
from pathlib import Path

import numpy as np
import pytest
from robot.ur_cell import TOOL, Progress, one_box
from support.box_table import OverTheTable, TableMasks

from cpor.errors import RobotError
from cpor.robot import arm as arms
from cpor.robot.arm import MotionStoppedError, RtdeArm, to_ur_pose
from cpor.robot.grippers import DryRunGripper
from cpor.robot.safe_stop import stopping
from cpor.robot.ur import LOOK_JOINTS, UniversalRobot, facing_down


class Controller:
    """A UR controller as ur-rtde shows it: motions take a few looks; it can stop itself on the way."""

    def __init__(self):
        self.tcp = np.zeros(6)
        self.joints = np.zeros(6)
        self.goal = None
        self.looks_left = self.count = 0
        self.bits = 1
        self.connected = self.program = True
        self.calls = []
        self.on_look = lambda: None

    def __getattr__(self, name):
        def call(*args):
            self.calls.append(name)
            return True

        return call

    def moveL(self, goal, speed, acceleration, asynchronous):
        assert asynchronous
        self.calls.append("moveL")
        self.goal, self.looks_left, self.count = ("tcp", np.array(goal)), 3, self.count + 1
        return True

    def moveJ(self, goal, speed, acceleration, asynchronous):
        self.calls.append("moveJ")
        self.goal, self.looks_left, self.count = ("joints", np.array(goal)), 3, self.count + 1
        return True

    def getAsyncOperationProgressEx(self):
        if self.goal is not None:
            self.on_look()
            self.looks_left -= 1
            if self.looks_left <= 0 and self.goal is not None:
                setattr(self, *self.goal)
                self.goal = None
        return Progress(self.count, self.goal is not None)

    def stopL(self):
        self.calls.append("stopL")
        self.goal = None

    def getActualTCPPose(self):
        return self.tcp.tolist()

    def getActualQ(self):
        return self.joints.tolist()

    def getSafetyStatusBits(self):
        return self.bits

    def getRobotMode(self):
        return 7

    def isConnected(self):
        return self.connected

    def isProgramRunning(self):
        return self.program


@pytest.fixture
def ur():
    controller = Controller()
    arm = RtdeArm("192.0.2.1", TOOL, 1.0, links=(controller, controller, controller))
    arm._dead_man._late_s = 60.0  # of a loaded machine nothing is to be late
    with stopping(arm):
        yield arm, controller
    arm.close()


def test_a_real_motion_ends_where_it_should(ur):
    arm, controller = ur
    goal = facing_down(0.3, 0.1, 0.2)
    arm.move_line(goal, 0.1, 0.3)
    np.testing.assert_allclose(arm.pose(), goal, atol=1e-12)
    arm.move_joints(LOOK_JOINTS, 0.5, 0.8)
    assert arm.status().state == "ready" and "stopL" not in controller.calls


def test_stop_from_another_thread_brakes_a_motion(ur):
    arm, controller = ur
    controller.on_look = lambda: (threading.Thread(target=arm.stop).start(), arm._halted.wait(60.0))
    with pytest.raises(MotionStoppedError):
        arm.move_line(facing_down(0.3, 0.1, 0.2), 0.1, 0.3)
    assert "stop" in controller.calls and arm.status().state == "stopped"
    with pytest.raises(MotionStoppedError):
        arm.move_line(facing_down(0.3, 0.1, 0.2), 0.1, 0.3)
    arm.resume()
    controller.on_look = lambda: None
    arm.move_line(facing_down(0.3, 0.1, 0.2), 0.1, 0.3)


def test_ctrl_c_brakes_a_motion(ur):
    arm, controller = ur

    def press():
        controller.on_look = lambda: None
        raise KeyboardInterrupt

    controller.on_look = press
    with pytest.raises(KeyboardInterrupt):
        arm.move_line(facing_down(0.3, 0.1, 0.2), 0.1, 0.3)
    assert "stopL" in controller.calls


@pytest.mark.parametrize(("bit", "name"), [(2, "protective stop"), (4, "safeguard"), (7, "emergency")])
def test_an_arm_that_stops_itself_is_a_fault_and_is_never_unlocked(ur, bit, name):
    arm, controller = ur

    def hit():
        controller.bits = 1 << bit

    controller.on_look = hit
    robot = UniversalRobot(arm, OverTheTable(one_box()), DryRunGripper())
    scene = TableMasks(robot.camera.table).segment(robot.camera.frame())
    controller.tcp = to_ur_pose(facing_down(0.3, 0.0, 0.3))
    outcome = robot.grasp(scene, 1)
    assert outcome.kind == "fault" and name in outcome.detail
    assert robot.status().state == "protective_stop" and robot.home().kind == "fault"
    assert not any("nlock" in call or "reupload" in call for call in controller.calls)


def test_after_a_person_cleared_the_stop_home_loads_the_script_anew(ur):
    arm, controller = ur
    robot = UniversalRobot(arm, OverTheTable(one_box()), DryRunGripper())
    controller.program = False
    assert robot.home().kind == "done" and "reuploadScript" in controller.calls


def test_a_lost_connection_is_said(ur):
    arm, controller = ur
    controller.connected = False
    assert arm.status().state == "disconnected"
    with pytest.raises(RobotError, match="no connection"):
        arm.move_line(facing_down(0.3, 0.1, 0.2), 0.1, 0.3)


def test_a_motion_that_ends_short_is_a_fault(ur):
    arm, controller = ur

    def push():
        controller.goal = ("tcp", to_ur_pose(facing_down(0.3, 0.1, 0.25)))

    controller.on_look = push
    with pytest.raises(RobotError, match=r"ended 50\.0 mm"):
        arm.move_line(facing_down(0.3, 0.1, 0.2), 0.1, 0.3)


def test_a_connection_that_breaks_on_the_way_is_a_fault_of_ours_and_braking_is_tried(ur):
    arm, controller = ur

    def broken():
        controller.getSafetyStatusBits = lambda: (_ for _ in ()).throw(RuntimeError("read: end of file"))

    controller.on_look = broken
    with pytest.raises(arms.ArmFaultError, match=r"192\.0\.2\.1 failed in getSafetyStatusBits.*end of file"):
        arm.move_line(facing_down(0.3, 0.1, 0.2), 0.1, 0.3)
    assert "stopL" in controller.calls


def test_a_broken_connection_in_a_pick_is_its_outcome(ur):
    arm, controller = ur
    robot = UniversalRobot(arm, OverTheTable(one_box()), DryRunGripper())
    scene = TableMasks(robot.camera.table).segment(robot.camera.frame())
    controller.tcp = to_ur_pose(facing_down(0.3, 0.0, 0.3))
    controller.isPoseWithinSafetyLimits = lambda pose: (_ for _ in ()).throw(RuntimeError("not connected"))
    outcome = robot.grasp(scene, 1)
    assert outcome.kind == "fault" and "not connected" in outcome.detail


def test_every_call_exists_in_ur_rtde():
    control = pytest.importorskip("rtde_control").RTDEControlInterface
    receive = pytest.importorskip("rtde_receive").RTDEReceiveInterface
    dashboard = pytest.importorskip("dashboard_client").DashboardClient
    source = Path(arms.__file__).read_text()
    for name in set(re.findall(r"_control\.(\w+)", source)):
        assert hasattr(control, name), name
    for name in set(re.findall(r"_receive\.(\w+)", source)):
        assert hasattr(receive, name), name
    for name in {"connect", *re.findall(r"_dashboard\.(\w+)", source)}:
        assert hasattr(dashboard, name), name


ODD = (
    None,
    True,
    False,
    0,
    -1,
    4,
    7.0,
    1024,
    2**40,
    float("nan"),
    float("inf"),
    "",
    "normal",
    b"1",
    [],
    [1],
    {},
    object(),
)


def test_only_the_normal_and_the_reduced_mode_let_the_arm_move(ur):
    arm, controller = ur
    for bits in (1, 2, 3):
        controller.bits = bits
        assert arm.status().state == "ready"
    for bits in (*ODD, *(1 << k for k in range(2, 32)), *(1 | 1 << k for k in range(2, 32))):
        controller.bits = bits
        assert arm.status().state == "protective_stop", bits
        with pytest.raises(RobotError):
            arm.move_line(facing_down(0.3, 0.1, 0.2), 0.1, 0.3)
    assert "moveL" not in controller.calls


@pytest.mark.parametrize("name", ["getRobotMode", "isConnected"])
def test_an_odd_report_of_the_controller_moves_nothing(ur, name):
    arm, controller = ur
    for odd in ODD:
        if (odd is True and name == "isConnected") or (odd == 7 and name == "getRobotMode"):
            continue
        setattr(controller, name, lambda odd=odd: odd)
        assert arm.status().state in ("protective_stop", "disconnected"), odd
        with pytest.raises(RobotError):
            arm.move_line(facing_down(0.3, 0.1, 0.2), 0.1, 0.3)
    assert "moveL" not in controller.calls


@pytest.mark.parametrize("odd", [None, [], [1, 2, 3], [float("nan")] * 6, ["a"] * 6, "abcdef", {}])
def test_a_pose_that_is_none_is_a_fault_and_no_arrival(ur, odd):
    arm, controller = ur
    controller.getActualTCPPose = controller.getActualQ = lambda: odd
    with pytest.raises(arms.ArmFaultError, match="getActualTCPPose"):
        arm.move_line(facing_down(0.3, 0.1, 0.2), 0.1, 0.3)
    with pytest.raises(arms.ArmFaultError, match="getActualQ"):
        arm.move_joints(LOOK_JOINTS, 0.5, 0.8)
