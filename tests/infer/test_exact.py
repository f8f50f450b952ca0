"""Exact inference against everything that computes the same thing another way."""

import itertools

import mpmath
import numpy as np
import pytest
from oracles.brute_force import enumerate_dags
from support.scenes import nearest_matrix, random_matrix, random_scene

from cpor import ObstructionPosterior, decide
from cpor.infer import exact, subset
from cpor.infer._kernels.weak_orders import COUNT, MARKED, sum_out, weak_orders, weigh_last
from cpor.infer.exact import log_acyclic_mass, solve_elimination
from cpor.infer.local import Allowance, cut_local, reachable
from cpor.infer.subset import solve_subset


def spec_recursion(p, target, number=float):
    """SPEC section 3, word for word, on sets; `number` is the arithmetic. Returns Z and the scores."""
    n = len(p)
    gap = [[number(1) - number(p[i][j]) for j in range(n)] for i in range(n)]

    def no_edge(i, subset):
        result = number(1)
        for v in subset:
            if v != i:
                result *= gap[i][v]
        return result

    def cut(from_set, to_set):
        result = number(1)
        for r in from_set:
            result *= no_edge(r, to_set)
        return result

    def subsets(items, smallest=0):
        items = sorted(items)
        for size in range(smallest, len(items) + 1):
            yield from map(frozenset, itertools.combinations(items, size))

    acyclic = {frozenset(): number(1)}
    everything = frozenset(range(n))
    for s in subsets(everything, 1):
        total = number(0)
        for t in subsets(s, 1):
            sign = 1 if len(t) % 2 else -1
            term = number(sign) * acyclic[s - t]
            for v in t:
                term *= no_edge(v, s)
            total += term
        acyclic[s] = total
    reached = {}
    for r in subsets(everything, 1):
        if target not in r:
            continue
        value = acyclic[r]
        for t in subsets(r - {target}):
            t |= {target}
            if t != r:
                value -= reached[t] * cut(t, r - t) * acyclic[r - t]
        reached[r] = value
    z = acyclic[everything]
    scores = []
    for o in range(n):
        value = acyclic[everything - {o}]
        if o != target:
            for r, f in reached.items():
                if o not in r:
                    value -= f * cut(r, everything - r) * acyclic[everything - r - {o}]
        scores.append(no_edge(o, everything) * value / z)
    return z, scores


def test_two_thousand_scenes_match_brute_force(rng, evidence):
    worst_z = worst_score = 0.0
    for _ in range(2000):
        scene = random_scene(rng)
        brute = enumerate_dags(scene)
        solved = exact.solve_exact(scene.p_obstructs, scene.target_index)
        worst_score = max(worst_score, np.abs(solved.scores - brute.scores).max())
        worst_z = max(worst_z, abs((1.0 - solved.mu) - np.exp(brute.log_z)))
    evidence("exact", "exact = brute force, 2,000 scenes, worst error of Z", "<= 1e-12", worst_z)
    evidence("exact", "exact = brute force, 2,000 scenes, worst score error", "<= 1e-12", worst_score)
    assert worst_z < 1e-12
    assert worst_score < 1e-12


def test_complete_graph_on_five_objects_matches_brute_force(rng):
    scene = ObstructionPosterior(list("abcde"), "c", random_matrix(rng, 5, 1.0))
    brute = enumerate_dags(scene)
    assert brute.n_graphs == 29281  # labelled DAGs on five points (OEIS A003024)
    solved = exact.solve_exact(scene.p_obstructs, scene.target_index)
    assert solved.scores == pytest.approx(brute.scores, abs=1e-12)


def test_kernel_matches_plain_recursion(rng):
    for _ in range(20):
        p = random_matrix(rng, 5, 0.8)
        z, scores = spec_recursion(p, 2)
        solved = exact.solve_exact(p, 2)
        assert solved.mu == pytest.approx(1.0 - z, abs=1e-12)
        assert solved.scores == pytest.approx(scores, abs=1e-12)


def test_hand_computed_reciprocal_pair():
    # Of the four configurations of a <-> b only "both" is cyclic: Z = 1 - .6 * .3 = .82.
    # a is free when a -> b is absent: (1 - .6) / .82; b is on a's chain and free when only a -> b holds.
    scene = ObstructionPosterior(["a", "b"], "a", {("a", "b"): 0.6, ("b", "a"): 0.3})
    decision = decide(scene)
    assert decision.mu == pytest.approx(0.18)
    assert decision.scores == pytest.approx({"a": 0.4 / 0.82, "b": 0.6 * 0.7 / 0.82})


def _every_way(p):
    graph = cut_local(p, reachable(p, 0))
    yield solve_subset(graph, Allowance())
    yield solve_elimination(graph, Allowance(), True)
    yield subset._solve_in_logs(graph)


@pytest.mark.parametrize(("n", "density"), [(2, 1.0), (5, 0.6), (7, 1.0), (11, 0.25), (13, 0.2)])
def test_subset_elimination_and_log_domain_agree(rng, n, density):
    for _ in range(5):
        first, *others = _every_way(random_matrix(rng, n, density))
        for other in others:
            assert other.scores == pytest.approx(first.scores, abs=1e-11)
            assert other.log_z == pytest.approx(first.log_z, abs=1e-10)
            assert other.mu == pytest.approx(first.mu, abs=1e-11)
            assert other.reach == pytest.approx(first.reach, abs=1e-11)


def test_reach_matches_brute_force(rng):
    for _ in range(50):
        scene = random_scene(rng)
        solved = exact.solve_exact(scene.p_obstructs, scene.target_index, want_reach=True)
        assert solved.reach == pytest.approx(enumerate_dags(scene).reach, abs=1e-12)


@pytest.mark.slow
def test_fifty_scenes_match_problog(rng, evidence):
    from oracles.problog_program import problog_scores

    worst = 0.0
    for k in range(50):
        n = 4 + k % 7
        p = nearest_matrix(rng, n, 2) if k % 2 else random_matrix(rng, n, min(1.0, 1.6 / n))
        scene = ObstructionPosterior(range(n), k % n, p)
        z, scores = problog_scores(scene)
        decision = decide(scene, method="exact")
        errors = np.abs(np.array(list(decision.scores.values())) - scores)
        worst = max(worst, abs(1.0 - decision.mu - z), errors.max())
    evidence("exact", "exact = ProbLog, 50 scenes of up to 10 objects, worst error", "<= 1e-8", worst)
    assert worst < 1e-8


def _cycle(n, p):
    matrix = np.zeros((n, n))
    matrix[np.arange(n), (np.arange(n) + 1) % n] = p
    return matrix


def _ladder(pairs, p):
    """Reciprocal pairs in a row: object k and k + 1 obstruct each other."""
    matrix = np.zeros((pairs + 1, pairs + 1))
    for k in range(pairs):
        matrix[k, k + 1] = matrix[k + 1, k] = p
    return matrix


HARD = {
    "both directions surely": np.where(np.eye(6), 0.0, 1.0 - 1e-9),
    "both directions surely not": np.where(np.eye(6), 0.0, 1e-9),
    "a sure cycle of eight": _cycle(8, 1.0 - 1e-9),
    "an unlikely cycle of eight": _cycle(8, 1e-9),
    "surely one way, surely not the other": np.triu(np.full((7, 7), 1.0 - 1e-9), 1)
    + np.tril(np.full((7, 7), 1e-9), -1),
    "mixed": np.where(np.eye(7), 0.0, np.where(np.arange(49).reshape(7, 7) % 3 == 0, 1 - 1e-9, 1e-9)),
}


@pytest.mark.parametrize("name", HARD)
def test_hard_numbers_match_high_precision(name, evidence):
    p = HARD[name]
    with mpmath.workdps(400):
        z, scores = spec_recursion(p.tolist(), 0, mpmath.mpf)
        log_z = float(mpmath.log(z))
        mu = float(1 - z)
        expected = [float(score) for score in scores]
    solved = exact.solve_exact(p, 0)
    worst = float(np.abs(solved.scores - expected).max())
    evidence("exact", f"hard numbers, {name}: worst score error against mpmath", "<= 1e-9", worst)
    assert solved.log_z == pytest.approx(log_z, rel=1e-9, abs=1e-9)
    assert solved.mu == pytest.approx(mu, rel=1e-9)
    assert solved.scores == pytest.approx(expected, abs=1e-9)
    assert np.all(np.isfinite(solved.scores)) and np.all(solved.scores >= 0.0)


def _ladder_in_high_precision(pairs, p):
    """Z and scores of a row of reciprocal pairs: independent pairs, and 0 reaches o only along the row."""
    p = mpmath.mpf(p)
    pair = 1 - p * p
    forward = p * (1 - p) / pair  # given acyclic: only k -> k + 1
    backward = forward
    neither = (1 - p) ** 2 / pair
    scores = [1 - forward]
    for o in range(1, pairs + 1):
        onward = backward + neither if o < pairs else 1
        scores.append(forward**o * onward)
    return pair**pairs, scores


@pytest.mark.parametrize("p", [1e-9, 0.5, 1.0 - 1e-9])
def test_twenty_reciprocal_pairs(p, evidence):
    with mpmath.workdps(60):
        z, scores = _ladder_in_high_precision(20, p)
        log_z, mu, expected = float(mpmath.log(z)), float(1 - z), [float(s) for s in scores]
    solved = exact.solve_exact(_ladder(20, p), 0)
    worst = float(np.abs(solved.scores - expected).max())
    evidence("exact", f"20 reciprocal pairs at p = {p!r}: worst score error against mpmath", "<= 1e-9", worst)
    assert solved.log_z == pytest.approx(log_z, rel=1e-9, abs=1e-9)
    assert solved.mu == pytest.approx(mu, rel=1e-9)
    assert solved.scores == pytest.approx(expected, abs=1e-9)


def test_products_that_underflow_a_double():
    # 45 reciprocal pairs among 10 objects, all near certain: Z is about 1e-400.
    p = np.where(np.eye(10), 0.0, 1.0 - 1e-9)
    solved = exact.solve_exact(p, 0)
    with mpmath.workdps(600):
        # Any of the 10! orders, each with its 45 backward edges absent; anything else is 1e-9 lighter.
        log_z = float(mpmath.log(mpmath.factorial(10)) + 45 * mpmath.log(1 - mpmath.mpf(1.0 - 1e-9)))
    assert solved.log_z == pytest.approx(log_z, rel=1e-8)
    assert solved.scores == pytest.approx(0.1, abs=1e-8)


def test_largest_component_outside_the_targets_reach_counts_in_mu(rng):
    p = np.zeros((20, 20))
    p[:3, :3] = random_matrix(rng, 3, 1.0)
    p[3:, 3:] = nearest_matrix(rng, 17)
    whole = exact.solve_exact(p, 0)
    inner = exact.solve_exact(p[:3, :3].copy(), 0)
    outer = exact.solve_exact(p[3:, 3:].copy(), 0)
    assert whole.mu_target == pytest.approx(inner.mu)
    assert 1 - whole.mu == pytest.approx((1 - inner.mu) * (1 - outer.mu))
    assert whole.scores[:3] == pytest.approx(inner.scores)


def test_sparse_scene_of_forty_objects_is_exact(rng):
    p = nearest_matrix(rng, 40)
    decision = decide(ObstructionPosterior(range(40), 0, p))
    assert decision.certificate.kind == "exact"
    # q_X = N_X A(C without X) / A(C), each mass by itself.
    members = reachable(p, 0)
    whole, rest = (log_acyclic_mass(cut_local(p, part)) for part in (members, members[1:]))
    assert decision.scores[0] == pytest.approx(np.prod(1 - p[0]) * np.exp(rest - whole), rel=1e-9)


def test_mu_stays_within_its_range(rng):
    for _ in range(100):
        mu = exact.solve_exact(random_matrix(rng, 9, 1.0, 0.5, 1.0), 0).mu
        assert 0.0 < mu <= 1.0


def test_a_cycle_too_unlikely_for_a_double_is_still_possible():
    assert exact.solve_exact(_cycle(40, 1e-9), 0).mu > 0.0
    assert exact.solve_exact(np.triu(np.full((9, 9), 1e-9), 1), 0).mu == 0.0


@pytest.mark.parametrize("n", [6, 9])
def test_elimination_gives_the_scores_with_and_without_sinks(rng, n):
    for k in range(60):
        p = nearest_matrix(rng, n, 2) if k % 2 else random_matrix(rng, n, 0.3)
        p[rng.permutation(np.arange(1, n))[: rng.integers(0, 3)]] = 0.0  # nothing obstructs these
        graph = cut_local(p, reachable(p, 0))
        found, truth = solve_elimination(graph, Allowance(), True), solve_subset(graph, Allowance())
        assert found.scores == pytest.approx(truth.scores, abs=1e-13)
        assert found.reach == pytest.approx(truth.reach, abs=1e-13)
        assert found.log_z == pytest.approx(truth.log_z, abs=1e-13)
        assert found.mu == pytest.approx(truth.mu, rel=1e-9)


def test_a_sum_over_weak_orders_by_hand():
    # One object between two others, kept apart: of its five places, all but those beside or above the second
    # agree with "before b"; an open set of places counts one, whatever its shape.
    orders, pool, weight = weak_orders(3), np.zeros(3), np.ones((2, 3))
    values, numbers, spare = np.empty(13), np.empty(13, np.int32), np.empty(13, np.int32)
    weight[1] = 1.0, 0.25, 0.25  # it obstructs b with probability .75: before b, or no relation
    weigh_last(orders, 3, weight, values)
    sum_out(orders, 3, values, 0b011, pool, 0, numbers, spare)
    assert pool == pytest.approx([1.0, 1.0, 1.0])  # some place always agrees
    weight[0] = 0.5, 0.5, 1.0  # and it is obstructed by a with probability .5: after a
    weigh_last(orders, 3, weight, values)
    sum_out(orders, 3, values, 0b011, pool, 0, numbers, spare)
    # b before a or beside it: both relations cannot hold. b after a: there is room between them.
    assert pool == pytest.approx([1.0 - 0.75 * 0.5, 1.0 - 0.75 * 0.5, 1.0])


def test_weak_orders_are_all_there_once():
    orders = weak_orders(6)
    for size in range(7):
        own = slice(orders.start[size], orders.start[size + 1])
        assert len(set(orders.levels[own].tolist())) == COUNT[size]
        assert (orders.n_levels[own] + 1).sum() == MARKED[size]


@pytest.mark.parametrize("n", [13, 16])
def test_all_targets_of_a_view_at_once_have_the_scores_of_each(rng, n):
    for k in range(6):
        p = nearest_matrix(rng, n + 1, 2 + k % 2)
        p[rng.permutation(n)[: k % 3]] = 0.0  # nothing obstructs these
        p[n], p[:n, n] = 0.0, np.where(rng.random(n) < 0.6, rng.uniform(0.0, 0.5, n), 0.0)
        p[rng.random(n + 1) < 0.3, n] = np.nan  # the last one is what has no mask
        p[n, n] = 0.0
        views = exact.solve_view(p, range(n), 1e-9, Allowance())
        assert len(views) == n
        for target, ends in enumerate(views):
            for p_end, solved in zip(exact.fill_ends(p), ends, strict=True):
                graph = cut_local(p_end, reachable(p_end, target))
                truth, scores = solve_subset(graph, Allowance()), np.zeros(n + 1)
                scores[graph.members] = truth.scores
                assert solved.scores == pytest.approx(scores, abs=1e-12)
                assert solved.log_z == pytest.approx(truth.log_z, abs=1e-12)


def test_what_a_view_gives_does_not_depend_on_how_many_targets_are_summed_at_once(rng, monkeypatch):
    p = nearest_matrix(rng, 15, 3)
    together = exact.solve_view(p, range(15), 1e-9, Allowance())
    monkeypatch.setattr(exact, "_MOST_MARKED", 100)
    apart = exact.solve_view(p, range(15), 1e-9, Allowance())
    for (one,), (other,) in zip(together, apart, strict=True):
        assert one.scores == pytest.approx(other.scores, abs=1e-13)


def test_wide_scenes_of_twenty_four_and_a_hundred_objects(rng):
    # A grid on which each obstructs its neighbours with some probability, both ways; then rows of it.
    for rows, columns in ((4, 6), (3, 34)):
        n = rows * columns
        p = np.zeros((n, n))
        for a in range(n):
            for b in (a + 1 if (a + 1) % columns else -1, a + columns):
                if 0 <= b < n:
                    p[a, b], p[b, a] = rng.uniform(0.05, 0.6, 2)
        target = int(rng.integers(n))
        solved = exact.solve_exact(p, target, allowance=Allowance(exact.WORK_LIMIT))
        members = reachable(p, target)
        whole, rest = (log_acyclic_mass(cut_local(p, part)) for part in (members, members[1:]))
        free = np.prod(1 - p[target]) * np.exp(rest - whole)
        assert solved.scores[target] == pytest.approx(free, rel=1e-9)
        assert solved.log_z == pytest.approx(whole, rel=1e-10)
