"""Candidates with coverage: the threshold by hand, what is added, what is charged."""

import numpy as np
import pytest

from cpor.errors import FittingError
from cpor.learn.coverage import CandidateCoverage, CoverageCase


def pair_case(near, true=True):
    """Two objects; the second obstructs the first or not, and is so near; neither is a candidate."""
    nearness, label = np.zeros((2, 2)), np.zeros((2, 2), bool)
    nearness[0, 1], nearness[1, 0], label[0, 1] = near, -1.0, true
    return CoverageCase(nearness, label, np.zeros((2, 2), bool))


def test_the_threshold_is_the_order_statistic_of_the_farthest_relations():
    cases = [pair_case(-0.01 * k) for k in range(19)]
    assert CandidateCoverage.fit(cases, 0.1).least == -0.17  # floor(0.1 * 20) = second smallest
    assert CandidateCoverage.fit(cases, 0.05).least == -0.18
    assert CandidateCoverage.fit(cases, 0.04).least is None  # too few scenes: every pair is a candidate
    free = [pair_case(-0.5, true=False) for _ in range(19)]
    assert CandidateCoverage.fit(free, 0.1).least == 0.0  # nothing is ever missed: what touches is enough
    with pytest.raises(FittingError):
        CandidateCoverage.fit([], 0.1)


def test_rates_are_counted_with_half_a_count_each_way():
    fitted = CandidateCoverage.fit([pair_case(-0.01 * k) for k in range(19)], 0.1)
    assert (
        fitted.p_added == 18.5 / 19.0
    )  # 18 pairs are near enough, all true; the 19 mirrored ones are too far
    assert fitted.leak == 1.5 / 39.0  # one of 38 objects lacks its blocker


def test_pairs_are_added_and_the_leak_is_charged():
    fitted = CandidateCoverage(least=-0.1, alpha=0.1, n=9, p_added=0.02, leak=0.1)
    p = np.array([[0.0, 0.4, 0.0], [np.nan, 0.0, 0.0], [0.0, 0.0, 0.0]])
    near = np.array([[0.0, -0.5, -0.1], [-0.5, 0.0, -0.11], [-0.05, -0.5, 0.0]])
    wide, unseen = fitted.apply(p, np.array([0.0, 0.5, np.nan]), near)
    assert wide[0].tolist() == [0.0, 0.4, 0.02] and wide[2].tolist() == [0.02, 0.0, 0.0]
    assert np.isnan(wide[1, 0]) and wide[1, 2] == 0.0
    assert unseen[:2].tolist() == pytest.approx([0.1, 0.55]) and np.isnan(unseen[2])
    every = fitted.model_copy(update={"least": None}).apply(p, np.zeros(3), near)[0]
    assert (every[~np.eye(3, dtype=bool)] != 0.0).all()
