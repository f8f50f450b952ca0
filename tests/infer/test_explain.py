"""Explanations: each claim is checked by changing the scene and deciding again."""

import numpy as np
import pytest
from support.scenes import nearest_matrix, random_scene

from cpor import Defer, Grasp, ObstructionPosterior, Remove, decide, explain


def changed(scene, effect, p):
    matrix = scene.p_obstructs.copy()
    matrix[scene.index(effect.blocked), scene.index(effect.blocker)] = p
    return scene.replace_p(matrix)


def same(a, b):
    return a == b or (isinstance(a, Defer) and isinstance(b, Defer))


def test_sensitivity_is_the_derivative(rng):
    for _ in range(20):
        scene = random_scene(rng, 5, 8)
        for effect in explain(scene).relations:
            if not 1e-3 < effect.p < 1 - 1e-3:
                continue
            step = 1e-6
            above = decide(changed(scene, effect, effect.p + step)).scores
            below = decide(changed(scene, effect, effect.p - step)).scores
            for label, slope in effect.sensitivity.items():
                assert slope == pytest.approx((above[label] - below[label]) / (2 * step), abs=1e-5)


def test_flips_are_where_they_are_said_to_be(rng):
    flips = 0
    for _ in range(40):
        scene = random_scene(rng, 5, 8)
        explanation = explain(scene)
        now = explanation.decision.action
        for effect in explanation.relations:
            if effect.flips_at is None:
                for p in np.linspace(0.001, 0.999, 12):
                    assert same(decide(changed(scene, effect, p)).action, now)
                continue
            side = 1.0 if effect.flips_at > effect.p else -1.0
            near, beyond = effect.flips_at - 1e-6 * side, effect.flips_at + 1e-6 * side
            if 1e-6 < beyond < 1 - 1e-6 and effect.change_to_flip > 1e-4:
                flips += 1
                assert same(decide(changed(scene, effect, near)).action, now)
                assert same(decide(changed(scene, effect, beyond)).action, effect.flips_to)
    assert flips > 30


def test_value_of_asking_is_the_expected_gain(rng):
    for _ in range(20):
        scene = random_scene(rng, 5, 8)
        explanation = explain(scene)
        tau = explanation.decision.tau
        for effect in explanation.relations:
            value = [
                max(*decide(changed(scene, effect, answer)).scores.values(), tau) for answer in (0.0, 1.0)
            ]
            now = max(*explanation.decision.scores.values(), tau)
            gain = effect.p_posterior * value[1] + (1 - effect.p_posterior) * value[0] - now
            assert effect.value_of_asking == pytest.approx(max(gain, 0.0), abs=1e-6)


def test_the_least_change_comes_first(rng):
    changes = [effect.change_to_flip for effect in explain(random_scene(rng, 6, 12)).relations]
    assert changes == sorted(changes)


def test_shares_and_relations_of_a_known_scene():
    scene = ObstructionPosterior(["mug", "box"], "mug", {("mug", "box"): 0.8})
    explanation = explain(scene, k=5)
    assert [graph.share for graph in explanation.graphs] == pytest.approx([0.8, 0.2])
    (effect,) = explanation.relations
    assert effect.flips_at == pytest.approx(0.5)
    assert effect.value_of_asking == pytest.approx(0.2)
    assert explanation.ask_next is effect


def test_a_certain_scene_needs_no_question():
    assert explain(ObstructionPosterior(["mug", "box"], "mug", {})).ask_next is None


def test_large_scenes_say_what_was_left_out(rng):
    p = rng.uniform(0.05, 0.95, (30, 30))
    np.fill_diagonal(p, 0.0)
    explanation = explain(ObstructionPosterior(range(30), 0, p))
    assert explanation.relations == ()
    assert explanation.not_examined == 30 * 29
    assert explanation.graphs == ()  # none can be proven to be the likeliest


def test_sparse_scenes_of_twenty_objects_are_examined_in_full(rng):
    scene = ObstructionPosterior(range(20), 0, nearest_matrix(rng, 20))
    assert explain(scene).not_examined == 0


def test_a_certain_relation_flips_where_a_nearly_certain_one_does():
    for p in (1.0, 1.0 - 1e-12, 0.999):
        (effect,) = explain(ObstructionPosterior(["mug", "box"], "mug", {("mug", "box"): p})).relations
        assert effect.flips_at == pytest.approx(0.5)
        assert effect.sensitivity == pytest.approx({"mug": -1.0, "box": 1.0})


def test_a_decision_on_the_edge_flips_at_once():
    scene = ObstructionPosterior(["a", "b", "c"], "a", {("a", "b"): 0.5, ("b", "c"): 0.4})
    first = explain(scene).relations[0]
    assert first.flips_at == pytest.approx(0.5)
    assert first.flips_to == Grasp("a")


def test_a_missing_answer_is_not_shown_as_a_finding():
    scene = ObstructionPosterior(["mug", "box", "can"], "mug", {("mug", "box"): None, ("box", "can"): 0.3})
    explanation = explain(scene, decide(scene, tau=0.4))
    assert explanation.graphs == ()
    effect = next(effect for effect in explanation.relations if effect.assumed)
    assert (effect.flips_at, effect.flips_to) == (None, None)
    assert (effect.if_true, effect.if_false) == (Remove("box"), Grasp("mug"))
    assert explain(scene, prior=0.2).graphs


def test_dense_scenes_of_seventeen_objects_are_refused_quickly_or_examined(rng):
    p = rng.uniform(0.05, 0.95, (18, 18))
    np.fill_diagonal(p, 0.0)
    explanation = explain(ObstructionPosterior(range(18), 0, p))
    assert explanation.not_examined == 18 * 17
