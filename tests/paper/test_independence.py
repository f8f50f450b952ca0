"""Whether relations are independent, and what coupled ones would change."""

import json

import numpy as np
import pytest
from paper.test_experiments import SCORES, TRUTH, call, needs_unobench

from cpor.infer.decide import decide
from cpor.paper.independence import COUPLED, coupled_scores, fit_couplings, independence_table
from cpor.paper.unobench import FusedScores, UnobenchCase
from cpor.relations import ObstructionPosterior


def test_independence_by_hand(rng):
    # Two relations of one blocked object always agree; two of one blocker never do.
    rows = [(c, 1, 2, c % 2) for c in range(40)] + [(c, 1, 3, c % 2) for c in range(40)]
    rows += [(c, 4, 5, c % 2) for c in range(40)] + [(c, 6, 5, 1 - c % 2) for c in range(40)]
    case, blocked, blocker, label = map(np.array, zip(*rows, strict=True))
    log = FusedScores(case, blocked, blocker, np.where(np.arange(160) % 3 == 0, 0.5, 0.4), label.astype(bool))
    cases = tuple(UnobenchCase(c, c, 1, ((1,),), frozenset({1})) for c in range(40))
    found = {row.name: row for row in independence_table(cases, log, rng).rows}
    assert {name: row.ours["n"] for name, row in found.items()} == {
        "same blocked object": 40,
        "same blocker": 40,
        "chain": 0,
        "opposite": 0,
    }
    assert found["same blocked object"].ours["correlation"] > 0.95
    assert found["same blocker"].ours["correlation"] < -0.95
    low, high = found["same blocked object"].ci["correlation"]
    assert low <= found["same blocked object"].ours["correlation"] <= high


@needs_unobench
def test_relations_of_the_released_log_are_not_independent(evidence):
    found = json.loads(call("independence", "--scores", SCORES, "--truth", TRUTH, "--json"))
    first, second = (found[label]["rows"] for label in ("independence", "couplings"))
    rows = {row["name"]: (row["ours"]["correlation"], row["ci"]["correlation"]) for row in first}
    assert rows["same blocked object"][1][0] > 0.2
    assert rows["chain"][1][0] > 0.2
    said = ", ".join(
        f"{name} {value:+.2f} [{ci[0]:+.2f}, {ci[1]:+.2f}]" for name, (value, ci) in rows.items()
    )
    evidence("paper", "residual correlations of relations, released log", "reported", said)
    gain, actions = second[-2:]
    assert gain["ci"]["gain"][0] > 0.0
    assert actions["ours"]["corrections"] + actions["ours"]["regressions"] <= actions["ours"]["changed"]


def test_coupled_relations_by_hand(rng):
    """Grasp 1 unless 2 or 3 obstruct it; two relations of one blocked object that like to agree."""
    p, q, theta = 0.3, 0.6, 0.8
    scene = ObstructionPosterior.from_relations([1, 2, 3], 1, [(1, 2, p), (1, 3, q)])
    alone, coupled = coupled_scores(scene, ({}, {COUPLED[0]: theta}), rng)
    assert alone == pytest.approx(list(decide(scene, 0.0).scores.values()))
    weight = {
        (a, b): (p if a else 1 - p) * (q if b else 1 - q) * np.exp(theta * (a - p) * (b - q))
        for a in (0, 1)
        for b in (0, 1)
    }
    total = sum(weight.values())
    expected = [weight[0, 0], weight[1, 0] + weight[1, 1], weight[0, 1] + weight[1, 1]]
    assert coupled == pytest.approx([value / total for value in expected])


def test_a_large_scene_is_drawn_and_close_to_exact(rng):
    n = 6
    p = np.triu(np.full((n, n), 0.25), 1) + np.tril(np.full((n, n), 0.05), -1)
    scene = ObstructionPosterior(range(n), 0, p)
    (drawn,) = coupled_scores(scene, ({},), rng)
    assert drawn == pytest.approx(list(decide(scene, 0.0).scores.values()), abs=0.03)


def test_couplings_are_found_again(rng):
    # Pairs of relations drawn from the model itself.
    p, theta, n = 0.4, 1.2, 20_000
    cells = np.array([(a, b) for a in (0, 1) for b in (0, 1)])
    weight = np.prod(np.where(cells, p, 1 - p), axis=1) * np.exp(theta * np.prod(cells - p, axis=1))
    drawn = cells[rng.choice(4, size=n, p=weight / weight.sum())].astype(bool)
    pair = np.arange(0, 2 * n, 2), np.arange(1, 2 * n, 2)
    found = fit_couplings(np.full(2 * n, p), drawn.ravel(), [pair], np.ones(2 * n))
    assert found == pytest.approx([theta], abs=0.15)
