"""The objects one can ask for."""

import numpy as np
import pytest
from support.arm_cell import named

from cpor.errors import InvalidSettingError
from cpor.sim.objects.catalogue import bounds, catalogue
from cpor.sim.physics.build import build_world

GRASPABLE_WIDTH = 0.070
"""The gripper opens 85 mm; less 15 mm for the fingers to go in beside the object. [m]"""

CATEGORIES = {"household tool", "toy vehicle", "container", "produce", "block", "everyday thing"}


def test_forty_objects_of_six_kinds_with_names_of_their_own(evidence):
    names = {model.name for model in catalogue()}
    evidence("acts", "objects in the catalogue", "40", len(names))
    assert len(catalogue()) == len(names) == 40
    assert {model.category for model in catalogue()} == CATEGORIES


@pytest.mark.parametrize("model", catalogue(), ids=lambda model: model.name)
def test_every_object_can_be_gripped_and_picked_up(model):
    small, _, large = np.sort(np.ptp(bounds(model), axis=0))
    # The middle side: on whichever side the object lies, one of its horizontal extents is at most this.
    assert sorted(np.ptp(bounds(model), axis=0))[1] < GRASPABLE_WIDTH
    assert small >= 0.012
    assert large <= 0.17
    assert 0.02 < model.mass < 0.4


def test_the_box_is_that_of_the_compiled_geoms():
    for model in catalogue():
        world = build_world({1: model}, {1: np.array([0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 0.0])}, bin=None)
        mine = world.object_of_geom == 1
        R = world.data.geom_xmat[mine].reshape(-1, 3, 3)
        box = world.model.geom_aabb[mine]
        centre = world.data.geom_xpos[mine] + np.einsum("gij,gj->gi", R, box[:, :3])
        half = np.einsum("gij,gj->gi", np.abs(R), box[:, 3:])
        # The boxes of MuJoCo's turned geoms are never smaller than the geoms.
        outer = (centre + half).max(axis=0) - (centre - half).min(axis=0)
        assert (np.ptp(bounds(model), axis=0) <= outer + 1e-6).all(), model.name


def test_masses_are_those_of_the_catalogue():
    world = build_world(
        {1: named("red mug"), 2: named("yellow banana")},
        {k: np.array([0.3, 0.1 * k, 0.1, 1.0, 0.0, 0.0, 0.0]) for k in (1, 2)},
    )
    assert world.model.body_mass[world.body_of[1]] == pytest.approx(0.16)
    assert world.model.body_mass[world.body_of[2]] == pytest.approx(0.12)


def test_parts_stand_in_the_order_of_the_geoms():
    model = named("blue toy truck")
    world = build_world({7: model}, {7: np.array([0.3, 0.0, 0.1, 1.0, 0.0, 0.0, 0.0])})
    geoms = np.flatnonzero(world.object_of_geom == 7)
    assert len(geoms) == len(model.parts)
    for geom, part in zip(geoms, model.parts, strict=True):
        assert world.model.geom_rgba[geom, :3] == pytest.approx(part.surface.colour, abs=1e-6)


def test_an_object_without_a_pose_is_refused():
    with pytest.raises(InvalidSettingError, match="no pose for object 1"):
        build_world({1: named("red cube")}, {})
