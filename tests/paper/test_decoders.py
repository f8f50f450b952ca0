"""Both decoders: by hand, and against every graph listed one by one."""

import itertools

import numpy as np
import pytest

from cpor import CporError, ObstructionPosterior
from cpor.infer.decide import decide
from cpor.paper.decoding import decode_paper
from cpor.paper.expected import chain_posterior, decode_expected, largest_expected_f1
from cpor.paper.paths import maximal_paths, mp_ned, set_score


def all_graphs(posterior):
    """(probability given acyclic, {blocked: blockers}) of every acyclic graph, the plain way."""
    edges = list(posterior.relations())
    found = []
    for holds in itertools.product([False, True], repeat=len(edges)):
        weight = np.prod([e.p if h else 1 - e.p for e, h in zip(edges, holds, strict=True)])
        blockers = {
            o: {e.blocker for e, h in zip(edges, holds, strict=True) if h and e.blocked == o}
            for o in posterior.objects
        }
        left = set(posterior.objects)
        while free := {o for o in left if not blockers[o] & left}:
            left -= free
        if not left:
            found.append((weight, blockers))
    total = sum(weight for weight, _ in found)
    return [(weight / total, blockers) for weight, blockers in found]


def on_chain(target, blockers):
    reached, todo = {target}, [target]
    while todo:
        new = blockers[todo.pop()] - reached
        reached |= new
        todo += new
    return reached


def random_scene(rng, n=5, m=7):
    pairs = [(i, j) for i in range(1, n + 1) for j in range(1, n + 1) if i != j]
    chosen = rng.choice(len(pairs), m, replace=False)
    return ObstructionPosterior(range(1, n + 1), 1, {pairs[k]: float(rng.uniform(0.2, 0.9)) for k in chosen})


def test_maximal_paths_run_from_the_target_outward():
    assert set(maximal_paths(4, [(4, 2), (4, 5), (2, 3), (5, 3)])) == {(3, 2, 4), (3, 5, 4)}
    assert maximal_paths(4, []) == ((4,),)


def test_the_paper_decoder_by_hand():
    # 2 blocks 4 surely, 3 blocks 2 rather not, 5 blocks 4 rather not.
    scene = ObstructionPosterior([2, 3, 4, 5], 4, {(4, 2): 0.9, (2, 3): 0.4, (4, 5): 0.3})
    found = decode_paper(scene)
    # q_2 = .9 * .6 = .54; q_3 = .9 * .4 = .36; q_5 = .3; q_4 = .1 * .7 = .07.
    assert found.objects == {2}
    assert found.paths == ((2, 4),)
    assert found.relations == {(4, 2)}


def test_the_paper_decoder_may_name_nothing():
    scene = ObstructionPosterior([1, 2, 3], 1, {(1, 2): 0.6, (2, 3): 0.5})
    # q_1 = .4, q_2 = .3, q_3 = .3: none above one half.
    assert decode_paper(scene).objects == set()


def test_chains_carry_the_exact_posterior(rng):
    for _ in range(10):
        scene = random_scene(rng)
        chains = chain_posterior(scene)
        assert chains.unlisted == 0.0
        assert chains.p.sum() == pytest.approx(1.0)
        exact = decide(scene, tau=0.0).scores
        scores = chains.p @ chains.next_objects()
        for k, member in enumerate(chains.members.tolist()):
            assert scores[k] == pytest.approx(exact[scene.objects[member]], abs=1e-9)


def test_many_relations_are_represented_by_the_likeliest_graphs(rng):
    p = np.where(rng.random((9, 9)) < 0.6, 0.97, 0.0)
    p[np.tril_indices(9)] = 0.0
    scene = ObstructionPosterior(range(9), 0, p)
    chains = chain_posterior(scene)
    assert len(chains.edges) > 20 or chains.unlisted == 0.0
    exact = decide(scene, tau=0.0).scores
    scores = chains.p @ chains.next_objects()
    for k, member in enumerate(chains.members.tolist()):
        assert abs(scores[k] - exact[scene.objects[member]]) <= chains.unlisted + 1e-9


def test_largest_expected_f1_by_hand():
    # T = {0} with .6, {1, 2} with .4. E F1: {0} .6, {1, 2} .4, {0, 1} .6 * 2/3 + .4 * 1/2 = .6,
    # {0, 1, 2} .6 * 1/2 + .4 * 4/5 = .62.
    member = np.array([[True, False, False], [False, True, True]])
    chosen, value = largest_expected_f1(member, np.array([0.6, 0.4]))
    assert chosen == (0, 1, 2)
    assert value == pytest.approx(0.62)


def test_expected_answers_are_the_best_of_all(rng):
    for _ in range(8):
        scene = random_scene(rng)
        found = decode_expected(scene)
        objects, relations, paths = [], [], []
        for p, blockers in all_graphs(scene):
            chain = on_chain(1, blockers)
            objects.append((p, {o for o in chain if not blockers[o]}))
            relations.append((p, {(i, j) for i in chain for j in blockers[i]}))
            paths.append((p, maximal_paths(1, relations[-1][1])))

        def expected(outcomes, answer):
            return sum(p * set_score(set(answer), true).f1 for p, true in outcomes)

        everything = [r[:2] for r in scene.relations()]
        for answer, outcomes, universe in (
            (found.objects, objects, list(scene.objects)),
            (found.relations, relations, everything),
        ):
            best = max(
                expected(outcomes, choice)
                for size in range(len(universe) + 1)
                for choice in itertools.combinations(universe, size)
            )
            assert expected(outcomes, answer) == pytest.approx(best)
        distance = {answer: sum(p * mp_ned(answer, true) for p, true in paths) for _, answer in paths}
        assert distance[found.paths] == pytest.approx(min(distance.values()))


def test_decoding_needs_answers_and_numbers():
    with pytest.raises(CporError, match="no answer"):
        decode_expected(ObstructionPosterior([1, 2], 1, {(1, 2): None}))
    with pytest.raises(CporError, match="no integers"):
        decode_expected(ObstructionPosterior(["a", "b"], "a", {("a", "b"): 0.4}))
