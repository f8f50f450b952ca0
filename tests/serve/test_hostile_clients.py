"""Every HTTP server of ours under the same hostile clients: others are answered, and nothing is kept."""

import httpx
import pytest
from serve.served import PATIENCE_S, served
from support.hostile_clients import KINDS, Surface, hostile

from cpor.bridges.agent import AgentTools
from cpor.bridges.mcp_server import http_app, make_mcp_server
from cpor.serve.http.server import MOST_CONNECTIONS
from cpor.serve.http.settings import ServeSettings
from cpor.system import System

TOKEN = "a-token-long-enough-for-this"
BEARER = {"Authorization": f"Bearer {TOKEN}"}
LIST_TOOLS = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
DECIDE = {"objects": ["a"], "target": "a", "relations": []}
SURFACES = {"serve": ("/v1/decide", DECIDE), "mcp": ("/mcp", LIST_TOOLS)}


def application(name, settings):
    if name == "serve":
        return None
    return http_app(make_mcp_server(AgentTools(System("depth", "none"), settings)), settings)


@pytest.fixture(scope="module", params=SURFACES)
def surface(request):
    """Name, address, path and message of an honest client; without a token, which is the harder case."""
    settings = ServeSettings(port=0)
    with served(settings, application(request.param, settings)) as address:
        yield (request.param, address, *SURFACES[request.param])


def ask(address, path, body, **options):
    accept = {"Accept": "application/json, text/event-stream"}
    return httpx.post(address + path, json=body, headers=accept | options, timeout=PATIENCE_S)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_others_are_answered(surface, kind):
    _, address, path, body = surface
    there = Surface(int(address.rpartition(":")[2]), "/", path, path)
    answered = 0
    with hostile(there, [kind], MOST_CONNECTIONS + 40) as connections:
        for k in connections:
            if k % 92 == 0:
                reply = ask(address, path, body)
                assert reply.status_code == 200, reply.text
                answered += 1
    assert answered == 6


def test_the_same_refusals(surface):
    name, address, path, body = surface
    assert ask(address, path, body, Host="evil.example").status_code == 400
    assert ask(address, path, body, Origin="http://evil.example").status_code == 403
    long = {"x": "a" * (30 * 2**20)}
    reply = ask(address, path, long)
    assert reply.status_code == 413 and reply.json()["code"] == "too_large"
    for reply in (ask(address, path, body), ask(address, "/nothing", body)):
        assert reply.headers["X-Content-Type-Options"] == "nosniff"
        assert "server" not in reply.headers
    settings = ServeSettings(port=0, token=TOKEN, host="127.0.0.1")
    if name == "mcp":
        with served(settings, application(name, settings)) as guarded_address:
            assert ask(guarded_address, path, body).status_code == 401
            assert ask(guarded_address, path, body, **BEARER).status_code == 200


def test_mcp_offers_no_stream_without_end(surface):
    name, address, path, _ = surface
    reply = httpx.get(address + path, headers={"Accept": "text/event-stream"}, timeout=PATIENCE_S)
    assert reply.status_code == 405
    listen = {"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": {}}
    assert name == "serve" or '"error"' in ask(address, path, listen).text
