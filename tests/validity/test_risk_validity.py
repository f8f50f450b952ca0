"""The promise, simulated on populations whose truth is known: how often it is broken, and made."""

import numpy as np
import pytest
from support.sizes import sized

from cpor.learn.control import control_risk
from cpor.learn.tau_grid import choose_tau_grid

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


KINDS = {
    # Error rate of each kind of cases, and how many of them a test has.
    "one kind just too high": ({"free": 0.2, "buried": 1.0 + 1e-9}, (400, 400)),
    "a rare kind too high": ({"free": 0.1, "buried": 1.5}, (700, 100)),
    "four kinds, all just too high": (dict.fromkeys("abcd", 1.0 + 1e-9), (200, 200, 200, 200)),
}


def draw_kinds(rng, rates, counts, alpha):
    """Scores, errors and kinds; within a kind errors do not depend on the score."""
    kind, rate = np.repeat([*rates], counts), np.repeat([*rates.values()], counts)
    return rng.random(kind.size), rng.random(kind.size) < alpha * rate, kind.tolist()


@pytest.mark.parametrize("name", KINDS)
def test_promises_by_kind_are_kept_in_every_kind(name, evidence):
    rates, counts = KINDS[name]
    rng, alpha, broken, pooled = np.random.default_rng(23), 0.1, 0, 0
    for run in range(RUNS):
        chosen, tested = (draw_kinds(rng, rates, counts, alpha) for _ in range(2))
        if run % 10 == 0:
            grids = {k: choose_tau_grid(*chosen[:2], alpha, DELTA, stratum=chosen[2] * k) for k in (0, 1)}
        for by_kind in (1, 0):
            promise = control_risk(*tested[:2], alpha, DELTA, grids[by_kind], tested[2] * by_kind)
            broken += by_kind and promise.tau is not None  # one kind is wrong too often at any score
            pooled += not by_kind and promise.tau is not None
    evidence("calibrated", f"broken promises in {RUNS:,} runs, by kind: {name}", "<= 0.119", broken / RUNS)
    assert broken / RUNS <= DELTA + 2.0 * np.sqrt(DELTA * (1.0 - DELTA) / RUNS)
    if min(rates.values()) < 0.5:  # a test of all together hides the kind that is wrong too often
        assert pooled / RUNS > 0.5


def test_promises_by_kind_are_made():
    rng, made = np.random.default_rng(29), 0
    rates, counts = dict.fromkeys("abcd", 0.5), (500,) * 4
    for run in range(RUNS):
        chosen, tested = (draw_kinds(rng, rates, counts, 0.1) for _ in range(2))
        if run % 10 == 0:
            grid = choose_tau_grid(*chosen[:2], 0.1, DELTA, stratum=chosen[2])
        promise = control_risk(*tested[:2], 0.1, DELTA, grid, tested[2])
        made += promise.tau is not None
        assert sum(each.n for each in promise.strata.values()) == promise.n
    assert made / RUNS >= 0.90


@pytest.mark.parametrize("rate", [name for name in RATES if name.startswith("half of alpha")])
def test_the_populations_are_what_they_are_called(rate):
    assert RATES[rate](SCORES).mean() == pytest.approx(0.5, abs=1e-4)
