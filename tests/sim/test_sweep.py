"""What is met on the way up, and what rises along."""

import numpy as np
import pytest
from support.arm_cell import named

from cpor.scene import BlockedBy
from cpor.sim.physics.build import build_world
from cpor.sim.physics.clutter import HeapSettings, make_heap
from cpor.sim.physics.settle import settle
from cpor.sim.physics.true_relations import lift_relations, sweep_relations

UPRIGHT = (1.0, 0.0, 0.0, 0.0)


def pose(x, y, z):
    return np.array((x, y, z, *UPRIGHT))


def tower():
    """A cube with a sponge on it, and an apple apart."""
    objects = {1: named("red cube"), 2: named("blue sponge"), 3: named("red apple")}
    poses = {1: pose(0.36, 0.0, 0.021), 2: pose(0.36, 0.0, 0.062), 3: pose(0.44, 0.05, 0.03)}
    world = build_world(objects, poses)
    assert settle(world)[0]
    return world


def test_the_upper_one_is_in_the_way_of_the_lower_one_only():
    assert sweep_relations(tower()).pairs == {BlockedBy(1, 2)}


def test_the_upper_one_rises_along_with_the_lower_one():
    assert lift_relations(tower()).pairs == {BlockedBy(1, 2)}


def test_a_thing_high_above_is_met_too():
    objects = {1: named("red cube"), 2: named("blue sponge")}
    world = build_world(objects, {1: pose(0.36, 0.0, 0.021), 2: pose(0.36, 0.0, 0.30)})
    assert sweep_relations(world).pairs == {BlockedBy(1, 2)}


def test_neighbours_that_only_touch_are_not_in_the_way():
    cube = named("red cube")
    half = 0.9 * 0.046 / 2
    world = build_world(
        {1: cube, 2: cube}, {1: pose(0.34, 0, half), 2: pose(0.34 + 2 * half - 0.0005, 0, half)}
    )
    assert not sweep_relations(world).pairs


@pytest.fixture(scope="module")
def world():
    return make_heap(2, HeapSettings(count=7)).world


def test_the_world_is_left_bit_for_bit(world):
    data, model = world.data, world.model

    def state():
        arrays = (data.qpos, data.qvel, data.geom_xpos, data.qacc_warmstart, data.contact.dist)
        model_arrays = (model.geom_contype, model.geom_conaffinity, model.geom_group, model.eq_data)
        return [np.array(each).tobytes() for each in (*arrays, *model_arrays)]

    before = state()
    first = sweep_relations(world)
    lift_relations(world)
    assert state() == before
    assert sweep_relations(world) == first


def test_most_of_what_rises_along_is_in_the_way(world):
    swept, lifted = sweep_relations(world).pairs, lift_relations(world).pairs
    assert lifted
    assert len(swept & lifted) > len(lifted) / 2
