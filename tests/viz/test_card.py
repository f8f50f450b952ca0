"""The card: five lines with a next step, and the long one in whole sentences."""

import io

import numpy as np
import pytest
from rich.console import Console

from cpor.answer import decide_given
from cpor.infer.explain import explain
from cpor.pipeline import UNSEEN
from cpor.relations import ObstructionPosterior
from cpor.viz.card import decision_card, short_card


def shown(panel):
    console = Console(file=io.StringIO(), width=100)
    console.print(panel)
    return " ".join(console.file.getvalue().replace("│", " ").split())


def both(posterior, **settings):
    answer = decide_given(posterior, **settings)
    explanation = explain(posterior, answer.decision)
    return shown(short_card(answer, explanation, None)), shown(decision_card(explanation))


@pytest.mark.parametrize(
    ("p", "says"),
    [
        (0.02, "Next: act, then look again and check that the target is out."),
        (0.98, "Next: act, then look again and decide anew."),
        (0.5, "Next: look again, from another side if possible, or correct what it sees."),
    ],
)
def test_every_short_card_names_the_next_step(p, says):
    assert says in both(ObstructionPosterior([1, 2], 1, {(1, 2): p}), tau=0.9)[0]


def test_a_deferral_and_the_worth_of_a_question_are_whole_sentences():
    posterior = ObstructionPosterior([1, 2, 3], 1, {(1, 2): 0.6, (1, 3): 0.01})
    short, long = both(posterior, tau=0.9)
    assert "The likeliest, to remove 2, is right with probability" in short
    assert "the probability of a right decision grows by" in long and "percentage point" in long
    assert " 1 points" not in long


def test_what_the_edge_of_the_picture_may_hide_is_no_interval_from_0_to_100():
    p = np.full((3, 3), 0.01)
    np.fill_diagonal(p, 0.0)
    p[2] = p[:, 2] = 0.0
    p[0, 2] = np.nan
    posterior = ObstructionPosterior([1, 2, UNSEEN], 1, p, unseen=UNSEEN)
    for card in both(posterior, tau=0.9):
        assert (
            "lies outside of the picture: that is not known" in card
            and "0.0% to 100.0% something" not in card
        )
