"""Faults in the loop on the simulated UR3e: each ends in a safe state, and the record says what is true."""

import json
import signal
import subprocess
import sys
import time

import pytest
from support.plain_system import plain_system

from cpor.decision import Grasp
from cpor.errors import CameraError
from cpor.robot.cycle import LoopSettings
from cpor.robot.loop import retrieve
from cpor.robot.run_folder import RunFolder, read_run
from cpor.sim.arm.simulated_robot import SimulatorMasks
from tests.support.arm_cell import arm_world, at, block, named, robot_in

pytestmark = pytest.mark.slow

ASKED = "safe state, truthful record"
SIGNED = "a test in simulation"


@pytest.fixture
def cell():
    return robot_in(
        arm_world(
            {1: (named("red cube"), at(0.0, 0.0, 0.03)), 2: (named("blue sponge"), at(0.06, 0.05, 0.03))}
        )
    )


def run(robot, tmp_path, **settings):
    """Retrieve object 1; the arm ends at rest, and result, record and world say the same."""
    settings = LoopSettings(ids_are_kept=True, sign_off_prior=SIGNED, **settings)
    record = RunFolder(tmp_path / "run")
    result = retrieve(robot, plain_system(SimulatorMasks(robot), prior=0.15), 1, settings, record)
    on_disk = read_run(tmp_path / "run")
    assert on_disk.ended == result.ended and on_disk.head.actions == result.actions
    assert [c.outcome for c in on_disk.cycles] == [c.outcome for c in result.cycles]
    assert result.retrieved == robot.in_tray(1, "delivery")
    assert robot.status().state == on_disk.head.robot.state != "moving"
    before = robot.motion.joints
    robot._stop.clear()
    robot.motion.wait(0.2)
    assert abs(robot.motion.joints - before).max() < 0.02
    return result


def address(robot, obj):
    model = robot.world.model
    return model.jnt_qposadr[model.body_jntadr[robot.world.body_of[obj]]]


def before_the_first_grasp(robot, happens):
    """Something happens between the look and the grasp."""
    grasp = robot.grasp

    def grasp_too_late(scene, obj):
        robot.grasp = grasp
        happens()
        robot.motion.wake_all()
        return grasp(scene, obj)

    robot.grasp = grasp_too_late


def shift(robot, obj, by):
    start = address(robot, obj)
    robot.world.data.qpos[start : start + 2] += by


def say(result):
    attempts = ", ".join(c.outcome.kind for c in result.cycles if c.outcome) or "no attempt"
    return f"{ASKED}: {attempts}; ended {result.ended}, arm {result.robot.state}"


@pytest.mark.parametrize(("lost", "ended"), [(2, "retrieved"), (100, "fault")])
def test_lost_frames(cell, tmp_path, evidence, lost, ended):
    observe, left = cell.observe, [lost]

    def flickers():
        left[0] -= 1
        if left[0] >= 0:
            raise CameraError("no frame within 5 s; check the cable")
        return observe()

    cell.observe = flickers
    result = run(cell, tmp_path)
    assert result.ended == ended and result.robot.state == ("ready" if ended == "retrieved" else "stopped")
    evidence("safe", f"fault: {lost} camera frames lost", ASKED, say(result))


def test_a_camera_that_dies_after_the_delivery(cell, tmp_path, evidence):
    observe = cell.observe

    def dead():
        raise CameraError("no frame within 5 s; check the cable")

    before_the_first_grasp(cell, lambda: setattr(cell, "observe", dead))
    record = RunFolder(tmp_path / "run")
    settings = LoopSettings(ids_are_kept=True, sign_off_prior=SIGNED)
    result = retrieve(cell, plain_system(SimulatorMasks(cell), prior=0.15), 1, settings, record)
    assert result.ended == "fault" and "as the robot says; that was not checked" in result.detail
    assert cell.in_tray(1, "delivery") and cell.status().state == "stopped" and observe() is not None
    evidence("safe", "fault: camera dead after the delivery", ASKED, say(result))


def test_a_missed_grasp_of_what_rolled_away(cell, tmp_path, evidence):
    before_the_first_grasp(cell, lambda: shift(cell, 1, (-0.07, -0.05)))
    result = run(cell, tmp_path)
    assert result.retrieved and [c.outcome.kind for c in result.cycles] == ["missed", "done"]
    evidence("safe", "fault: target rolls away in the bin, grasp missed", ASKED, say(result))


def test_a_target_that_leaves_the_bin_within_view(cell, tmp_path, evidence):
    before_the_first_grasp(cell, lambda: shift(cell, 1, (0.17, 0.0)))
    result = run(cell, tmp_path, budget=3)
    assert result.cycles[0].outcome.kind == "missed" and result.actions >= 2
    evidence("safe", "fault: target leaves the bin, still in view", ASKED, say(result))


def test_a_target_that_leaves_the_view(cell, tmp_path, evidence):
    before_the_first_grasp(cell, lambda: shift(cell, 1, (0.0, -0.5)))
    result = run(cell, tmp_path, looks_for_target=2)
    assert result.ended == "target_lost" and not cell.in_bin(1) and result.actions == 1
    assert result.robot.state == "ready"
    evidence("safe", "fault: target leaves the view", ASKED, say(result))


@pytest.mark.parametrize("witness", [True, False], ids=["another stays", "nothing stays"])
def test_another_object_taken_in_the_target_s_place(tmp_path, evidence, witness):
    placed = {1: (named("red cube"), at(0.0, 0.0, 0.03)), 2: (named("blue sponge"), at(0.06, 0.05, 0.03))}
    if witness:
        placed[3] = named("red cube"), at(-0.08, -0.06, 0.03)
    cell = robot_in(arm_world(placed))

    def swap():
        one, two = address(cell, 1), address(cell, 2)
        qpos = cell.world.data.qpos
        qpos[one : one + 2], qpos[two : two + 2] = qpos[two : two + 2].copy(), qpos[one : one + 2].copy()

    before_the_first_grasp(cell, swap)
    result = run(cell, tmp_path)
    first = result.cycles[0]
    assert first.action == Grasp(1) and first.outcome.kind == "done" and cell.in_tray(2, "delivery")
    if witness:
        assert "still seen" in first.notes[-1] and result.retrieved and result.actions == 2
    else:  # no other object tells that the camera still sees the same place: nobody knows
        assert "only 0 of 1 other objects are seen again" in first.notes[-1]
        assert result.ended == "unconfirmed" and result.actions == 1
    evidence(
        "safe", f"fault: another object delivered, {'one' if witness else 'none'} stays", ASKED, say(result)
    )


def test_a_protective_stop(tmp_path, evidence):
    # Stands between home and the bin, and is in no picture.
    pillar = block((0.02, 0.02, 0.16), mass=60.0)
    placed = {1: (named("red cube"), at(0, 0, 0.025)), 2: (pillar, at(-0.13, 0.24, 0.16))}
    robot = robot_in(arm_world(placed, bin=None))
    result = run(robot, tmp_path)
    assert result.ended == "fault" and result.cycles[-1].outcome.kind == "fault"
    assert result.robot.state == "protective_stop" and "hit something" in result.detail
    evidence("safe", "fault: protective stop of the arm", ASKED, say(result))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["ctrl_c", "sigterm"])
def test_a_signal_in_the_middle_of_a_real_run(tmp_path, evidence, number):
    folder = tmp_path / "demo"
    code = (  # a test runner in the background may have left SIGINT ignored
        "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); "
        "from cpor.cli.app import main; sys.exit(main())"
    )
    words = [
        "demo",
        "--seed",
        "5",
        "--tier",
        "easy",
        "--eyes",
        "truth",
        "--tau",
        "0.3",
        "--no-film",
        "--json",
        "--out",
        str(folder),
    ]
    child = subprocess.Popen(
        [sys.executable, "-c", code, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    run = folder / "run"
    try:
        while child.poll() is None and not any(
            '"begun"' in k.read_text("utf-8") for k in run.glob("cycle_*.json")
        ):
            time.sleep(0.01)
        child.send_signal(number)
        said, wrong = child.communicate(timeout=120)
    finally:
        child.kill()
        child.wait()
    assert (folder / "run" / "run.json").is_file(), wrong.decode()
    on_disk = read_run(folder / "run")
    last = on_disk.cycles[-1]
    assert on_disk.ended == "stopped" and on_disk.head.robot.state == "stopped", wrong.decode()
    sent = [cycle for cycle in on_disk.cycles if cycle.attempt != "none"]  # it may ask before it acts
    assert "interrupted" in on_disk.head.detail and on_disk.head.actions == len(sent) == 1
    assert last.attempt == "ended" and last.outcome.kind == "stopped" and "not known" in last.outcome.detail
    assert json.loads(said)["ended"] == "stopped" and not json.loads(said)["retrieved"]
    evidence(
        "safe",
        f"fault: {number.name} while the arm moves",
        ASKED,
        f"{ASKED}: {last.outcome.kind}; ended {on_disk.ended}",
    )
