"""Action-level calibration: monotone, a rate of its own for score 0, grasping and removing apart."""

import numpy as np
import pytest

from cpor.errors import FittingError
from cpor.learn.action import ActionCalibrator, IsotonicRate, PlattRate
from cpor.learn.reliability import ece


def actions(rng, n, rate):
    score = rng.random(n)
    score[rng.random(n) < 0.3] = 0.0
    return score, rng.random(n) < rate(score)


def test_isotonic_rate_by_hand():
    # 8 cases, groups of at least 3: .2 and .5 (2 of 5, mean .38), .7 and .9 (2 of 3, mean .766667)
    score = np.array([0.2, 0.2, 0.5, 0.5, 0.5, 0.7, 0.7, 0.9])
    label = np.array([0, 0, 1, 1, 0, 1, 0, 1], dtype=bool)
    fitted = IsotonicRate.fit(score, label)
    found = fitted.apply(np.array([0.0, 0.38, 0.5, 1.0]))
    assert found == pytest.approx([0.4, 0.4, 0.4 + 0.266667 * 0.12 / 0.386667, 2 / 3], abs=1e-6)


def test_isotonic_rate_is_never_certain():
    score, label = np.repeat([0.1, 0.9], 50), np.repeat([False, True], 50)
    assert IsotonicRate.fit(score, label).apply(np.array([0.0, 1.0])) == pytest.approx([1 / 102, 101 / 102])


def test_platt_rate_by_hand():
    # Score 0: 1 of 4 -> 1.5 / 5. At .8 and .2 the rates .7 and .4 are met exactly.
    score = np.concatenate([np.zeros(4), np.repeat([0.8, 0.2], 10)])
    label = np.array([1, 0, 0, 0] + [1] * 7 + [0] * 3 + [1] * 4 + [0] * 6, dtype=bool)
    fitted = PlattRate.fit(score, label, penalty=0.0)
    assert fitted.apply(np.array([0.0, 0.2, 0.8])) == pytest.approx([0.3, 0.4, 0.7], abs=1e-6)
    assert fitted.apply(np.array([1e-6]))[0] == 0.3  # not below the rate of score 0


def test_a_large_penalty_leaves_the_score_as_it_is():
    rng = np.random.default_rng(0)
    score = rng.uniform(0.05, 0.95, 50)
    fitted = PlattRate.fit(score, rng.random(50) < 0.5, penalty=1e6)
    assert fitted.apply(score) == pytest.approx(score, abs=1e-5)


def test_learns_grasping_and_removing_apart():
    rng = np.random.default_rng(1)
    grasp = actions(rng, 4000, lambda q: 0.05 + 0.4 * q)
    remove = actions(rng, 4000, lambda q: 0.1 + 0.85 * q)
    score, label = (np.concatenate(pair) for pair in zip(grasp, remove, strict=True))
    is_target = np.repeat([True, False], 4000)
    fitted = ActionCalibrator.fit(score, label, is_target=is_target)
    at = np.array([0.0, 0.5, 1.0])
    assert fitted.apply(at, is_target=np.ones(3, bool)) == pytest.approx(0.05 + 0.4 * at, abs=0.06)
    assert fitted.apply(at, is_target=np.zeros(3, bool)) == pytest.approx(0.1 + 0.85 * at, abs=0.06)
    assert set(fitted.held_out_nll) == {"grasp", "remove"}
    assert len(fitted.held_out_nll["grasp"]) == 8
    with pytest.raises(FittingError, match="give is_target"):
        fitted.apply(at)


def test_the_rate_shown_is_the_rate_observed():
    rng = np.random.default_rng(2)
    score, label = actions(rng, 3000, lambda q: q**3 * 0.8 + 0.05)
    fitted = ActionCalibrator.fit(score, label)
    fresh, truth = actions(rng, 20_000, lambda q: q**3 * 0.8 + 0.05)
    assert ece(fresh, truth) > 0.15
    assert ece(fitted.apply(fresh), truth) < 0.03


def test_says_which_kind_of_action_is_short():
    score, label = np.array([0.2, 0.8, 0.3, 0.9]), np.array([0, 1, 1, 1])
    with pytest.raises(FittingError, match="kind 'remove'"):
        ActionCalibrator.fit(
            np.tile(score, 5), np.tile(label, 5), is_target=np.tile([True, True, False, False], 5)
        )
