"""What a hostile or broken provider can do to us, over real sockets: nothing but give no answer."""

import gzip
import json
import logging
import resource
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from support.vlm_scenes import heap

from cpor.scene import BlockedBy
from cpor.semantics.config import ScorerConfig
from cpor.semantics.scorer_registry import make_scorer

BLOCK = b"x" * 65536


class HostileServer:
    """A server in a thread: `with HostileServer(behave) as server: server.url`.

    Attributes:
        requests: (method, headers and body as one text) of each request.
        sent: Bytes of replies that were taken from it.
        open: Replies under way.
    """

    def __init__(self, behave):
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_POST(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                outer.requests.append((self.command, f"{self.headers}\n{body.decode()}"))
                self.close_connection = True
                outer.open += 1
                try:
                    behave(self, outer)
                except OSError:
                    pass
                finally:
                    outer.open -= 1

            def do_GET(self):
                self.do_POST()

        self.requests, self.sent, self.open = [], 0, 0
        self.stop = threading.Event()
        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        self.thread = threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.02})

    @property
    def url(self):
        return f"http://127.0.0.1:{self.http.server_port}/v1"

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        self.http.shutdown()
        self.thread.join()
        self.http.server_close()


def send(handler, server, data):
    handler.wfile.write(data)
    handler.wfile.flush()
    server.sent += len(data)


def answer(body, status=200, **headers):
    """Answer with this body."""

    def behave(handler, server):
        handler.send_response(status)
        for name, value in {"Content-Type": "application/json", **headers}.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        send(handler, server, body)

    return behave


def redirect_to(url, status):
    def behave(handler, server):
        handler.send_response(status)
        handler.send_header("Location", url)
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    return behave


def endless(start, unit=BLOCK, pause_s=0.0, most=2**29):
    """Answer with `start` and then `unit` again and again, until nobody takes it."""

    def behave(handler, server):
        handler.send_response(200)
        handler.send_header("Content-Type", "application/json")
        handler.end_headers()
        send(handler, server, start)
        while not server.stop.wait(pause_s) and server.sent < most:
            send(handler, server, unit)

    return behave


def endless_head(pause_s=0.05):
    """Never come to the end of the head."""

    def behave(handler, server):
        send(handler, server, b"HTTP/1.1 200 OK\r\n")
        while not server.stop.wait(pause_s):
            send(handler, server, b"X-A: b\r\n")

    return behave


KEY = "sk-test-not-a-real-key-0123456789"
BOTH = pytest.mark.parametrize("kind", ["openai", "gemini"])
PAIR = BlockedBy(1, 2)
CALL = "cpor-call"
SAID = '{"blocked": 1, "blocker": 2, "probability": 80}'


@pytest.fixture
def scorer(monkeypatch):
    """Make the scorer that asks a server; it waits for nothing between attempts."""
    monkeypatch.setenv("CPOR_TEST_KEY", KEY)

    def make(kind, url, **changes):
        settings = {"name": "t", "model": "m", "api_key_env": "CPOR_TEST_KEY", "cache": False, "attempts": 1}
        settings |= {"timeout_s": 20.0, "base_url": url}
        made = make_scorer(ScorerConfig(kind=kind, **settings | changes))
        made.caller.sleep = lambda _: None
        return made

    return make


def reply(kind, text=SAID):
    """A whole reply that says this."""
    if kind == "openai":
        return {"choices": [{"index": 0, "message": {"role": "assistant", "content": text}}]}
    return {"candidates": [{"content": {"role": "model", "parts": [{"text": text}]}}]}


def start_of(kind):
    """The beginning of a reply, within the model's text."""
    return json.dumps(reply(kind, "@")).split("@")[0].encode()


def comes_true(condition, tries=6_000):
    """Whether it does within a minute."""
    for _ in range(tries):
        if condition():
            return True
        time.sleep(0.01)
    return False


def reading_threads():
    return [thread for thread in threading.enumerate() if thread.name == CALL]


@BOTH
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_no_redirect_is_followed(kind, status, scorer, caplog, evidence):
    caplog.set_level(logging.INFO)
    with (
        HostileServer(answer(json.dumps(reply(kind)).encode())) as elsewhere,
        HostileServer(redirect_to(f"{elsewhere.url}/x?key={KEY}", status)) as server,
    ):
        said = scorer(kind, server.url, attempts=3).score(heap(2), [PAIR])
    assert elsewhere.requests == []  # neither key nor picture
    assert said.scores == {PAIR: None} and len(server.requests) == 1
    assert f"{status}, a redirect to 127.0.0.1, is not followed" in said.problems[0]
    assert KEY not in repr(said) + caplog.text
    point = f"redirect {status}, {kind}: requests that reach the other host"
    evidence("asks", point, "0", len(elsewhere.requests))


@BOTH
@pytest.mark.parametrize("status", [200, 500])
def test_an_endless_reply_is_cut_at_its_most_bytes(kind, status, scorer, evidence):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    def behave(handler, server):
        handler.send_response_only = lambda _, message=None: type(handler).send_response_only(handler, status)
        endless(start_of(kind))(handler, server)

    with HostileServer(behave) as server:
        said = scorer(kind, server.url).score(heap(2), [PAIR])
        assert comes_true(lambda: server.open == 0)  # nobody reads on
    assert said.scores == {PAIR: None} and "more than 4,194,304 bytes" in said.problems[0]
    assert server.sent < 32 * 2**20  # what buffers on the way hold, and no more
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 100 * 1024  # [KiB]
    point = f"endless reply with status {status}, {kind}: memory grows by"
    evidence("asks", point, "below 1 GB", f"{grown / 1024:.0f} MiB, no answer, nobody reads on")
    assert comes_true(lambda: not reading_threads())


@BOTH
@pytest.mark.parametrize("part", ["head", "body"])
def test_the_time_limit_ends_the_reading(kind, part, scorer):
    behave = endless_head() if part == "head" else endless(start_of(kind), b" ", 0.05)
    with HostileServer(behave) as server:
        said = scorer(kind, server.url, timeout_s=0.6).score(heap(2), [PAIR])
        assert comes_true(lambda: not reading_threads())
        assert comes_true(lambda: server.open == 0)
    assert said.scores == {PAIR: None} and "no reply in 0.6 s" in said.problems[0]
    assert said.spent.tokens > 0  # the provider may charge for it


@BOTH
def test_a_compressed_reply_is_not_unpacked(kind, scorer):
    bomb = gzip.compress(start_of(kind) + bytes(64 * 2**20))
    with HostileServer(answer(bomb, Content_Encoding="gzip")) as server:
        said = scorer(kind, server.url).score(heap(2), [PAIR])
    assert said.scores == {PAIR: None} and "compressed" in said.problems[0]
    assert "accept-encoding: identity" in server.requests[0][1].lower()


@BOTH
@pytest.mark.parametrize(
    "body",
    [
        b"[" * 4_000_000,
        b'{"a":' * 800_000,
        b'{"choices": [' + b"{}," * 1_300_000 + b'{}], "candidates": {}}',
        b'{"candidates": [' + b"{}," * 1_300_000 + b'{}], "choices": {}}',
        b'{"usage": ' + b"9" * 4_000_000 + b"}",
        b"\xff" * 4_000_000,
        b"",
    ],
    ids=["lists", "objects", "choices", "candidates", "digits", "no text", "empty"],
)
def test_a_giant_reply_of_another_form_is_no_answer(kind, body, scorer):
    with HostileServer(answer(body)) as server:
        said = scorer(kind, server.url).score(heap(2), [PAIR])
    assert said.scores == {PAIR: None} and said.problems[0].startswith("unreadable")


@BOTH
def test_a_giant_error_is_told_in_a_line_and_without_the_key(kind, scorer):
    said = f"//{'a:' * 1_900_000} {KEY}"
    with HostileServer(answer(json.dumps({"error": {"message": said}}).encode(), 500)) as server:
        found = scorer(kind, server.url).score(heap(2), [PAIR])
    assert found.scores == {PAIR: None} and len(found.problems[0]) < 400
    assert KEY not in repr(found)


@BOTH
def test_a_long_reply_within_the_bound_is_read(kind, scorer):
    with HostileServer(answer(json.dumps(reply(kind, SAID + " " * 3_000_000)).encode())) as server:
        assert scorer(kind, server.url).score(heap(2), [PAIR]).scores == {PAIR: 0.8}


@BOTH
def test_a_provider_that_keeps_failing_is_left_alone_for_a_while(kind, scorer):
    works = []
    good = answer(json.dumps(reply(kind)).encode())
    bad = answer(b"{}", 500)
    now = [0.0]
    with HostileServer(lambda *args: (good if works else bad)(*args)) as server:
        asked = scorer(kind, server.url, rest_after=3, rest_s=30.0)
        asked.caller.clock = lambda: now[0]
        for _ in range(5):
            said = asked.score(heap(2), [PAIR])
            assert said.scores == {PAIR: None}
        assert len(server.requests) == 3
        assert "not asked: the last 3 calls failed; asked again in 30 s" in said.problems[-1]
        assert said.spent.calls == 0
        now[0] = 31.0  # one call tries; it fails, and the rest begins anew
        asked.score(heap(2), [PAIR])
        now[0] = 32.0
        assert asked.score(heap(2), [PAIR]).scores == {PAIR: None}
        assert len(server.requests) == 4
        works.append(True)
        now[0] = 62.0
        for _ in range(3):
            assert asked.score(heap(2), [PAIR]).scores == {PAIR: 0.8}
        assert len(server.requests) == 7


def test_one_question_alone_tries_a_provider_that_failed(scorer):
    """While it does, the others are refused: a provider that hangs holds up one thread, not all."""
    now = [0.0]
    with HostileServer(answer(b"{}", 500)) as server:
        asked = scorer("openai", server.url, rest_after=2, rest_s=30.0, at_once=8, pairs_per_prompt=1)
        asked.caller.clock = lambda: now[0]
        pairs = [BlockedBy(a, b) for a in range(1, 5) for b in range(1, 5) if a != b]
        asked.score(heap(4), pairs)
        before = len(server.requests)
        now[0] = 31.0
        said = asked.score(heap(4), pairs)
    assert len(server.requests) == before + 1
    assert len(said.unanswered) == len(pairs) and all(each.problems for each in said.replies)
