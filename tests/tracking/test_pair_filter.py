"""Several looks at one pair: the mean of what they say, unless something moved or contradicts."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from support.box_table import BoxTable, TableMasks

from cpor.evidence.geometry import geometric_evidence
from cpor.pipeline import Pipeline
from cpor.scene import BlockedBy
from cpor.tracking import pair_filter
from cpor.tracking.pair_filter import (
    APART,
    BASE,
    NEAR_CHANGE,
    PairFilter,
)

PAIR = BlockedBy(1, 2)
EVERYBODY = frozenset({1, 2, 3, 4})


def believing(p):
    table = BoxTable()
    scene = TableMasks(table).segment(table.observe())
    beliefs = Pipeline().combine(geometric_evidence(scene), None)
    fused = np.zeros((4, 4))
    fused[0, 1] = p
    return replace(beliefs, p_fused=fused)


def after(*looks, unchanged=EVERYBODY, near=frozenset()):
    """What is believed of the pair after looks that say so each."""
    carried = PairFilter()
    for p in looks:
        carried = carried.predict(unchanged, near)
        beliefs = carried.apply(believing(p))
        carried = carried.after(beliefs)
    return beliefs.p_fused[0, 1]


def log_odds(p):
    return np.log(p / (1 - p))


def test_two_looks_say_their_mean_in_log_odds():
    assert log_odds(after(0.9, 0.6)) == pytest.approx((log_odds(0.9) + log_odds(0.6)) / 2)
    assert after(0.7) == 0.7 and after(0.7, 0.7) == pytest.approx(0.7)


def test_the_same_by_enumeration_of_what_is_hidden(monkeypatch):
    """Independent looks: Bayes over both states, and over whether it was drawn anew in between."""
    monkeypatch.setattr(pair_filter, "RHO", 0.0)
    monkeypatch.setattr(pair_filter, "NEAR_CHANGE", 0.3)
    looks = (0.8, 0.3, 0.6)
    odds = [p / (1 - p) * (1 - BASE) / BASE for p in looks]
    weight = np.zeros(2)
    for states in np.ndindex(2, 2, 2):
        joint = BASE if states[0] else 1 - BASE
        for a, b in pairwise(states):
            joint *= 0.7 * (a == b) + 0.3 * (BASE if b else 1 - BASE)
        weight[states[-1]] += joint * np.prod([o for o, s in zip(odds, states, strict=True) if s])
    assert after(*looks, near=frozenset({2})) == pytest.approx(weight[1] / weight.sum())


def test_what_changed_or_contradicts_is_measured_anew():
    assert after(0.02, 0.6, unchanged=frozenset({1})) == pytest.approx(0.6)
    assert after(0.02, 0.9) == pytest.approx(0.9)  # never freer than it looks now, by an old look


def test_no_answer_stays_no_answer_and_what_is_apart_is_no_proof():
    assert np.isnan(after(0.3, np.nan)) and after(0.3, np.nan, 0.3) == pytest.approx(0.3)
    assert log_odds(after(0.3, 0.0)) == pytest.approx((log_odds(0.3) + log_odds(APART)) / 2)
    assert after(0.0) == 0.0 and after(0.0, 0.0) == 0.0


def test_a_change_nearby_makes_less_sure():
    sure = after(0.99, 0.99)
    assert BASE < after(0.99, 0.99, near=frozenset({1})) < sure and NEAR_CHANGE > 0.0
