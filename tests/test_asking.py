from dataclasses import replace

import numpy as np
import pytest
from support.vlm_scenes import all_pairs, heap

from cpor.asking import (
    AskingSettings,
    ask_scene,
    ask_what_matters,
    relevant_pairs,
    same_action,
    with_unasked,
)
from cpor.decision import Defer, Grasp, Remove
from cpor.errors import InvalidSettingError
from cpor.infer.decide import decide
from cpor.pipeline import Pipeline
from cpor.relations import ObstructionPosterior
from cpor.scene import BlockedBy
from cpor.semantics.scorer import ScoredPairs, Spent

OBJECTS = (1, 2, 3, 4)
PAIR = BlockedBy(1, 2)


def believer(before, target=1):
    """Believes each answer, and `before` of what was not asked."""

    def believe(answers):
        return ObstructionPosterior(OBJECTS, target, dict(before) | dict(answers))

    return believe


def ask_from(truth, before, **settings):
    asked = []

    def ask(pair):
        asked.append(pair)
        return truth[pair]

    rng = np.random.default_rng(0)
    found = ask_what_matters(believer(before), list(before), ask, rng, AskingSettings(**settings))
    assert list(found.answers) == asked
    return found


CHAIN = {BlockedBy(1, 2): 0.5, BlockedBy(2, 3): 0.5, BlockedBy(4, 3): 0.5}


def test_what_the_target_cannot_reach_is_never_asked():
    found = ask_from(dict.fromkeys(CHAIN, 0.99), CHAIN)
    assert BlockedBy(4, 3) not in found.answers
    assert found.relevant == 2
    assert found.decision.action == Remove(3)


def test_a_free_target_takes_one_question():
    found = ask_from(dict.fromkeys(CHAIN, 0.001), CHAIN)
    assert list(found.answers) == [BlockedBy(1, 2)]
    assert found.decision.action == Grasp(1)
    assert found.stopped == "settled" and found.relevant == len(found.answers) + 1


def test_what_is_known_beforehand_is_not_asked():
    sure = {BlockedBy(1, 2): 0.9999, BlockedBy(2, 3): 0.0001, BlockedBy(1, 4): 0.0001}
    found = ask_from({}, sure)
    assert not found.answers and found.decision.action == Remove(2) and found.p_change <= 0.03


def test_a_budget_is_kept_and_said_so():
    before = {BlockedBy(a, b): 0.5 for a in OBJECTS for b in OBJECTS if a < b}
    found = ask_from(dict.fromkeys(before, 0.6), before, most_questions=2)
    assert len(found.answers) == 2 and found.stopped == "budget"
    none = ask_from({}, before, most_questions=0)
    assert not none.answers and none.stopped == "budget"


def test_a_question_without_answer_is_not_put_twice_and_never_means_free():
    before = {BlockedBy(1, 2): None}
    found = ask_from({BlockedBy(1, 2): None}, before)
    assert found.answers == {BlockedBy(1, 2): None}
    assert found.decision.action == Defer("no_evidence") and found.stopped == "all_asked"


def test_asking_all_is_the_limit():
    rng = np.random.default_rng(3)
    before = {BlockedBy(a, b): 0.5 for a in OBJECTS for b in OBJECTS if a != b}
    truth = {pair: float(rng.uniform(0.2, 0.8)) for pair in before}
    found = ask_from(truth, before, most_change=0.0, samples=400)
    assert same_action(found.decision.action, decide(believer(truth)({})).action)


def test_the_same_seed_asks_the_same_questions():
    before = {BlockedBy(a, b): 0.4 for a in OBJECTS for b in OBJECTS if a != b}
    truth = dict.fromkeys(before, 0.3)
    assert ask_from(truth, before) == ask_from(truth, before)


def test_reach_follows_blockers():
    pairs = [BlockedBy(1, 2), BlockedBy(2, 3), BlockedBy(4, 1), BlockedBy(5, 4)]
    assert relevant_pairs(pairs, 1) == {BlockedBy(1, 2), BlockedBy(2, 3)}
    assert relevant_pairs(pairs, 5) == set(pairs)


@pytest.mark.parametrize(
    "wrong",
    [
        {"most_change": -0.1},
        {"most_change": 1.0},
        {"answer_spread": 0.0},
        {"samples": 0},
        {"most_questions": -1},
    ],
)
def test_settings_out_of_range_are_refused(wrong):
    with pytest.raises(InvalidSettingError):
        AskingSettings(**wrong)


class Judge:
    """A scorer that knows the heap and counts what it is asked."""

    name = "judge"

    def __init__(self):
        self.asked = []

    def score(self, scene, pairs):
        self.asked += pairs
        return ScoredPairs(
            {pair: 0.98 if pair.blocker == pair.blocked + 1 else 0.02 for pair in pairs}, self.name
        )


def test_a_scene_is_decided_with_few_questions_as_with_all():
    scene, judge, pipeline = heap(5), Judge(), Pipeline()
    pairs = all_pairs(scene)
    found, scores = ask_scene(pipeline, scene, 4, judge, pairs, np.random.default_rng(0))
    full = pipeline.combine(pipeline.measure(scene), judge.score(scene, pairs).semantic_scores())
    assert same_action(found.decision.action, pipeline.decide(pipeline.posterior(full, 4)).action)
    assert found.decision.action == Remove(5)
    assert 0 < len(found.answers) < len(pairs)
    assert scores.semantic_scores() == with_unasked(found.answers, pairs, "judge")
    assert sum(value is not None for value in scores.scores.values()) == len(found.answers)


class TiredJudge(Judge):
    """A scorer whose budget allows two questions."""

    def score(self, scene, pairs):
        if len(self.asked) >= 2:
            return ScoredPairs(dict.fromkeys(pairs), self.name, spent=Spent(refused=1))
        return replace(super().score(scene, pairs), spent=Spent(calls=1))


def test_a_question_that_was_refused_does_not_count_as_asked():
    scene, judge = heap(5), TiredJudge()
    pairs = all_pairs(scene)
    settings = AskingSettings(most_change=0.0, answer_spread=6.0)
    found, scored = ask_scene(Pipeline(), scene, 4, judge, pairs, np.random.default_rng(0), settings)
    assert found.stopped == "budget"
    assert len(found.answers) == 2 and None not in found.answers.values()
    assert scored.spent == Spent(calls=2, refused=1)
