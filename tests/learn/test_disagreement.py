"""Semantics may add an obstruction; only agreement removes one that geometry saw."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cpor.learn.gated import MOST_DISAGREEMENT, SAW, Guard, disagreement, learn_most_disagreement

PROBABILITY = st.floats(0.001, 0.999)


def settle(fused, semantic, geometry, most=MOST_DISAGREEMENT):
    p = {"semantic": np.array([semantic]), "geometry": np.array([geometry])}
    return Guard(most).apply(np.array([fused]), p)[0]


def test_the_gap_by_hand():
    assert disagreement(np.array([0.1]), np.array([0.8]))[0] == pytest.approx(np.log(9.0) + np.log(4.0))
    assert disagreement(np.array([0.8, 0.1, np.nan]), np.array([0.1, 0.1, 0.9])).tolist() == [0.0] * 3


def test_one_reply_does_not_overrule_clear_geometry():
    assert settle(0.02, 0.08, 0.97) == 0.97
    assert settle(0.3, 0.4, 0.6) == 0.6
    assert settle(0.1, 0.01, 0.4) == 0.4  # nor does it make unlikely what geometry thinks possible
    assert np.isnan(settle(0.001, 0.001, 0.999))
    assert settle(0.9, 0.99, 0.05) == 0.9  # it may add
    assert settle(0.02, 0.01, 0.05) == 0.02  # both say no


@given(PROBABILITY, PROBABILITY, PROBABILITY)
def test_nothing_is_removed_and_nothing_else_is_touched(fused, semantic, geometry):
    settled = settle(fused, semantic, geometry)
    if semantic >= geometry or geometry <= SAW:
        assert settled == fused
    else:
        assert np.isnan(settled) or settled == max(fused, geometry)


@given(PROBABILITY, PROBABILITY, st.floats(0.11, 0.49))
def test_a_reply_lowers_nothing_that_geometry_holds_for_possible(fused, semantic, geometry):
    """One forged reply took pairs from 0.4 to 0.1, and five of 140 obstructed targets were grasped."""
    assert settle(fused, semantic, geometry) >= min(fused, geometry)
    assert settle(min(fused, geometry / 4.0), geometry / 4.0, geometry) == geometry


def test_the_limit_is_learnt_from_contradictions_alone():
    rng = np.random.default_rng(0)
    geometry, semantic = rng.uniform(0.6, 0.9, 200), rng.uniform(0.1, 0.4, 200)
    learnt = learn_most_disagreement({"semantic": semantic, "geometry": geometry})
    assert 0.98 <= (disagreement(semantic, geometry) <= learnt).mean() < 1.0
    agreeing = np.full(1000, 0.99)
    both = {
        "semantic": np.concatenate([semantic, agreeing]),
        "geometry": np.concatenate([geometry, agreeing]),
    }
    assert learn_most_disagreement(both) == learnt
    assert learn_most_disagreement({"semantic": semantic[:5], "geometry": geometry[:5]}) is None
    assert learn_most_disagreement({"geometry": geometry}) is None


def test_a_third_source_cannot_remove_what_geometry_saw_either():
    p = {
        "semantic": np.array([0.8, np.nan]),
        "geometry": np.array([0.7, 0.7]),
        "shadow": np.array([0.2, 0.9]),
    }
    assert Guard().apply(np.array([0.3, 0.3]), p).tolist() == [0.7, 0.3]
    assert np.isnan(Guard(1.0).apply(np.array([0.3, 0.3]), p)).tolist() == [True, False]


def test_without_geometry_or_alone_nothing_is_settled():
    fused = np.array([0.3])
    assert Guard().apply(fused, {"geometry": np.array([0.9])}) is fused
    assert Guard().apply(fused, {"semantic": np.array([0.9]), "shadow": np.array([0.1])}) is fused
