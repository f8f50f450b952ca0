"""Plans against brute force over all sequences and all graphs."""

import itertools

import numpy as np
import pytest
from oracles.brute_force import enumerate_dags, plan_validity
from support.scenes import random_matrix, random_scene

from cpor import CporError, Defer, Grasp, ObstructionPosterior, Remove, plan
from cpor.inference.local import reachable


def all_sequences(scene, most):
    others = [o for o in reachable(scene.p_obstructs, scene.target_index).tolist() if o != scene.target_index]
    for size in range(min(len(others), most) + 1):
        yield from itertools.permutations(others, size)


@pytest.mark.parametrize("costs", [(0.05, 1.0, 0.5), (0.2, 1.0, 0.3), (0.0, 2.0, 0.1)])
def test_best_plan_of_all_sequences(rng, costs, evidence):
    for _ in range(60):
        scene = random_scene(rng, 5, 12)
        brute = enumerate_dags(scene)
        found = plan(scene, 3, *costs)
        best = max(
            -costs[0] * len(order) - costs[1] * (1.0 - plan_validity(brute, [*order, scene.target_index]))
            for order in all_sequences(scene, 3)
        )
        order = [scene.index(step.obj) for step in found.steps]
        assert found.value == pytest.approx(best, abs=1e-10)
        assert found.p_valid == pytest.approx(plan_validity(brute, [*order, scene.target_index]), abs=1e-10)
        assert found.ask == (-costs[2] >= found.value)
    paid = "a step {:g}, a failure {:g}, a question {:g}".format(*costs)
    evidence("exact", f"plans = brute force over all sequences; costs: {paid}", "equal", "equal on 60 scenes")


def test_steps_tell_their_probabilities(rng):
    steps = 0
    for _ in range(60):
        scene = random_scene(rng, 5, 12)
        brute = enumerate_dags(scene)
        shares = brute.shares
        found = plan(scene, cost_removal=0.01)
        gone = set()
        so_far = np.ones(brute.n_graphs, bool)
        for step in found.steps:
            o = scene.index(step.obj)
            ahead = [e for e, (i, j) in enumerate(brute.edges) if i == o and j not in gone]
            valid = ~brute.graphs[:, ahead].any(axis=1)
            so_far &= valid
            assert step.p_valid == pytest.approx(shares @ valid, abs=1e-10)
            assert step.p_valid_so_far == pytest.approx(shares @ so_far, abs=1e-10)
            assert step.p_needed == pytest.approx(brute.reach[o], abs=1e-10)
            gone.add(o)
            steps += 1
    assert steps > 30


def test_a_clear_chain_is_cleared_from_the_top():
    scene = ObstructionPosterior(["mug", "box", "can"], "mug", {("mug", "box"): 0.95, ("box", "can"): 0.97})
    found = plan(scene, 5)
    assert [step.obj for step in found.steps] == ["can", "box"]
    assert found.first_action == Remove("can")
    assert found.note is None


def test_an_empty_plan_grasps_at_once():
    found = plan(ObstructionPosterior(["mug", "box"], "mug", {("mug", "box"): 0.02}), 3)
    assert found.steps == ()
    assert found.first_action == Grasp("mug")
    assert found.p_valid == pytest.approx(0.98)


def test_asking_wins_when_nothing_is_worth_the_risk():
    scene = ObstructionPosterior(["mug", "box"], "mug", {("mug", "box"): 0.5, ("box", "mug"): 0.5})
    found = plan(scene, 0, cost_ask=0.1)
    assert found.ask
    assert isinstance(found.first_action, Defer)


def test_a_plan_that_begins_differently_says_why(rng):
    notes = [plan(random_scene(rng, 6, 14)).note for _ in range(100)]
    said = [note for note in notes if note]
    assert said
    assert all("decide" in note for note in said)


@pytest.mark.parametrize(
    ("arguments", "culprit"),
    [
        ({"max_steps": -1}, "max_steps"),
        ({"cost_wrong": float("inf")}, "cost_wrong"),
        ({"cost_ask": -1.0}, "cost_ask"),
    ],
)
def test_bad_costs(arguments, culprit):
    with pytest.raises(CporError, match=culprit):
        plan(ObstructionPosterior(["mug"], "mug", {}), **arguments)


def test_missing_answers_and_large_scenes_are_refused(rng):
    gap = ObstructionPosterior(["mug", "box"], "mug", {("mug", "box"): None})
    with pytest.raises(CporError, match="no answer"):
        plan(gap)
    assert plan(gap, prior=0.9).steps[0].obj == "box"
    with pytest.raises(CporError, match="25 objects"):
        plan(ObstructionPosterior(range(25), 0, random_matrix(rng, 25, 1.0)))


def test_near_certain_contradictions_do_not_underflow():
    everyone = {(i, j): 1.0 for i in range(12) for j in range(12) if i != j}
    found = plan(ObstructionPosterior(range(12), 0, everyone), 2)
    assert 0.0 < found.p_valid < 1.0
