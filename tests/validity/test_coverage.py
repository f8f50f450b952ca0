"""Candidates with coverage on fresh scenes, over redraws of the calibration scenes."""

import numpy as np
import pytest
from support.sizes import sized

from cpor.learn.coverage import CandidateCoverage, CoverageCase

POOL = 3000
"""Scenes of which each redraw takes some to fit; all others are fresh ones."""


def draw_case(rng):
    """A scene of 3 to 8 objects: near pairs obstruct often, far ones now and then, some scenes hold none."""
    n = int(rng.integers(3, 9))
    nearness = np.minimum(0.0, -rng.exponential(0.2, (n, n)) + 0.05)
    label = rng.random((n, n)) < 0.3 * np.exp(12.0 * nearness) * rng.choice([0.0, 1.0, 1.5])
    np.fill_diagonal(label, False)
    return CoverageCase(nearness, label, (nearness > -0.02) & (rng.random((n, n)) < 0.9))


@pytest.mark.parametrize(("alpha", "n", "redraws"), [(0.05, 60, 1000), (0.1, 40, 2000), (0.2, 200, 200)])
def test_fresh_scenes_are_covered(alpha, n, redraws, evidence):
    rng = np.random.default_rng(53)
    pool = [draw_case(rng) for _ in range(POOL)]
    farthest = np.array([case.farthest for case in pool])
    shares, sizes = [], []
    for _ in range(sized(200, redraws)):
        order = rng.permutation(POOL)
        fitted = CandidateCoverage.fit([pool[k] for k in order[:n]], alpha)
        least = -np.inf if fitted.least is None else fitted.least
        shares.append(np.mean(farthest[order[n:]] >= least))
        fresh = pool[order[n]]
        new = fitted.added(fresh.nearness, fresh.is_candidate)
        lacks = (fresh.label & ~fresh.is_candidate & ~new).any()
        assert lacks == (fresh.farthest < least)
        sizes.append(new.sum() / new.size)
    error = np.std(shares) / np.sqrt(len(shares))
    redrawn = f"{len(shares)} redraws of {n}, alpha {alpha}"
    point = f"share of fresh scenes with every true relation a candidate, {redrawn}"
    evidence("calibrated", point, f">= {1 - alpha:g}", float(np.mean(shares)))
    # Exact for exchangeable scenes: the rank of a fresh one among n + 1 is uniform (ties only add coverage).
    assert np.mean(shares) + 3.0 * error >= 1.0 - int(alpha * (n + 1)) / (n + 1)
    assert np.mean(sizes) < 0.9  # not by taking every pair
