"""Candidates with coverage on fresh scenes, over redraws of the calibration scenes."""

import numpy as np
import pytest
from support.sizes import sized

from cpor.learn.coverage import CandidateCoverage, CoverageCase

REDRAWS, FRESH = 200, sized(40, 200)


def draw_case(rng):
    """A scene of 3 to 8 objects: near pairs obstruct often, far ones now and then, some scenes hold none."""
    n = int(rng.integers(3, 9))
    nearness = np.minimum(0.0, -rng.exponential(0.2, (n, n)) + 0.05)
    label = rng.random((n, n)) < 0.3 * np.exp(12.0 * nearness) * rng.choice([0.0, 1.0, 1.5])
    np.fill_diagonal(label, False)
    return CoverageCase(nearness, label, (nearness > -0.02) & (rng.random((n, n)) < 0.9))


@pytest.mark.parametrize(("alpha", "n"), [(0.05, 60), (0.1, 40), (0.2, 200)])
def test_fresh_scenes_are_covered(alpha, n, evidence):
    rng = np.random.default_rng(53)
    shares, sizes = [], []
    for _ in range(REDRAWS):
        fitted = CandidateCoverage.fit([draw_case(rng) for _ in range(n)], alpha)
        tested = [draw_case(rng) for _ in range(FRESH)]
        added = [fitted.added(case.nearness, case.is_candidate) for case in tested]
        lacks = [
            (case.label & ~case.is_candidate & ~new).any() for case, new in zip(tested, added, strict=True)
        ]
        shares.append(1.0 - np.mean(lacks))
        sizes.append(np.mean([new.sum() / new.size for new in added]))
    point = (
        f"share of fresh scenes with every true relation a candidate, {REDRAWS} redraws of {n}, alpha {alpha}"
    )
    evidence("calibrated", point, f">= {1 - alpha:g}", float(np.mean(shares)))
    assert np.mean(shares) >= 1.0 - alpha - 0.01
    assert np.mean(sizes) < 0.9  # not by taking every pair
