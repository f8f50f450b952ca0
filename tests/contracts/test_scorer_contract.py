"""One suite for every relation scorer: a number in [0, 1] or no answer for each pair, always."""

import importlib.util

import pytest
from support.vlm_scenes import all_pairs
from support.vlm_servers import GeminiHandler, OpenAIHandler, Plan, VlmServer

from cpor.semantics.config import ScorerConfig
from cpor.semantics.replay import record, replay
from cpor.semantics.scorer import RelationScorer, ScoredPairs, check_pairs
from cpor.semantics.scorer_registry import make_scorer
from cpor.testing import check_scorer, example_scene

SCORERS = [
    "openai-scene",
    "openai-pairs",
    "gemini-scene",
    "gemini-pairs",
    "unograsp",
    "replay",
    pytest.param("transformers", marks=pytest.mark.slow),
    "embedded",
    "own",
]


class OwnScorer(RelationScorer):
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
            made.score(example_scene(), all_pairs(example_scene()))
            yield replay(path)
        else:
            yield make_scorer(_settings(kind, server.url, way=way or "scene"))


def test_it_keeps_the_rules(scorer):
    check_scorer(lambda: scorer)


def test_every_pair_of_a_plain_scene_has_an_answer(scorer):
    scene = example_scene()
    assert not scorer.score(scene, all_pairs(scene)[::-1]).unanswered
    assert len(scorer.pairs(scene)) > 0
