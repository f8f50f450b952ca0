"""Intervals that certify an action: where the proof starts, to the last rounding."""

import numpy as np
import pytest

from cpor.infer.certificate import ROUNDING, Inference, narrow

WIDE = Inference([0.5, 0.5], [0.0, 0.0], [1.0, 1.0], "k_max", 1.0, 1, "topk", None, None, 0.0)


def kind(low, high, tau, target=0):
    found = narrow(WIDE, target, tau, np.array(low), np.array(high))
    return found.kind


@pytest.mark.parametrize("target", [0, 1])
def test_an_action_is_certified_only_above_the_threshold(target):
    low, high = ([0.6, 0.1], [0.9, 0.4]) if target == 0 else ([0.1, 0.6], [0.4, 0.9])
    assert kind(low, high, 0.6 - 2.0 * ROUNDING, target) == "action"
    assert kind(low, high, 0.6 - 0.5 * ROUNDING, target) == "k_max"
    assert kind(low, high, 0.6, target) == "k_max"
    low[target] = 0.5 + ROUNDING
    assert kind(low, high, 0.5, target) == "k_max"  # at the very limit


def test_an_action_is_certified_only_above_every_other_score():
    # Three objects, none of them the target: their intervals do not bound each other.
    wide = Inference([0.5] * 3, [0.0] * 3, [1.0] * 3, "k_max", 1.0, 1, "topk", None, None, 0.0)

    def found(low, rival):
        lows, highs = np.array([0.0, low, 0.0]), np.array([0.1, 0.95, rival])
        return narrow(wide, 0, 0.2, lows, highs).kind

    assert found(0.5, 0.5 - 2.0 * ROUNDING) == "action"
    assert found(0.5, 0.5 - 0.5 * ROUNDING) == "k_max"
    assert found(0.5, 0.5) == found(0.5 + ROUNDING, 0.5) == "k_max"
    assert found(0.5, 0.7) == "k_max"


def test_deferring_is_certified_where_no_score_can_exceed_the_threshold():
    assert kind([0.1, 0.1], [0.5, 0.4], 0.5) == "defer"
    assert kind([0.1, 0.1], [0.5, 0.4], 0.5 - 1e-9) == "k_max"
