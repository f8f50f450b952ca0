"""A storm of faults: processes that share a cache score the same pairs; nothing is made up or lost."""

import json
import os
import random
import sqlite3
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from support.sizes import sized
from support.vlm_scenes import all_pairs, grid_of_objects
from support.vlm_servers import FAULTS, GeminiHandler, OpenAIHandler, Plan, VlmServer

from cpor.semantics.config import ScorerConfig
from cpor.semantics.scorer_registry import make_scorer


def score(settings, n_objects, n_pairs, backwards=False):
    scene = grid_of_objects(n_objects)
    pairs = all_pairs(scene)[:n_pairs]
    scorer = make_scorer(ScorerConfig(**settings))
    said = scorer.score(scene, pairs[::-1] if backwards else pairs)
    return {
        "scores": [[*pair, score] for pair, score in said.scores.items()],
        "calls": said.spent.calls,
        "tokens": said.spent.tokens,
        "refused": said.spent.refused,
        "remembered": said.spent.remembered,
        "unexplained": sum(
            not reply.problems
            for reply in said.replies
            if all(said.scores[pair] is None for pair in reply.pairs)
        ),
    }


TESTS = Path(__file__).parents[1]
N_OBJECTS, N_PAIRS = 33, sized(300, 1000)
RATE = 0.3


def p_of(blocked, blocker):
    """A number of its own for every pair, so that no mix-up goes unseen."""
    return 0.05 + 0.9 * ((blocked * 41 + blocker * 7) % 89) / 88


class Storm:
    """A plan that fails three requests in ten, in all ways alike, and keeps the pairs it answered well."""

    def __init__(self):
        self.rng = random.Random(11)
        self.answered = set()
        self.plan = Plan(p=p_of, fault=self.fault, hang_s=6.0)

    def fault(self, _, seen):
        with self.plan.lock:
            fault = self.rng.choice(FAULTS) if self.rng.random() < RATE else None
            if fault is None:
                self.answered.update(seen.pairs)
            return fault


def settings(kind, url, cache, **changes):
    return {
        "kind": kind,
        "name": "storm",
        "model": "m",
        "base_url": url,
        "api_key_env": "CPOR_TEST_KEY",
        "way": "pairs",
        "timeout_s": 5.0,
        "attempts": 3,
        "first_wait_s": 0.01,
        "longest_wait_s": 1.0,
        "at_once": 12,
        "cache": str(cache),
    } | changes


def check_right(found, tolerance):
    for blocked, blocker, value in found["scores"]:
        assert value is None or value == pytest.approx(p_of(blocked, blocker), abs=tolerance)
    assert len(found["scores"]) == N_PAIRS
    assert found["unexplained"] == 0  # every lost pair says why


@pytest.mark.slow
def test_two_processes_in_a_storm_keep_right_answers_mark_lost_ones_and_share_a_cache(tmp_path, evidence):
    storm, cache, limit = Storm(), tmp_path / "replies.sqlite", N_PAIRS * 65 // 100
    paths = os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])
    environment = os.environ | {"CPOR_TEST_KEY": "k", "PYTHONPATH": paths, "PYTHONWARNINGS": "error"}
    with VlmServer(OpenAIHandler, storm.plan) as server:
        workers = []
        for backwards in (False, True):
            given = settings("openai", server.url, cache, budget={"calls": limit})
            asked = {"settings": given, "n_objects": N_OBJECTS, "n_pairs": N_PAIRS, "backwards": backwards}
            command = [sys.executable, __file__, json.dumps(asked)]
            workers.append(subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, text=True))
        found = [json.loads(worker.communicate(timeout=900)[0]) for worker in workers]
    assert [worker.returncode for worker in workers] == [0, 0]
    calls = [each["calls"] for each in found]
    for each in found:
        check_right(each, 1e-6)
        assert each["calls"] <= limit
    assert sum(calls) == len(storm.plan.seen)
    assert set(Counter(storm.plan.faults)) == set(FAULTS)
    assert 0.25 < len(storm.plan.faults) / len(storm.plan.seen) < 0.35
    answered = {(a, b) for each in found for a, b, value in each["scores"] if value is not None}
    lost = [sum(value is None for *_, value in each["scores"]) for each in found]
    assert answered == storm.answered  # nothing right was lost, nothing lost was made up
    database = sqlite3.connect(cache)
    assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert database.execute("SELECT count(*) FROM replies").fetchone()[0] == len(storm.answered)
    database.close()
    shared = sum(each["remembered"] for each in found)
    assert shared > 0
    evidence(
        "asks",
        f"fault storm: {N_PAIRS:,} pairs, 30% faults of 7 kinds, 2 processes with one cache",
        "finishes, right answers kept, lost ones no answer, budget kept, cache whole",
        f"{sum(calls)} calls, {len(storm.plan.faults)} faults, lost {lost[0]} and {lost[1]}, 0 wrong, "
        f"{shared} shared replies, calls {calls[0]} and {calls[1]} of {limit}, integrity ok",
    )


@pytest.mark.slow
def test_a_storm_over_whole_scene_prompts_keeps_within_its_tokens(tmp_path, monkeypatch, evidence):
    monkeypatch.setenv("CPOR_TEST_KEY", "k")
    storm, limit = Storm(), 1_500_000
    changes = {"way": "scene", "pairs_per_prompt": 8, "hypotheses": False, "max_output_tokens": 500}
    with VlmServer(GeminiHandler, storm.plan) as server:
        given = settings("gemini", server.url, tmp_path / "c.sqlite", budget={"tokens": limit}, **changes)
        found = score(given, N_OBJECTS, N_PAIRS)
    check_right(found, 0.0051)  # asked for whole per cents
    answered = {(a, b) for a, b, value in found["scores"] if value is not None}
    assert answered == storm.answered
    assert found["tokens"] <= limit
    lost = N_PAIRS - len(answered)
    evidence(
        "asks",
        f"fault storm over scene prompts (Gemini), {N_PAIRS:,} pairs",
        "right answers kept, budget of tokens kept",
        f"{found['calls']} calls, {len(storm.plan.faults)} faults, {lost} lost, "
        f"{found['tokens']} of {limit} tokens",
    )


if __name__ == "__main__":
    print(json.dumps(score(**json.loads(sys.argv[1]))))
