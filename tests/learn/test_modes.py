"""Thresholds of the modes: only `cautious` may be stricter than its own score, where a promise was tested."""

import pytest

from cpor.learn.modes import LEAST_SCORE, mode_tau


@pytest.mark.parametrize("mode", LEAST_SCORE)
def test_without_a_promise_a_mode_has_its_own_score(mode):
    assert mode_tau(mode) == mode_tau(mode, None) == LEAST_SCORE[mode]


@pytest.mark.parametrize("promised", [0.0, 0.2, 0.4, 0.95])
def test_cautious_acts_at_the_tested_threshold_and_no_mode_is_stricter(promised):
    assert mode_tau("cautious", promised) == promised
    for mode in ("balanced", "bold"):
        assert mode_tau(mode, promised) == min(promised, LEAST_SCORE[mode])
