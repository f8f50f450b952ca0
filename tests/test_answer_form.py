"""The one JSON form: what is written can be read, and nothing that decided is lost on the way."""

import json

import numpy as np
import pytest

import cpor
from cpor.answer import decide_given
from cpor.records import AnswerRecord, DecisionRecord, read_decision, record_decision


def dense(n, low, high, share=1.0):
    rng = np.random.default_rng(n)
    p = np.where(rng.random((n, n)) < share, rng.uniform(low, high, (n, n)), 0.0)
    np.fill_diagonal(p, 0.0)
    return cpor.ObstructionPosterior(range(n), 0, p)


CASES = {
    "exact": dense(5, 0.1, 0.9),
    "within bounds": dense(24, 0.1, 0.3),
    "missing": cpor.ObstructionPosterior(["mug", "box"], "mug", {("mug", "box"): None}),
}


@pytest.mark.parametrize("case", CASES)
def test_a_decision_comes_back_as_it_was_written(case):
    posterior = CASES[case]
    decision = cpor.decide(posterior, 0.6)
    assert (decision.bounds is not None) == (case == "within bounds")
    text = record_decision(decision).model_dump_json()
    again = read_decision(DecisionRecord.model_validate_json(text), posterior.objects)
    assert again == decision
    assert [again.interval(obj) for obj in posterior.objects] == [
        decision.interval(obj) for obj in posterior.objects
    ]


@pytest.mark.parametrize("case", CASES)
def test_every_answer_is_of_the_one_form(case):
    said = decide_given(CASES[case], mode="balanced").to_json()
    record = AnswerRecord.model_validate_json(json.dumps(said))
    assert record.model_dump(mode="json") == json.loads(json.dumps(said))
