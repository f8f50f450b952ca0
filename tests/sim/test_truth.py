"""Occlusion, chains, tiers and what counts as wrong."""

import numpy as np
import pytest
from support.arm_cell import named

from cpor.decision import Defer, Grasp, Remove
from cpor.errors import InvalidSettingError
from cpor.scene import BlockedBy, TrueRelations
from cpor.sim.camera.views import cast_views, overhead_camera
from cpor.sim.physics.build import build_world
from cpor.sim.physics.clutter import HeapSettings, make_heap
from cpor.sim.physics.true_relations import (
    HIDDEN_SHARE,
    has_cycle,
    longest_path,
    occlusion_relations,
    tier_of,
    union,
)
from cpor.truth import is_wrong


def truth(objects, *pairs):
    return TrueRelations(frozenset(objects), frozenset(BlockedBy(*pair) for pair in pairs))


def pose(x, y, z):
    return np.array((x, y, z, 1.0, 0.0, 0.0, 0.0))


def test_a_sponge_above_a_cube_hides_it_and_not_the_other_way_round():
    objects = {1: named("red cube"), 2: named("blue sponge"), 3: named("red apple")}
    world = build_world(objects, {1: pose(0.36, 0, 0.021), 2: pose(0.37, 0, 0.06), 3: pose(0.44, 0.05, 0.03)})
    relations = occlusion_relations(cast_views(world, overhead_camera(160, 120)))
    assert relations == truth((1, 2, 3), (1, 2))


def test_an_object_outside_of_the_image_is_not_labelled():
    objects = {1: named("red cube"), 2: named("blue sponge")}
    world = build_world(objects, {1: pose(0.36, 0, 0.021), 2: pose(-0.3, -0.4, 0.02)})
    assert occlusion_relations(cast_views(world, overhead_camera(160, 120))).objects == {1}


def test_occlusion_agrees_with_counting_pixel_by_pixel():
    heap = make_heap(4, HeapSettings())
    seen = heap.views.visible_ids
    expected = set()
    for i, crop in heap.views.amodal.items():
        whole = crop.to_mask(seen.shape)
        for j in heap.world.objects:
            hidden = (whole & (seen == j)).sum()
            if i != j and hidden > HIDDEN_SHARE * whole.sum():
                expected.add(BlockedBy(i, j))
    assert heap.occlusion.pairs == expected


@pytest.mark.parametrize(
    ("pairs", "cyclic"),
    [
        ((), False),
        (((1, 2), (2, 3)), False),
        (((1, 2), (2, 1)), True),
        (((1, 2), (2, 3), (3, 4), (4, 2)), True),
    ],
)
def test_cycles_are_flagged(pairs, cyclic):
    assert has_cycle(truth(range(1, 6), *pairs)) is cyclic


@pytest.mark.parametrize(
    ("pairs", "length", "tier"),
    [
        (((2, 3),), 1, "easy"),
        (((1, 2), (1, 3)), 2, "medium"),
        (((1, 2), (2, 3), (1, 3)), 3, "hard"),
        (((1, 2), (2, 3), (3, 2)), 3, "hard"),
    ],
)
def test_tiers_follow_the_longest_chain(pairs, length, tier):
    relations = truth(range(1, 6), *pairs)
    assert longest_path(1, relations) == length
    assert tier_of(1, relations) == tier


def test_a_target_without_label_has_no_tier():
    with pytest.raises(InvalidSettingError, match="object 9 is not labelled"):
        tier_of(9, truth((1, 2)))


def test_either_truth_makes_an_action_wrong():
    seen, met = truth((1, 2, 3), (1, 2)), truth((1, 2, 3), (2, 3))
    assert is_wrong(Grasp(1), 1, union((seen, met)))
    assert is_wrong(Remove(2), 1, union((seen, met)))
    assert not is_wrong(Remove(3), 1, union((seen, met)))
    assert not is_wrong(Remove(2), 1, union((seen, truth((1, 2, 3)))))
    assert not is_wrong(Defer("near_tie"), 1, union((seen, met)))
