from dataclasses import replace

import numpy as np

from cpor.sim.objects.solids import ObjectModel
from training.buffer import ViewBuffer, split_heaps
from training.heaps import make_heap_arrays
from training.packs import flat_bag
from training.pieces import FILM_ROLE, METAL, roles
from training.shapes import random_object
from training.targets import make_targets
from training.tools import screwdriver

import torch  # isort: skip


def test_objects_are_as_large_as_asked_and_differ():
    rng = np.random.default_rng(0)
    made = [random_object(rng, "thing", 0.1) for _ in range(60)]
    assert len({len(m.parts) for m in made}) > 5
    for model in made:
        for part in model.parts:
            assert np.isfinite(part.position).all()
            assert all(0.0005 < s < 0.15 for s in part.size)


def test_the_same_seed_gives_the_same_views(tiny_config, heaps):
    one, two = (ViewBuffer(heaps, 2, tiny_config, torch.device("cpu"), 3) for _ in range(2))
    one.fill()
    two.fill()
    assert torch.equal(one.rgb, two.rgb) and torch.equal(one.depth, two.depth)
    assert torch.equal(one.draw(2).rgb, two.draw(2).rgb)


def test_held_out_heaps_are_no_training_heaps(heaps):
    training, checking = split_heaps(heaps, 0.3)
    assert len(training) + len(checking) == len(heaps) and len(checking) == 1
    assert np.array_equal(np.concatenate([training.positions, checking.positions]), heaps.positions)
    assert checking.starts[0] == 0 and checking.starts[-1] == len(checking.kinds)


def two_squares():
    """Object 1 covers a corner of object 2, in a picture of 64 x 64."""
    ids = torch.zeros((1, 64, 64), dtype=torch.uint8)
    ids[0, 24:56, 24:56] = 2
    ids[0, 8:32, 8:32] = 1
    bits = torch.zeros((1, 32, 32), dtype=torch.int32)
    bits[0, 12:28, 12:28] |= 1 << 2
    bits[0, 4:16, 4:16] |= 1 << 1
    return ids, bits


def test_what_is_hidden_of_each_is_told():
    ids, bits = two_squares()
    targets = make_targets(ids, bits, 3, 20)
    assert targets.wanted[0].tolist() == [True, True, False]
    assert abs(float(targets.hidden[0, 1]) - 16.0 / 256.0) < 1e-6 and targets.hidden[0, 0] == 0.0
    peak = targets.score[0, 0].argmax()
    assert (int(peak) // 8, int(peak) % 8) in {(2, 2), (1, 2), (2, 1), (1, 1)}
    assert (targets.heat > 0.99).sum() == 2


def test_glass_lets_through_what_lies_behind_but_keeps_its_label(tiny_config, heaps):
    views = []
    for share in (0.0, 1.0):
        config = replace(tiny_config, views=replace(tiny_config.views, see_through=share, batch=4))
        buffer = ViewBuffer(heaps, 4, config, torch.device("cpu"), 5)
        buffer.fill()
        views.append(buffer)
    solid, glass = views
    assert torch.equal(solid.ids, glass.ids) and torch.equal(solid.amodal, glass.amodal)
    changed = (solid.rgb != glass.rgb).any(-1)
    assert changed[glass.ids > 0].any()
    seen, through = solid.depth.int() & 0xFFFF, glass.depth.int() & 0xFFFF
    assert (through >= seen).all() and torch.equal(through[glass.ids == 0], seen[glass.ids == 0])


def test_a_bag_of_film_and_what_it_holds_are_one_object_of_two_materials():
    rng = np.random.default_rng(2)
    model = ObjectModel("bag", "procedural", tuple(flat_bag(rng, 0.2)), 0.1)
    kinds = set(roles(model))
    assert FILM_ROLE in kinds and len(kinds) > 1


def test_tools_have_a_shaft_of_bare_metal_that_is_long_and_thin():
    for seed in range(5):
        parts = screwdriver(np.random.default_rng(seed), 0.2)
        shaft = next(p for p in parts if p.surface == METAL and p.kind == "capsule")
        assert shaft.size[1] > 8 * shaft.size[0]


def test_like_things_look_alike_and_bins_have_no_object(tiny_config):
    config = replace(tiny_config.heaps, table_share=0.0, like_share=1.0, stack_share=0.0, settle_steps=5)
    heap = make_heap_arrays(np.random.default_rng(3), config)
    assert set(heap.looks[heap.objects > 0]) == {1} and len(set(heap.objects[heap.objects > 0])) > 2
    assert (heap.looks[heap.objects == 0] == 0).all()


def test_a_stack_stands_upright_on_the_table(tiny_config):
    config = replace(tiny_config.heaps, table_share=1.0, stack_share=1.0, settle_steps=30)
    heap = make_heap_arrays(np.random.default_rng(8), config)
    first = heap.positions[heap.objects == 1][0]
    second = heap.positions[heap.objects == 2][0]
    assert np.linalg.norm(first[:2] - second[:2]) < 0.03 and second[2] > first[2]


def test_packages_stand_on_a_table_with_all_of_them_above_it(tiny_config):
    config = replace(tiny_config.heaps, package_share=1.0)
    for seed in range(4):
        heap = make_heap_arrays(np.random.default_rng(seed), config)
        things = heap.objects > 0
        assert len(np.unique(heap.objects[things])) >= 2
        assert (heap.positions[things, 2] > 0.0).all() and (heap.bins == 0.0).all()
