"""Faults, stops and bugs on the way: the arm comes to rest, and the record says what happened."""

import threading

import pytest
from robot.table_runs import run
from support.box_table import BoxTable, TableMasks
from support.plain_system import plain_system

from cpor.errors import CameraError
from cpor.robot.loop import retrieve
from cpor.robot.protocol import Outcome
from cpor.robot.run_folder import RunFolder, read_run
from cpor.system import System


def test_protective_stop_ends_as_fault(tmp_path):
    table = BoxTable(faults_on={2})
    result = run(table, tmp_path)
    assert result.ended == "fault" and "protective stop" in result.detail
    assert result.cycles[-1].outcome.kind == "fault" and table.log[-1] == "stop"
    assert result.robot.state == "protective_stop"


def test_goes_on_after_a_person_cleared_the_protective_stop_where_allowed(tmp_path):
    table = BoxTable(faults_on={3}, recovers_after_polls=2)
    result = run(table, tmp_path, settings={"wait_for_recovery_s": 20.0})
    assert result.retrieved and "person cleared" in result.cycles[0].notes[-1]
    assert table.log[:3] == ["home", "remove 3", "home"]


def test_a_fault_that_is_no_protective_stop_is_not_waited_for(tmp_path):
    table = BoxTable()
    table.remove = lambda scene, obj: Outcome("fault", "the gripper does not answer")
    result = run(table, tmp_path, settings={"wait_for_recovery_s": 20.0})
    assert result.ended == "fault" and "gripper" in result.detail and result.cycles[0].notes == ()


def test_does_not_begin_on_a_robot_in_protective_stop(tmp_path):
    table = BoxTable(state="protective_stop")
    result = run(table, tmp_path)
    assert result.ended == "fault" and table.log == ["stop"]


def test_ctrl_c_while_moving_stops_the_arm_and_writes_the_record(tmp_path):
    table = BoxTable(interrupts_on={2})
    result = run(table, tmp_path)
    assert result.ended == "stopped" and table.log[-1] == "stop"
    last = result.cycles[-1]
    assert last.outcome.kind == "stopped" and "not known" in last.outcome.detail
    assert result.cycles[0].outcome.kind == "done"


def test_ctrl_c_while_deciding_stops_too(tmp_path):
    def interrupted(scene, target):
        raise KeyboardInterrupt

    table = BoxTable()
    result = run(table, tmp_path, decider=interrupted)
    assert result.ended == "stopped" and table.log[-1] == "stop" and result.cycles[0].attempt == "none"


def test_an_event_stops_the_arm_in_the_middle_of_a_motion(tmp_path):
    table, stop = BoxTable(waits_for_stop=True), threading.Event()

    def press():
        assert table.moving.wait(60.0)
        stop.set()

    presser = threading.Thread(target=press)
    presser.start()
    result = run(table, tmp_path, stop=stop)
    presser.join()
    assert result.ended == "stopped" and result.cycles[0].outcome.kind == "stopped" and "stop" in table.log


def test_an_event_set_before_keeps_the_arm_still(tmp_path):
    table, stop = BoxTable(), threading.Event()
    stop.set()
    result = run(table, tmp_path, stop=stop)
    assert result.ended == "stopped" and set(table.log) == {"stop"} and result.cycles == ()


def test_an_event_between_decision_and_motion_keeps_the_arm_still(tmp_path):
    table, stop = BoxTable(), threading.Event()

    class Stopping(System):
        def decide(self, view, request=None, **options):
            stop.set()
            return super().decide(view, request, **options)

    system = Stopping(TableMasks(table), "none", "none", second_look=False, tau=0.5)
    result = run(table, tmp_path, system=system, stop=stop)
    assert result.ended == "stopped" and result.actions == 0 and set(table.boxes) == {1, 2, 3, 4}


def test_a_bug_in_a_driver_stops_the_arm_is_recorded_and_raised(tmp_path):
    table = BoxTable(breaks_on={2})
    with pytest.raises(ZeroDivisionError):
        retrieve(table, plain_system(TableMasks(table)), 1, record=RunFolder(tmp_path / "run"))
    assert table.log[-1] == "stop"
    on_disk = read_run(tmp_path / "run")
    assert on_disk.ended == "fault" and "ZeroDivisionError" in on_disk.head.detail
    assert on_disk.cycles[-1].outcome.kind == "fault"


def test_a_segmenter_that_fails_ends_as_fault_and_keeps_the_frame(tmp_path):
    class Failing:
        def segment(self, observation):
            raise CameraError("the frame is black")

    table = BoxTable()
    result = run(table, tmp_path, masks=Failing())
    assert result.ended == "fault" and "black" in result.detail and result.cycles[0].scene.ids == ()
