import json
import math
import threading
import time
import traceback

import pytest
from support.vlm_scenes import all_pairs, heap
from support.vlm_servers import FAULTS, GeminiHandler, OpenAIHandler, Plan, VlmServer

from cpor.scene import BlockedBy
from cpor.semantics.config import BudgetTable, PricesTable, ScorerConfig
from cpor.semantics.provider import ProviderFailure, Question
from cpor.semantics.registry import make_scorer
from cpor.semantics.scorer import ScorerError

KEY = "sk-test-not-a-real-key-0123456789"
HANDLERS = {"openai": OpenAIHandler, "gemini": GeminiHandler}
BOTH = pytest.mark.parametrize("kind", ["openai", "gemini"])
WAYS = pytest.mark.parametrize("way", ["scene", "pairs"])


@pytest.fixture
def ask(monkeypatch, tmp_path):
    """Start a server, make the scorer that asks it, and keep its waits instead of waiting."""
    monkeypatch.setenv("CPOR_TEST_KEY", KEY)
    running = []

    def start(kind, plan=None, **changes):
        server = VlmServer(HANDLERS[kind], plan or Plan()).__enter__()
        running.append(server)
        settings = {"name": "tested", "model": "some-model", "api_key_env": "CPOR_TEST_KEY", "timeout_s": 5.0}
        settings |= {"base_url": server.url, "cache": str(tmp_path / "replies.sqlite")}
        scorer = make_scorer(ScorerConfig(kind=kind, **settings | changes))
        scorer.waits = []
        scorer.caller.sleep = scorer.waits.append
        return scorer, server.plan

    yield start
    for server in running:
        server.__exit__()


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


def fault_of_pair(seen):
    """Each fault has a pair of its own."""
    return dict(zip(all_pairs(heap(4)), FAULTS, strict=False)).get(seen.pairs[0])


@BOTH
@WAYS
def test_a_failure_that_passes_is_asked_again(kind, way, ask):
    failed = set()

    def fault(_, seen):
        again = seen.pairs[0] in failed
        failed.add(seen.pairs[0])
        return None if again else fault_of_pair(seen)

    plan = Plan(fault=fault, hang_s=1.6)
    scorer, _ = ask(kind, plan, way=way, timeout_s=1.2, pairs_per_prompt=1)
    pairs = all_pairs(heap(4))
    said = scorer.score(heap(4), pairs)
    assert said.scores == {pair: pytest.approx(plan.p(*pair)) for pair in pairs}
    assert sorted(plan.faults) == sorted(FAULTS)
    assert [reply.attempts for reply in said.replies] == [2] * 7 + [1] * 5
    assert len(scorer.waits) == 7


@BOTH
@WAYS
def test_a_failure_that_stays_is_no_answer_and_never_free(kind, way, ask):
    plan = Plan(fault=lambda _, seen: fault_of_pair(seen), hang_s=1.6)
    scorer, _ = ask(kind, plan, way=way, timeout_s=1.2, attempts=2, pairs_per_prompt=1)
    pairs = all_pairs(heap(4))
    said = scorer.score(heap(4), pairs)
    assert said.unanswered == tuple(pairs[:7])
    assert all(reply.problems for reply in said.replies[:7])
    assert len(scorer.caller.cache) == 5  # what could not be read is not remembered


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
    scorer, plan = ask(kind, way="pairs", budget=BudgetTable(calls=7), at_once=4)
    said = scorer.score(scene, all_pairs(scene))
    assert len(plan.seen) == said.spent.calls == 7
    assert len(said.unanswered) == 13 == said.spent.refused
    limit = 10_000
    scorer, plan = ask(kind, way="pairs", budget=BudgetTable(tokens=limit), at_once=4, cache=False)
    said = scorer.score(scene, all_pairs(scene))
    assert 0 < said.spent.tokens <= limit and said.unanswered
    prices = PricesTable(input_per_million=10.0, output_per_million=100.0)
    scorer, plan = ask(kind, budget=BudgetTable(money=0.2), prices=prices, max_output_tokens=500, cache=False)
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
    from cpor.semantics.openai_compatible import retry_after

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


class _Fake:
    """A provider that does as its function says."""

    def __init__(self, complete):
        self.complete = complete

    def identity(self):
        return {}

    def readiness(self):
        raise NotImplementedError


def _ask_fake(complete, cache=None, at_once=2):
    from cpor.semantics.budget import Budget, Prices, Purse
    from cpor.semantics.patience import Patience, PatientCaller
    from cpor.semantics.vlm import VlmScorer

    provider = _Fake(complete)
    caller = PatientCaller(provider, Patience(1, at_once=at_once), Purse(Budget(), Prices()), cache)
    config = ScorerConfig(kind="openai", name="t", pairs_per_prompt=1)
    return VlmScorer(config, provider, caller)


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
        failing.wait(5.0)
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
    thread.join(10.0)
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
    from cpor.semantics.budget import Budget, Prices, Purse
    from cpor.semantics.patience import Patience, PatientCaller
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

    provider = Sometimes()
    caller = PatientCaller(provider, Patience(attempts=1, at_once=1), Purse(Budget(), Prices()))
    scorer = VlmScorer(ScorerConfig(kind="openai", name="t", way="pairs"), provider, caller)
    said = scorer.score(heap(3), all_pairs(heap(3))[:3])
    assert list(said.scores.values()) == [None, None, pytest.approx(0.8)]
    assert json.dumps([reply.problems for reply in said.replies])
