"""Three ways that share nothing but the model agree with each other."""

import math

import numpy as np
import pytest
from oracles.brute_force import enumerate_dags
from oracles.milp import milp_top_k
from oracles.problog_program import problog_scores

from cpor import ObstructionPosterior


def sparse(rng: np.random.Generator) -> np.ndarray:
    return _matrix(rng, 7, 10)


def dense(rng: np.random.Generator) -> np.ndarray:
    return _matrix(rng, 4, 12)


def ring(rng: np.random.Generator) -> np.ndarray:
    """A long cycle, likely as a whole, with a few chords."""
    n = 6
    p = _matrix(rng, n, 3)
    for i in range(n):
        p[i, (i + 1) % n] = rng.uniform(0.7, 0.99)
    return p


def extreme(rng: np.random.Generator) -> np.ndarray:
    """Near 0 and near 1, beyond zeta and at 1 itself, in both directions."""
    p = _matrix(rng, 4, 10)
    edges = np.argwhere(p > 0.0)
    values = rng.choice([1e-12, 1e-9, 1e-6, 0.3, 1.0 - 1e-6, 1.0 - 1e-9, 1.0], len(edges))
    p[tuple(edges.T)] = values
    return p


def _matrix(rng: np.random.Generator, n: int, m: int) -> np.ndarray:
    """m candidate edges among n objects, probabilities uniform in [0.05, 0.95]."""
    pairs = [(i, j) for i in range(n) for j in range(n) if i != j]
    p = np.zeros((n, n))
    for i, j in rng.permutation(pairs)[:m]:
        p[i, j] = rng.uniform(0.05, 0.95)
    return p


@pytest.mark.parametrize("family", [sparse, dense, ring, extreme])
@pytest.mark.parametrize("seed", range(5))
def test_brute_force_milp_and_problog_agree(family, seed: int) -> None:
    rng = np.random.default_rng(seed)
    p = family(rng)
    scene = ObstructionPosterior(range(len(p)), int(rng.integers(len(p))), p)
    brute = enumerate_dags(scene)

    z, scores = problog_scores(scene)
    assert z == pytest.approx(math.exp(brute.log_z), rel=1e-9)
    np.testing.assert_allclose(scores, brute.scores, atol=1e-9)

    found = milp_top_k(scene, 12)
    np.testing.assert_allclose([w for _, w in found], brute.log_weights[:12], rtol=1e-6, atol=1e-6)
    for graph, log_weight in found:
        row = next(g for g, present in enumerate(brute.graphs) if graph == _as_pairs(brute.edges, present))
        assert log_weight == pytest.approx(brute.log_weights[row], abs=1e-9)
    assert len({graph for graph, _ in found}) == 12


def test_milp_lists_every_graph_of_a_small_scene() -> None:
    p = _matrix(np.random.default_rng(3), 3, 6)
    scene = ObstructionPosterior(range(3), 0, p)
    brute = enumerate_dags(scene)
    found = milp_top_k(scene, 100)
    assert len(found) == brute.n_graphs == 25
    assert math.fsum(math.exp(w) for _, w in found) == pytest.approx(math.exp(brute.log_z), rel=1e-12)


def test_brute_force_is_consistent_with_itself() -> None:
    """Sums over graphs against the product model: P(acyclic and edge) / P(acyclic), one edge at a time."""
    rng = np.random.default_rng(8)
    p = _matrix(rng, 5, 12)
    brute = enumerate_dags(ObstructionPosterior(range(5), 2, p))
    for e, (blocked, blocker) in enumerate(brute.edges):
        without = p.copy()
        without[blocked, blocker] = 0.0
        z_without = math.exp(enumerate_dags(ObstructionPosterior(range(5), 2, without)).log_z)
        expected = 1.0 - (1.0 - p[blocked, blocker]) * z_without / math.exp(brute.log_z)
        assert brute.edge_posterior[e] == pytest.approx(expected, abs=1e-12)


def _as_pairs(edges: list[tuple[int, int]], present: np.ndarray) -> frozenset[tuple[int, int]]:
    return frozenset(edge for edge, there in zip(edges, present, strict=True) if there)
