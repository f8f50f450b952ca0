"""The drift check: the level it states, and the power to notice."""

import numpy as np
import pytest
from scipy.stats import binom, ks_2samp

from cpor.errors import FittingError, InvalidSettingError
from cpor.learn.drift import check_drift


def scenes(rng, n, shift=0.0, missing=0.0):
    """Best score, number of objects (tied), and one that depends on both."""
    score = np.clip(rng.beta(4, 2, n) - shift, 0, 1)
    n_objects = rng.integers(2, 9, n).astype(float)
    features = {"score": score, "n_objects": n_objects, "both": score * n_objects}
    features["score"] = np.where(rng.random(n) < missing, np.nan, score)
    return features


def test_distance_equals_scipy():
    rng = np.random.default_rng(0)
    old, new = scenes(rng, 80), scenes(rng, 37, shift=0.1)
    report = check_drift(old, new, rng)
    for name, distance in report.distance.items():
        assert distance == pytest.approx(ks_2samp(old[name], new[name]).statistic)


def test_p_value_by_hand():
    # 3 old, 1 new above all: the distance 1 arises in 2 of the 4 splits, those of an extreme scene.
    report = check_drift(
        {"x": np.array([1.0, 2.0, 3.0])},
        {"x": np.array([4.0])},
        np.random.default_rng(0),
        level=0.2,
        n_permutations=20_000,
    )
    assert report.p_value == pytest.approx(0.5, abs=0.015)
    assert not report.drifted


def test_level():
    rng = np.random.default_rng(1)
    runs, level = 400, 0.1
    alarms = sum(
        check_drift(scenes(rng, 100), scenes(rng, 40), rng, level=level, n_permutations=99).drifted
        for _ in range(runs)
    )
    assert alarms <= binom.ppf(0.999, runs, level)
    assert alarms >= binom.ppf(0.001, runs, level)  # exact, not merely safe


@pytest.mark.parametrize("change", [{"shift": 0.15}, {"missing": 0.2}])
def test_power(change):
    rng = np.random.default_rng(2)
    alarms = [check_drift(scenes(rng, 400), scenes(rng, 150, **change), rng).drifted for _ in range(20)]
    assert sum(alarms) >= 19


def test_says_what_it_found():
    rng = np.random.default_rng(3)
    assert (
        "differ from the calibration scenes: largest difference in"
        in check_drift(scenes(rng, 300), scenes(rng, 300, shift=0.3), rng).reason
    )
    assert "no sign that the new scenes differ" in check_drift(scenes(rng, 300), scenes(rng, 300), rng).reason
    assert "too few scenes (20 and 1)" in check_drift(scenes(rng, 20), scenes(rng, 1), rng).reason


def test_refuses():
    rng = np.random.default_rng(0)
    with pytest.raises(FittingError, match="features differ"):
        check_drift({"x": np.zeros(3)}, {"y": np.zeros(3)}, rng)
    with pytest.raises(FittingError, match="one number a scene"):
        check_drift({"x": np.zeros(3)}, {"x": np.zeros(0)}, rng)
    with pytest.raises(InvalidSettingError, match="cannot reach level"):
        check_drift({"x": np.zeros(3)}, {"x": np.zeros(3)}, rng, n_permutations=50)
