"""What a question costs, what is remembered, and that a key is shown to nobody but the server."""

import math
import traceback

import pytest
from support.vlm_scenes import all_pairs, heap
from support.vlm_servers import BOTH, KEY, OpenAIHandler, Plan, VlmServer

from cpor.scene import BlockedBy
from cpor.semantics.config import Budget, Prices, ScorerConfig
from cpor.semantics.provider import Question
from cpor.semantics.scorer import ScorerError
from cpor.semantics.scorer_registry import make_scorer


@BOTH
def test_replies_are_remembered_and_cost_nothing(kind, ask):
    scorer, plan = ask(kind, way="pairs")
    first = scorer.score(heap(3), all_pairs(heap(3)))
    again = scorer.score(heap(3), all_pairs(heap(3)))
    assert again.scores == first.scores
    assert len(plan.seen) == 6 and again.spent.calls == 0 and again.spent.remembered == 6


def test_another_picture_prompt_model_or_setting_is_another_question(ask):
    from cpor.semantics.badges import draw_marks

    base = Question(draw_marks(heap(3))[0], "prompt")
    asked_of = {"model": "a", "temperature": 0}
    others = [
        Question(draw_marks(heap(4))[0], "prompt").key(asked_of),
        Question(base.picture, "another").key(asked_of),
        Question(base.picture, "prompt", schema={"type": "object"}).key(asked_of),
        base.key({"model": "b", "temperature": 0}),
        base.key({"model": "a", "temperature": 1}),
    ]
    assert len({base.key(asked_of), *others}) == 6
    assert Question(draw_marks(heap(3))[0], "prompt").key(asked_of) == base.key(asked_of)


@BOTH
def test_budgets_are_never_passed(kind, ask):
    scene = heap(5)
    scorer, plan = ask(kind, way="pairs", budget=Budget(calls=7), at_once=4)
    said = scorer.score(scene, all_pairs(scene))
    assert len(plan.seen) == said.spent.calls == 7
    assert len(said.unanswered) == 13 == said.spent.refused
    limit = 10_000
    scorer, plan = ask(kind, way="pairs", budget=Budget(tokens=limit), at_once=4, cache=False)
    said = scorer.score(scene, all_pairs(scene))
    assert 0 < said.spent.tokens <= limit and said.unanswered
    prices = Prices(input_per_million=10.0, output_per_million=100.0)
    scorer, plan = ask(kind, budget=Budget(money=0.2), prices=prices, max_output_tokens=500, cache=False)
    for _ in range(9):
        scorer.score(scene, all_pairs(scene))
    assert 0.0 < scorer.caller.purse.spent.money <= 0.2
    assert len(plan.seen) < 9


def test_a_call_of_unknown_cost_is_charged_with_the_most_it_can_cost(ask):
    scorer, _ = ask(
        "openai", Plan(fault=lambda *_: "cut"), attempts=1, max_output_tokens=500, picture_tokens=1000
    )
    said = scorer.score(heap(2), [BlockedBy(1, 2)])
    assert said.spent.output_tokens == 500 and said.spent.input_tokens > 1000
    scorer, _ = ask("openai", Plan(fault=lambda *_: "429"), attempts=1, cache=False)
    assert scorer.score(heap(2), [BlockedBy(1, 2)]).spent.tokens == 0


class _Unauthorised(OpenAIHandler):
    def respond(self, seen, fault):
        said = f"Incorrect key: {self.headers['Authorization']}. Yours is at example.org/?key={KEY}"
        self.send(self.plan.status, self.error(self.plan.status, said))


@pytest.mark.parametrize("status", [400, 401, 403, 404, 429, 500])
def test_the_key_is_in_no_error_no_reply_and_no_file(status, monkeypatch, tmp_path):
    monkeypatch.setenv("CPOR_TEST_KEY", KEY)
    plan = Plan()
    plan.status = status
    said = ""
    with VlmServer(_Unauthorised, plan) as server:
        config = ScorerConfig(
            kind="openai",
            name="t",
            model="m",
            base_url=server.url,
            api_key_env="CPOR_TEST_KEY",
            cache=str(tmp_path / "c.sqlite"),
            attempts=2,
            first_wait_s=0.0,
            longest_wait_s=0.0,
        )
        scorer = make_scorer(config)
        try:
            said = repr(scorer.score(heap(2), [BlockedBy(1, 2)]))
        except ScorerError as error:
            said = "".join(traceback.format_exception(error))
    assert said and KEY not in said and KEY[3:] not in said
    assert KEY not in repr(config) + repr(scorer.caller) + str(scorer.provider.identity())
    assert all(KEY.encode() not in path.read_bytes() for path in tmp_path.iterdir())


def test_the_key_is_read_when_a_call_is_made(monkeypatch):
    monkeypatch.delenv("CPOR_TEST_KEY", raising=False)
    scorer = make_scorer(
        ScorerConfig(kind="gemini", name="g", model="m", api_key_env="CPOR_TEST_KEY", cache=False)
    )
    with pytest.raises(ScorerError, match="set the environment variable CPOR_TEST_KEY"):
        scorer.score(heap(2), [BlockedBy(1, 2)])


@BOTH
def test_an_unknown_address_is_no_answer_after_all_attempts(kind, monkeypatch):
    monkeypatch.setenv("CPOR_TEST_KEY", KEY)
    config = {"name": "t", "model": "m", "api_key_env": "CPOR_TEST_KEY", "cache": False, "attempts": 2}
    waiting = {"first_wait_s": 0.0, "longest_wait_s": 0.0, "base_url": "http://127.0.0.1:9"}
    scorer = make_scorer(ScorerConfig(kind=kind, **config, **waiting))
    said = scorer.score(heap(2), [BlockedBy(1, 2)])
    assert said.unanswered and said.spent.calls == 2
    assert "connection" in said.problems[0]
    assert said.spent.tokens == 0  # nobody was there to charge for it


@BOTH
def test_where_nobody_answers_not_every_question_finds_out_for_itself(kind, monkeypatch):
    monkeypatch.setenv("CPOR_TEST_KEY", KEY)
    config = {"name": "t", "model": "m", "api_key_env": "CPOR_TEST_KEY", "cache": False, "attempts": 2}
    config |= {"first_wait_s": 0.0, "base_url": "http://127.0.0.1:9", "at_once": 1, "pairs_per_prompt": 1}
    scorer = make_scorer(ScorerConfig(kind=kind, **config))
    said = scorer.score(heap(4), all_pairs(heap(4)))
    assert len(said.unanswered) == 12 and said.spent.calls == 2
    assert all(reply.problems for reply in said.replies)


@BOTH
@pytest.mark.parametrize("key", ["sk-\u00e9\u2026", "abc\ndef-secret", "abc def-secret"])
def test_what_cannot_be_a_key_is_told_and_not_shown(kind, key, monkeypatch):
    monkeypatch.setenv("CPOR_TEST_KEY", key)
    scorer = make_scorer(
        ScorerConfig(kind=kind, name="t", model="m", api_key_env="CPOR_TEST_KEY", cache=False)
    )
    with pytest.raises(ScorerError, match="CPOR_TEST_KEY holds no key") as caught:
        scorer.score(heap(2), [BlockedBy(1, 2)])
    assert "def-secret" not in str(caught.value) and "\u00e9" not in str(caught.value)
    assert scorer.provider.readiness().configured == "CPOR_TEST_KEY holds no key"


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("7", 7.0),
        ("-5", 0.0),
        ("inf", math.inf),
        ("nan", None),
        ("soon", None),
        ("", None),
        ("Wed, 45 Nov 2026 10:00:00 GMT", None),
        ("Wed, 21 Oct 99999 07:28:00 GMT", None),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 0.0),
    ],
)
def test_any_retry_after_is_read_or_left(header, seconds):
    from cpor.semantics.provider import retry_after

    assert retry_after({"retry-after": header}) == seconds


def test_two_paths_of_one_host_are_two_servers():
    def of(kind, url):
        config = ScorerConfig(kind=kind, name="t", model="m", base_url=url, cache=False)
        return make_scorer(config).provider.identity()

    for kind in ("openai", "gemini"):
        assert of(kind, "http://gate/a/v1") != of(kind, "http://gate/b/v1")
        assert "secret" not in str(of(kind, "http://me:secret@gate/a/v1"))


def test_a_configuration_with_a_key_in_it_is_not_recorded(tmp_path):
    from cpor.semantics.replay import record

    config = ScorerConfig(
        kind="openai", name="t", model="m", base_url="http://me:secret@localhost:1/v1", cache=False
    )
    with pytest.raises(ScorerError, match="key"):
        record(make_scorer(config), tmp_path / "r.jsonl")
    assert not (tmp_path / "r.jsonl").exists()
