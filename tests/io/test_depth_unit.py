"""The unit of a depth file is guessed, and what is ambiguous is called so."""

import numpy as np
import pytest

from cpor.io.depth import SURE, guess_depth_unit


def picture(distance: float) -> np.ndarray:
    return np.full((48, 64), distance)


@pytest.mark.parametrize("distance", [0.45, 0.7, 1.1])
def test_metres_and_millimetres_are_told_apart(distance):
    for steps, unit in (
        ((1e3 * picture(distance)).astype(np.uint16), 0.001),
        (picture(distance).astype(np.float32), 1.0),
        ((1e3 * picture(distance)).astype(np.float32), 0.001),
    ):
        found, probability = guess_depth_unit(steps)
        assert found == unit and probability >= SURE


def test_tenths_of_a_millimetre_leave_other_units_open():
    found, probability = guess_depth_unit((1e4 * picture(0.75)).astype(np.uint16))
    assert found == 0.0001 and probability < SURE
    assert 0.5 < probability < 0.95


def test_the_probability_is_that_of_the_equation():
    found, probability = guess_depth_unit((1e3 * picture(2.0)).astype(np.uint16))
    common = {0.001: 0.80, 0.0001: 0.08, 0.00025: 0.05, 0.0002: 0.03}
    weight = {u: p * np.exp(-0.5 * (np.log(2000 * u / 0.75) / 0.45) ** 2) for u, p in common.items()}
    assert found == 0.001
    assert probability == pytest.approx(weight[0.001] / sum(weight.values()), rel=1e-12)


def test_only_the_middle_with_readings_counts():
    steps = (1e3 * picture(0.7)).astype(np.uint16)
    steps[:10] = 65535
    steps[20:30] = 0
    assert guess_depth_unit(steps)[0] == 0.001


@pytest.mark.parametrize(
    "steps", [np.zeros((8, 8), np.uint16), np.full((8, 8), np.nan), np.full((8, 8), 1e9)]
)
def test_no_unit_fits(steps):
    assert guess_depth_unit(steps) == (None, 0.0)


@pytest.mark.parametrize("kind", [np.uint16, np.float32])
def test_centimetres_are_found_where_no_other_unit_fits(kind):
    """75 cm are 75 steps: as millimetres the scene would touch the lens."""
    found, probability = guess_depth_unit((100.0 * picture(0.75)).astype(kind))
    assert found == 0.01 and probability >= SURE
