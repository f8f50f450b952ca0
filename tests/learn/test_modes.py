"""Thresholds of the modes: only `cautious` may be stricter than its own score, where a promise was tested."""

import pytest

from cpor.learn.modes import LEAST_SCORE, ModeFigures, mode_tau


@pytest.mark.parametrize("mode", LEAST_SCORE)
def test_without_a_promise_a_mode_has_its_own_score(mode):
    assert mode_tau(mode) == mode_tau(mode, None) == LEAST_SCORE[mode]


@pytest.mark.parametrize("promised", [0.0, 0.2, 0.4, 0.95])
def test_cautious_acts_at_the_tested_threshold_and_no_mode_is_stricter(promised):
    assert mode_tau("cautious", promised) == promised
    for mode in ("balanced", "bold"):
        assert mode_tau(mode, promised) == min(promised, LEAST_SCORE[mode])


@pytest.mark.parametrize("counts", [(0, 0, 0), (5, 0, 0), (5, 2, 2)])
def test_a_mode_may_act_never_and_always_err(counts):
    n, n_acted, n_wrong = counts
    figures = ModeFigures(tau=1.0, n=n, n_acted=n_acted, n_wrong=n_wrong)
    assert (figures.n, figures.n_acted, figures.n_wrong) == counts


@pytest.mark.parametrize("counts", [(-1, -1, -1), (5, 6, 0), (5, 2, 3), (5, 2, -1), (5, -1, -2)])
def test_counts_of_a_mode_that_are_none_are_refused(counts):
    n, n_acted, n_wrong = counts
    with pytest.raises(ValueError, match=r"greater than or equal to 0|is no count"):
        ModeFigures(tau=1.0, n=n, n_acted=n_acted, n_wrong=n_wrong)
