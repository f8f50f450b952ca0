"""What a person replies, and the decision after each reply."""

from dataclasses import replace

import pytest
from support.box_table import BoxTable, TableMasks

from cpor.conversation import MOST_REPLIES
from cpor.decision import Defer, Grasp, Remove
from cpor.errors import InvalidSettingError
from cpor.system import System

NAMES = {1: "red cup", 2: "green box", 3: "blue cup", 4: "yellow lid"}


@pytest.fixture(scope="module")
def decides():
    """Decides on four boxes, of which 1 lies under 2 and 2 under 3, after replies."""
    table = BoxTable()
    seen = TableMasks(table).segment(table.observe())
    named = replace(seen, objects=tuple(replace(o, name=NAMES[o.id]) for o in seen.objects))
    system = System(scorer="none")
    view = system.look(named)

    def make(asked, given=None, **settings):
        def after(replies):
            return system.decide(view, asked, relations=given, replies=replies, **settings)

        def with_relations(relations):
            return system.decide(view, asked, relations={**(given or {}), **relations}, **settings)

        after.with_relations = with_relations
        return after

    return make


def test_pairs_are_corrected_by_number_and_by_name(decides):
    decide = decides(1, mode="bold")
    before = decide([])
    assert before.action == Remove(3)
    freed = decide(["not 3 on 2"])
    assert freed.action == Remove(2) and freed.promise is None
    assert freed.scores == decide.with_relations({(2, 3): 0.0}).scores
    for says in ("2 on 1", "2 obstructs 1", "The green box on the red cup.", " 2  ON  1 "):
        assert (
            decide(["not 3 on 2", says]).scores
            == decide.with_relations({(2, 3): 0.0, (2, 1): 0.0, (1, 2): 1.0}).scores
        )
    again = decide(["not 2 on 1", "not 3 on 1", "2 on 1"])
    assert again.action != Grasp(1)
    assert decide(["not 2 on 1", "not 3 on 1", "not 4 on 1"]).action == Grasp(1)


def test_two_that_are_said_to_lie_on_each_other_follow_the_last_word(decides):
    decide = decides(1, mode="bold")
    assert decide(["2 on 1", "1 on 2"]).scores == decide.with_relations({(2, 1): 1.0, (1, 2): 0.0}).scores
    everything = ["2 on 1", "3 on 2", "1 on 3"]  # a circle: nothing is likely enough, and nothing fails
    assert isinstance(decide(everything).action, Defer | Remove)


def test_yes_and_no_answer_the_question_of_a_deferral(decides):
    doubtful = {(1, 2): 0.5, (2, 3): 0.0, (1, 3): 0.0}
    unsure = decides(1, doubtful, tau=0.8)
    answer = unsure([])
    assert isinstance(answer.action, Defer)
    ask = answer.asks
    assert (ask.blocked, ask.blocker) == (1, 2) and ask.object is None
    assert ask.question == "Does 2 (green box) obstruct 1 (red cup)?"
    assert unsure(["yes"]).action == Remove(2)
    assert unsure(["No."]).action == Grasp(1)
    assert unsure(["no", "2 on 1"]).action == Remove(2)
    assert unsure(["yes"]).asks is None


def test_a_missing_answer_is_asked_for(decides):
    unsure = decides(1, {(1, 2): None, (2, 3): 0.0, (1, 3): 0.0}, tau=0.8)
    answer = unsure([])
    assert answer.action == Defer("no_evidence")
    assert (answer.asks.blocked, answer.asks.blocker) == (1, 2)
    assert unsure(["yes"]).action == Remove(2)
    assert unsure(["no"]).action == Grasp(1)


def test_which_object_is_meant_is_answered_by_number_yes_no_and_words(decides):
    decide = decides("the cup", mode="bold")
    answer = decide([])
    assert answer.action is None and {each.id for each in answer.candidates} == {1, 3}
    assert answer.asks.object is None
    assert decide(["3"]).target == 3
    left = decide(["not 3"])  # the only one left is asked about, not taken
    assert left.action is None and left.asks.object == 1
    assert decide(["not 3", "yes"]).target == 1
    assert decide(["not 3", "no"]).action is None
    assert decide(["the blue one"]).target == 3
    assert decide(["the red cup"]).target == 1
    none = decide(["not 3", "not 1"])
    assert none.action is None and none.question.startswith("Not 1, 3.")
    assert decide(["not 3", "not 1", "4"]).target == 4
    with pytest.raises(InvalidSettingError, match="by its number: "):
        decide(["yes"])


def test_a_single_doubtful_object_is_confirmed_or_refused(decides):
    found = decides("the blue cup")
    answer = found(["not 3"])
    assert answer.action is None and answer.target is None
    if answer.candidates:
        ask = answer.asks
        assert ask.object in (None, 1)


@pytest.mark.parametrize(
    ("replies", "why"),
    [
        (["yes"], "no question is open"),
        (["9"], "unknown object 9; the scene has: 1, 2, 3, 4"),
        (["not 9 on 1"], "unknown object 9"),
        (["2 on 2"], "does not obstruct itself"),
        (["maybe"], "do not understand"),
        ([""], "1 to 200"),
        (["x" * 201], "1 to 200"),
        (["4"] * (MOST_REPLIES + 1), "at most 64"),
        (["the sofa on 1"], "do not understand"),
    ],
)
def test_a_reply_that_means_nothing_is_an_error_that_says_what_to_say(decides, replies, why):
    with pytest.raises(InvalidSettingError, match=why):
        decides(4, mode="bold")(replies)
