import ast
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.vlm_scenes import all_pairs, heap
from support.vlm_servers import OpenAIHandler, Plan, VlmServer

from cpor.scene import BlockedBy
from cpor.semantics.config import ScorerConfig
from cpor.semantics.matching import NumberedMarks, number_objects
from cpor.semantics.scorer import ScorerError
from cpor.semantics.scorer_registry import make_scorer
from cpor.semantics.unograsp import parse_reply, read_chains

SCENE = heap(5)
MARKS = NumberedMarks(SCENE, number_objects(SCENE))


def evaluator_reading(text, target):
    """Paths and answer as UNOGrasp's evaluator takes them, told from what it does; [] is "none found"."""
    think = re.search("<think>(.*?)</think>", text, re.I | re.S)
    answer = re.search(r"<answer>\s*(\[.*?\])\s*</answer>", text, re.I)
    try:
        objects = [int(v) for v in ast.literal_eval(answer.group(1))] if answer else []
    except (ValueError, SyntaxError, TypeError):
        objects = []
    if think is None:
        return [[target]], objects
    paths = []
    for part in re.split(r"Path\d*:", think.group(1)):
        steps = re.findall(r"Object\s+(\d+)\s+is occluded by object\s+(\d+)", part)
        chain = [*steps[0][:1], *(step[1] for step in steps)] if steps else []
        chain = chain or re.findall(r"Object\s+(\d+)", part)[:1]
        if chain:
            paths.append(list(dict.fromkeys(int(v) for v in chain[::-1])))
    return paths, objects


REPLIES = [
    "<think>Path1: Object 4 is not occluded.</think><answer>[4]</answer>",
    "<think>Path1: Object 4 is occluded by object 2. Object 2 is occluded by object 1.</think>"
    "<answer>[1]</answer>",
    "<think>Path1: Object 4 is occluded by object 2 (ratio 0.31). Path2: Object 4 is occluded by object 3. "
    "Object 3 is occluded by object 5.</think>\n<answer> [2, 5] </answer>",
    "<THINK>Path: Object  4 is occluded by object  2.</THINK><ANSWER>['2']</ANSWER>",
    "<think>\nPath1:\nObject 4 is occluded by object 2.\n</think><answer>[2,]</answer>",
    "<think>Object 4 is occluded by object 2.</think><answer>[2]</answer>",
    "<think>Path1: Object 4 is occluded by object 2. Object 2 is occluded by object 4.</think>"
    "<answer>[4]</answer>",
    "<think>I see nothing on top of it.</think><answer>[4]</answer>",
    "<think></think><answer>[]</answer>",
    "<think>Path1: Object 4 is occluded by object 2.</think>",
    "<think>Path1: Object 4 is occluded by object 2.",
    "<think>Path1: Object 4 is occluded by object 2.</think><answer>2</answer>",
    "<think>Path1: Object 4 is occluded by object 2.</think><answer>[two]</answer>",
    "<think>Path1: Object 4 is occluded by object 2.</think><answer>[2,\n5]</answer>",
    "<answer>[2]</answer>",
    "Remove object 2 first.",
    "",
]


def same_as_evaluator(text, target=4):
    answer, _ = parse_reply(text)
    paths, objects = evaluator_reading(text, target)
    if re.search("<think>.*?</think>", text, re.I | re.S) is None:
        assert answer.paths is None  # the evaluator takes these for unobstructed; we do not
    else:
        assert [list(path) for path in answer.paths or ()] == paths
    assert (answer.objects or frozenset()) == set(objects)


@pytest.mark.parametrize("text", REPLIES)
def test_replies_are_read_as_the_evaluator_reads_them(text):
    same_as_evaluator(text)


pieces = st.sampled_from(
    [
        "<think>",
        "</think>",
        "<answer>",
        "</answer>",
        "Path1:",
        "Path2:",
        "Path:",
        "[",
        "]",
        "[4]",
        "[2, 5]",
        ", ",
        " ",
    ]
    + [f"Object {a} is occluded by object {b}." for a in (4, 2) for b in (2, 5)]
    + ["Object 4 is not occluded.", "\n", "object 3", "Object 7"]
)


@given(st.lists(pieces, max_size=14).map("".join))
def test_any_jumble_of_the_format_is_read_as_the_evaluator_reads_it(text):
    if text.lower().count("<answer>") <= 1:
        same_as_evaluator(text)


def test_a_chain_names_blockers_of_every_object_on_it(evidence):
    text = REPLIES[2]
    assert read_chains(text, MARKS, 4) == {
        4: frozenset({2, 3}),
        2: frozenset(),
        3: frozenset({5}),
        5: frozenset(),
    }
    assert read_chains(REPLIES[0], MARKS, 4) == {4: frozenset()}
    evidence(
        "asks",
        "UNOGrasp replies read as its evaluator reads them",
        "exactly",
        f"{len(REPLIES)} forms and jumbles",
    )


@pytest.mark.parametrize(
    "text",
    [
        *REPLIES[7:9],
        REPLIES[10],
        *REPLIES[14:],
        "<think>Path1: Object 4 is not occluded.</think><answer>[2]</answer>",  # contradicts itself
        "<think>Path1: Object 4 is not occluded.</think>",  # free, but without an answer
        "<think>Path1: Object 3 is occluded by object 2.</think><answer>[2]</answer>",  # of another target
        "<think>Path1: Object 4 is occluded by object 77.</think><answer>[77]</answer>",  # no such object
        # The second path cannot be read; what it names must not pass for left out.
        "<think>Path1: Object 4 is occluded by object 2. Path2: Object 4 is covered by object 3.</think>"
        "<answer>[2, 3]</answer>",
        f"<think>Path1: Object 4 is occluded by object {'1' * 5000}.</think><answer>[2]</answer>",
    ],
)
def test_a_reply_that_cannot_be_relied_on_says_nothing(text):
    assert read_chains(text, MARKS, 4) is None


def unograsp(url, **options):
    config = ScorerConfig(
        kind="unograsp",
        name="u",
        model="U",
        base_url=url,
        cache=False,
        attempts=1,
        at_once=1,
        options=options,
    )
    return make_scorer(config)


class ChainHandler(OpenAIHandler):
    """Says that every object is covered by the next, up to the last."""

    def reply_text(self, seen, fault):
        target = int(re.search(r"object (\d+)\?", seen.prompt)[1])
        if target in self.plan.silent:
            return "I cannot tell."
        chain = range(target, 5)
        steps = " ".join(f"Object {k} is occluded by object {k + 1}." for k in chain)
        return f"<think>Path1: {steps or f'Object {target} is not occluded.'}</think><answer>[5]</answer>"


def test_pairs_are_scored_with_as_few_questions_as_the_chains_allow():
    plan = Plan()
    plan.silent = set()
    with VlmServer(ChainHandler, plan) as server:
        said = unograsp(server.url).score(SCENE, all_pairs(SCENE))
    assert len(plan.seen) == said.spent.calls == 1  # the chain from object 1 speaks of all five
    for pair, value in said.scores.items():
        assert value == (0.9 if pair.blocker == pair.blocked + 1 else 0.1)


def test_objects_whose_reply_is_unreadable_have_no_answer():
    plan = Plan()
    plan.silent = {1, 2}
    with VlmServer(ChainHandler, plan) as server:
        said = unograsp(server.url).score(SCENE, all_pairs(SCENE))
    assert {pair.blocked for pair in said.unanswered} == {1, 2}
    assert said.scores[BlockedBy(3, 4)] == 0.9
    assert said.replies[0].text == "I cannot tell."


def test_the_checkpoints_own_prompt_can_be_set():
    plan = Plan()
    plan.silent = set()
    with VlmServer(ChainHandler, plan) as server:
        scorer = unograsp(server.url, system="Own words.", question="What first, for object {target}?")
        scorer.score(SCENE, [BlockedBy(2, 3)])
    assert plan.seen[0].system == "Own words."
    assert plan.seen[0].prompt == "What first, for object 2?"
    with pytest.raises(ScorerError, match="target"):
        unograsp("http://localhost:1/v1", question="Which one?")
    with pytest.raises(ScorerError, match="openai or transformers"):
        unograsp("http://localhost:1/v1", through="post")
