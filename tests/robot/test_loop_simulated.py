"""The loop on the simulated UR3e: real contact physics, a noisy camera, a record that decides alike."""

import threading

import numpy as np
import pytest
from support.plain_system import plain_system

from cpor.decision import Remove
from cpor.robot.cycle import LoopSettings
from cpor.robot.loop import retrieve
from cpor.robot.protocol import Robot
from cpor.robot.run_folder import RunFolder, read_run, replay
from cpor.sim.arm.simulated_robot import SimulatedRobot, SimulatorMasks
from cpor.sim.camera.look import plain_look
from cpor.sim.camera.sensor import sensor_preset
from cpor.sim.physics.build import build_world
from cpor.sim.physics.clutter import HeapSettings, make_heap

pytestmark = pytest.mark.slow

SETTINGS = LoopSettings(ids_are_kept=True, sign_off_prior="a test in simulation")


def set_up(seed, tier):
    heap = make_heap(seed, HeapSettings(tier=tier))
    poses = {obj: heap.world.pose(obj) for obj in heap.world.objects}
    world = build_world(heap.world.objects, poses, heap.world.bin, arm=True)
    rng = np.random.default_rng(seed)
    robot = SimulatedRobot(world, heap.camera, plain_look(), sensor_preset("default"), rng)
    return heap, robot, SimulatorMasks(robot)


def test_what_the_loop_says_of_a_buried_target_is_what_the_simulator_knows(tmp_path):
    heap, robot, masks = set_up(1, "medium")
    assert isinstance(robot, Robot)
    result = retrieve(
        robot, plain_system(masks, prior=0.15), heap.target, SETTINGS, RunFolder(tmp_path / "run")
    )
    assert result.retrieved == robot.in_tray(heap.target, "delivery")
    for cycle in result.cycles:
        if isinstance(cycle.action, Remove) and cycle.outcome.kind == "done":
            assert robot.in_tray(cycle.action.obj, "discard")
    again = replay(tmp_path / "run", plain_system("given", prior=0.15))
    assert len(again) == len(result.cycles) > 1 and not any(each.differs for each in again)
    assert max(each.largest_difference for each in again) == 0.0
    assert read_run(tmp_path / "run").ended == result.ended and robot.status().state == "ready"


def test_stop_in_the_middle_of_a_simulated_motion(tmp_path):
    heap, robot, masks = set_up(1, "medium")
    stop = threading.Event()
    result = retrieve(
        robot,
        plain_system(masks, prior=0.15),
        heap.target,
        SETTINGS,
        RunFolder(tmp_path / "run"),
        on_decision=lambda cycle: threading.Timer(0.05, stop.set).start(),
        stop=stop,
    )
    assert result.ended == "stopped" and result.cycles[0].outcome.kind == "stopped"
    assert robot.status().state == "stopped" and len(robot.world.objects) == len(heap.world.objects)
    assert not any(robot.in_tray(obj) for obj in heap.world.objects)
    assert read_run(tmp_path / "run").cycles[0].outcome.kind == "stopped"
