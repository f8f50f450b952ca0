"""Local servers that speak the wire formats of OpenAI's chat completions and of Gemini's generateContent.

They look at nothing but the request, answer as a plan says, and fail as a plan says.
"""

import base64
import io
import json
import math
import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from PIL import Image

FAULTS = ("429", "500", "hang", "cut", "broken_json", "wrong_ids", "empty")


@dataclass
class Seen:
    """A request as the server understood it."""

    path: str
    headers: dict[str, str]
    body: dict
    prompt: str
    system: str | None
    image_size: tuple[int, int]
    pairs: list[tuple[int, int]]


@dataclass
class Plan:
    """How to answer: the truth, and which request fails how."""

    p: Callable[[int, int], float] = lambda blocked, blocker: 0.9 if blocked < blocker else 0.1
    fault: Callable[[int, Seen], str | None] = lambda number, seen: None
    text: str | None = None  # instead of an answer from p
    meant: str | None = None  # to the question which object words mean
    logprobs: str = "given"  # or "refused", "omitted"
    hang_s: float = 1.0
    retry_after: str | None = "0"
    seen: list[Seen] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    under_way: int = 0
    most_under_way: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)


def asked_pairs(prompt):
    """The pairs a prompt of either way asks about, (blocked, blocker)."""
    listed = re.findall(r"^  blocked (\d+), blocker (\d+)$", prompt, re.MULTILINE)
    if not listed:
        single = re.search(r"Does object (\d+).*? obstruct object (\d+)", prompt)
        listed = [(single[2], single[1])] if single else []
    return [(int(a), int(b)) for a, b in listed]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    plan: Plan

    def log_message(self, *_):
        pass

    def do_POST(self):
        raw = self.rfile.read(int(self.headers["Content-Length"]))
        plan = self.plan
        seen = self.understand(json.loads(raw))
        with plan.lock:
            number = len(plan.seen)
            plan.seen.append(seen)
            plan.under_way += 1
            plan.most_under_way = max(plan.most_under_way, plan.under_way)
        try:
            fault = plan.fault(number, seen)
            if fault:
                with plan.lock:
                    plan.faults.append(fault)
            self.respond(seen, fault)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True
        finally:
            with plan.lock:
                plan.under_way -= 1

    def respond(self, seen, fault):
        if fault == "429":
            retry = {} if self.plan.retry_after is None else {"Retry-After": self.plan.retry_after}
            self.send(429, self.error(429, "Rate limit reached"), retry)
        elif fault == "500":
            self.send(500, self.error(500, "internal error"))
        elif fault == "hang":
            time.sleep(self.plan.hang_s)
            self.close_connection = True
        elif fault == "cut":
            body = json.dumps(self.answer(seen, None)).encode()
            self.send_head(200, len(body))
            self.wfile.write(body[: len(body) // 2])
            self.wfile.flush()
            self.connection.close()
            self.close_connection = True
        elif self.plan.logprobs == "refused" and self.wants_logprobs(seen.body):
            self.send(400, self.error(400, self.refusal))
        else:
            self.send(200, self.answer(seen, fault))

    def send_head(self, status, length, extra=()):
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(length))
        for name, value in dict(extra).items():
            self.send_header(name, value)
        self.end_headers()

    def send(self, status, content, extra=()):
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_head(status, len(body), extra)
        self.wfile.write(body)

    def reply_text(self, seen, fault):
        """What the model says."""
        if fault == "empty":
            return ""
        if self.plan.text is not None:
            return self.plan.text
        if self.plan.meant is not None and not seen.pairs:
            return self.plan.meant
        off = 5000 if fault == "wrong_ids" else 0
        if self.wants_logprobs(seen.body):
            return "yes" if self.plan.p(*seen.pairs[0]) > 0.5 else "no"
        relations = [
            {"blocked": a + off, "blocker": b, "probability": round(100 * self.plan.p(a, b))}
            for a, b in seen.pairs
        ]
        text = json.dumps({"relations": relations})
        return "{'relations': [{'blocked': 1, 'blocker':" if fault == "broken_json" else text

    def tokens(self, seen, fault):
        """Candidates for the first token with their log-probabilities."""
        p = self.plan.p(*seen.pairs[0])
        if fault in ("wrong_ids", "broken_json"):
            return [("The", math.log(0.999)), ("A", math.log(0.0005))]
        pieces = [
            ("yes", 0.7 * p),
            ("Yes", 0.25 * p),
            ("no", 0.6 * (1 - p)),
            (" No", 0.35 * (1 - p)),
            ("It", 0.01),
        ]
        return [(token, math.log(max(mass, 1e-12))) for token, mass in sorted(pieces, key=lambda x: -x[1])]


def _size(data):
    with Image.open(io.BytesIO(base64.b64decode(data, validate=True))) as image:
        assert image.format == "PNG"
        image.load()
        return image.size


class OpenAIHandler(_Handler):
    refusal = "You are not allowed to request logprobs from this model"

    def do_GET(self):
        self.send(200, {"object": "list", "data": []})

    def understand(self, body):
        assert self.path.endswith("/chat/completions")
        system = next((m["content"] for m in body["messages"] if m["role"] == "system"), None)
        (user,) = [m for m in body["messages"] if m["role"] == "user"]
        image, text = user["content"]
        url = image["image_url"]["url"]
        assert image["type"] == "image_url" and url.startswith("data:image/png;base64,")
        prompt = text["text"]
        size = _size(url.split(",", 1)[1])
        return Seen(
            self.path,
            {k.lower(): v for k, v in self.headers.items()},
            body,
            prompt,
            system,
            size,
            asked_pairs(prompt),
        )

    def wants_logprobs(self, body):
        return bool(body.get("logprobs"))

    def error(self, status, message):
        return {"error": {"message": message, "type": "error", "param": None, "code": None}}

    def answer(self, seen, fault):
        if fault == "broken_json" and self.wants_logprobs(seen.body):
            return b'{"id": "chatcmpl-1", "choices": [{"ind'
        logprobs = None
        if self.wants_logprobs(seen.body) and self.plan.logprobs == "given" and fault != "empty":
            top = [{"token": t, "logprob": v, "bytes": list(t.encode())} for t, v in self.tokens(seen, fault)]
            logprobs = {
                "content": [{**top[0], "top_logprobs": top[: seen.body["top_logprobs"]]}],
                "refusal": None,
            }
        return {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 1700000000,
            "model": seen.body["model"],
            "choices": [
                {
                    "index": 0,
                    "message": {
                        "role": "assistant",
                        "content": None if fault == "refused" else self.reply_text(seen, fault),
                        "refusal": "I cannot help with that." if fault == "refused" else None,
                    },
                    "logprobs": logprobs,
                    "finish_reason": "stop",
                }
            ],
            "usage": {"prompt_tokens": 900, "completion_tokens": 40, "total_tokens": 940},
        }


class GeminiHandler(_Handler):
    refusal = "Logprobs is not enabled for models/gemini-robotics-er"

    def understand(self, body):
        assert re.fullmatch(r"/v1(beta)?/models/[^/:]+:generateContent", self.path)
        (content,) = body["contents"]
        image, text = content["parts"]
        inline = image["inlineData"]  # the API takes both spellings of a field, and the SDK mixes them
        assert inline.get("mimeType", inline.get("mime_type")) == "image/png"
        system = body.get("systemInstruction", {}).get("parts", [{}])[0].get("text")
        size = _size(inline["data"].replace("-", "+").replace("_", "/"))
        prompt = text["text"]
        return Seen(
            self.path,
            {k.lower(): v for k, v in self.headers.items()},
            body,
            prompt,
            system,
            size,
            asked_pairs(prompt),
        )

    def wants_logprobs(self, body):
        return bool(body["generationConfig"].get("responseLogprobs"))

    def error(self, status, message):
        names = {400: "INVALID_ARGUMENT", 429: "RESOURCE_EXHAUSTED", 500: "INTERNAL"}
        return {"error": {"code": status, "message": message, "status": names[status]}}

    def answer(self, seen, fault):
        if fault == "broken_json" and self.wants_logprobs(seen.body):
            return b'{"candidates": [{"cont'
        candidate = {
            "content": {"role": "model", "parts": [{"text": self.reply_text(seen, fault)}]},
            "finishReason": "STOP",
            "index": 0,
        }
        if fault == "refused":
            candidate = {"finishReason": "SAFETY", "index": 0}
        if self.wants_logprobs(seen.body) and self.plan.logprobs == "given" and fault != "empty":
            top = [
                {"token": t, "tokenId": k, "logProbability": v}
                for k, (t, v) in enumerate(self.tokens(seen, fault))
            ]
            candidate["logprobsResult"] = {
                "topCandidates": [{"candidates": top}],
                "chosenCandidates": [top[0]],
            }
        return {
            "candidates": [candidate],
            "usageMetadata": {
                "promptTokenCount": 900,
                "candidatesTokenCount": 30,
                "thoughtsTokenCount": 10,
                "totalTokenCount": 940,
            },
            "modelVersion": "gemini-robotics-er",
        }


class _Server(ThreadingHTTPServer):
    request_queue_size = 128  # every call comes by a connection of its own, and some two dozen at once


class VlmServer:
    """A server in a thread; `with VlmServer(OpenAIHandler, plan) as server: server.url`."""

    def __init__(self, handler, plan):
        self.plan = plan
        bound = type("Bound", (handler,), {"plan": plan})
        self.http = _Server(("127.0.0.1", 0), bound)
        self.http.daemon_threads = True
        self.path = "/v1" if issubclass(handler, OpenAIHandler) else ""
        self.thread = threading.Thread(
            target=self.http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        )

    @property
    def url(self):
        return f"http://127.0.0.1:{self.http.server_port}{self.path}"

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.http.shutdown()
        self.thread.join()
        self.http.server_close()


KEY = "sk-test-not-a-real-key-0123456789"
HANDLERS = {"openai": OpenAIHandler, "gemini": GeminiHandler}
BOTH = pytest.mark.parametrize("kind", ["openai", "gemini"])
WAYS = pytest.mark.parametrize("way", ["scene", "pairs"])
