"""A scorer that asks a server of ours."""

import pytest
from support.vlm_servers import HANDLERS, KEY, Plan, VlmServer

from cpor.semantics.config import ScorerConfig
from cpor.semantics.scorer_registry import make_scorer


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
