import json
import time
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.vlm_scenes import all_pairs, heap

from cpor.scene import BlockedBy
from cpor.semantics.matching import NumberedMarks, number_objects
from cpor.semantics.reply_parser import p_yes, read_relations

SCENE = heap(3)
MARKS = NumberedMarks(SCENE, number_objects(SCENE))
PAIRS = all_pairs(SCENE)
TRUTH = {pair: (10 * pair.blocked + 20 * pair.blocker) / 100 for pair in PAIRS}


def entry(pair, value=None):
    number = round(100 * TRUTH[pair]) if value is None else value
    return {"blocked": pair.blocked, "blocker": pair.blocker, "probability": number}


GOOD = json.dumps({"relations": [entry(pair) for pair in PAIRS]})


def read(text):
    scores, problems = read_relations(text, MARKS, PAIRS)
    settles_any = any(score is not None for score in scores.values())
    return SimpleNamespace(scores=scores, problems=problems, settles_any=settles_any)


@pytest.mark.parametrize(
    "text",
    [
        GOOD,
        f"Sure! Here is my answer:\n```json\n{GOOD}\n```\nLet me know {{if}} you need more.",
        json.dumps([entry(pair) for pair in PAIRS]),
        json.dumps({"answer": {"relations": [entry(pair) for pair in PAIRS]}}),
        "\n".join(json.dumps(entry(pair)) for pair in PAIRS),
        json.dumps({"relations": [entry(pair, f"{round(100 * TRUTH[pair])}%") for pair in PAIRS]}),
        json.dumps(
            {"relations": [entry(p) | {"blocked": f"#{p.blocked}", "blocker": str(p.blocker)} for p in PAIRS]}
        ),
    ],
    ids=["plain", "prose", "bare list", "nested", "lines", "percent signs", "numbers as text"],
)
def test_what_can_be_salvaged_safely_is(text):
    found = read(text)
    assert found.scores == TRUTH
    assert not found.problems


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"blocker": 99}, "no object"),
        ({"blocker": None}, "no object"),
        ({"blocker": 1, "blocked": 1}, "itself"),
        ({"probability": 101}, "no number from 0 to 100"),
        ({"probability": -1}, "no number from 0 to 100"),
        ({"probability": "maybe"}, "no number from 0 to 100"),
        ({"probability": None}, "no number from 0 to 100"),
        ({"probability": True}, "no number from 0 to 100"),
        ({"probability": float("nan")}, "no number from 0 to 100"),
        ({"probability": "\u0663\u0660"}, "no number from 0 to 100"),
        ({"probability": [[0]]}, "no number from 0 to 100"),
        ({"probability": 0.9}, "a fraction or a per cent"),  # beside 90: nine in ten, or next to nothing?
        ({"blocker": [10**400, 3]}, "no object"),
        ({"blocker": [float("inf"), 3]}, "no object"),
    ],
)
def test_one_bad_entry_costs_its_pair_only(change, problem):
    first, *rest = PAIRS
    text = json.dumps({"relations": [entry(first) | change, *(entry(pair) for pair in rest)]})
    found = read(text)
    assert found.scores == TRUTH | {first: None}
    assert any(problem in each for each in found.problems)


@pytest.mark.parametrize(
    "text", ["", "   ", "I cannot help with that.", "{", "[[[[", '{"relations": []}', "null"]
)
def test_a_reply_that_says_nothing_is_no_answer_for_every_pair(text):
    found = read(text)
    assert set(found.scores.values()) == {None}
    assert not found.settles_any
    assert found.problems


def test_a_pair_left_out_has_no_answer():
    found = read(json.dumps({"relations": [entry(pair) for pair in PAIRS[1:]]}))
    assert found.scores == TRUTH | {PAIRS[0]: None}


def test_a_pair_given_twice_with_different_numbers_has_no_answer():
    relations = [entry(pair) for pair in PAIRS] + [entry(PAIRS[0], 99)]
    assert read(json.dumps({"relations": relations})).scores == TRUTH | {PAIRS[0]: None}


def test_a_field_given_twice_with_different_values_counts_for_nothing():
    text = '[{"blocked": 1, "blocker": 2, "probability": 90, "probability": 0}, {"blocked": 1, "blocker": 3, '
    text += '"probability": 40, "probability": 40}]'
    found = read(text).scores
    assert found[BlockedBy(1, 2)] is None and found[BlockedBy(1, 3)] == 0.4


@pytest.mark.parametrize("thought", ["<think>{}</think>", "{}</think>", "<THINK>{}</THINK>\n"])
def test_what_is_weighed_while_thinking_is_no_answer(thought):
    draft = thought.format('If {"blocked": 1, "blocker": 2, "probability": 0}, then... no.')
    assert read(draft + GOOD).scores == TRUTH
    assert not read(draft).settles_any


def test_a_thought_that_never_ends_is_no_answer():
    assert not read(f"<think>Perhaps {GOOD}, but").settles_any


def test_a_number_of_thousands_of_digits_costs_its_pair_only():
    first = '{"blocked": 1, "blocker": 2, "probability": ' + "1" * 5000 + "}"
    text = f"[{first}, {', '.join(json.dumps(entry(pair)) for pair in PAIRS[1:])}]"
    assert read(text).scores == TRUTH | {PAIRS[0]: None}


HOSTILE = {
    "openings": lambda n: '{"' * (n // 2),
    "braces": lambda n: "{" * n,
    "blanks": lambda n: ("{" + " " * 62 + "\n") * (n // 64),
    "nested": lambda n: '{"a":' * (n // 5),
    "nested and wide": lambda n: '{"a":[' * 300 + "1," * (n // 2),
    "cut entries": lambda n: '{"blocked": 1, "blocker": 2, "probability": , ' * (n // 47),
    "a string without end": lambda n: '{"a": "' + "{" * n,
    "a number with blanks": lambda n: f'{{"blocked": 1, "blocker": 2, "probability": "5{" " * n}x"}}',
    "digits": lambda n: '{"blocked": 1, "blocker": 2, "probability": ' + "1" * n + "}",
    "thoughts": lambda n: "<think>" * (n // 7),
    "entries": lambda n: '{"blocked": 1, "blocker": 9}' * (n // 28),
    "points": lambda n: '{"blocked": [1, 2], "blocker": [3, 4], "probability": 9}' * (n // 56),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", HOSTILE)
def test_a_giant_reply_takes_time_in_proportion_and_is_no_answer(name):
    def work(size):
        """The least processor time of three tries; and the first pays for what is done once. [s]"""
        spent = []
        for _ in range(3):
            start = time.process_time()
            assert not read(HOSTILE[name](size)).settles_any
            spent.append(time.process_time() - start)
        return min(spent)

    most = 2**22
    # Linear: 4. Quadratic: 16, hours for some. The constant is for what is too short to be measured.
    assert work(most) < 8 * work(most // 4) + 0.1


def test_numbers_that_may_be_fractions_are_not_read_as_percent():
    # 1 for "certain" must not become one per cent, which would all but say "free".
    text = json.dumps({"relations": [entry(pair, 1 if pair.blocked == 1 else 0) for pair in PAIRS]})
    assert not read(text).settles_any
    assert read(json.dumps({"relations": [entry(pair, 0) for pair in PAIRS]})).scores == dict.fromkeys(
        PAIRS, 0.0
    )


@given(st.integers(0, len(GOOD)))
def test_a_reply_cut_anywhere_keeps_whole_entries_and_loses_the_rest(length):
    found = read(GOOD[:length])
    for pair, score in found.scores.items():
        assert score is None or score == TRUTH[pair]
    whole = GOOD[:length].count("}")
    assert sum(score is not None for score in found.scores.values()) == min(whole, len(PAIRS))


@given(st.text(max_size=200) | st.binary(max_size=200).map(lambda b: b.decode("latin-1")))
def test_garbage_never_becomes_an_answer(text):
    if "blocked" not in text:
        assert not read(text).settles_any


nested = st.recursive(
    st.none() | st.booleans() | st.integers(-200, 200) | st.floats() | st.sampled_from(["1", "2", "blocked"]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["blocked", "blocker", "probability", "relations"]), inner, max_size=4
        )
    ),
    max_leaves=12,
)


@given(nested)
def test_any_json_at_all_is_read_without_a_crash_and_scores_stay_in_range(value):
    found = read(json.dumps(value))
    assert list(found.scores) == PAIRS
    assert all(score is None or 0.0 <= score <= 1.0 for score in found.scores.values())


def test_points_are_matched_to_masks():
    scene = heap(3)
    where = {o: (scene.visible_ids == o).nonzero() for o in scene.ids}
    point = {o: [float(cols.mean()), float(rows.mean())] for o, (rows, cols) in where.items()}
    text = json.dumps({"relations": [{"blocked": point[1], "blocker": point[3], "probability": 80}]})
    assert read_relations(text, MARKS, [BlockedBy(1, 3)])[0] == {BlockedBy(1, 3): 0.8}


def test_yes_is_normalised_over_both_words_in_every_spelling():
    import math

    tokens = {"yes": 0.4, " Yes": 0.2, "\u0120no": 0.1, "NO": 0.1, "It": 0.2}
    logs = {token: math.log(mass) for token, mass in tokens.items()}
    assert p_yes(logs) == pytest.approx(0.6 / 0.8)


def test_a_word_that_is_not_listed_counts_at_most_as_the_least_listed():
    import math

    logs = {"yes": math.log(0.9), "It": math.log(0.01)}
    assert p_yes(logs) == pytest.approx(0.9 / 0.91)


@pytest.mark.parametrize("tokens", [{}, {"The": -0.01}, {"yes": -9.0, "The": -0.001}, {"yes": float("nan")}])
def test_neither_yes_nor_no_is_no_answer(tokens):
    assert p_yes(tokens) is None
