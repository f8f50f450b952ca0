"""Radius and certified factors: no point within what was certified takes the score to tau."""

import io
import math
from itertools import product

import numpy as np
import pytest
from oracles.brute_force import enumerate_dags
from rich.console import Console
from support.scenes import random_matrix, random_scene

from cpor import CporError, Defer, Grasp, ObstructionPosterior, Remove, decide, explain
from cpor.answer import decide_given
from cpor.infer.exact import solve_exact
from cpor.infer.robust import (
    LARGEST_FACTOR,
    allow_cycles,
    holds_within,
    odds_factor,
    off_by,
    only_robust,
)
from cpor.records import AnswerRecord
from cpor.viz.card import decision_card
from cpor.viz.words import say_why


def worst_corner(scene, own, least, most):
    """The least score of an object over all corners of the intervals of its relations."""
    edges = np.argwhere(scene.p_obstructs > 0.0)
    corners = []
    for ends in product((least, most), repeat=len(edges)):
        p = scene.p_obstructs.copy()
        for (i, j), end in zip(edges, ends, strict=True):
            p[i, j] = end[i, j]
        corners.append(solve_exact(p, scene.target_index).scores[own])
    return min(corners)


def confident_scene(rng, n=5, density=0.4):
    """A scene with few doubts, as the robot acts on."""
    p = random_matrix(rng, n, density)
    p = np.where(p > 0.0, 1.0 / (1.0 + np.exp(-np.where(p > 0.7, 3.0, -3.0) - rng.normal(size=p.shape))), 0.0)
    return ObstructionPosterior(range(n), 0, p)


def test_no_corner_within_the_certified_factor_reaches_tau(rng, evidence):
    acted, slack = {"Grasp": 0, "Remove": 0}, []
    for _ in range(60):
        scene = confident_scene(rng)
        decision = decide(scene, tau=0.6)
        factor = odds_factor(scene, decision)
        if factor is None or np.count_nonzero(scene.p_obstructs) > 9:
            continue
        acted[type(decision.action).__name__] += 1
        own = scene.index(decision.action.obj)
        lowest = worst_corner(scene, own, *off_by(scene, min(factor, 50.0)))
        assert lowest > 0.6 - 1e-9
        slack.append(lowest - 0.6)
    evidence("exact", "scores at or below tau at corners of certified factors, 5 objects", "0", "0")
    assert min(acted.values()) >= 5
    assert min(slack) < 0.2  # the bound is not empty


def test_random_points_within_intervals_keep_the_action(rng):
    held = 0
    for _ in range(90):
        scene = confident_scene(rng, 7)
        decision = decide(scene, tau=0.6)
        if not holds_within(scene, decision, *(ends := off_by(scene, 1.5))):
            continue
        held += 1
        for _ in range(20):
            mix = rng.random(scene.p_obstructs.shape)
            if rng.random() < 0.5:
                mix = np.round(mix)
            p = np.where(scene.p_obstructs > 0.0, ends[0] + mix * (ends[1] - ends[0]), 0.0)
            moved = decide(scene.replace_p(p), tau=0.6)
            assert moved.scores[decision.action.obj] > 0.6
            if isinstance(decision.action, Grasp):
                assert moved.action == decision.action
    assert held > 10


def test_a_posterior_tilted_within_the_radius_keeps_the_score_above_tau(rng):
    tried = 0
    for _ in range(60):
        scene = random_scene(rng, 4, 8)
        decision = decide(scene, tau=0.3)
        if decision.radius is None or not math.isfinite(decision.radius):
            continue
        tried += 1
        brute = enumerate_dags(scene)
        own = scene.index(decision.action.obj)
        # The worst tilt of all: the graphs in which the action is right get the smallest weight.
        q, eta = brute.scores[own], 0.999 * decision.radius
        assert q * math.exp(-eta) / (q * math.exp(-eta) + 1.0 - q) > 0.3
        weights = brute.shares * np.exp(rng.uniform(0.0, eta, brute.n_graphs))
        right = right_in(brute, own, scene.target_index)
        assert weights @ right / weights.sum() > 0.3
    assert tried > 20


def right_in(brute, own, target):
    """In which graphs acting on an object is right."""
    right = np.zeros(brute.n_graphs, bool)
    for g, graph in enumerate(brute.graphs):
        edges = [edge for edge, holds in zip(brute.edges, graph, strict=True) if holds]
        reached, todo = {target}, [target]
        while todo:
            here = todo.pop()
            new = {j for i, j in edges if i == here} - reached
            reached |= new
            todo += new
        right[g] = own in reached and all(i != own for i, _ in edges)
    return right


def test_a_pair_by_hand():
    # Odds of the score .9 are 9, of tau .6 are 1.5: the relation's odds may grow six times.
    scene = ObstructionPosterior(["mug", "box"], "mug", {("mug", "box"): 0.1})
    decision = decide(scene, tau=0.6)
    assert decision.radius == pytest.approx(math.log(6.0))
    assert odds_factor(scene, decision) == pytest.approx(6.0, rel=1e-5)


def test_what_has_no_radius():
    scene = ObstructionPosterior(["mug", "box"], "mug", {("mug", "box"): 0.5})
    deferred = decide(scene, tau=0.6)
    assert isinstance(deferred.action, Defer) and deferred.radius is None
    assert odds_factor(scene, deferred) is None
    free = decide(ObstructionPosterior(["mug"], "mug", {}), tau=0.6)
    assert free.radius == math.inf
    assert odds_factor(ObstructionPosterior(["mug"], "mug", {}), free) == LARGEST_FACTOR


def test_the_mode_robust_acts_only_on_what_holds():
    sure = ObstructionPosterior(["mug", "box"], "mug", {("mug", "box"): 0.02})
    close = ObstructionPosterior(["mug", "box"], "mug", {("mug", "box"): 0.095})
    assert decide_given(close).decision.action == Grasp("mug")
    assert decide_given(close, mode="robust").decision.action == Defer("not_robust")
    assert decide_given(sure, mode="robust").decision.action == Grasp("mug")


def test_a_decision_that_is_not_robust_says_the_factor_it_holds_with():
    # Odds of the score .905 are 9.526, of tau 9: they may fall by a factor of 1.058.
    close = decide_given(ObstructionPosterior(["mug", "box"], "mug", {("mug", "box"): 0.095}), mode="robust")
    said = AnswerRecord.model_validate(close.to_json())
    assert (said.action.reason, said.radius) == ("not_robust", None)
    assert said.odds_factor == pytest.approx(0.905 / 0.095 / 9.0, rel=1e-4)
    assert "a factor of up to 1.06)" in say_why(close.decision, "mug", str)


def test_an_answer_says_how_far_its_action_holds():
    sure = decide_given(ObstructionPosterior(["mug", "box"], "mug", {("mug", "box"): 0.02}))
    said = AnswerRecord.model_validate(sure.to_json())
    assert said.radius == pytest.approx(math.log(49.0 / 9.0))
    assert said.odds_factor == pytest.approx(49.0 / 9.0, rel=1e-4)
    free = decide_given(ObstructionPosterior(["mug"], "mug", {})).to_json()
    assert (free["radius"], free["odds_factor"]) == (math.log(LARGEST_FACTOR), LARGEST_FACTOR)
    unsure = decide_given(ObstructionPosterior(["mug", "box"], "mug", {("mug", "box"): 0.5})).to_json()
    assert (unsure["radius"], unsure["odds_factor"]) == (None, None)


def test_the_card_says_how_far_it_holds():
    scene = ObstructionPosterior(["mug", "box"], "mug", {("mug", "box"): 0.1})
    explanation = explain(scene, decide(scene, tau=0.6))
    console = Console(file=io.StringIO(), width=100)
    console.print(decision_card(explanation))
    said = " ".join(console.file.getvalue().replace("│", " ").split())
    assert "if the odds of every relation were off by a factor of 6," in said


def test_a_weight_of_cycles_scales_every_score():
    # Both directions of a pair: Z = 1 - .6 * .3, and with weight 1 nothing is excluded.
    scene = ObstructionPosterior(["a", "b"], "a", {("a", "b"): 0.6, ("b", "a"): 0.3})
    decision = decide(scene, tau=0.45)
    assert decision.action == Remove("b")
    free = allow_cycles(decision, 1.0)
    assert free.scores == pytest.approx({"a": 0.4, "b": 0.6 * 0.7})
    assert free.action == Defer("conflicting_evidence") and not free.blockers
    assert allow_cycles(decision, 0.0) is decision
    half = allow_cycles(decision, 0.5)
    assert half.scores["b"] == pytest.approx(0.42 / (0.82 + 0.5 * 0.18))
    assert half.action == Remove("b")
    with pytest.raises(CporError, match="weight of cycles"):
        allow_cycles(decision, 2.0)


def test_robust_mode_counts_the_band_of_the_beliefs():
    scene = ObstructionPosterior(["x", "o"], "x", {("x", "o"): 0.02})
    decision = decide(scene, tau=0.9)
    assert decision.action == Grasp("x")
    assert only_robust(scene, decision, 1.2).action == Grasp("x")
    # Within its band the relation may be as likely as .05, or as .2: then .8 is left, which is not above .9.
    narrow, wide = (lambda p, most=most: (p, np.where(p > 0.0, most, p)) for most in (0.05, 0.2))
    assert only_robust(scene, decision, 1.2, narrow).action == Grasp("x")
    assert only_robust(scene, decision, 1.2, wide).action == Defer("not_robust")
    assert only_robust(scene, decision, 30.0).action == Defer("not_robust")
