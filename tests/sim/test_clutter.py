"""Heaps to order."""

import hashlib
import subprocess
import sys

import numpy as np
import pytest
from support.arm_cell import named
from support.sizes import sized

from cpor.errors import InvalidSettingError, SimulationError
from cpor.sim.physics.clutter import CROWDS, HeapSettings, make_heap
from cpor.sim.physics.settle import drift
from cpor.sim.physics.true_relations import longest_path, sweep_relations
from cpor.sim.physics.world import HEAP_CENTRE

SEEDS = range(sized(2, 3))


@pytest.fixture(scope="module")
def dense():
    return [make_heap(seed, HeapSettings()) for seed in SEEDS]


def test_dense_heaps_lie_still_without_overlap(dense, evidence):
    deepest = max(heap.penetration_m for heap in dense)
    moved = max(drift(heap.world) for heap in dense)
    evidence("acts", f"penetration of {len(dense)} dense heaps [mm]", "below 1", 1e3 * deepest)
    evidence("acts", f"drift of {len(dense)} dense heaps in 1 s [mm]", "below 1", 1e3 * moved)
    assert deepest < 1e-3
    assert moved < 1e-3


def test_a_quiet_heap_is_watched_for_half_as_long(dense):
    world = dense[0].world
    assert drift(world, quiet_m=1.0) == drift(world, seconds=0.5)
    assert drift(world, quiet_m=0.0) == drift(world)


def test_everything_lies_in_the_bin(dense):
    (few, many), *_ = CROWDS["dense"]
    for heap in dense:
        offsets = heap.world.data.xipos[list(heap.world.body_of.values())] - (*HEAP_CENTRE, 0.0)
        assert (np.abs(offsets[:, :2]) < np.array(heap.world.bin.inner) / 2).all()
        assert few <= len(heap.world.objects) <= many
        assert set(heap.world.objects) == set(range(1, len(heap.world.objects) + 1))


def test_dense_heaps_have_relations(dense, evidence):
    hidden = float(np.mean([len(heap.occlusion.pairs) for heap in dense]))
    met = float(np.mean([len(sweep_relations(heap.world).pairs) for heap in dense]))
    evidence("acts", "relations a dense scene, occlusion / sweep", "reported", f"{hidden:.1f} / {met:.1f}")
    assert hidden > 4
    assert met > 4


def test_the_target_can_be_seen(dense):
    for heap in dense:
        shown = int((heap.views.visible_ids == heap.target).sum())
        assert shown >= 150
        assert shown >= 0.08 * heap.views.amodal[heap.target].pixels.sum()


@pytest.mark.parametrize(("tier", "lengths"), [("easy", {1}), ("medium", {2}), ("hard", set(range(3, 20)))])
def test_targets_are_buried_to_order(tier, lengths):
    heap = make_heap(3, HeapSettings(tier=tier))
    assert heap.tier == tier
    assert longest_path(heap.target, heap.occlusion) in lengths


def test_a_heap_on_the_bare_table():
    heap = make_heap(1, HeapSettings(container="table", tier="medium"))
    assert heap.world.bin is None
    assert drift(heap.world) < 1e-3


def test_another_process_makes_the_same_bytes(evidence):
    code = (
        "import hashlib; from cpor.sim.physics.clutter import HeapSettings, make_heap;"
        "heap = make_heap(0, HeapSettings(count=4));"
        "print(hashlib.sha256(heap.world.data.qpos.tobytes()).hexdigest(), heap.target)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    heap = make_heap(0, HeapSettings(count=4))
    mine = hashlib.sha256(heap.world.data.qpos.tobytes()).hexdigest()
    assert ran.stdout.split() == [mine, str(heap.target)]
    evidence("acts", "same seed, same bytes in another process", "same bytes", "same bytes")


def test_other_seeds_make_other_heaps(dense):
    assert len({heap.world.data.qpos.tobytes() for heap in dense}) == len(dense)


def test_what_cannot_be_made_is_said():
    alone = HeapSettings(objects=(named("red cube"),), count=1, tier="hard", max_tries=2)
    with pytest.raises(SimulationError, match="no hard target"):
        make_heap(0, alone)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"density": "airy"}, "loose, dense, heaped"),
        ({"count": 41}, "within 1 and 40"),
        ({"max_tries": 0}, "at least 1"),
    ],
)
def test_wrong_settings_are_refused(wrong, said):
    with pytest.raises(InvalidSettingError, match=said):
        HeapSettings(**wrong)
