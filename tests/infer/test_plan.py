"""Plans against brute force over all sequences and all graphs."""

import itertools

import numpy as np
import pytest
from oracles.brute_force import enumerate_dags, plan_validity
from support.scenes import nearest_matrix, random_matrix, random_scene

from cpor import CporError, Defer, Grasp, ObstructionPosterior, Remove, plan
from cpor.infer import plan as plan_module
from cpor.infer.local import reachable


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


def test_a_missing_answer_on_the_way_leaves_the_validity_open():
    gap = ObstructionPosterior(["mug", "box"], "mug", {("mug", "box"): None})
    assert plan(gap, 0).p_valid_range == pytest.approx((0.0, 1.0), abs=1e-8)
    assert plan(gap, 0).ask
    assert plan(gap, prior=0.9).steps[0].obj == "box"


def test_near_certain_contradictions_do_not_underflow():
    everyone = {(i, j): 1.0 for i in range(12) for j in range(12) if i != j}
    found = plan(ObstructionPosterior(range(12), 0, everyone), 2)
    assert 0.0 < found.p_valid < 1.0


def test_plans_with_missing_answers_have_the_range_of_all_corners(rng):
    ranges = 0
    for _ in range(25):
        scene = random_scene(rng, 5, 9)
        filled = np.argwhere(scene.p_obstructs > 0.0)
        if len(filled) < 4:
            continue
        missing = rng.permutation(filled)[:3]
        p = scene.p_obstructs.copy()
        p[tuple(missing.T)] = np.nan
        found = plan(scene.replace_p(p), 3)
        order = [scene.index(step.obj) for step in found.steps] + [scene.target_index]
        corners = []
        for values in itertools.product((0.0, 1.0), repeat=3):
            p[tuple(missing.T)] = values
            corners.append(plan_validity(enumerate_dags(scene.replace_p(p)), order))
        assert found.p_valid_range == pytest.approx((min(corners), max(corners)), abs=1e-7)
        p[tuple(missing.T)] = 0.5
        expected = plan_validity(enumerate_dags(scene.replace_p(p)), order)
        assert found.p_valid == pytest.approx(expected, abs=1e-9)
        assert found.value == pytest.approx(-0.05 * len(found.steps) - 1.0 + found.p_valid_range[0])
        ranges += max(corners) > min(corners) + 0.01
    assert ranges > 5


def test_large_scenes_have_plans_with_proven_validity(rng):
    sparse = np.triu(nearest_matrix(rng, 30, 3), 1) * 0.4 + np.tril(nearest_matrix(rng, 30, 1), -1) * 0.1
    found = plan(ObstructionPosterior(range(30), 0, sparse))
    assert not found.best_of_all or len(reachable(sparse, 0)) <= 18
    assert found.p_valid_range[0] == found.p_valid_range[1]  # the sums are within reach
    dense = plan(ObstructionPosterior(range(25), 0, random_matrix(rng, 25, 1.0)))
    low, high = dense.p_valid_range
    assert not dense.best_of_all and 0.0 <= low < high <= 1.0


def test_bounds_from_retained_graphs_hold_the_exact_validity(rng, monkeypatch):
    for _ in range(15):
        scene = random_scene(rng, 5, 9)
        exact = plan(scene, 3)
        order = [scene.index(step.obj) for step in exact.steps] + [scene.target_index]
        truth = plan_validity(enumerate_dags(scene), order)
        monkeypatch.setattr(plan_module._Events, "_mass", lambda self, p: None)
        monkeypatch.setattr(plan_module, "_GRAPHS", 5)
        low, high = plan_module._Events(scene, scene).range(plan_module._forbidden(scene, order[:-1]))
        monkeypatch.undo()
        assert low - 1e-12 <= truth <= high + 1e-12


def test_what_a_plan_is_expected_to_take_and_what_comes_next():
    scene = ObstructionPosterior(["mug", "box", "can"], "mug", {("mug", "box"): 0.95, ("box", "can"): 0.97})
    found = plan(scene, 5)
    assert found.then == Remove("box")
    at_once = plan(ObstructionPosterior(["mug", "box"], "mug", {("mug", "box"): 0.02}))
    assert at_once.then is None
