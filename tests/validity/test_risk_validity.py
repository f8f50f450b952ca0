"""The promise, simulated on populations whose truth is known: how often it is broken, and made."""

import numpy as np
import pytest
from support.sizes import sized

from cpor.risk.control import control_risk
from cpor.risk.tau_grid import choose_tau_grid

RUNS = sized(250, 1000)
DELTA = 0.1
POPULATION = 4000
SCORES = (np.arange(POPULATION) + 0.5) / POPULATION  # uniform on (0, 1)

RATES = {
    # Error rate of a scene as a function of its score, in units of alpha.
    "just too high everywhere": lambda s: np.full_like(s, 1.0 + 1e-9),
    "crosses alpha": lambda s: 2.5 * (1.0 - s),
    "a cliff": lambda s: np.where(s > 0.6, 0.3, 4.0),
    "scores that mislead": lambda s: 2.0 * s,
    "half of alpha everywhere": lambda s: np.full_like(s, 0.5),
    "half of alpha on average": lambda s: 1.0 - s,
    "half of alpha, at the low end": lambda s: 5.5 * (1.0 - s) ** 10,
}


def draw(rng, rate, alpha, n):
    score = rng.random(n)
    return score, rng.random(n) < np.minimum(1.0, alpha * RATES[rate](score))


def true_error(rate, alpha, tau):
    """P(wrong | executed) in the population."""
    executed = SCORES[np.greater(SCORES, tau)]
    return np.minimum(1.0, alpha * RATES[rate](executed)).mean()


def simulate(rate, alpha, n_fit, n_test, runs=RUNS):
    """Shares of the runs in which a promise was made, and in which one was made and is broken."""
    rng = np.random.default_rng(17)
    made = broken = 0
    for run in range(runs):
        if run % 5 == 0:  # a new fitting part every fifth run: the promise holds for any
            grid = choose_tau_grid(*draw(rng, rate, alpha, n_fit), alpha, DELTA, n_calibration=n_test)
        promise = control_risk(*draw(rng, rate, alpha, n_test), alpha, DELTA, grid)
        if promise.tau is not None:
            made += 1
            broken += true_error(rate, alpha, promise.tau) > alpha
    return made / runs, broken / runs


@pytest.mark.parametrize("alpha", [0.05, 0.1, 0.2])
@pytest.mark.parametrize(
    "rate", ["just too high everywhere", "crosses alpha", "a cliff", "scores that mislead"]
)
def test_promises_are_kept(rate, alpha, evidence):
    _, broken = simulate(rate, alpha, n_fit=300, n_test=500)
    evidence("calibrated", f"broken promises in {RUNS:,} runs: {rate}, alpha {alpha}", "<= 0.119", broken)
    assert broken <= DELTA + 2.0 * np.sqrt(DELTA * (1.0 - DELTA) / RUNS)


@pytest.mark.parametrize("alpha", [0.05, 0.1, 0.2])
@pytest.mark.parametrize("rate", [name for name in RATES if name.startswith("half of alpha")])
def test_promises_are_made(rate, alpha, evidence):
    made, broken = simulate(rate, alpha, n_fit=500, n_test=1000)
    evidence("calibrated", f"promises made in {RUNS:,} runs: {rate}, alpha {alpha}", ">= 0.90", made)
    assert made >= 0.90
    assert broken <= DELTA + 2.0 * np.sqrt(DELTA * (1.0 - DELTA) / RUNS)


@pytest.mark.parametrize("rate", [name for name in RATES if name.startswith("half of alpha")])
def test_the_populations_are_what_they_are_called(rate):
    assert RATES[rate](SCORES).mean() == pytest.approx(0.5, abs=1e-4)
