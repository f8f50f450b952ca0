"""The policy acts on lower ends: no action is taken whose exact score may lie at tau or below."""

from dataclasses import replace
from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.scenes import scenes
from support.sizes import sized

from cpor import Costs, Defer, Grasp, ObstructionPosterior, TopKSettings, decide, decide_many
from cpor.infer.certificate import judge
from cpor.infer.decide import infer_bounds, infer_many
from cpor.infer.local import Allowance
from cpor.infer.policy import Policy
from cpor.learn.action import ActionCalibrator
from cpor.pipeline import Pipeline

SIZES = range(18, 31)
TAUS = (0.1, 0.3, 0.5, 0.7, 0.9)


def uniform(n, p):
    return ObstructionPosterior(range(n), 0, dict.fromkeys(permutations(range(n), 2), p))


@pytest.mark.parametrize(("p", "prior"), [(0.5, None), (None, 0.5)])
def test_large_scenes_of_which_nothing_is_known_are_never_acted_on(p, prior, evidence):
    acted = 0
    for tau in TAUS:
        decisions = decide_many([uniform(n, p) for n in SIZES], tau=tau, prior=prior)
        acted += sum(not isinstance(decision.action, Defer) for decision in decisions)
        assert all(not decision.certificate.exact for decision in decisions)
    asked = f"actions, {len(SIZES)} scenes with 18 to 30 objects, all pairs {p}, prior {prior}, 5 thresholds"
    evidence("safe", asked, "0", f"{acted} of {len(SIZES) * len(TAUS)}")
    assert acted == 0


def test_costs_are_thresholds_like_tau():
    assert decide(uniform(24, 0.5), costs=Costs(defer=0.5)).action == Defer("conflicting_evidence")


def test_a_large_scene_is_acted_on_where_that_is_proven():
    heap = dict.fromkeys(permutations(range(1, 30), 2), 0.4)
    scene = ObstructionPosterior(range(30), 0, heap | {(0, j): 0.01 for j in range(1, 30)})
    decision = decide(scene, tau=0.6)
    low, high = decision.interval(0)
    assert decision.action == Grasp(0) and decision.certificate.kind == "action"
    assert 0.6 < low <= high <= 1.0
    assert decide(scene, tau=0.8).action == Defer("conflicting_evidence")


def test_a_large_scene_without_conflict_defers_as_not_proven():
    chain = {(i, j): 0.45 for i, j in permutations(range(40), 2) if i < j}
    deferred = judge_bounds(ObstructionPosterior(range(40), 0, chain), 0.5, k_max=4, steps=10)
    assert deferred.action == Defer("not_proven")
    assert deferred.interval(0)[0] <= 0.5 < max(high for _, high in deferred.bounds.values())


def judge_bounds(scene, tau, k_max, steps, costs=None):
    """As `auto` decides a scene that is too large to be summed."""
    policy = Policy(tau, costs=costs, topk=TopKSettings(k_max=k_max))
    inference = infer_bounds(scene.p_obstructs, scene.target_index, policy, Allowance(steps))
    return judge(scene, inference, policy)


def check_against_exact(decision, truth):
    tau = decision.tau
    for label, score in truth.scores.items():
        low, high = decision.interval(label)
        assert low - 1e-12 <= score <= high + 1e-12
        assert abs(decision.scores[label] - score) <= decision.certificate.epsilon + 1e-12
    if not isinstance(decision.action, Defer):
        assert truth.scores[decision.action.obj] > tau
    if decision.certificate.certified:
        same = decision.action == truth.action
        assert same or (isinstance(decision.action, Defer) and isinstance(truth.action, Defer))
    assert decision.blockers <= truth.blockers
    if decision.certificate.blockers_certified:
        assert decision.blockers == truth.blockers


@given(
    scenes(most=7),
    st.floats(0.0, 1.0),
    st.floats(0.0, 1.0),
    st.integers(1, 40),
    st.sampled_from([1, 50, 1000, 100_000]),
)
@settings(max_examples=sized(150, 400), deadline=None)
def test_no_action_from_bounds_has_an_exact_score_at_tau_or_below(scene, tau, threshold, k_max, steps):
    costs = Costs(1.0 - tau, threshold, 1.0 - threshold)
    truth = decide(scene, method="exact", costs=costs)
    decision = judge_bounds(scene, 0.5, k_max, steps, costs)
    check_against_exact(decision, truth)


@given(scenes(most=7), st.floats(0.0, 1.0), st.integers(1, 40))
@settings(max_examples=sized(150, 300), deadline=None)
def test_algorithm_1_judged_by_lower_ends_never_acts_at_tau_or_below(scene, tau, k_max):
    policy = Policy(tau, "topk", topk=TopKSettings(k_max=k_max))
    (inference,) = infer_many([scene.p_obstructs], [scene.target_index], policy)
    decision = judge(scene, inference, policy)
    check_against_exact(decision, decide(scene, tau, "exact"))
    proven = judge(scene, inference, replace(policy, require_certificate=True))
    assert isinstance(proven.action, Defer) or proven.certificate.certified


def test_the_paper_s_rule_acts_below_tau_where_the_lower_end_does_not(rng, evidence):
    paper = ours = 0
    for _ in range(300):
        n = int(rng.integers(3, 8))
        p = {pair: float(rng.uniform(0.2, 0.8)) for pair in permutations(range(n), 2)}
        scene = ObstructionPosterior(range(n), 0, p)
        exact = decide(scene, method="exact").scores
        paper += acts_below(decide(scene, 0.4, "topk", topk=TopKSettings(k_max=4)), exact)
        ours += acts_below(judge_bounds(scene, 0.4, 4, 1000), exact)
    asked = "actions whose exact score is at most tau, 300 dense scenes, 4 graphs kept"
    evidence("safe", asked, "0", f"{ours} (the paper's rule: {paper})")
    assert ours == 0 and paper > 0


def acts_below(decision, exact):
    return not isinstance(decision.action, Defer) and exact[decision.action.obj] <= decision.tau


def test_success_rates_are_those_of_the_lower_end(rng):
    scores = rng.random(400)
    rate = ActionCalibrator.fit(scores, rng.random(400) < scores, is_target=rng.random(400) < 0.5)
    pipeline = Pipeline(rate=rate, tau=0.3)
    decision = pipeline.decide(uniform(24, 0.5))
    assert decision.scores[0] > 0.4 and isinstance(decision.action, Defer)
    sure = pipeline.decide(ObstructionPosterior(range(2), 0, {(0, 1): 0.5}))
    assert sure.action == Grasp(0) and pipeline.success_rate(sure) > 0.3
