"""No answer is a state of its own: it never turns into "free to grasp"."""

import numpy as np
import pytest
from oracles.corners import solve_corners
from support.scenes import nearest_matrix, random_matrix, random_scene

from cpor import (
    Defer,
    Grasp,
    ObstructionPosterior,
    Remove,
    TopKSettings,
    decide,
    decide_many,
    explain,
)
from cpor.infer import decide as decide_module
from cpor.infer import unanswered
from cpor.infer.policy import Policy
from cpor.infer.unanswered import decide_unanswered


def test_a_missing_answer_about_the_target_defers():
    scene = ObstructionPosterior(["mug", "box"], "mug", {("mug", "box"): None})
    decision = decide(scene)
    assert decision.action == Defer("no_evidence")
    assert decision.unanswered_range["mug"] == pytest.approx((0.0, 1.0), abs=1e-8)
    assert decision.mu is None
    assert not decision.certificate.blockers_certified


def test_a_missing_answer_that_cannot_matter_is_ignored():
    scene = ObstructionPosterior(["mug", "box", "can"], "mug", {("box", "can"): None, ("mug", "box"): 0.1})
    assert decide(scene).action == Grasp("mug")
    unreachable = ObstructionPosterior(["mug", "box", "can"], "mug", {("box", "can"): None})
    decision = decide(unreachable)
    assert decision.action == Grasp("mug")
    assert decision.unanswered_range is None


def test_a_prior_stands_in_for_the_answer():
    scene = ObstructionPosterior(["mug", "box"], "mug", {("mug", "box"): None})
    assert decide(scene, prior=0.05).action == Grasp("mug")
    assert decide(scene, prior=0.95).action == Remove("box")


def test_whatever_the_answer_the_box_goes_first():
    relations = {("mug", "box"): 0.97, ("mug", "can"): 0.1, ("can", "box"): None}
    decision = decide(ObstructionPosterior(["mug", "box", "can"], "mug", relations))
    assert decision.action == Remove("box")
    assert decision.scores["box"] == pytest.approx(0.97)  # the least, where box does not obstruct can
    assert decision.unanswered_range["can"] == pytest.approx((0.0, 0.1), abs=1e-8)


def test_too_many_missing_answers_defer(monkeypatch):
    monkeypatch.setattr(unanswered, "MOST_CORNERS", 8)
    objects = list(range(7))
    scene = ObstructionPosterior(objects, 0, {(0, 1): 0.99} | {(0, j): None for j in range(2, 7)})
    decision = decide(scene)
    assert decision.action == Defer("no_evidence")
    assert decision.unanswered_range[1] == pytest.approx((0.99, 0.99))
    assert decision.unanswered_range[2] == pytest.approx((0.0, 1.0), abs=1e-8)


def test_batches_mix_answered_and_unanswered_scenes():
    whole = ObstructionPosterior(["mug", "box"], "mug", {("mug", "box"): 0.1})
    gap = ObstructionPosterior(["mug", "box"], "mug", np.array([[0.0, np.nan], [0.0, 0.0]]))
    actions = [decision.action for decision in decide_many([gap, whole, gap])]
    assert actions == [Defer("no_evidence"), Grasp("mug"), Defer("no_evidence")]


def test_the_missing_answer_is_worth_asking_for():
    scene = ObstructionPosterior(["mug", "box", "can"], "mug", {("mug", "box"): None, ("box", "can"): 0.2})
    ask = explain(scene).ask_next
    assert (ask.blocked, ask.blocker, ask.assumed) == ("mug", "box", True)


def test_acting_on_missing_answers_needs_a_certificate_at_every_corner(rng):
    acted = 0
    for _ in range(300):
        scene = random_scene(rng, 5, 12)
        known = {(i, j): p for i, j, p in scene.relations()}
        if len(known) < 3:
            continue
        lost = [pair for pair in known if rng.random() < 0.2][:2]
        poorer = ObstructionPosterior(scene.objects, scene.target, known | dict.fromkeys(lost))
        settings = TopKSettings(k_max=8, tolerance=0.3)
        quick = decide(poorer, tau=0.2, method="topk", topk=settings, require_certificate=True)
        if isinstance(quick.action, Defer):
            continue
        acted += 1
        assert quick.action == decide(poorer, tau=0.2, method="exact").action
    assert acted > 30


def test_many_missing_answers_far_from_a_free_target():
    below = {(1, j): None for j in range(2, 16)}
    scene = ObstructionPosterior(range(16), 0, {(0, 1): 0.01} | below)
    decision = decide(scene)
    assert decision.action == Grasp(0)
    assert decision.interval(0) == pytest.approx((0.99, 0.99))  # no cycle can run through it


def test_conflict_is_unknown_while_any_answer_is_missing():
    scene = ObstructionPosterior(["mug", "box", "can"], "mug", {("box", "can"): None, ("can", "box"): 0.9})
    decision = decide(scene)
    assert decision.action == Grasp("mug")
    assert decision.mu is None


def test_a_deadline_is_shared_by_all_corners(rng):
    p = random_matrix(rng, 15, 1.0)
    p[0, 1:7] = np.nan
    decision = decide(ObstructionPosterior(range(15), 0, p), deadline_ms=0.01)
    assert decision.action == Defer("no_evidence")
    assert decision.certificate.kind == "deadline"


def test_corners_that_are_too_many_cost_no_work():
    p = np.full((15, 15), np.nan)
    np.fill_diagonal(p, 0.0)
    scene = ObstructionPosterior(range(15), 0, p)
    decision = decide_unanswered(scene, Policy(), lambda *_: pytest.fail("no corner need be solved"))
    assert decision.action == Defer("no_evidence")
    assert decision.interval(0) == pytest.approx((0.0, 1.0))


def test_large_corners_share_the_work_of_one_scene_and_stay_sound(rng, monkeypatch):
    kinds = set()
    for _ in range(3):
        p = 0.4 * random_matrix(rng, 13, 0.6)
        p[0, 1:3] = p[4, 5] = np.nan
        scene = ObstructionPosterior(range(13), 0, p)
        monkeypatch.undo()
        whole = decide(scene, tau=0.2)
        monkeypatch.setattr(decide_module, "WORK_LIMIT", 4 * 3**13)  # for a few of eight corners
        poorer = decide(scene, tau=0.2)
        kinds.add(poorer.certificate.kind)
        assert poorer.action == whole.action or isinstance(poorer.action, Defer)
        for label in scene.objects:
            low, high = poorer.interval(label)
            assert low <= whole.interval(label)[0] + 1e-9 and whole.interval(label)[1] <= high + 1e-9
    assert kinds - {"exact"}


def with_unseen(rng, n, pairs_missing, unseen_missing, density=0.5):
    """A scene whose last object stands for what nobody segmented, with answers missing."""
    p = np.zeros((n + 1, n + 1))
    p[:-1, :-1] = random_matrix(rng, n, density) * rng.choice([0.1, 0.4, 1.0])
    p[:-1, -1] = rng.uniform(0.0, 0.3, n) * (rng.random(n) < 0.7)
    filled = np.argwhere(p[:-1, :-1] > 0.0)
    for i, j in rng.permutation(filled)[:pairs_missing]:
        p[i, j] = np.nan
    p[rng.permutation(n)[:unseen_missing], -1] = np.nan
    return ObstructionPosterior(range(n + 1), 0, p, n)


def same(decision, agreed):
    if agreed is None:
        return decision.action == Defer("no_evidence")
    return decision.action == agreed or (isinstance(agreed, Defer) and isinstance(decision.action, Defer))


@pytest.mark.parametrize(("pairs", "unseen", "count"), [(0, 4, 120), (3, 2, 60), (4, 0, 60)])
def test_ranges_and_actions_are_those_of_all_corners(rng, pairs, unseen, count, evidence):
    worst, acted = 0.0, 0
    for _ in range(count):
        scene = with_unseen(rng, int(rng.integers(4, 7)), pairs, unseen)
        if not np.isnan(scene.p_obstructs).any():
            continue
        decision, (ranges, agreed) = decide(scene, tau=0.4), solve_corners(scene, 0.4)
        found = np.array([decision.interval(obj) for obj in scene.objects])
        worst = max(worst, np.abs(found - ranges).max())
        assert same(decision, agreed)
        acted += not isinstance(decision.action, Defer)
    asked = f"ranges of {pairs} pairs and {unseen} unseen blockers without answer = all corners, worst error"
    evidence("exact", asked, "<= 1e-8", worst)
    assert worst < 1e-8
    assert acted >= 5


def test_twenty_unknown_unseen_blockers_are_no_obstacle(rng):
    n = 24
    p = np.zeros((n + 1, n + 1))
    p[:n, :n] = nearest_matrix(rng, n, 2) * 0.2
    p[1:21, n] = np.nan
    p[0] = 0.0
    p[0, [1, 22]] = 0.02
    decision = decide(ObstructionPosterior(range(n + 1), 0, p, n))
    assert decision.certificate.exact and decision.mu is not None
    assert decision.action == Grasp(0)
    low, high = decision.interval(n)
    assert low < high < 0.1


def test_pairs_out_of_reach_of_a_settled_chain_are_left_out():
    # Whether box obstructs mug is open; what obstructs box matters only if it does.
    below = {("box", k): None for k in range(10)}
    relations = {("mug", "box"): None, **below}
    scene = ObstructionPosterior(["mug", "box", *range(10)], "mug", relations)
    assert len(list(unanswered._cases(scene, None))) == 1 + 2**10


def test_both_directions_of_a_pair_are_never_certain_together():
    scene = ObstructionPosterior(list("abc"), "a", {("a", "b"): None, ("b", "a"): None, ("b", "c"): 0.5})
    cases = [case[:2, :2].tolist() for case in unanswered._cases(scene, None)]
    assert sorted(cases) == [
        [[0, 0], [0, 0]],
        [[0, 1], [0, 0]],
    ]  # b is out of reach where it is not in the way
