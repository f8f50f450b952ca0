"""The policy: thresholds, ties, reasons, costs, deadlines, settings."""

import numpy as np
import pytest
from support.scenes import nearest_matrix, random_matrix

from cpor import Costs, CporError, Defer, Grasp, ObstructionPosterior, Remove, decide, decide_many
from cpor.infer.exact import solve_exact


def scene(relations, objects=("mug", "box", "can"), target="mug"):
    return ObstructionPosterior(objects, target, relations)


def test_a_lone_object_is_grasped():
    decision = decide(ObstructionPosterior(["mug"], "mug", {}))
    assert decision.action == Grasp("mug")
    assert decision.scores == {"mug": 1.0}
    assert decision.mu == 0.0


def test_deferring_wins_at_tau():
    assert decide(scene({("mug", "box"): 0.5})).action == Defer("near_tie")
    assert decide(ObstructionPosterior(["mug"], "mug", {}), tau=1.0).action == Defer("weak_evidence")


def test_grasping_wins_a_tie_then_the_smaller_index():
    tie = scene({("mug", "box"): 0.5})
    assert decide(tie, tau=0.4).action == Grasp("mug")
    both = scene({("mug", "can"): 0.9, ("mug", "box"): 0.9})
    assert decide(both).action == Remove("box")


def test_reasons_to_defer():
    loop = scene({("mug", "box"): 0.9, ("box", "mug"): 0.9})
    assert decide(loop, tau=0.6).action == Defer("conflicting_evidence")
    spread = {("mug", "box"): 0.6, ("box", "can"): 0.5}
    assert decide(scene(spread), tau=0.9).action == Defer("near_tie")
    assert decide(scene({("mug", "box"): 0.7}), tau=0.9).action == Defer("weak_evidence")


def test_costs_stand_in_for_thresholds():
    relations = {("mug", "box"): 0.7, ("mug", "can"): 0.4}
    decision = decide(scene(relations), costs=Costs(defer=0.4, false_positive=1.0, false_negative=3.0))
    assert decision.tau == pytest.approx(0.6)
    assert decision.blocker_threshold == pytest.approx(0.25)
    assert decision.blockers == {"box", "can"}
    assert decide(scene(relations)).blockers == {"box"}


@pytest.mark.parametrize(
    ("settings", "culprit"),
    [
        ({"tau": 1.5}, "tau"),
        ({"tau": float("nan")}, "tau"),
        ({"method": "magic"}, "magic"),
        ({"deadline_ms": 0}, "deadline_ms"),
        ({"prior": -0.1}, "prior"),
        ({"tau": 0.3, "costs": Costs(0.5)}, "either tau or costs"),
    ],
)
def test_bad_settings_name_the_culprit(settings, culprit):
    with pytest.raises(CporError, match=culprit):
        decide(scene({}), **settings)


@pytest.mark.parametrize("bad", [{"defer": 1.2}, {"defer": 0.1, "false_positive": 0, "false_negative": 0}])
def test_bad_costs(bad):
    with pytest.raises(CporError, match="cost"):
        Costs(**bad)


def test_no_scenes_no_decisions():
    assert decide_many([]) == []


def test_exact_refuses_what_it_cannot_do(rng):
    dense = ObstructionPosterior(range(30), 0, random_matrix(rng, 30, 1.0))
    with pytest.raises(CporError, match="30 objects"):
        decide(dense, method="exact")
    assert decide(dense).method == "topk"


@pytest.mark.parametrize("method", ["auto", "topk", "exact"])
def test_a_deadline_gives_an_answer_with_valid_bounds(rng, method):
    p = random_matrix(rng, 15, 1.0)
    truth = solve_exact(p, 0).scores
    decision = decide(ObstructionPosterior(range(15), 0, p), method=method, deadline_ms=0.001)
    assert decision.certificate.kind == "deadline"
    assert decision.certificate.k >= 1
    scores = np.array(list(decision.scores.values()))
    assert np.all(np.abs(scores - truth) <= decision.certificate.epsilon + 1e-12)


@pytest.mark.parametrize("neighbours", [3, 4])
def test_a_generous_deadline_changes_nothing(neighbours):
    for seed in range(5):
        p = nearest_matrix(np.random.default_rng(seed), 24, neighbours)
        posterior = ObstructionPosterior(range(24), 0, p)
        assert decide(posterior, deadline_ms=60_000) == decide(posterior)


def test_auto_does_not_act_on_a_bound_that_says_nothing(rng):
    dense = ObstructionPosterior(range(24), 0, random_matrix(rng, 24, 1.0))
    decision = decide(dense)
    assert max(high for _, high in decision.bounds.values()) > 0.5
    assert decision.action == Defer("conflicting_evidence")  # that most of the belief is cyclic is proven
    assert decide(dense, method="topk").certificate.kind == "k_max"  # to the letter, it may act


def test_the_reason_does_not_depend_on_the_method():
    loop = scene({("mug", "box"): 0.9, ("box", "mug"): 0.9})
    exact, topk = (decide(loop, tau=0.6, method=method) for method in ("exact", "topk"))
    assert exact.action == topk.action == Defer("conflicting_evidence")


def test_clipping_can_be_set():
    sure = scene({("mug", "box"): 1.0})
    assert decide(sure).scores["mug"] == pytest.approx(1e-9)
    assert decide(sure, zeta=0.01).scores["mug"] == pytest.approx(0.01)


def test_things_that_are_no_scene_are_named():
    with pytest.raises(CporError, match="ndarray"):
        decide(np.zeros((2, 2)))
    with pytest.raises(CporError, match=r"tau is '0\.5'"):
        decide(scene({}), tau="0.5")
