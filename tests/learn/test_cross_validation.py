"""Folds keep images whole; the curve picks the least loss."""

import numpy as np
import pytest

from cpor.errors import FittingError
from cpor.learn.cross_validation import PenaltyCurve, cross_fit, fold_of, penalty_curve


@pytest.mark.parametrize("rng", [None, np.random.default_rng(0)])
def test_folds_keep_images_whole_and_even(rng):
    group = np.random.default_rng(1).integers(0, 53, 400)
    fold = fold_of(group, 5, rng)
    for image in np.unique(group):
        assert np.unique(fold[group == image]).size == 1
    images_a_fold = [np.unique(group[fold == k]).size for k in range(5)]
    assert max(images_a_fold) - min(images_a_fold) <= 1


def test_folds_in_order_of_appearance():
    assert fold_of(np.array(["z", "a", "z", "m", "a"]), 2).tolist() == [0, 1, 0, 0, 1]


def test_too_few_images():
    with pytest.raises(FittingError, match="5 folds of 2 images"):
        fold_of(np.array([1, 1, 2]))


def test_cross_fit_never_predicts_what_it_was_fitted_on():
    group = np.arange(40) // 2

    def predict(fitted, held_out):
        assert not set(group[fitted]) & set(group[held_out])
        return np.full(held_out.sum(), fitted.sum() / 40)

    assert cross_fit(predict, group) == pytest.approx(np.full(40, 0.8))


def test_curve_takes_the_least_and_of_equals_the_larger():
    label = np.tile([0, 1], 10)
    curve = penalty_curve(
        lambda penalty: lambda fitted, held_out: np.full(held_out.sum(), 0.5 if penalty else 0.9),
        label,
        np.arange(20),
        grid=(0.0, 0.1, 1.0),
    )
    assert curve.nll == pytest.approx((-0.5 * np.log(0.09), np.log(2), np.log(2)))
    assert curve.best == 1.0
    assert PenaltyCurve((0.0, 1.0), (0.2, 0.3), np.zeros((2, 5))).best == 0.0
