"""Edge posteriors, exact samples and the likeliest graphs."""

import numpy as np
import pytest
from oracles.brute_force import enumerate_dags
from scipy import stats
from support.scenes import nearest_matrix, random_matrix, random_scene

from cpor import CporError, ObstructionPosterior, edge_posteriors, likeliest_graphs, sample_graphs


def test_edge_posteriors_match_brute_force(rng):
    for _ in range(100):
        scene = random_scene(rng)
        brute = enumerate_dags(scene)
        expected = np.zeros_like(scene.p_obstructs)
        for (i, j), p in zip(brute.edges, brute.edge_posterior, strict=True):
            expected[i, j] = p
        assert edge_posteriors(scene) == pytest.approx(expected, abs=1e-11)


def test_edge_posteriors_of_a_large_sparse_scene(rng):
    p = nearest_matrix(rng, 20)
    q = edge_posteriors(ObstructionPosterior(range(20), 0, p))
    step = 1e-5
    i, j = np.argwhere(p > 0)[7]
    higher, lower = p.copy(), p.copy()
    higher[i, j] += step
    lower[i, j] -= step
    from cpor.infer.exact import log_acyclic_mass
    from cpor.infer.local import cut_local

    slope = sum(
        sign * log_acyclic_mass(cut_local(m, np.arange(20))) for sign, m in ((1, higher), (-1, lower))
    ) / (2 * step)
    assert q[i, j] == pytest.approx(p[i, j] + p[i, j] * (1 - p[i, j]) * slope, abs=1e-7)


def test_samples_follow_the_posterior(rng):
    p = random_matrix(rng, 4, 0.8)
    scene = ObstructionPosterior(range(4), 0, p)
    brute = enumerate_dags(scene)
    size = 20_000
    samples = sample_graphs(scene, size, rng)
    codes = {graph.tobytes(): k for k, graph in enumerate(brute.graphs)}
    rows, columns = zip(*brute.edges, strict=True)
    counts = np.zeros(brute.n_graphs)
    for sample in samples[:, rows, columns]:
        counts[codes[sample.tobytes()]] += 1  # a cyclic sample would have no code
    common = brute.shares * size >= 5
    observed = np.append(counts[common], counts[~common].sum())
    expected = np.append(brute.shares[common], brute.shares[~common].sum()) * size
    assert stats.chisquare(observed[expected > 0], expected[expected > 0]).pvalue > 1e-4
    assert not samples[:, p == 0].any()


def test_samples_are_reproducible():
    scene = ObstructionPosterior(range(3), 0, np.array([[0, 0.6, 0.1], [0.7, 0, 0.5], [0.2, 0.4, 0]]))
    first, second = (sample_graphs(scene, 50, np.random.default_rng(4)) for _ in range(2))
    assert np.array_equal(first, second)


def test_likeliest_graphs_have_their_share(rng):
    for _ in range(50):
        scene = random_scene(rng)
        brute = enumerate_dags(scene)
        graphs = likeliest_graphs(scene, 4)
        assert [graph.share for graph in graphs] == pytest.approx(brute.shares[:4], abs=1e-10)


def test_graphs_of_a_scene_without_answers_are_refused():
    scene = ObstructionPosterior(["a", "b"], "a", {("a", "b"): None})
    with pytest.raises(CporError, match="no answer"):
        likeliest_graphs(scene, 3)
