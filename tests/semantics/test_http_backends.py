"""Models behind HTTP in their real wire format: what is asked, what comes back, what is asked again."""

import time

import pytest
from support.vlm_scenes import all_pairs, heap
from support.vlm_servers import BOTH, FAULTS, KEY, WAYS, Plan

from cpor.scene import BlockedBy
from cpor.semantics.scorer import ScorerError


@BOTH
@WAYS
def test_every_pair_gets_the_score_the_server_gave(kind, way, ask, evidence):
    scene = heap(4)
    truth = {pair: (pair.blocked * 20 + pair.blocker) / 100 for pair in all_pairs(scene)}
    scorer, plan = ask(kind, Plan(p=lambda a, b: truth[BlockedBy(a, b)]), way=way)
    said = scorer.score(scene, list(truth))
    assert said.scores == pytest.approx(truth, abs=1e-6)
    assert said.scorer == "tested" and not said.problems
    assert len(plan.seen) == said.spent.calls == (1 if way == "scene" else len(truth))
    assert said.spent.input_tokens == 900 * said.spent.calls
    evidence(
        "asks",
        f"{kind}, asked by {way}: real wire format, SDK unmodified",
        "all",
        f"{len(truth)} of 12 as served",
    )


@BOTH
def test_a_scene_is_asked_with_picture_schema_and_temperature_zero(kind, ask):
    scene = heap(3)
    scorer, plan = ask(kind, way="scene")
    scorer.score(scene, all_pairs(scene))
    (seen,) = plan.seen
    assert seen.image_size == (480, 360)
    assert "box 2" in seen.prompt and "share of A hidden" in seen.prompt and "0 to 100" in seen.prompt
    assert seen.system
    if kind == "openai":
        body = seen.body
        assert body["stream"] is False and body["temperature"] == 0.0
        assert body["response_format"]["type"] == "json_schema"
        assert body["response_format"]["json_schema"]["strict"] is True
        assert body["max_tokens"] == 8192
        assert seen.headers["authorization"] == f"Bearer {KEY}"
    else:
        generation = seen.body["generationConfig"]
        assert generation["temperature"] == 0.0
        assert generation["responseMimeType"] == "application/json"
        relations = generation["responseSchema"]["properties"]["relations"]
        assert relations["items"]["properties"]["probability"]["type"] == "INTEGER"
        assert seen.headers["x-goog-api-key"] == KEY


def test_hypotheses_can_be_left_out(ask):
    scorer, plan = ask("openai", hypotheses=False)
    scorer.score(heap(3), all_pairs(heap(3)))
    assert "depth camera" not in plan.seen[0].prompt


@BOTH
def test_pairs_are_asked_with_log_probabilities(kind, ask):
    scorer, plan = ask(kind, way="pairs")
    scorer.score(heap(2), [BlockedBy(1, 2)])
    body = plan.seen[0].body
    if kind == "openai":
        assert body["logprobs"] is True and body["top_logprobs"] == 20
        assert "response_format" not in body
    else:
        assert body["generationConfig"]["responseLogprobs"] is True
        assert body["generationConfig"]["logprobs"] == 20


@BOTH
@pytest.mark.parametrize("how", ["refused", "omitted"])
def test_missing_log_probabilities_are_told_not_faked(kind, how, ask, evidence):
    scorer, plan = ask(kind, Plan(logprobs=how), way="pairs")
    with pytest.raises(ScorerError, match=r'no log-probabilities.*way = "scene"'):
        scorer.score(heap(5), all_pairs(heap(5)))
    assert len(plan.seen) < 10  # not asked twenty times for what it does not give
    evidence(
        "asks",
        f"{kind}: log-probabilities {how}",
        "told to the user, never faked",
        "told to the user, never faked",
    )


def test_a_large_scene_takes_several_prompts(ask):
    scene = heap(5)
    scorer, plan = ask("openai", pairs_per_prompt=8)
    said = scorer.score(scene, all_pairs(scene))
    assert [len(seen.pairs) for seen in sorted(plan.seen, key=lambda s: -len(s.pairs))] == [8, 8, 4]
    assert not said.unanswered


@BOTH
def test_a_refusal_is_no_answer_and_its_words_are_kept(kind, ask):
    scorer, _ = ask(kind, Plan(text="I am sorry, I cannot judge this picture."), attempts=1)
    said = scorer.score(heap(3), all_pairs(heap(3)))
    assert len(said.unanswered) == 6
    assert said.replies[0].text == "I am sorry, I cannot judge this picture."


AT_ONCE = tuple(fault for fault in FAULTS if fault != "hang")


def fault_of_pair(seen):
    """Each fault that is seen at once has a pair of its own."""
    return dict(zip(all_pairs(heap(4)), AT_ONCE, strict=False)).get(seen.pairs[0])


@BOTH
@WAYS
def test_a_failure_that_passes_is_asked_again(kind, way, ask):
    failed = set()

    def fault(_, seen):
        again = seen.pairs[0] in failed
        failed.add(seen.pairs[0])
        return None if again else fault_of_pair(seen)

    plan = Plan(fault=fault)
    scorer, _ = ask(kind, plan, way=way, timeout_s=60.0, pairs_per_prompt=1)
    pairs = all_pairs(heap(4))
    said = scorer.score(heap(4), pairs)
    assert said.scores == {pair: pytest.approx(plan.p(*pair)) for pair in pairs}
    assert sorted(plan.faults) == sorted(AT_ONCE)
    assert [reply.attempts for reply in said.replies] == [2] * 6 + [1] * 6
    assert len(scorer.waits) == 6


@BOTH
@WAYS
def test_a_failure_that_stays_is_no_answer_and_never_free(kind, way, ask):
    plan = Plan(fault=lambda _, seen: fault_of_pair(seen))
    scorer, _ = ask(kind, plan, way=way, timeout_s=60.0, attempts=2, pairs_per_prompt=1)
    pairs = all_pairs(heap(4))
    said = scorer.score(heap(4), pairs)
    assert said.unanswered == tuple(pairs[:6])
    assert all(reply.problems for reply in said.replies[:6])
    assert len(scorer.caller.cache) == 6  # what could not be read is not remembered


@BOTH
@WAYS
def test_a_server_that_hangs_is_asked_again_and_is_no_answer_where_it_goes_on(kind, way, ask):
    plan = Plan(fault=lambda number, _: "hang" if number == 0 else None, hang_s=1.0)
    scorer, _ = ask(kind, plan, way=way, timeout_s=0.8, attempts=9)  # the machine may be late, too
    said = scorer.score(heap(2), [BlockedBy(1, 2)])
    assert said.scores == {BlockedBy(1, 2): pytest.approx(plan.p(1, 2))} and said.replies[0].attempts > 1
    plan = Plan(fault=lambda *_: "hang", hang_s=0.6)
    scorer, _ = ask(kind, plan, way=way, timeout_s=0.4, attempts=2, cache=False)
    said = scorer.score(heap(2), [BlockedBy(1, 2)])
    assert said.unanswered and said.replies[0].problems and len(plan.seen) == 2


@BOTH
def test_retry_after_is_kept_and_waits_double(kind, ask):
    plan = Plan(fault=lambda number, _: "429" if number < 3 else None, retry_after="7")
    scorer, _ = ask(kind, plan, attempts=4)
    assert not scorer.score(heap(2), [BlockedBy(1, 2)]).unanswered
    assert scorer.waits == [7.0, 7.0, 7.0]
    plan = Plan(fault=lambda *_: "500")
    scorer, _ = ask(kind, plan, attempts=4, first_wait_s=2.0, cache=False)
    scorer.score(heap(2), [BlockedBy(1, 2)])
    assert [1 <= scorer.waits[0] <= 2, 2 <= scorer.waits[1] <= 4, 4 <= scorer.waits[2] <= 8] == [True] * 3


@BOTH
def test_a_server_that_asks_to_wait_too_long_is_given_up_on(kind, ask):
    scorer, plan = ask(kind, Plan(fault=lambda *_: "429", retry_after="3600"), longest_wait_s=30.0)
    said = scorer.score(heap(2), [BlockedBy(1, 2)])
    assert said.unanswered and len(plan.seen) == 1 and not scorer.waits
    assert any("longest_wait_s" in problem for problem in said.problems)


def test_retry_after_may_be_a_date(ask):
    from email.utils import formatdate

    plan = Plan(
        fault=lambda number, _: "429" if number == 0 else None, retry_after=formatdate(time.time() + 20)
    )
    scorer, _ = ask("openai", plan)
    scorer.score(heap(2), [BlockedBy(1, 2)])
    assert 15.0 < scorer.waits[0] <= 20.0


@BOTH
def test_no_more_calls_are_under_way_than_allowed(kind, ask):
    plan = Plan(fault=lambda *_: time.sleep(0.1))
    scorer, _ = ask(kind, plan, way="pairs", at_once=3)
    scorer.score(heap(5), all_pairs(heap(5)))
    assert plan.most_under_way == 3
