"""What must hold for every scene."""

import dataclasses

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from support.scenes import PROBABILITY, scenes
from support.sizes import sized

from cpor import Grasp, ObstructionPosterior, decide

TAU = st.sampled_from([0.0, 0.3, 0.5, 0.8, 1.0])


def best_two(decision):
    ranked = sorted(decision.scores.values(), reverse=True)
    return (ranked[0], ranked[1]) if len(ranked) > 1 else (ranked[0], -1.0)


@given(scenes(), TAU, st.sampled_from(["exact", "topk", "auto"]))
@settings(max_examples=sized(100, 300), deadline=None)
def test_scores_are_probabilities(scene, tau, method):
    decision = decide(scene, tau=tau, method=method)
    assert set(decision.scores) == set(scene.objects)
    assert all(0.0 <= score <= 1.0 for score in decision.scores.values())
    assert 0.0 <= decision.certificate.epsilon <= 1.0
    assert scene.target not in decision.blockers


@given(scenes(), TAU, st.randoms(use_true_random=False))
@settings(max_examples=sized(100, 300), deadline=None)
def test_relabelling_permutes_the_answer(scene, tau, random):
    order = list(range(len(scene)))
    random.shuffle(order)
    name = {old: f"object {k}" for k, old in enumerate(order)}
    moved = ObstructionPosterior(
        [name[old] for old in order],
        name[scene.target],
        {(name[i], name[j]): p for i, j, p in scene.relations()},
    )
    before, after = decide(scene, tau=tau), decide(moved, tau=tau)
    for old in scene.objects:
        assert abs(before.scores[old] - after.scores[name[old]]) < 1e-9
    first, second = best_two(before)
    if first - second > 1e-11 and abs(first - tau) > 1e-11:
        action = before.action
        if hasattr(action, "obj"):
            action = dataclasses.replace(action, obj=name[action.obj])
            assert action == after.action
        else:
            assert type(action) is type(after.action)


@given(scenes())
@settings(max_examples=sized(100, 300), deadline=None)
def test_mu_is_zero_exactly_without_a_cycle(scene):
    reach = scene.p_obstructs > 0
    for k in range(len(scene)):
        reach = reach | (reach[:, k : k + 1] & reach[k])
    assert (decide(scene).mu > 0.0) == bool(np.diagonal(reach).any())


@given(scenes(), TAU, st.data())
@settings(max_examples=sized(100, 300), deadline=None)
def test_an_unreachable_object_changes_nothing(scene, tau, data):
    blocked_by = {("new", o): data.draw(PROBABILITY) for o in scene.objects if data.draw(st.booleans())}
    known = {(i, j): p for i, j, p in scene.relations()}
    wider = ObstructionPosterior([*scene.objects, "new"], scene.target, known | blocked_by)
    before, after = decide(scene, tau=tau), decide(wider, tau=tau)
    assert after.scores["new"] == 0.0
    assert {o: after.scores[o] for o in scene.objects} == before.scores
    assert after.action == before.action


@given(scenes(most=5), TAU, st.sampled_from(["exact", "topk"]), st.data())
@settings(max_examples=sized(100, 300), deadline=None)
def test_losing_an_answer_never_frees_the_target(scene, tau, method, data):
    known = {(i, j): p for i, j, p in scene.relations()}
    if not known:
        return
    lost = data.draw(st.lists(st.sampled_from(sorted(known)), min_size=1, max_size=4, unique=True))
    poorer = ObstructionPosterior(scene.objects, scene.target, known | dict.fromkeys(lost))
    before = decide(scene, tau=tau, method=method)
    after = decide(poorer, tau=tau, method=method)
    if not isinstance(before.action, Grasp):
        assert not isinstance(after.action, Grasp)


@given(scenes(most=4, unanswered=True), TAU, st.data())
@settings(max_examples=sized(100, 200), deadline=None)
def test_acting_despite_missing_answers_is_acting_whatever_they_are(scene, tau, data):
    decision = decide(scene, tau=tau)
    missing = np.isnan(scene.p_obstructs)
    filled = scene.p_obstructs.copy()
    filled[missing] = [data.draw(st.floats(0.0, 1.0)) for _ in range(int(missing.sum()))]
    whole = decide(scene.replace_p(filled), tau=tau)
    for label in scene.objects:
        low, high = decision.interval(label)
        assert low - 1e-8 <= whole.scores[label] <= high + 1e-8
    first, second = best_two(whole)
    clear = first - second > 1e-7 and abs(first - tau) > 1e-7
    if clear and getattr(decision.action, "reason", None) != "no_evidence":
        assert type(decision.action) is type(whole.action)
        assert getattr(decision.action, "obj", None) == getattr(whole.action, "obj", None)
