"""One suite for every relation scorer: a number in [0, 1] or no answer for each pair, always."""

import importlib.util

import pytest
from support.vlm_scenes import all_pairs, heap
from support.vlm_servers import GeminiHandler, OpenAIHandler, Plan, VlmServer

from cpor.errors import InvalidSceneError
from cpor.pipeline import Pipeline
from cpor.scene import BlockedBy
from cpor.semantics.config import ScorerConfig
from cpor.semantics.registry import make_scorer
from cpor.semantics.replay import record, replay
from cpor.semantics.scorer import RelationScorer, ScoredPairs
from cpor.semantics.vlm import check_pairs, pairs_to_ask, score_stage

SCORERS = [
    "openai-scene",
    "openai-pairs",
    "gemini-scene",
    "gemini-pairs",
    "unograsp",
    "replay",
    "transformers",
    "embedded",
    "own",
]


class OwnScorer:
    name = "own"

    def score(self, scene, pairs):
        return ScoredPairs(dict.fromkeys(check_pairs(scene, pairs), 0.25), self.name)


class UnoHandler(OpenAIHandler):
    def reply_text(self, seen, fault):
        target = seen.prompt.split()[-1].rstrip("?")
        return f"<think>Path1: Object {target} is not occluded.</think><answer>[{target}]</answer>"


def _settings(kind, url, **more):
    return ScorerConfig(
        kind=kind, name=f"a {kind}", model="m", base_url=url, api_key_env="CPOR_TEST_KEY", cache=False, **more
    )


@pytest.fixture(params=SCORERS)
def scorer(request, monkeypatch, tmp_path_factory):
    monkeypatch.setenv("CPOR_TEST_KEY", "k")
    kind, _, way = request.param.partition("-")
    if kind == "own":
        yield OwnScorer()
        return
    if kind == "embedded":
        if not importlib.util.find_spec("onnxruntime"):
            pytest.skip("onnxruntime is not installed: pip install 'cpor-grasp[perception]'")
        yield make_scorer(ScorerConfig(kind=kind, name=kind))
        return
    if kind == "transformers":
        if not (importlib.util.find_spec("torch") and importlib.util.find_spec("transformers")):
            pytest.skip("torch and transformers are not installed: pip install 'cpor-grasp[local-vlm]'")
        from support.tiny_vlm import write_tiny_qwen

        folder = write_tiny_qwen(tmp_path_factory.mktemp("tiny"))
        yield make_scorer(
            ScorerConfig(
                kind=kind, name="tiny", model=str(folder), way="pairs", cache=False, least_yes_no=0.0
            )
        )
        return
    handler = {"gemini": GeminiHandler, "unograsp": UnoHandler}.get(kind, OpenAIHandler)
    with VlmServer(handler, Plan()) as server:
        if kind == "replay":
            path = tmp_path_factory.mktemp("replay") / "replies.jsonl"
            made = record(make_scorer(_settings("openai", server.url, way="pairs")), path)
            made.score(heap(3), all_pairs(heap(3)))
            yield replay(path)
        else:
            yield make_scorer(_settings(kind, server.url, way=way or "scene"))


def test_it_is_a_relation_scorer_with_a_name(scorer):
    assert isinstance(scorer, RelationScorer) and scorer.name


def test_every_pair_asked_about_has_a_number_or_none_and_nothing_else_is_there(scorer):
    scene = heap(3)
    pairs = all_pairs(scene)[::-1]
    said = scorer.score(scene, pairs)
    assert list(said.scores) == pairs
    assert all(score is None or 0.0 <= score <= 1.0 for score in said.scores.values())
    assert not said.unanswered
    assert said.scorer == scorer.name
    assert said.semantic_scores().scores == said.scores


def test_the_same_question_has_the_same_answer(scorer):
    scene = heap(3)
    assert scorer.score(scene, all_pairs(scene)).scores == scorer.score(scene, all_pairs(scene)).scores


def test_no_pairs_are_no_question(scorer):
    said = scorer.score(heap(3), [])
    assert said.scores == {} and said.spent.calls == 0


@pytest.mark.parametrize("pair", [(1, 9), (2, 2)])
def test_a_pair_that_is_none_is_refused(scorer, pair):
    with pytest.raises(InvalidSceneError):
        scorer.score(heap(3), [BlockedBy(*pair)])


def test_its_scores_go_through_the_pipeline(scorer):
    scene = heap(3)
    pipeline = Pipeline(score=score_stage(scorer))
    result = pipeline.run(scene, 1)
    assert result.beliefs.asked.sum() == len(pairs_to_ask(scene)) > 0
