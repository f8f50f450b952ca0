"""What a robot reports is believed only where it proves it; one program drives it at a time."""

import json
import math
import random
import subprocess
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import get_args

import numpy as np
import pytest
from robot.ur_cell import one_box
from support.box_table import Box, BoxTable, OverTheTable, TableMasks
from support.plain_system import plain_system

from cpor.errors import CameraError, RobotError
from cpor.robot.checked import check_outcome, check_status, checked, why_it_must_stay
from cpor.robot.cycle import LoopSettings
from cpor.robot.dry_arm import DryRunArm
from cpor.robot.grippers import DryRunGripper
from cpor.robot.loop import retrieve
from cpor.robot.protocol import Outcome, OutcomeKind, RobotState, RobotStatus
from cpor.robot.safe_stop import Left, stopping
from cpor.robot.ur import Station, UniversalRobot
from cpor.scene import Scene

ODD = (
    *(None, True, False, 0, 1, -1, 2.5, float("nan"), float("inf"), -float("inf"), 1 + 2j),
    *("", "ready ", "READY", "emergency_stop", "moving", "stopped", "ready", "done", "idle", b"ready"),
    *(
        [],
        ["ready"],
        {},
        {"state": "ready"},
        object(),
        ("ready",),
        np.float32(1.5),
        np.nan,
        np.array(["ready"]),
    ),
)


def table():
    return BoxTable({1: Box((40, 56), (54, 66), 0.04, (200, 30, 30))})


class Reports(BoxTable):
    """A robot with a report of choice."""

    report: object = None

    def status(self):
        return self.report


def is_sound(status):
    return (
        isinstance(status.state, str)
        and status.state in get_args(RobotState)
        and (status.holding is None or isinstance(status.holding, bool))
        and isinstance(status.dry_run, bool)
        and isinstance(status.detail, str)
        and (status.time_s is None or type(status.time_s) is not bool)
        and (status.time_s is None or isinstance(status.time_s, int | float | np.floating))
        and (status.time_s is None or math.isfinite(status.time_s))
    )


def test_a_thousand_states_send_the_robot_only_when_it_is_ready(evidence):
    rng, sent, passed = random.Random(29), 0, 0
    there = table()
    scene = TableMasks(there).segment(there.observe())
    for _ in range(1_000):
        robot = Reports({1: Box((40, 56), (54, 66), 0.04, (200, 30, 30))})
        if rng.random() < 0.1:
            robot.report = rng.choice(ODD)
        else:
            usual = {
                "state": "ready",
                "detail": "at rest",
                "holding": False,
                "dry_run": False,
                "time_s": None,
            }
            odd = {name: rng.choice(ODD) for name in usual if rng.random() < 0.3}
            robot.report = RobotStatus(**(usual | odd))
        may = (
            isinstance(robot.report, RobotStatus) and is_sound(robot.report) and robot.report.state == "ready"
        )
        with suppress(RobotError):
            outcome = checked(robot).grasp(scene, 1)
            assert robot.log or outcome.kind in ("stopped", "fault")
        was_sent = bool(robot.log)
        assert was_sent <= may, robot.report
        sent += was_sent and not may
        passed += was_sent
    assert passed > 100
    evidence("safe", "robot states at random: sent where the robot did not report a sound `ready`", "0", sent)


@pytest.mark.parametrize("kind", [None, "success", "DONE", 1, b"done", ["done"]])
def test_an_outcome_that_means_nothing_is_an_error(kind):
    with pytest.raises(RobotError, match="known are: done"):
        check_outcome(Outcome(kind, "said"))
    for outcome in (None, True, {"kind": "done"}):
        with pytest.raises(RobotError, match="must give Outcome"):
            check_outcome(outcome)
    for wrong in ({"duration_s": float("nan")}, {"duration_s": -1.0}, {"holding": 1}, {"duration_s": None}):
        with pytest.raises(RobotError, match="reports"):
            check_outcome(replace(Outcome("done", "said"), **wrong))
    for known in get_args(OutcomeKind):
        check_outcome(Outcome(known, "said", 1.0, True))
    check_status(RobotStatus("ready", "at rest", time_s=np.float32(3)))


def test_the_clock_must_advance():
    robot = Reports(table().boxes)
    scene = TableMasks(robot).segment(robot.observe())
    believed = checked(robot)
    robot.report = RobotStatus("ready", "at rest", False, time_s=5.0)
    assert believed.status().time_s == 5.0
    with pytest.raises(RobotError, match="stood still at 5"):
        believed.grasp(scene, 1)
    for back in (4.9, None, float("nan")):
        robot.report = replace(robot.report, time_s=back)
        with pytest.raises(RobotError, match=r"clock went|finite"):
            believed.status()


def test_what_is_no_frame_is_a_lost_frame():
    class Blind(BoxTable):
        def observe(self):
            return None

    with pytest.raises(CameraError, match="must give Observation"):
        checked(Blind({})).observe()


def test_two_loops_do_not_drive_one_robot():
    robot = table()
    with stopping(robot), pytest.raises(RobotError, match="another loop"), stopping(checked(robot)):
        pass
    with stopping(robot):
        pass


@pytest.mark.parametrize("state", ["moving", "stopped", "protective_stop", "disconnected", "emergency_stop"])
def test_a_robot_that_is_not_ready_is_not_asked_to_look(state):
    robot = table()
    robot.state = state
    with pytest.raises(RobotError, match=state if state != "moving" else "moves already"):
        checked(robot).observe()
    assert robot.frames == 0
    with suppress(RobotError):
        checked(robot).home()
    assert ("home" in robot.log) == (state == "stopped")


def test_a_robot_that_begins_to_move_during_a_run_is_left_alone():
    robot = table()
    take = robot.grasp

    def misses(scene, obj):
        robot.misses[1], robot.state = 1, "moving"
        return take(scene, obj)

    robot.grasp = misses
    result = retrieve(robot, plain_system(TableMasks(robot)), 1)
    assert result.ended == "fault" and "moves already" in result.detail and result.actions == 1


def test_a_driver_names_its_arm_or_says_that_no_other_program_reaches_it():
    for robot in (SimpleNamespace(), SimpleNamespace(address=""), SimpleNamespace(address=7)):
        with pytest.raises(RobotError, match="has no address"):
            checked(robot)


class Live(DryRunArm):
    """An arm that another program could reach."""

    address = "ur 192.0.2.7"

    def status(self):
        return replace(super().status(), dry_run=False)


def live(gripper=None):
    look = Station().T_world_look
    return UniversalRobot(Live(look, look), OverTheTable(one_box()), gripper or DryRunGripper())


DRIVES = """
import sys, time
from robot.ur_cell import one_box
from tests.robot.test_checked import live
from cpor.robot.safe_stop import stopping
with stopping(live()):
    print("driving", flush=True)
    time.sleep(60)
"""


@pytest.mark.slow
def test_two_programs_do_not_drive_one_arm_and_a_killed_one_is_told(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    root = Path(__file__).parents[2]
    monkeypatch.setenv("PYTHONPATH", f"{root / 'src'}:{root / 'tests'}:{root}")
    with subprocess.Popen([sys.executable, "-c", DRIVES], stdout=subprocess.PIPE) as other:
        assert other.stdout.readline() == b"driving\n"
        with pytest.raises(RobotError, match=rf"ur 192\.0\.2\.7.*process {other.pid} on "), stopping(live()):
            pass
        other.kill()
    with stopping(live()) as left:
        assert f"process {other.pid}" in left.said
    with stopping(live()) as left:
        left.settled = f"process {other.pid}" in left.said  # told again until a person says so
    with stopping(live()) as left:
        assert left is None


def test_a_note_that_cannot_be_read_is_something_left_behind(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    with stopping(live()) as left:
        (note,) = (tmp_path / "cpor" / "robots").glob("*.json")
        assert left is None and "owner" in json.loads(note.read_text())
    assert not note.exists()
    for content in ("", "[]", "{}", "\0"):
        note.write_text(content)
        with stopping(live()) as left:
            assert "cannot be read" in left.said
            left.settled = True
    with pytest.raises(ZeroDivisionError), stopping(live()):
        _ = 1 / 0
    with stopping(live()) as left:
        assert "did not end in order" in left.said


class Full(DryRunGripper):
    says: bool | None = True

    def holding(self):
        return self.says


@pytest.mark.parametrize("says", [True, None])
def test_a_full_or_unknown_gripper_is_emptied_by_a_persons_leave_only(says):
    gripper = Full()
    gripper.says = says
    robot = live(gripper)
    scene = Scene(robot.camera.frame())
    assert robot.home().kind == "stopped" and robot.grasp(scene, 1).kind == "stopped"
    with pytest.raises(RobotError, match="allow_emptying"):
        robot.observe()
    assert robot.arm.motions == gripper.motions == []
    asked = []
    why = why_it_must_stay(checked(robot), None, lambda question: asked.append(question))
    assert "a person has to say" in why and "emptied into the tray" in asked[0]
    assert "a person has to say" in why_it_must_stay(checked(robot), None, None)
    assert robot.home().kind == "stopped" and robot.arm.motions == []
    assert why_it_must_stay(checked(robot), None, lambda _: True) is None
    assert robot.home().detail.endswith("put aside") and gripper.motions == ["open"]
    assert "(0.100, 0.340, 0.100)" in robot.arm.motions[2]


def test_a_gripper_that_was_filled_by_hand_is_not_opened_over_the_heap():
    gripper = Full()
    gripper.says = False
    robot = live(gripper)
    assert robot.home().kind == "done"
    gripper.says = True
    assert robot.grasp(Scene(robot.camera.frame()), 1).kind == "stopped" and gripper.motions == []


def test_what_the_last_program_left_is_asked_about_first():
    asked = []
    robot = checked(live())
    assert why_it_must_stay(robot, None, None) is None
    left = Left("The last program broke.")
    assert "has to say" in why_it_must_stay(robot, left, None) and not left.settled
    assert why_it_must_stay(robot, left, lambda q: not asked.append(q)) is None and left.settled
    assert asked == ["The last program broke. Is everything in order around the arm?"]


class Careless(BoxTable):
    """Boxes, and a gripper that reports what a test wants until it was emptied."""

    holds: bool | None = None

    def status(self):
        return replace(super().status(), holding=self.holds)


@pytest.mark.parametrize("holds", [True, None])
@pytest.mark.parametrize("says", [None, False, True])
def test_the_loop_asks_before_it_moves_with_a_gripper_that_may_be_full(holds, says):
    robot = Careless(table().boxes)
    robot.holds = holds
    asked = []
    confirm = None if says is None else lambda question: (asked.append(question), says)[1]
    result = retrieve(
        robot, plain_system(TableMasks(robot)), 1, settings=LoopSettings(budget=1), confirm=confirm
    )
    if says:
        assert len(asked) == 1 and robot.log.count("grasp 1") == 1
        return
    assert result.ended == "stopped" and "a person has to say: The gripper" in result.detail
    assert "home" not in robot.log and "grasp 1" not in robot.log


@pytest.mark.parametrize("state", ["emergency_stop", "moving", None, "protective_stop"])
def test_the_loop_sends_nothing_where_the_state_is_not_sound(state):
    robot = table()
    robot.state = state
    result = retrieve(robot, plain_system(TableMasks(robot)), 1)
    assert result.ended == "fault" and set(robot.log) <= {"stop"}


def test_the_loop_tells_a_person_what_a_killed_program_left(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    (tmp_path / "cpor" / "robots").mkdir(parents=True)
    (tmp_path / "cpor" / "robots" / "ur_192.0.2.7.json").write_text("{}")
    for _ in range(2):  # a run that got no answer settles nothing
        robot = live()
        result = retrieve(robot, plain_system(TableMasks(robot.camera.table)), 1)
        assert result.ended == "stopped" and "did not end in order" in result.detail
        assert [each for each in robot.arm.motions if each != "stop"] == robot.gripper.motions == []
