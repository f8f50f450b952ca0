"""Which shape an object has by network, outline and classes, and the weights that the package reads."""

import numpy as np
import pytest
from words.test_grounding import box, make_scene

from cpor.words.appearance import ShapeWeights, fitted_shapes, how_sure, recognise, shape_factors
from cpor.words.description import describe
from cpor.words.shapes import SHAPES
from cpor.words.vocabulary import vocabulary
from cpor.words.word_weights import WEIGHTS, fitted_weights, mix_weights

PARTS = [(box(200, 100, 60, 40), "red"), (box(200, 300, 40, 40), "blue")]


@pytest.fixture(scope="module")
def look():
    return describe(make_scene(PARTS)).seen[1]


def test_chances_are_a_softmax_of_own_base_and_shared_factors(look):
    rng = np.random.default_rng(0)
    told = rng.random(1000) * 3.0
    own, shared = shape_factors(look, told)
    assert own.shape == (43,) and shared.shape == (19, 3) and np.abs(own).max() <= 6.0
    weights = ShapeWeights(rng.normal(size=(43, 19)), rng.normal(size=19), rng.normal(size=3))
    scores = [
        sum(own[k] * weights.own[k, n] for k in range(43))
        + weights.base[n]
        + float(shared[n] @ weights.shared)
        for n in range(19)
    ]
    expected = np.exp(scores) / np.exp(scores).sum()
    assert weights.chances(own, shared) == pytest.approx(expected, rel=1e-9)


def test_what_the_classifier_says_moves_the_shape_unless_the_network_is_sure(look):
    plain, ball = np.ones(1000), np.ones(1000)
    ball[list(vocabulary().classes["ball"])] = 50.0
    weights = fitted_shapes()
    unsure = [recognise(look, told, 0.0, weights)["ball"] for told in (plain, ball)]
    sure = [recognise(look, told, 1.0, weights)["ball"] for told in (plain, ball)]
    assert unsure[1] > 2.0 * unsure[0]
    assert np.log(sure[1] / sure[0]) < np.log(unsure[1] / unsure[0])
    assert sum(recognise(look, ball, 0.3, weights).values()) == pytest.approx(1.0)


def test_a_view_is_sure_where_most_objects_have_one_likely_shape(look):
    assert how_sure([]) == 1.0
    assert 0.0 <= how_sure([look]) <= 1.0


def test_the_files_hold_what_the_code_reads():
    shapes = fitted_shapes()
    assert shapes.own.shape == (43, len(SHAPES)) and shapes.base.shape == (len(SHAPES),)
    low, high = fitted_weights()
    for name in WEIGHTS:
        ends = sorted((low[name], high[name]))
        assert ends[0] <= mix_weights(0.3)[name] <= ends[1], name
    assert mix_weights(0.0) == low and mix_weights(1.0) == high
