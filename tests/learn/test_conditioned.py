"""eq. calibration and cal-loss at hand-computed points; the gradient against finite differences."""

import math

import numpy as np
import pytest
from scipy.optimize import check_grad

from cpor.errors import FittingError, InvalidSettingError
from cpor.learn.conditioned import conditioned_platt, conditioned_platt_loss, fit_conditioned_platt
from cpor.learn.logistic import LogisticCalibrator


def test_calibration_by_hand():
    fitted = LogisticCalibrator(sees="scene", theta=(-0.3, 0.2, -0.6, 0.1), mean=(1.5,), scale=(0.5,))
    # N = 6: phi = (log 7 - 1.5) / .5 = .89182, a = e^(-.121636) = .885470, c = -.510818
    # score .8: logit = 1.386294, a u + c = .716704, p = .671881
    assert fitted.apply(np.array([0.8]), n_candidates=np.array([6]))[0] == pytest.approx(0.671881, abs=1e-6)


def test_slope_is_clipped():
    theta = np.array([4.0, 3.0, 0.0, 0.0])
    logit_p = conditioned_platt(theta, np.array([0.1, 0.1]), np.array([[1.0], [-3.0]]))
    assert logit_p == pytest.approx([0.1 * math.exp(5.0), 0.1 * math.exp(-5.0)])


def test_loss_by_hand():
    theta = np.array([math.log(2.0), 0.5, -1.0, 0.25])
    logit_score, condition = np.array([1.0, -0.5]), np.array([[2.0], [-1.0]])
    # slopes 2 e^1, 2 e^-.5; biases -.5, -1.25; log-odds 4.936564, -1.856531; labels 1, 0
    nll = (math.log1p(math.exp(-4.936564)) + math.log1p(math.exp(-1.856531))) / 2
    loss, _ = conditioned_platt_loss(theta, logit_score, condition, np.array([True, False]), penalty=0.4)
    assert loss == pytest.approx(nll + 0.2 * (0.25 + 0.0625), abs=1e-6)


@pytest.mark.parametrize("scale", [0.3, 4.0])
def test_gradient(scale):
    rng = np.random.default_rng(0)
    n, k = 60, 3
    logit_score, condition = rng.normal(size=n), rng.normal(size=(n, k))
    label = rng.random(n) < 0.4
    for _ in range(10):
        theta = rng.normal(scale=scale, size=2 * k + 2)
        error = check_grad(
            lambda t: conditioned_platt_loss(t, logit_score, condition, label, 0.3, 0.2)[0],
            lambda t: conditioned_platt_loss(t, logit_score, condition, label, 0.3, 0.2)[1],
            theta,
            epsilon=1e-7,
        )
        norm = np.linalg.norm(conditioned_platt_loss(theta, logit_score, condition, label, 0.3, 0.2)[1])
        assert error < 1e-5 * max(1.0, norm)


def test_recovers_what_made_the_labels():
    rng = np.random.default_rng(1)
    score = rng.uniform(0.05, 0.95, 60_000)
    counts = rng.integers(1, 15, score.size)
    made = LogisticCalibrator(sees="scene", theta=(-0.4, 0.3, 0.5, -0.2), mean=(1.9,), scale=(0.6,))
    p = made.apply(score, n_candidates=counts)
    label = rng.random(score.size) < p
    fitted = LogisticCalibrator.fit(score, label, sees="scene", n_candidates=counts)
    assert np.abs(fitted.apply(score, n_candidates=counts) - p).max() < 0.02


def test_temperature_by_hand():
    # Half of the .8 and .2 scores are wrong the other way: P = .6 needs T = logit .8 / logit .6.
    score, label = np.repeat([0.8, 0.2], 10), np.array([1] * 6 + [0] * 4 + [0] * 6 + [1] * 4)
    fitted = LogisticCalibrator.fit(score, label, with_bias=False)
    assert fitted.bias == 0.0
    assert 1.0 / fitted.slope == pytest.approx(math.log(4.0) / math.log(1.5), abs=1e-6)
    assert fitted.apply(np.array([0.8, 0.5])) == pytest.approx([0.6, 0.5])


def test_platt_by_hand():
    # Rates .7 at score .8 and .4 at .2 are met exactly by two parameters.
    score = np.repeat([0.8, 0.2], 10)
    label = np.array([1] * 7 + [0] * 3 + [1] * 4 + [0] * 6)
    fitted = LogisticCalibrator.fit(score, label)
    assert fitted.apply(np.array([0.8, 0.2])) == pytest.approx([0.7, 0.4], abs=1e-6)
    assert fitted.slope == pytest.approx((math.log(7 / 3) - math.log(2 / 3)) / (2 * math.log(4)), abs=1e-6)


def test_scores_that_point_the_wrong_way_are_flattened_not_turned_round():
    score, label = np.repeat([0.8, 0.2], 10), np.repeat([0, 1], 10)
    for fitted in (LogisticCalibrator.fit(score, label, with_bias=yes) for yes in (True, False)):
        low, high = fitted.apply(np.array([0.2, 0.8]))
        assert low <= high < low + 0.01


def test_scenes_of_one_size_teach_nothing_about_size():
    score = np.array([0.8, 0.7, 0.3, 0.4, 0.6, 0.2])
    label = np.array([1, 0, 0, 1, 1, 0])
    counts = np.full(6, 4)
    scene = LogisticCalibrator.fit(score, label, sees="scene", n_candidates=counts)
    assert scene.apply(score, n_candidates=counts) == pytest.approx(
        LogisticCalibrator.fit(score, label).apply(score)
    )
    assert scene.theta[1] == scene.theta[3] == 0.0


def test_says_what_it_needs():
    with pytest.raises(FittingError, match="n_candidates"):
        LogisticCalibrator.fit(np.array([0.2, 0.8]), np.array([0, 1]), sees="scene")
    with pytest.raises(FittingError, match="at least that one pair"):
        LogisticCalibrator.fit(
            np.array([0.2, 0.8]), np.array([0, 1]), sees="scene", n_candidates=np.array([0, 1])
        )
    with pytest.raises(InvalidSettingError, match="penalty is -1"):
        fit_conditioned_platt(np.zeros(2), np.zeros((2, 1)), np.array([True, False]), penalty=-1.0)
