"""What nobody segmented may obstruct, and nothing that follows removes or names it."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cpor.decision import Defer, Grasp, Remove
from cpor.errors import InvalidSceneError
from cpor.infer.decide import decide
from cpor.infer.explain import explain
from cpor.infer.plan import plan
from cpor.infer.topk import TopKSettings
from cpor.paper.decoding import decode_paper
from cpor.paper.expected import decode_expected
from cpor.relations import ObstructionPosterior


def scene(p: dict[tuple[int, int], float], unseen: int | None = 0) -> ObstructionPosterior:
    return ObstructionPosterior((1, 2, 0), 1, p, unseen)


def test_a_plan_that_would_have_to_remove_the_unseen_asks() -> None:
    pairs = {(1, 2): 0.9, (2, 0): 0.9}
    as_object, as_unseen = plan(scene(pairs, unseen=None)), plan(scene(pairs))
    assert as_object.first_action == Remove(0)
    assert as_unseen.ask and as_unseen.first_action == Defer("unseen_blocker")
    # Everything but the unseen may go, and then it must not be there: (1 - .9) as if never named.
    assert as_unseen.p_valid == pytest.approx(0.1, abs=1e-6)
    assert 0 not in [step.obj for step in as_unseen.steps]


def test_decide_defers_where_the_unseen_would_have_to_go_first() -> None:
    said = decide(scene({(1, 0): 0.9}))
    assert said.action == Defer("unseen_blocker") and said.blockers == frozenset()


def test_what_nobody_can_act_on_ties_with_no_action() -> None:
    assert decide(scene({(1, 0): 0.5}), tau=0.9).action == Defer("weak_evidence")
    assert decide(scene({(1, 0): 0.5}, unseen=None), tau=0.9).action == Defer("near_tie")


def test_decoders_do_not_name_it_and_do_not_call_the_target_free() -> None:
    for found in (decode_paper(scene({(1, 0): 0.9})), decode_expected(scene({(1, 0): 0.9}))):
        assert found.objects == frozenset() and found.relations == frozenset() and found.paths == ()


def test_it_must_be_an_object_that_nothing_obstructs() -> None:
    for pairs, unseen in (({}, 7), ({}, 1), ({(0, 2): 0.5}, 0)):
        with pytest.raises(InvalidSceneError, match="unseen is"):
            scene(pairs, unseen)


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 5), st.data())
def test_no_action_anywhere_is_about_it(n: int, data: st.DataObject) -> None:
    p = np.array(data.draw(st.lists(st.floats(0.0, 1.0), min_size=n * n, max_size=n * n))).reshape(n, n)
    np.fill_diagonal(p, 0.0)
    p[-1] = 0.0
    known = ObstructionPosterior(tuple(range(n)), 0, p, unseen=n - 1)
    tau = data.draw(st.floats(0.0, 0.9))
    explained = explain(known, decide(known, tau))
    flipped = [
        e for effect in explained.relations for e in (effect.flips_to, effect.if_true, effect.if_false)
    ]
    planned = plan(known, cost_removal=data.draw(st.sampled_from((0.0, 0.05))), tau=tau)
    done = [explained.decision.action, planned.first_action, *flipped]
    assert Remove(n - 1) not in done
    assert n - 1 not in [step.obj for step in planned.steps]
    assert n - 1 not in decode_paper(known).objects | decode_expected(known).objects


def test_where_the_unseen_goes_first_another_right_removal_is_still_one(rng) -> None:
    # 2 and the unseen both lie on the target: whoever goes first, removing 2 is right.
    said = decide(scene({(1, 0): 0.95, (1, 2): 0.9}))
    assert said.scores[0] > said.scores[2] > 0.5 and said.action == Remove(2)
    assert decide(scene({(1, 0): 0.95, (1, 2): 0.9}), tau=0.92).action == Defer("unseen_blocker")
    for _ in range(50):
        p = rng.uniform(0.0, 1.0, (5, 5)) * (1.0 - np.eye(5))
        p[2] = 0.0
        posterior = ObstructionPosterior((3, 1, 0, 2, 4), 1, p, 0)
        said = decide(posterior, tau=0.3)
        real = {k: score for k, score in said.scores.items() if k != 0}
        best = max(real, key=real.__getitem__)
        if real[best] <= 0.3:
            assert said.action == Defer("unseen_blocker") or said.scores[0] <= 0.3
        elif best == 1:
            assert said.action == (Grasp(1) if real[1] >= said.scores[0] else Defer("unseen_blocker"))
        else:
            assert said.action == Remove(best)
    # Grasping is right only where nothing unseen has to go first.
    assert decide(scene({(1, 0): 0.52}), tau=0.3).action == Defer("unseen_blocker")
    assert decide(scene({(1, 0): 0.48}), tau=0.3).action == Grasp(1)


def test_a_certificate_speaks_of_actions_that_can_be_taken(rng) -> None:
    """A few graphs of many are kept: certified actions are those of the exact sum."""
    n, kinds = 7, Counter()
    for _ in range(60):
        p = np.where(rng.random((n, n)) < 0.4, rng.beta(0.3, 0.3, (n, n)), 0.0) * (1.0 - np.eye(n))
        p[n - 1] = 0.0
        posterior = ObstructionPosterior((*range(1, n), 0), 1, p, 0)
        few = decide(posterior, method="topk", topk=TopKSettings(tolerance=0.0))
        kinds[few.certificate.kind] += 1
        if few.certificate.certified:
            assert few.action == decide(posterior, method="exact").action
    assert kinds["action"] > 5
