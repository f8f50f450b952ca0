"""Promised error rates by hand: exact tests, order, stops, refusals."""

import math

import numpy as np
import pytest
from jaxtyping import TypeCheckError

from cpor.errors import FittingError, InvalidSettingError
from cpor.fitting.labelled import one_case_per_image
from cpor.learn.control import (
    RiskPromise,
    control_risk,
    error_p_value,
    least_executed,
    least_rate,
    most_wrong,
)
from cpor.learn.tau_grid import choose_tau_grid


def test_p_value_by_hand():
    # P(Bin(3, .2) <= 1) = .512 + .384; P(Bin(0, .2) <= 0) = 1
    assert error_p_value(np.array([1, 0]), np.array([3, 0]), 0.2) == pytest.approx([0.896, 1.0])


@pytest.mark.parametrize(
    ("alpha", "delta", "n"), [(0.05, 0.05, 59), (0.1, 0.1, 22), (0.2, 0.1, 11), (0.5, 0.25, 2)]
)
def test_fewest_scenes_that_can_support_a_promise(alpha, delta, n):
    assert least_executed(alpha, delta) == n
    assert (1 - alpha) ** n <= delta < (1 - alpha) ** (n - 1)


@pytest.mark.parametrize("n", [1, 11, 45, 300])
def test_the_least_rate_is_the_one_that_so_many_scenes_just_support(n):
    rate = least_rate(n, 0.1)
    assert (1.0 - rate) ** n == pytest.approx(0.1)
    assert least_executed(rate * (1.0 + 1e-9), 0.1) == n and least_rate(0, 0.1) == 1.0


def test_most_errors_that_pass():
    n = np.arange(0, 400)
    allowed = most_wrong(n, 0.1, 0.05)
    for count, most in zip(n.tolist(), allowed.tolist(), strict=True):
        passing = [k for k in range(count + 1) if error_p_value(np.array(k), np.array(count), 0.1) <= 0.05]
        assert most == (max(passing) if passing else -1)


SCORE = np.linspace(0.005, 0.995, 100)


def test_never_from_fewer_scenes_than_can_support_it():
    for n in range(1, 22):
        promise = control_risk(np.full(n, 0.9), np.zeros(n, bool), 0.1, 0.1, np.array([0.5]))
        assert not promise.promised
        assert promise.reason.startswith("too few scenes")
        assert "22 without an error" in promise.reason
    assert control_risk(np.full(22, 0.9), np.zeros(22, bool), 0.1, 0.1, np.array([0.5])).tau == 0.5


def test_stops_at_the_first_failure_and_takes_the_last_that_passed():
    # Errors among the lower half only: .6 and .5 pass with none, .4 fails (p .53), .3 is never looked at.
    wrong = SCORE < 0.5
    promise = control_risk(SCORE, wrong, 0.2, 0.1, np.array([0.6, 0.5, 0.4, 0.3]))
    assert promise.tau == 0.5
    assert (promise.n, promise.n_executed, promise.n_wrong, promise.n_tested) == (100, 50, 0, 3)
    assert promise.p_value == pytest.approx(0.8**50)
    assert promise.coverage == 0.5
    margin = math.sqrt(math.log(40) / 200)
    assert promise.coverage_interval == pytest.approx((0.5 - margin, 0.5 + margin))
    assert "tau 0.4 failed" in promise.reason


def test_a_later_tau_that_would_pass_does_not_help():
    wrong = SCORE > 0.9
    promise = control_risk(SCORE, wrong, 0.2, 0.1, np.array([0.8, 0.0]))
    assert promise.tau is None
    assert promise.coverage == 0.0
    assert promise.reason.startswith("too many errors: 10 of 20 actions")
    assert control_risk(SCORE, wrong, 0.2, 0.1, np.array([0.0])).promised


def test_a_tau_passes_only_where_it_passes_for_every_kind():
    # 60 free cases without an error; 30 buried ones, one of them wrong: 29 and 30 are too few for 1 of 10.
    score = np.linspace(0.5, 0.9, 90)
    kind = ["free", "free", "buried"] * 30
    wrong = np.zeros(90, bool)
    wrong[2] = True
    together = control_risk(score, wrong, 0.1, 0.1, np.array([0.1]))
    apart = control_risk(score, wrong, 0.1, 0.1, np.array([0.1]), kind)
    assert together.promised and not apart.promised and not together.strata
    assert apart.strata == {"buried": (30, 30, 1), "free": (60, 60, 0)}
    assert (
        apart.p_value == pytest.approx(apart.strata["buried"].p_value(0.1)) and "for buried" in apart.reason
    )
    above = control_risk(score, wrong, 0.1, 0.1, np.array([0.55, 0.1]), kind)
    assert above.tau == 0.55 and above.n_wrong == 0
    with pytest.raises(ValueError, match="do not add up"):
        RiskPromise.model_validate(above.model_dump() | {"strata": {"free": (60, 60, 0)}})


def test_a_score_equal_to_tau_defers_and_so_does_no_answer():
    score = np.concatenate([np.full(30, 0.5), np.full(30, 0.8), np.full(40, np.nan)])
    promise = control_risk(score, np.isnan(score), 0.2, 0.1, np.array([0.5]))
    assert (promise.n_executed, promise.n_wrong, promise.coverage) == (30, 0, 0.3)


def test_round_trip(tmp_path):
    for tau in (0.5, 0.999):
        promise = control_risk(SCORE, SCORE < 0.5, 0.2, 0.1, np.array([tau]))
        promise.save(tmp_path / "promise.json")
        assert RiskPromise.load(tmp_path / "promise.json") == promise


@pytest.mark.parametrize(
    ("score", "wrong", "grid", "says"),
    [
        ([], [], [0.5], "no scenes"),
        ([0.5], [2], [0.5], "wrong \\(1\\) or not"),
        ([1.5], [0], [0.5], "must lie in"),
        ([0.5], [0], [], "at least one number"),
        ([0.5], [0], [0.4, 0.5], "decreasing"),
        ([0.5], [0], [np.nan], "finite"),
    ],
)
def test_refuses(score, wrong, grid, says):
    with pytest.raises(FittingError, match=says):
        control_risk(np.array(score, float), np.array(wrong), 0.1, 0.1, np.array(grid, float))


def test_refuses_lengths_that_differ():
    with pytest.raises((FittingError, TypeCheckError)):  # the shape checker, where it is on, speaks first
        control_risk(np.array([0.5]), np.array([0, 1]), 0.1, 0.1, np.array([0.5]))


def test_levels_lie_between_0_and_1():
    with pytest.raises(InvalidSettingError, match="alpha is 0"):
        control_risk(SCORE, SCORE < 0, 0.0, 0.1, np.array([0.5]))
    with pytest.raises(InvalidSettingError, match=r"delta is 1\.0"):
        choose_tau_grid(SCORE, SCORE < 0, 0.1, 1.0)


def test_grid_decreases_from_a_start_that_can_pass():
    rng = np.random.default_rng(0)
    score = rng.random(600)
    wrong = rng.random(600) < 0.5 * (1 - score)
    grid = choose_tau_grid(score, wrong, 0.1, 0.1)
    assert (np.diff(grid) < 0).all()
    assert (score > grid[0]).sum() >= least_executed(0.1, 0.1)
    assert 0.5 < grid[0] < 0.95
    assert 0.0 <= grid[-1] < score.min()


def test_grid_begins_lower_where_errors_do_not_depend_on_the_score():
    rng = np.random.default_rng(0)
    score, wrong = rng.random(600), rng.random(600) < 0.05
    assert (score > choose_tau_grid(score, wrong, 0.1, 0.1)[0]).mean() > 0.5


def test_grid_of_a_part_that_is_too_small():
    grid = choose_tau_grid(np.array([0.2, 0.9, np.nan]), np.array([0, 1, 0]), 0.1, 0.1)
    assert grid.size == 1
    assert grid[0] < 0.2
    with pytest.raises(FittingError, match="no scene of the fitting part has an answer"):
        choose_tau_grid(np.array([np.nan]), np.array([0]), 0.1, 0.1)


def test_one_case_per_image():
    image = np.array(["b", "a", "b", "c", "b"])
    kept = {tuple(one_case_per_image(image, np.random.default_rng(seed))) for seed in range(50)}
    assert kept == {(0, 1, 3), (1, 2, 3), (1, 3, 4)}
    first = one_case_per_image(image, np.random.default_rng(7))
    assert np.array_equal(first, one_case_per_image(image, np.random.default_rng(7)))


@pytest.mark.parametrize("step", [-1, 0, 1])
@pytest.mark.parametrize("alpha", [0.05, 0.1, 0.3])
def test_the_most_errors_are_those_of_the_test_itself_at_its_very_limit(alpha, step):
    """The inverse of the binomial distribution is solved in floating point; the test has the last word."""
    for n in (1, 5, 22, 45, 300):
        counts = np.arange(n + 1)
        p = error_p_value(counts, np.full(n + 1, n), alpha)
        for wrong in (0, 1, n // 10, n // 3):
            delta = float(np.nextafter(p[wrong], p[wrong] + step))
            if 0.0 < delta < 0.9:
                passing = counts[p <= delta]
                expected = int(passing.max()) if passing.size else -1
                assert most_wrong(np.array([n]), alpha, delta)[0] == expected


def test_a_promise_of_a_large_error_rate_is_one_too():
    score, wrong = np.full(40, 0.9), np.arange(40) % 2 == 0
    promise = control_risk(score, wrong, 0.7, 0.1, np.array([0.5]))
    assert promise.tau == 0.5 and promise.alpha == 0.7 and promise.n_wrong == 20
