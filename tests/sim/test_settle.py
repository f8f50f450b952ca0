"""Coming to rest."""

import numpy as np
import pytest
from support.arm_cell import named

from cpor.sim.physics.build import build_world
from cpor.sim.physics.settle import drift, penetration, settle

UPRIGHT = (1.0, 0.0, 0.0, 0.0)


def pose(x, y, z, turn=UPRIGHT):
    return np.array((x, y, z, *turn))


def test_a_dropped_cube_lies_on_the_table():
    world = build_world({1: named("red cube")}, {1: pose(0.36, 0.0, 0.10)})
    still, depth = settle(world)
    assert still
    assert world.pose(1)[2] == pytest.approx(0.9 * 0.046 / 2, abs=5e-4)
    assert depth < 3e-4
    assert not world.data.qvel.any()


def test_a_cylinder_on_its_side_stops_rolling():
    lying = (np.sqrt(0.5), 0.0, np.sqrt(0.5), 0.0)
    world = build_world({1: named("orange cylinder")}, {1: pose(0.36, 0.0, 0.05, lying)}, bin=None)
    world.data.qvel[1] = 0.1
    assert settle(world)[0]
    assert drift(world) < 1e-3


def test_too_few_steps_are_no_rest():
    world = build_world({1: named("red apple")}, {1: pose(0.36, 0.0, 0.60)})
    assert not settle(world, max_steps=20)[0]


def test_overlapping_objects_are_noticed():
    cube = named("red cube")
    world = build_world({1: cube, 2: cube}, {1: pose(0.36, 0.0, 0.0207), 2: pose(0.39, 0.0, 0.0207)})
    assert penetration(world) > 0.005


def test_watching_for_drift_leaves_the_world_alone():
    world = build_world({1: named("red apple")}, {1: pose(0.36, 0.0, 0.30)})
    before = world.data.qpos.tobytes(), world.data.time
    assert drift(world, seconds=0.2) > 0.01
    assert (world.data.qpos.tobytes(), world.data.time) == before
