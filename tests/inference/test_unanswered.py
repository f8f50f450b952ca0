"""No answer is a state of its own: it never turns into "free to grasp"."""

import numpy as np
import pytest

from cpor import Defer, Grasp, ObstructionPosterior, Remove, decide, decide_many, explain
from cpor.inference import unanswered


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
    assert decision.unanswered_range[1] == (0.0, 1.0)


def test_batches_mix_answered_and_unanswered_scenes():
    whole = ObstructionPosterior(["mug", "box"], "mug", {("mug", "box"): 0.1})
    gap = ObstructionPosterior(["mug", "box"], "mug", np.array([[0.0, np.nan], [0.0, 0.0]]))
    actions = [decision.action for decision in decide_many([gap, whole, gap])]
    assert actions == [Defer("no_evidence"), Grasp("mug"), Defer("no_evidence")]


def test_the_missing_answer_is_worth_asking_for():
    scene = ObstructionPosterior(["mug", "box", "can"], "mug", {("mug", "box"): None, ("box", "can"): 0.2})
    ask = explain(scene).ask_next
    assert (ask.blocked, ask.blocker, ask.assumed) == ("mug", "box", True)
