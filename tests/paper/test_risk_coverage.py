"""Selective execution, total variation, bootstrap and paired comparison, by hand."""

import numpy as np
import pytest

from cpor.errors import FittingError
from cpor.learn.bootstrap import bootstrap_mean, compare_paired
from cpor.paper.graph_structure import truncation_tv
from cpor.paper.risk_coverage import risk_coverage


def total_variation(p, q):
    """Half the sum of |p - q| over outcomes."""
    return 0.5 * float(np.abs(p - q).sum())


CONFIDENCE = np.array([0.9, 0.2, 0.6, 0.4])
LOSS = np.array([0.0, 1.0, 0.5, 0.0])


def test_risk_coverage_by_hand():
    # By confidence the losses are 0, .5, 0, 1: means 0, 1/4, 1/6, 3/8.
    curve = risk_coverage(CONFIDENCE, LOSS)
    assert curve.coverage.tolist() == [0.25, 0.5, 0.75, 1.0]
    assert curve.risk == pytest.approx([0.0, 1 / 4, 1 / 6, 3 / 8])
    assert curve.area == pytest.approx((1 / 4 + 1 / 6 + 3 / 8) / 4)


def test_ties_share_their_loss():
    assert risk_coverage(np.array([0.5, 0.5]), np.array([0.0, 1.0])).risk == pytest.approx([0.5, 0.5])


def test_ecr_by_hand():
    # Deferring one case of four removes the loss of 1 out of 1.5; half a case removes half of it.
    assert risk_coverage(CONFIDENCE, LOSS).ecr(0.25) == pytest.approx(2 / 3)
    assert risk_coverage(CONFIDENCE, LOSS).ecr(0.125) == pytest.approx(1 / 3)
    rho = risk_coverage(CONFIDENCE, LOSS).risk
    assert risk_coverage(CONFIDENCE, LOSS).ecr(0.5) == pytest.approx(1 - 0.5 * rho[1] / rho[3])
    assert risk_coverage(CONFIDENCE, LOSS).ecr(0.0) == 0.0
    assert risk_coverage(CONFIDENCE, LOSS).ecr(1.0) == 1.0


def test_deferring_at_random_captures_d(rng):
    loss = rng.random(1000)
    assert risk_coverage(np.zeros(1000), loss).ecr(0.3) == pytest.approx(0.3)


def test_total_variation_by_hand():
    assert total_variation(np.array([0.5, 0.5, 0.0]), np.array([0.2, 0.5, 0.3])) == pytest.approx(0.3)
    assert truncation_tv(np.log(0.3), np.log(0.4)) == pytest.approx(0.25)
    # The same through the definition: keep the two first of three outcomes and renormalise.
    p = np.array([0.5, 0.3, 0.2])
    kept = np.array([0.5, 0.3, 0.0]) / 0.8
    assert total_variation(p, kept) == pytest.approx(truncation_tv(np.log(0.8), 0.0))


def test_paired_comparison_by_hand(rng):
    before = np.array([0, 0, 1, 1, 0], float)
    after = np.array([1, 1, 0, 1, 0], float)
    found = compare_paired(before, after, np.array([1, 1, 2, 3, 4]), rng)
    assert (found.corrections, found.regressions, found.n) == (2, 1, 5)
    assert found.delta == pytest.approx(0.2)
    assert found.ci.low <= found.delta <= found.ci.high


def test_the_bootstrap_resamples_images_not_cases():
    rng = np.random.default_rng(1)
    per_image = rng.normal(size=100)
    values = np.repeat(per_image, 25)  # 25 copies of each: 100 independent numbers, not 2,500
    image = np.repeat(np.arange(100), 25)
    low, high = bootstrap_mean(values, image, np.random.default_rng(0))
    width = 2 * 1.96 * per_image.std() / 10
    assert high - low == pytest.approx(width, rel=0.15)


def test_the_interval_covers_as_promised():
    hits = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        group = np.repeat(np.arange(40), 3)
        values = rng.normal(size=40)[group] + rng.normal(size=120)
        low, high = bootstrap_mean(values, group, rng, 400)
        hits += low <= 0.0 <= high
    assert 0.88 <= hits / 200 <= 0.99


def test_bad_input_is_refused(rng):
    with pytest.raises(FittingError, match="one loss a case"):
        risk_coverage(np.zeros(3), np.zeros(2))
    with pytest.raises(FittingError, match="finite"):
        bootstrap_mean(np.array([np.nan]), np.array([1]), rng)
    with pytest.raises(FittingError, match=r"\[0, 1\]"):
        risk_coverage(CONFIDENCE, LOSS).ecr(1.5)
