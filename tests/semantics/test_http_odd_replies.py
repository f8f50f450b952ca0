"""Replies of odd shapes, slow ones, and ones that cannot be kept: no answer, never a made-up one."""

import json
import math
import threading
import time

import pytest
from support.vlm_scenes import all_pairs, heap
from support.vlm_servers import BOTH, HANDLERS, KEY, WAYS, Plan, VlmServer

from cpor.scene import BlockedBy
from cpor.semantics.config import ScorerConfig
from cpor.semantics.provider import ProviderFailure
from cpor.semantics.scorer import ScorerError
from cpor.semantics.scorer_registry import make_scorer


class _Odd:
    """Changes each answer as its plan says."""

    def answer(self, seen, fault):
        return self.plan.change(super().answer(seen, fault))


def _with(*place, value):
    def change(content):
        inner = content
        for step in place[:-1]:
            inner = inner[step]
        inner[place[-1]] = value
        return content

    return change


def _start_odd(kind, change, tmp_path, **settings):
    plan = Plan()
    plan.change = change
    server = VlmServer(type("Odd", (_Odd, HANDLERS[kind]), {}), plan)
    settings = {"attempts": 1, "cache": str(tmp_path / "c.sqlite"), "api_key_env": "CPOR_TEST_KEY"} | settings
    return server, make_scorer(ScorerConfig(kind=kind, name="t", model="m", base_url=server.url, **settings))


@WAYS
@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("openai", _with("choices", value=[{}])),
        ("openai", _with("choices", value="none")),
        ("openai", _with("choices", value=[1])),
        ("openai", _with("choices", 0, "message", value=None)),
        ("openai", _with("choices", 0, "message", "content", value=[{"type": "text", "text": "x"}])),
        ("openai", _with("usage", value=[1])),
        ("openai", _with("choices", 0, "logprobs", value=[1])),
        ("openai", _with("choices", 0, "logprobs", value={"content": [{"token": None}]})),
        ("openai", lambda _: b"null"),
        ("openai", lambda _: b"<html>"),
        ("gemini", _with("candidates", value=[1])),
        ("gemini", _with("candidates", value="none")),
        ("gemini", _with("candidates", 0, "content", "parts", value=[{"text": 5}])),
        ("gemini", _with("candidates", 0, "logprobsResult", value={"chosenCandidates": "x"})),
        ("gemini", lambda _: b"null"),
    ],
)
def test_a_reply_of_another_shape_is_no_answer(kind, way, change, monkeypatch, tmp_path):
    monkeypatch.setenv("CPOR_TEST_KEY", KEY)
    server, scorer = _start_odd(kind, change, tmp_path, way=way)
    with server:
        said = scorer.score(heap(2), [BlockedBy(1, 2)])
    assert said.unanswered and said.problems
    assert len(scorer.caller.cache) == 0


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("openai", _with("usage", value={"prompt_tokens": -(10**6), "completion_tokens": -5})),
        ("openai", _with("usage", value={"prompt_tokens": "many", "completion_tokens": [5]})),
        ("gemini", _with("usageMetadata", value={"promptTokenCount": -(10**6), "candidatesTokenCount": -5})),
    ],
)
def test_a_count_of_tokens_that_is_none_costs_the_most_it_can(kind, change, monkeypatch, tmp_path):
    monkeypatch.setenv("CPOR_TEST_KEY", KEY)
    server, scorer = _start_odd(kind, change, tmp_path, max_output_tokens=500, picture_tokens=1000)
    with server:
        said = scorer.score(heap(2), [BlockedBy(1, 2)])
    assert not said.unanswered
    assert said.spent.input_tokens > 1000 and said.spent.output_tokens == 500


def test_an_empty_refusal_is_none(monkeypatch, tmp_path):
    monkeypatch.setenv("CPOR_TEST_KEY", KEY)
    server, scorer = _start_odd("openai", _with("choices", 0, "message", "refusal", value=""), tmp_path)
    with server:
        assert not scorer.score(heap(2), [BlockedBy(1, 2)]).unanswered


class _Trickle:
    """A byte now and then: no wait for bytes is long, the whole is."""

    def send(self, status, content, extra=()):
        body = json.dumps(content).encode()
        self.send_head(status, len(body) + 30, extra)
        for _ in range(30):
            self.wfile.write(b" ")
            self.wfile.flush()
            time.sleep(0.1)
        self.wfile.write(body)


@BOTH
def test_a_reply_that_trickles_in_runs_out_of_time(kind, monkeypatch):
    monkeypatch.setenv("CPOR_TEST_KEY", KEY)
    settings = {"name": "t", "model": "m", "api_key_env": "CPOR_TEST_KEY", "cache": False, "attempts": 1}
    with VlmServer(type("Trickle", (_Trickle, HANDLERS[kind]), {}), Plan()) as server:
        scorer = make_scorer(ScorerConfig(kind=kind, base_url=server.url, timeout_s=0.8, **settings))
        said = scorer.score(heap(2), [BlockedBy(1, 2)])
    assert said.unanswered and "timeout" in said.problems[0]


class _Fake:
    """A provider that does as its function says."""

    def __init__(self, complete):
        self.complete = complete

    def identity(self):
        return {}

    def readiness(self):
        raise NotImplementedError


def _ask_fake(complete, cache=None, at_once=2):
    from cpor.semantics.vlm import VlmScorer

    settings = {"attempts": 1, "at_once": at_once, "cache": False, "pairs_per_prompt": 1}
    scorer = VlmScorer(ScorerConfig(kind="openai", name="t", **settings), _Fake(complete))
    scorer.caller.cache = cache
    return scorer


def test_a_reply_cut_at_its_most_tokens_says_what_to_do():
    from cpor.semantics.provider import Completion

    cut = Completion('{"relations": [{"blocked": 1, "bloc', cut=True)
    said = _ask_fake(lambda _: cut).score(heap(2), [BlockedBy(1, 2)])
    assert said.unanswered and any("max_output_tokens" in problem for problem in said.problems)


def test_threads_that_share_a_scorer_do_not_stop_each_other():
    from cpor.semantics.provider import Completion

    failing = threading.Event()

    def complete(question):
        if "box 5" in question.prompt:
            failing.set()
            raise ScorerError("not set up for this one")
        failing.wait(60.0)
        time.sleep(0.02)
        return Completion('{"blocked": 1, "blocker": 2, "probability": 80}')

    scorer = _ask_fake(complete)
    found = []
    thread = threading.Thread(
        target=lambda: found.append(scorer.score(heap(2), [BlockedBy(1, 2), BlockedBy(2, 1)]))
    )
    thread.start()
    with pytest.raises(ScorerError):
        scorer.score(heap(5), all_pairs(heap(5)))
    thread.join(60.0)
    assert found[0].scores[BlockedBy(1, 2)] == 0.8
    assert not any("given up" in problem for problem in found[0].problems)


def test_an_interrupt_leaves_waiting_questions_unasked():
    asked = []

    def complete(question):
        asked.append(question)
        if len(asked) == 2:
            raise KeyboardInterrupt
        time.sleep(0.05)
        raise ProviderFailure("refused_request", "no")

    with pytest.raises(KeyboardInterrupt):
        _ask_fake(complete).score(heap(5), all_pairs(heap(5)))
    assert len(asked) < 10


def test_a_reply_that_cannot_be_remembered_is_an_answer_all_the_same():
    from cpor.semantics.provider import Completion

    class Full:
        def get(self, key):
            return None

        def put(self, key, reply):
            raise ScorerError("the disk is full")

    reply = Completion('{"blocked": 1, "blocker": 2, "probability": 80}')
    said = _ask_fake(lambda _: reply, Full()).score(heap(2), [BlockedBy(1, 2)])
    assert said.scores == {BlockedBy(1, 2): 0.8}
    assert said.problems == ("not remembered: the disk is full",)


def test_a_pair_without_log_probabilities_among_others_is_no_answer():
    from cpor.semantics.provider import Completion, Readiness
    from cpor.semantics.vlm import VlmScorer

    class Sometimes:
        count = 0
        lock = threading.Lock()

        def identity(self):
            return {}

        def readiness(self):
            return Readiness()

        def complete(self, question):
            with self.lock:
                self.count += 1
                if self.count == 2:
                    raise ProviderFailure("refused_request", "no")
                return Completion(
                    "yes", None if self.count == 1 else {"yes": math.log(0.8), "no": math.log(0.2)}
                )

    settings = {"attempts": 1, "at_once": 1, "cache": False, "way": "pairs"}
    scorer = VlmScorer(ScorerConfig(kind="openai", name="t", **settings), Sometimes())
    said = scorer.score(heap(3), all_pairs(heap(3))[:3])
    assert list(said.scores.values()) == [None, None, pytest.approx(0.8)]
    assert json.dumps([reply.problems for reply in said.replies])
