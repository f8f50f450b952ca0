"""Each oracle at points one can work out on paper."""

import math
import sys

import numpy as np
import pytest
from oracles import problog_program
from oracles.brute_force import enumerate_dags, plan_validity
from oracles.milp import find_cycles, milp_top_k
from oracles.problog_program import problog_scores

from cpor import CporError, ObstructionPosterior
from cpor.errors import InvalidSceneError, InvalidSettingError, TooLargeError


@pytest.fixture
def reciprocal() -> ObstructionPosterior:
    """Either may obstruct the other: Z = 1 - 0.6 * 0.3."""
    return ObstructionPosterior(["mug", "box"], "mug", {("mug", "box"): 0.6, ("box", "mug"): 0.3})


@pytest.fixture
def chain() -> ObstructionPosterior:
    """The can on the box on the mug, perhaps; the bowl has nothing to do with it."""
    return ObstructionPosterior(
        ["bowl", "box", "mug", "can"], "mug", {("mug", "box"): 0.8, ("box", "can"): 0.25}
    )


def test_brute_force_on_a_reciprocal_pair(reciprocal: ObstructionPosterior) -> None:
    brute = enumerate_dags(reciprocal)
    assert brute.edges == [(0, 1), (1, 0)]
    assert brute.graphs.tolist() == [[True, False], [False, False], [False, True]]
    np.testing.assert_allclose(brute.log_weights, np.log([0.42, 0.28, 0.12]), rtol=1e-14)
    assert brute.log_z == pytest.approx(math.log(0.82), abs=1e-15)
    np.testing.assert_allclose(brute.scores, [0.40 / 0.82, 0.42 / 0.82], rtol=1e-14)
    np.testing.assert_allclose(brute.reach, [1.0, 0.42 / 0.82], rtol=1e-14)
    np.testing.assert_allclose(brute.edge_posterior, [0.42 / 0.82, 0.12 / 0.82], rtol=1e-14)
    np.testing.assert_allclose(brute.shares, np.array([0.42, 0.28, 0.12]) / 0.82, rtol=1e-14)


def test_brute_force_on_a_chain(chain: ObstructionPosterior) -> None:
    brute = enumerate_dags(chain)
    assert brute.n_graphs == 4
    assert brute.log_z == pytest.approx(0.0, abs=1e-15)
    np.testing.assert_allclose(brute.scores, [0.0, 0.6, 0.2, 0.2], atol=1e-15)
    np.testing.assert_allclose(brute.reach, [0.0, 0.8, 1.0, 0.2], atol=1e-15)


@pytest.mark.parametrize(
    ("order", "p_valid"),
    [([2], 0.2), ([1, 2], 0.75), ([3, 1, 2], 1.0), ([1, 3, 2], 0.75), ([3, 2], 0.2), ([0, 3, 1, 2], 1.0)],
)
def test_plans_on_a_chain(chain: ObstructionPosterior, order: list[int], p_valid: float) -> None:
    assert plan_validity(enumerate_dags(chain), order) == pytest.approx(p_valid, abs=1e-15)


@pytest.mark.parametrize("order", [[], [1], [2, 1], [1, 1, 2], [7, 2]])
def test_what_is_no_plan(chain: ObstructionPosterior, order: list[int]) -> None:
    with pytest.raises(InvalidSettingError, match="a plan"):
        plan_validity(enumerate_dags(chain), order)


@pytest.mark.parametrize(("n", "count"), [(1, 1), (2, 3), (3, 25), (4, 543), (5, 29281)])
def test_number_of_acyclic_graphs(n: int, count: int) -> None:
    """OEIS A003024; with all p = 1/2 they are equally likely."""
    p = np.full((n, n), 0.5) - 0.5 * np.eye(n)
    brute = enumerate_dags(ObstructionPosterior(range(n), 0, p))
    assert brute.n_graphs == count
    assert brute.log_z == pytest.approx(math.log(count) - n * (n - 1) * math.log(2.0), abs=1e-12)


def test_milp_proves_exhaustion(reciprocal: ObstructionPosterior) -> None:
    found = milp_top_k(reciprocal, 10)
    assert [graph for graph, _ in found] == [{(0, 1)}, frozenset(), {(1, 0)}]
    np.testing.assert_allclose([w for _, w in found], np.log([0.42, 0.28, 0.12]), rtol=1e-14)
    assert milp_top_k(reciprocal, 2) == found[:2]
    assert milp_top_k(reciprocal, 0) == []


def test_milp_without_candidates() -> None:
    assert milp_top_k(ObstructionPosterior(["mug"], "mug", {}), 3) == [(frozenset(), 0.0)]


def test_find_cycles() -> None:
    assert find_cycles(frozenset({(0, 1), (1, 2), (0, 2)})) == []
    assert find_cycles(frozenset({(0, 1), (1, 2), (2, 1)})) == [[(1, 2), (2, 1)]]
    two_rings = frozenset({(0, 1), (1, 2), (2, 0), (3, 4), (4, 3), (2, 3)})
    assert sorted(len(cycle) for cycle in find_cycles(two_rings)) == [2, 3]


def test_problog_on_a_reciprocal_pair(reciprocal: ObstructionPosterior) -> None:
    z, scores = problog_scores(reciprocal)
    assert z == pytest.approx(0.82, abs=1e-12)
    np.testing.assert_allclose(scores, [0.40 / 0.82, 0.42 / 0.82], atol=1e-12)


def test_problog_on_a_chain(chain: ObstructionPosterior) -> None:
    z, scores = problog_scores(chain)
    assert z == pytest.approx(1.0, abs=1e-12)
    np.testing.assert_allclose(scores, [0.0, 0.6, 0.2, 0.2], atol=1e-12)


def test_certain_relations_are_clipped() -> None:
    """Two certain relations that exclude each other: each carries the zeta of the other one's absence."""
    scene = ObstructionPosterior([0, 1], 0, np.array([[0.0, 1.0], [1.0, 0.0]]))
    assert math.exp(enumerate_dags(scene, zeta=1e-3).log_z) == pytest.approx(1.0 - 0.999**2, rel=1e-12)
    assert problog_scores(scene, zeta=1e-3)[0] == pytest.approx(1.0 - 0.999**2, rel=1e-12)
    assert len(milp_top_k(scene, 5, zeta=1e-3)) == 3


@pytest.mark.parametrize("oracle", [enumerate_dags, lambda s: milp_top_k(s, 3), problog_scores])
def test_unanswered_pairs_are_refused(oracle) -> None:
    scene = ObstructionPosterior(["mug", "box"], "mug", {("mug", "box"): None})
    with pytest.raises(InvalidSceneError, match="no answer on whether 'box' obstructs 'mug'"):
        oracle(scene)


def test_brute_force_refuses_what_it_cannot_finish() -> None:
    p = np.full((6, 6), 0.5) - 0.5 * np.eye(6)
    with pytest.raises(TooLargeError, match="30 candidate relations"):
        enumerate_dags(ObstructionPosterior(range(6), 0, p))


def test_zeta_out_of_range(chain: ObstructionPosterior) -> None:
    with pytest.raises(InvalidSettingError, match="zeta"):
        enumerate_dags(chain, zeta=0.0)


def test_missing_peers_are_named(chain: ObstructionPosterior, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "highspy", None)
    with pytest.raises(CporError, match=r"cpor-grasp\[peers\]"):
        milp_top_k(chain, 1)
    problog_program._prepare.cache_clear()
    monkeypatch.setitem(sys.modules, "problog", None)
    with pytest.raises(CporError, match=r"cpor-grasp\[peers\]"):
        problog_scores(chain)
