from dataclasses import replace
from typing import get_args

import numpy as np

from cpor.decision import WHY_DEFERRED, Certificate, Decision, Defer, DeferReason, Grasp, Remove
from cpor.pipeline import UNSEEN
from cpor.scene import DetectedObject, MaskCrop, Observation, Scene
from cpor.viz.page_parts import score_bars
from cpor.viz.words import NOBODY_SEGMENTED, namer, names_in, say_success, say_why, with_names


def decided(action, epsilon, kind="k_max"):
    certificate = Certificate(kind, epsilon, 5, False, False)
    return Decision(action, {1: 0.35, 2: 0.6}, frozenset(), certificate, "topk", 0.5, 0.5, None, None)


def name(obj):
    return f"object {obj}"


def test_what_is_not_proven_is_said_as_an_interval():
    assert "between 13% and 57% nothing lies" in say_why(decided(Grasp(1), 0.2105), 1, name)
    words = say_why(decided(Remove(2), 0.2105), 1, name)
    assert "between 13% and 57% only" in words and "between 38% and 82% object 2" in words


def test_what_is_proven_is_said_as_a_number():
    assert "With probability 35% nothing" in say_why(decided(Grasp(1), 0.2, "action"), 1, name)
    assert "With probability 35% nothing" in say_why(decided(Grasp(1), 1e-4), 1, name)


def test_every_reason_to_defer_is_said_in_words():
    assert "too large for an exact sum" in say_why(decided(Defer("not_proven"), 0.7), 1, name)
    assert "an answer is missing" in say_why(decided(Defer("no_evidence"), 0.7), 1, name)
    assert set(WHY_DEFERRED) == set(get_args(DeferReason))


def test_a_deferral_says_which_action_lacks_how_much():
    words = say_why(decided(Defer("near_tie"), 1e-4), 1, name)
    assert words.endswith(f"to remove {name(2)}, is right with probability 60%; it acts above 50%.")


def test_bars_show_what_can_be_done_and_the_target_always():
    scores = {1: 0.002, 2: 0.6, 3: 0.004, 4: 0.3, UNSEEN: 0.4}
    made = replace(decided(Defer("weak_evidence"), 0.0, "exact"), scores=scores)
    bars = score_bars(made, 1, lambda obj: NOBODY_SEGMENTED if obj == UNSEEN else name(obj))
    assert bars.count("<tr") == 3 and "grasp object 1" in bars and "object 3" not in bars
    assert "1 other is less likely." in bars
    assert "Something that nobody segmented has to go first with probability 40%." in bars


def test_a_score_that_promises_too_much_is_said():
    act = decided(Remove(2), 1e-4)
    assert say_success(None, act) == ""
    assert say_success(0.55, act).endswith("were right 55% of the time.")
    assert say_success(0.4, act).endswith("So count on 40%: the score promises too much.")


def test_what_is_gone_is_still_called_by_its_name():
    def seen(**called):
        mask = MaskCrop(0, 0, np.ones((2, 2), bool))
        objects = [DetectedObject(int(k[1:]), mask, name=title) for k, title in called.items()]
        return Scene(Observation(np.zeros((4, 4, 3), np.uint8)), tuple(objects))

    before, now = seen(_1="red box", _2="green cup"), seen(_1="red tool")
    note = "Object 2 and object 1 are seen as one now"
    assert (
        with_names(note, namer(now, names_in(before))) == "The green cup and the red tool are seen as one now"
    )
    assert with_names(note, namer(now)) == "Object 2 and the red tool are seen as one now"
