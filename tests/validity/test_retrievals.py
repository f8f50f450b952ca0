"""The promise over whole retrievals and its watch, simulated where the true rate of wrong ones is known."""

from bisect import bisect_left

import numpy as np
import pytest
from support.sizes import sized

from cpor.learn.retrievals import e_value, promise_retrievals

RUNS = sized(200, 2000)
ALPHA = DELTA = 0.1
SLACK = 2.0 * np.sqrt(DELTA * (1.0 - DELTA) / RUNS)

RATES = {
    # Share of retrievals with a wrong action, by threshold.
    "just too high at every threshold": dict.fromkeys((0.95, 0.9, 0.8), ALPHA + 1e-9),
    "too high below 0.9": {0.95: 0.02, 0.9: 0.05, 0.8: ALPHA + 1e-9, 0.7: 0.2},
    "worse above than below": {0.95: ALPHA + 1e-9, 0.9: 0.01, 0.8: 0.0},
}


@pytest.mark.parametrize("name", RATES)
@pytest.mark.parametrize("n", [22, 60, 200])
def test_promises_over_retrievals_are_kept(name, n, evidence):
    rng, broken = np.random.default_rng(41), 0
    for _ in range(RUNS):
        outcomes = {tau: [(bool(w), "arm") for w in rng.random(n) < r] for tau, r in RATES[name].items()}
        promise = promise_retrievals(outcomes, ALPHA, DELTA)
        broken += promise.tau is not None and RATES[name][promise.tau] > ALPHA
    point = f"broken promises over retrievals, {RUNS} redraws of {n} retrievals: {name}"
    evidence("calibrated", point, f"<= {DELTA + SLACK:.3f}", broken / RUNS)
    assert broken / RUNS <= DELTA + SLACK


def test_promises_over_retrievals_are_made_where_they_hold():
    rng, made = np.random.default_rng(43), 0
    for _ in range(RUNS):
        outcomes = {tau: [(bool(w), "arm") for w in rng.random(100) < 0.02] for tau in (0.95, 0.9)}
        promise = promise_retrievals(outcomes, ALPHA, DELTA)
        made += promise.tau == 0.9
    assert made / RUNS > 0.9


def test_the_watch_rarely_withdraws_a_promise_that_holds_and_soon_one_that_does_not(evidence):
    rng, runs, length = np.random.default_rng(47), 1000, 200
    at_alpha = [e_value(wrong.tolist(), ALPHA) for wrong in rng.random((runs, length)) < ALPHA]
    false = np.mean(np.array(at_alpha) >= 1.0 / DELTA)
    doubled = rng.random((runs, 2 * length)) < 2.0 * ALPHA
    delays = [
        bisect_left(range(2 * length + 1), 1.0 / DELTA, key=lambda n, w=wrong: e_value(w[:n], ALPHA))
        for wrong in doubled.tolist()
    ]
    evidence("calibrated", f"promises over retrievals withdrawn falsely, {runs} x {length}", "<= 0.1", false)
    evidence(
        "calibrated",
        "retrievals until the promise is withdrawn where the error has doubled: median, 90 %",
        "reported",
        f"{np.median(delays):.0f}, {np.quantile(delays, 0.9):.0f}",
    )
    assert false <= DELTA
    assert 20 < np.median(delays) < 100


@pytest.mark.parametrize("alpha", [0.05, 0.5, 0.9])
def test_good_runs_are_no_evidence_against_a_promise(alpha):
    """With a bet above 1 / alpha, two good runs would multiply to a large number."""
    assert e_value([], alpha) == e_value([False] * 50, alpha) == 1.0
