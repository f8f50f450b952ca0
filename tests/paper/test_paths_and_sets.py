"""Set scores and MP-NED by hand, and against a padded assignment."""

import itertools

import numpy as np
import pytest

from cpor.paper.paths import edit_distance, mp_ned, ned, object_score, relation_score, relations_on, set_score


def test_set_score_by_hand():
    # S = {1, 2, 3}, T = {2, 3, 4, 5}: two hits, P 2/3, R 1/2, F1 4/7.
    assert set_score({1, 2, 3}, {2, 3, 4, 5}) == pytest.approx((2 / 3, 1 / 2, 4 / 7))
    assert set_score(set(), {1}) == (0.0, 0.0, 0.0)
    assert object_score({7}, {7}) == (1.0, 1.0, 1.0)


def test_relations_are_consecutive_pairs_top_first():
    # 3 obstructs 2, 2 obstructs 4, and 5 obstructs 4.
    assert relations_on([(3, 2, 4), (5, 4)]) == {(2, 3), (4, 2), (4, 5)}
    assert relation_score({(4, 2), (4, 9)}, [(3, 2, 4), (5, 4)]) == pytest.approx((1 / 2, 1 / 3, 2 / 5))


def test_a_case_without_relations_has_no_relation_score():
    assert relation_score({(4, 2)}, [(4,)]) is None


def test_edit_distance_by_hand():
    assert edit_distance([3, 2, 4], [2, 4]) == 1
    assert edit_distance([1, 2, 3], [4, 2, 5, 3]) == 2
    assert edit_distance([], [1, 2]) == 2
    assert ned([3, 2, 4], [2, 4]) == pytest.approx(1 / 3)


def test_mp_ned_by_hand():
    # Best pairs: (2,4)~(3,2,4) costs 1/3, (5,4)~(5,4) costs 0; the third true path costs 1. 4/3 over 3.
    assert mp_ned([(2, 4), (5, 4)], [(3, 2, 4), (5, 4), (6, 4)]) == pytest.approx(4 / 9)
    assert mp_ned([(4,)], [(2, 4)]) == pytest.approx(1 / 2)
    assert mp_ned([], [(2, 4)]) == 1.0
    assert mp_ned([(1, 2)], [(1, 2)]) == 0.0


def test_mp_ned_is_the_padded_assignment(rng):
    for _ in range(40):
        sets = []
        for _ in range(2):
            paths = [
                tuple(rng.permutation(5)[: rng.integers(1, 5)].tolist()) for _ in range(rng.integers(1, 4))
            ]
            sets.append(paths)
        size = max(map(len, sets))
        cost = np.ones((size, size))
        for (i, a), (j, b) in itertools.product(enumerate(sets[0]), enumerate(sets[1])):
            cost[i, j] = ned(a, b)
        best = min(
            sum(cost[i, j] for i, j in enumerate(order)) for order in itertools.permutations(range(size))
        )
        assert mp_ned(*sets) == pytest.approx(best / size)
