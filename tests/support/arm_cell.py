"""Small worlds with the simulated arm, for tests: real physics, a few objects, the usual camera."""

import threading
import time
import weakref

import numpy as np

from cpor.sim.arm.simulated_robot import SimulatedRobot, SimulatorMasks
from cpor.sim.camera.look import plain_look
from cpor.sim.camera.sensor import DEFAULT_SENSOR, SensorModel
from cpor.sim.camera.views import CameraSetup, overhead_camera
from cpor.sim.objects.catalogue import catalogue
from cpor.sim.objects.solids import ObjectModel, Part, Surface
from cpor.sim.physics.build import build_world
from cpor.sim.physics.settle import settle
from cpor.sim.physics.world import HEAP_CENTRE, Bin, World

BIN = Bin((0.23, 0.19), height=0.07)
UPRIGHT = (1.0, 0.0, 0.0, 0.0)


def named(name: str) -> ObjectModel:
    return next(model for model in catalogue() if model.name == name)


def block(half: tuple[float, float, float], mass: float = 0.08, name: str = "grey block") -> ObjectModel:
    return ObjectModel(name, "block", (Part("box", half, Surface((0.5, 0.5, 0.5))),), mass)


def at(dx: float, dy: float, z: float, quaternion=UPRIGHT) -> np.ndarray:
    """A pose near the middle of the bin."""
    return np.array([HEAP_CENTRE[0] + dx, HEAP_CENTRE[1] + dy, z, *quaternion])


def arm_world(
    placed: dict[int, tuple[ObjectModel, np.ndarray]], bin: Bin | None = BIN, friction=0.5
) -> World:
    """Objects that came to rest, and the arm."""
    objects = {obj: model for obj, (model, _) in placed.items()}
    resting = build_world(objects, {obj: pose for obj, (_, pose) in placed.items()}, bin)
    settle(resting)
    poses = {obj: resting.pose(obj) for obj in objects}
    return build_world(objects, poses, bin, arm=True, finger_friction=friction)


def robot_in(
    world: World,
    seed: int = 0,
    sensor: SensorModel | None = DEFAULT_SENSOR,
    camera: CameraSetup | None = None,
    fed: bool = True,
) -> SimulatedRobot:
    """A robot; where `fed`, somebody feeds its heartbeat as the loop would, as long as it is there."""
    robot = SimulatedRobot(
        world, camera or overhead_camera(), plain_look(), sensor, np.random.default_rng(seed)
    )
    if fed:
        robot._dead_man._late_s = 60.0  # on a loaded machine nothing is to be late
        threading.Thread(target=_feed, args=(weakref.ref(robot),), daemon=True).start()
    return robot


def _feed(ref: "weakref.ref[SimulatedRobot]") -> None:
    while (robot := ref()) is not None:
        robot.heartbeat()
        del robot
        time.sleep(0.02)


def look(robot: SimulatedRobot):
    return SimulatorMasks(robot).segment(robot.observe())
