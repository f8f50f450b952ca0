"""Stopped means still, and the record is always closed, whatever fails."""

import threading
import time

import pytest
from robot.table_runs import run, two
from support.box_table import BoxTable

from cpor.decision import Certificate, Decision, Defer
from cpor.robot.run_folder import read_run
from cpor.robot.safe_stop import POLL_S


def always_defer(ids, target):
    proof = Certificate("exact", 0.0, None, True, True)
    scores = dict.fromkeys(ids, 0.3)
    return Decision(Defer("weak_evidence"), scores, frozenset(), proof, "exact", 0.5, 0.5, 0.0, 0.0)


def test_a_stop_while_a_person_is_asked_is_not_overridden_by_going_home(tmp_path):
    table, stop = BoxTable(), threading.Event()
    result = run(table, tmp_path, decider=always_defer, ask=lambda cycle: stop.set(), stop=stop)
    assert result.ended == "stopped" and result.robot.state == "stopped"
    assert table.log.count("home") == 1 and table.log[-1] == "stop"


def test_a_stop_in_the_last_look_leaves_the_arm_where_it_is(tmp_path):
    table, stop = two(), threading.Event()
    observe, grasp = table.observe, table.grasp

    def grasp_then_stop_in_the_look(scene, obj):
        table.observe = lambda: (stop.set(), observe())[1]
        return grasp(scene, obj)

    table.grasp = grasp_then_stop_in_the_look
    result = run(table, tmp_path, stop=stop)
    assert result.retrieved and result.robot.state == "stopped" and table.log.count("home") == 1


@pytest.mark.parametrize("nth", [1, 2])
def test_a_stop_that_a_home_clears_is_said_again(tmp_path, nth):
    """First home: the start. Second: the last one."""
    table, stop = two(), threading.Event()
    home, homes = table.home, []

    def home_that_clears():
        homes.append(1)
        if len(homes) == nth:
            stop.set()
            time.sleep(3 * POLL_S)
        return home()

    table.home = home_that_clears
    result = run(table, tmp_path, stop=stop)
    assert result.robot.state == "stopped" and table.log[-1] == "stop" and len(homes) == nth
    assert result.ended == ("stopped" if nth == 1 else "retrieved")


def test_a_stop_while_waiting_for_recovery_does_not_go_home(tmp_path):
    table, stop = BoxTable(faults_on={3}), threading.Event()
    status = table.status

    def clears_and_stops():
        if table.state == "protective_stop" and table.log[-1].startswith("remove"):
            table.polls = getattr(table, "polls", 0) + 1
            if table.polls == 4:
                stop.set()
                table.state = "ready"
        return status()

    table.status = clears_and_stops
    result = run(table, tmp_path, {"wait_for_recovery_s": 20.0}, stop=stop)
    assert table.log.count("home") == 1 and result.robot.state == "stopped"
    assert result.cycles[0].outcome.kind == "fault"


def test_the_watcher_survives_a_stop_that_fails(tmp_path):
    table, stop = BoxTable(waits_for_stop=True), threading.Event()
    real, tries = table.stop, []

    def stop_at_the_third_try():
        tries.append(1)
        if len(tries) < 3:
            raise RuntimeError("rtde: busy")
        real()

    table.stop = stop_at_the_third_try
    threading.Thread(target=lambda: (table.moving.wait(60.0), stop.set()), daemon=True).start()
    result = run(table, tmp_path, stop=stop)
    assert result.ended == "stopped" and result.cycles[0].outcome.kind == "stopped"


def test_a_foreign_error_in_the_last_home_stops_the_arm_closes_the_record_and_is_raised(tmp_path):
    table = two()
    home, homes = table.home, []

    def home_once():
        homes.append(1)
        if len(homes) > 1:
            raise RuntimeError("rtde: connection lost")
        return home()

    table.home = home_once
    with pytest.raises(RuntimeError, match="connection lost"):
        run(table, tmp_path)
    on_disk = read_run(tmp_path / "run")
    assert table.log[-1] == "stop" and on_disk.ended == "retrieved"
    assert "connection lost" in on_disk.head.detail and on_disk.cycles[-1].outcome.kind == "done"


def test_a_foreign_error_in_status_does_not_hide_the_first_one(tmp_path):
    table = two()

    def lost(*args):
        raise RuntimeError("no status")

    def break_down(scene, obj):
        table.status = lost
        raise ZeroDivisionError("a bug")

    table.grasp = break_down
    with pytest.raises(ZeroDivisionError):
        run(table, tmp_path)
    on_disk = read_run(tmp_path / "run")
    assert on_disk.ended == "fault" and on_disk.head.robot is None and table.log[-1] == "stop"
    assert "ZeroDivisionError" in on_disk.head.detail and "no status" in on_disk.head.detail


def test_a_stop_that_never_works_is_raised_after_the_record_is_closed(tmp_path):
    table = BoxTable(interrupts_on={3})

    def jammed():
        table.log.append("stop?")
        raise RuntimeError("rtde: gone")

    table.stop = jammed
    with pytest.raises(RuntimeError, match="gone"):
        run(table, tmp_path)
    on_disk = read_run(tmp_path / "run")
    assert on_disk.ended == "stopped" and table.log.count("stop?") == 3


def test_an_outcome_is_on_disk_before_the_next_look(tmp_path):
    table = two()
    observe, seen = table.observe, []

    def look():
        if len(table.log) > 1:
            seen.append(read_run(tmp_path / "run").cycles[-1].outcome)
        return observe()

    table.observe = look
    run(table, tmp_path)
    assert seen[-1].kind == "done"


@pytest.mark.parametrize("error", [BrokenPipeError, KeyboardInterrupt])
def test_a_callback_that_fails_after_the_last_cycle_finds_the_record_closed(tmp_path, error):
    table = two()

    def show(cycle):
        raise error

    with pytest.raises(error):
        run(table, tmp_path, on_cycle=show)
    assert read_run(tmp_path / "run").ended == "retrieved" and table.log[-1] == "home"


@pytest.mark.parametrize("is_compiled", [False, True])
def test_ctrl_c_before_the_robot_is_sent_is_no_attempt(tmp_path, is_compiled):
    table = two()

    def interrupted(cycle):
        assert read_run(tmp_path / "run").cycles[-1].attempt == "none"
        if is_compiled:  # as numba passes on what a signal raised
            raise SystemError("returned a result with an exception set") from KeyboardInterrupt()
        raise KeyboardInterrupt

    result = run(table, tmp_path, on_decision=interrupted)
    assert result.ended == "stopped" and result.actions == 0 and result.cycles[0].outcome is None
    assert "grasp 1" not in table.log


def test_begun_is_on_disk_while_the_robot_is_under_way(tmp_path):
    table = two()
    grasp = table.grasp

    def look_into_the_record(scene, obj):
        assert read_run(tmp_path / "run").cycles[-1].attempt == "begun"
        return grasp(scene, obj)

    table.grasp = look_into_the_record
    assert run(table, tmp_path).retrieved


def test_a_stop_in_the_callback_before_the_robot_is_sent_keeps_it_still(tmp_path):
    table, stop = two(), threading.Event()
    result = run(table, tmp_path, on_decision=lambda cycle: stop.set(), stop=stop)
    assert result.ended == "stopped" and result.actions == 0 and "grasp 1" not in table.log
