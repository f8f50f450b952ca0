"""Motion only while somebody feeds it: a UR stand-in whose arm moves on until it is stopped, or not kicked.

The stand-in notes by its own clock when its arm came to rest. The bound of 0.3 s is for a machine that does
nothing else, so it is noted as evidence; a loaded one may take its time, as long as the arm comes to rest.
"""

import os
import signal
import threading
import time

import numpy as np
import pytest
from robot.ur_cell import TOOL, Progress
from support.box_table import Box, OverTheTable, TableMasks
from support.plain_system import plain_system

from cpor.errors import RobotError
from cpor.robot.arm import WATCHDOG_HZ, MotionStoppedError, RtdeArm, to_ur_pose
from cpor.robot.dead_man import DeadMan
from cpor.robot.grippers import DryRunGripper
from cpor.robot.loop import retrieve
from cpor.robot.protocol import HEARTBEAT_S
from cpor.robot.safe_stop import stopping
from cpor.robot.ur import UniversalRobot, facing_down
from tests.support.arm_cell import arm_world, at, look, named, robot_in

ASKED_S = 0.3
PATIENCE_S = 60.0
GOAL = facing_down(0.3, 0.1, 0.2)


class MovingController:
    """A controller whose motions never end by themselves; its dashboard is a connection of its own."""

    def __init__(self):
        self.began = threading.Event()
        self.at_rest = threading.Event()
        self.rested_at = self.kicked_at = self.hangs_at = np.inf
        self.watchdog_hz = 0.0
        self.guards = True
        self.hangs = threading.Event()
        self.released = threading.Event()
        self.calls = []
        threading.Thread(target=self._guard, daemon=True).start()

    def _guard(self):
        while not self.at_rest.wait(0.005):
            late = self.began.is_set() and time.monotonic() - self.kicked_at > 1.0 / self.watchdog_hz
            if late and self.guards:
                self._rest("watchdog")

    def _rest(self, why):
        if self.began.is_set() and not self.at_rest.is_set():
            self.calls.append(why)
            self.rested_at = time.monotonic()
            self.at_rest.set()

    def setWatchdog(self, hz):
        self.watchdog_hz, self.kicked_at = hz, time.monotonic()
        return True

    def kickWatchdog(self):
        self.kicked_at = time.monotonic()
        return True

    def moveL(self, *args):
        self.kicked_at = time.monotonic()
        self.began.set()
        return True

    def moveJ(self, *args):
        return self.moveL(*args)

    def stop(self):
        self._rest("dashboard")

    def stopL(self):
        self._rest("stopL")

    def stopJ(self):
        self.stopL()

    def getAsyncOperationProgressEx(self):
        if self.hangs.is_set() and self.began.is_set():
            self.hangs_at = min(self.hangs_at, time.monotonic())
            assert self.released.wait(PATIENCE_S)
        return Progress(int(self.began.is_set()), self.began.is_set() and not self.at_rest.is_set())

    def getActualTCPPose(self):
        return to_ur_pose(facing_down(0.2, 0.0, 0.3)).tolist()

    def getSafetyStatusBits(self):
        return 1

    def getRobotMode(self):
        return 7

    def __getattr__(self, name):
        return lambda *args: True


@pytest.fixture
def moving():
    controller = MovingController()
    arm = RtdeArm("192.0.2.1", TOOL, 1.0, links=(controller,) * 3)
    yield arm, controller
    controller.released.set()
    controller.at_rest.set()
    arm.close()


def move_in_thread(arm):
    said = []

    def move():
        try:
            arm.move_line(GOAL, 0.1, 0.3)
        except RobotError as error:
            said.append(str(error))

    thread = threading.Thread(target=move, daemon=True)
    thread.start()
    return thread, said


def fed_until(arm, over):
    def feed():
        while not over.wait(0.01):
            arm.heartbeat()

    arm.heartbeat()
    threading.Thread(target=feed, daemon=True).start()


def note(evidence, what, took):
    evidence("safe", f"UR stand-in comes to rest after {what} [s]", f"<= {ASKED_S}", float(took))


def test_nothing_moves_without_a_heartbeat(moving):
    arm, controller = moving
    with pytest.raises(MotionStoppedError, match="no heartbeat"):
        arm.move_line(GOAL, 0.1, 0.3)
    assert not controller.began.is_set()


def test_stop_ends_the_motion_on_its_own_channel_although_the_driver_hangs(moving, evidence):
    arm, controller = moving
    controller.hangs.set()
    over = threading.Event()
    fed_until(arm, over)
    arm._dead_man._late_s, controller.guards = PATIENCE_S, False  # only `stop` is to act here
    thread, said = move_in_thread(arm)
    assert controller.began.wait(PATIENCE_S)
    told = time.monotonic()
    arm.stop()
    assert controller.at_rest.wait(PATIENCE_S) and controller.calls == ["dashboard"]
    note(evidence, "stop() while the driver hangs", controller.rested_at - told)
    controller.released.set()
    thread.join(PATIENCE_S)
    over.set()
    assert said == ["stopped on request; call home to go on"]


def test_a_lost_heartbeat_stops_the_arm(moving, evidence):
    arm, controller = moving
    over = threading.Event()
    controller.guards = False
    arm._dead_man._late_s = 1.0
    fed_until(arm, over)
    thread, said = move_in_thread(arm)
    assert controller.began.wait(PATIENCE_S)
    over.set()
    lost = time.monotonic()
    thread.join(PATIENCE_S)
    assert controller.at_rest.is_set() and "no heartbeat" in said[0] and arm.status().state == "stopped"
    note(evidence, "a lost heartbeat", controller.rested_at - lost)


def test_a_driver_that_hangs_is_noticed_by_nobody_but_the_watchdog(moving, evidence):
    arm, controller = moving
    controller.guards = False  # only ours is to act here
    arm._dead_man._beat = np.inf  # and no late heartbeat
    thread, said = move_in_thread(arm)
    assert controller.began.wait(PATIENCE_S)
    controller.hangs.set()
    assert controller.at_rest.wait(PATIENCE_S)
    note(evidence, "the driver hangs", controller.rested_at - controller.hangs_at)
    controller.released.set()
    thread.join(PATIENCE_S)
    assert "not looked after" in said[0]


def test_the_controller_stops_by_itself_where_nobody_kicks_it(moving, evidence):
    """A process that is frozen, as a whole, kicks nothing."""
    arm, controller = moving
    over = threading.Event()
    fed_until(arm, over)
    arm._dead_man._late_s = PATIENCE_S
    thread, _ = move_in_thread(arm)
    assert controller.began.wait(PATIENCE_S)
    frozen = time.monotonic()
    arm.close()
    assert controller.at_rest.wait(PATIENCE_S) and controller.calls[0] == "watchdog"
    assert controller.watchdog_hz == WATCHDOG_HZ
    note(evidence, "a frozen process", controller.rested_at - frozen)
    thread.join(PATIENCE_S)
    over.set()


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP", "SIGINT"])
@pytest.mark.parametrize("hangs", [False, True])
def test_a_signal_stops_the_arm_and_the_run_ends_as_stopped(moving, evidence, name, hangs):
    arm, controller = moving
    camera = OverTheTable({1: Box((40, 56), (54, 66), 0.04, (200, 30, 30))})
    robot = UniversalRobot(arm, camera, DryRunGripper())
    sent = []
    arm._dead_man._late_s, controller.guards = PATIENCE_S, False  # only the signal is to act here
    before = signal.getsignal(getattr(signal, name))
    # Ignored where tests run in the background, or under nohup.
    signal.signal(getattr(signal, name), signal.default_int_handler if name == "SIGINT" else signal.SIG_DFL)

    def send():
        assert controller.began.wait(PATIENCE_S)
        if hangs:
            controller.hangs.set()
        sent.append(time.monotonic())
        os.kill(os.getpid(), getattr(signal, name))
        controller.at_rest.wait(PATIENCE_S)
        controller.released.set()

    sender = threading.Thread(target=send, daemon=True)
    sender.start()
    try:
        result = retrieve(robot, plain_system(TableMasks(camera.table)), 1)
    finally:
        signal.signal(getattr(signal, name), before)
    sender.join(PATIENCE_S)
    assert result.ended == "stopped" and robot.status().state == "stopped" and controller.at_rest.is_set()
    while_ = " while the driver hangs" if hangs else ""
    note(evidence, f"{name}{while_}", controller.rested_at - sent[0])


def test_signal_handlers_are_as_before_after_the_run(moving):
    arm, _ = moving
    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)]
    with stopping(arm):
        assert signal.getsignal(signal.SIGTERM) is not before[0]
    assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)] == before
    assert signal.set_wakeup_fd(-1) == -1


def test_an_ignored_signal_stays_ignored(moving):
    arm, _ = moving
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with stopping(arm):
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_the_switch_waits_for_a_beat_that_is_on_its_way():
    switch = DeadMan(lambda: None, late_s=5.0)
    assert switch.why_late() is None
    threading.Timer(0.05, switch.beat).start()
    assert switch.is_fed()
    assert not DeadMan(lambda: None, late_s=0.01).is_fed()
    assert HEARTBEAT_S < ASKED_S


def test_the_simulated_arm_moves_only_while_it_is_fed():
    robot = robot_in(arm_world({1: (named("red cube"), at(0, 0, 0.025))}), fed=False)
    robot._dead_man._late_s = 0.1
    scene = look(robot)
    outcome = robot.grasp(scene, 1)
    assert outcome.kind == "stopped" and "no heartbeat" in outcome.detail and not robot.in_tray(1)
    assert robot.status().state == "stopped" and robot.grasp(scene, 1).kind == "stopped"
    robot._dead_man._late_s = PATIENCE_S
    with stopping(robot):
        assert robot.home().kind == "done" and robot.grasp(look(robot), 1).kind == "done"


def test_the_simulated_arm_stops_where_the_heartbeat_is_lost_on_the_way():
    robot = robot_in(arm_world({1: (named("red cube"), at(0, 0, 0.025))}), fed=False)
    scene, steps, over = look(robot), [], threading.Event()

    def lose_it_after_50_steps(world):
        steps.append(1)
        if len(steps) == 50:
            over.set()
        if len(steps) > 50:
            time.sleep(0.02)

    robot.motion._watch = lose_it_after_50_steps
    fed_until(robot, over)
    outcome = robot.grasp(scene, 1)
    assert outcome.kind == "stopped" and "no heartbeat" in outcome.detail and not robot.in_tray(1)
    assert 50 < len(steps) < 200
