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
        "F",
        f"{kind}, asked by {way}: real wire format, SDK unmodified",
        "scores as served",
        f"{len(truth)} of 12",
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
        scorer.score(heap(3), all_pairs(heap(3)))
    if how == "refused":
        assert len(plan.seen) < 6  # not asked six times for what it does not give
    evidence("F", f"{kind}: log-probabilities {how}", "told to the user, never faked", "told")


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

    plan = Plan(fault=fault, hang_s=0.8)
    scorer, _ = ask(kind, plan, way=way, timeout_s=0.6, pairs_per_prompt=1)
    pairs = all_pairs(heap(4))
    said = scorer.score(heap(4), pairs)
    assert said.scores == {pair: pytest.approx(plan.p(*pair)) for pair in pairs}
    assert sorted(plan.faults) == sorted(FAULTS)
    assert [reply.attempts for reply in said.replies] == [2] * 7 + [1] * 5
    assert len(scorer.waits) == 7


@BOTH
@WAYS
def test_a_failure_that_stays_is_no_answer_and_never_free(kind, way, ask):
    plan = Plan(fault=lambda _, seen: fault_of_pair(seen), hang_s=0.8)
    scorer, _ = ask(kind, plan, way=way, timeout_s=0.6, attempts=2, pairs_per_prompt=1)
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
    plan = Plan(fault=lambda *_: time.sleep(0.02))
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
