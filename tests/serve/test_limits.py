"""What a request may bring, and what is counted of it: the parts, without workers."""

import asyncio
import json

import pytest
from pydantic import ValidationError
from starlette.testclient import TestClient

from cpor.serve.api.answered import ErrorReply
from cpor.serve.api.asked import DecideRequest
from cpor.serve.http.http_app import Metrics, counted, create_app
from cpor.serve.http.request_limits import BodyLimit, answer_by
from cpor.serve.http.settings import ServeSettings

POST = {"type": "http", "method": "POST", "path": "/v1/decide", "headers": []}
JSON = {"Content-Type": "application/json"}


async def ask(app, *messages):
    """Status and body of the reply to a request that comes in these pieces, and then falls silent."""
    left, sent = list(messages), []

    async def receive():
        if left:
            return left.pop(0)
        return await asyncio.Event().wait()

    async def send(message):
        sent.append(message)

    await app(dict(POST), receive, send)
    return (sent[0]["status"], b"".join(m.get("body", b"") for m in sent)) if sent else None


def piece(size, more):
    return {"type": "http.request", "body": bytes(size), "more_body": more}


async def nothing(scope, receive, send):
    await send({"type": "http.response.start", "status": 204, "headers": []})
    await send({"type": "http.response.body"})


def test_half_a_request_is_not_waited_for():
    app = BodyLimit(nothing, ServeSettings(time_limit_s=0.2))
    status, body = asyncio.run(ask(app, piece(10, True)))
    assert (status, ErrorReply.model_validate_json(body).code) == (504, "timeout")
    assert app.in_flight == 0


def test_the_time_to_arrive_is_taken_from_the_time_to_work():
    async def tell(scope, receive, send):
        left.append(answer_by(5.0) - asyncio.get_running_loop().time())
        await nothing(scope, receive, send)

    async def go():
        app = BodyLimit(tell, ServeSettings(time_limit_s=5.0))
        slow = asyncio.create_task(ask_slowly(app))
        assert (await slow)[0] == 204

    async def ask_slowly(app):
        async def receive():
            await asyncio.sleep(0.2)
            return piece(1, False)

        sent = []

        async def send(message):
            sent.append(message)

        await app(dict(POST), receive, send)
        return [sent[0]["status"]]

    left = []
    asyncio.run(go())
    assert 0.0 < left[0] <= 4.8


def test_all_bodies_together_are_bounded():
    async def wait(scope, receive, send):
        await go_on.wait()
        await nothing(scope, receive, send)

    async def go():
        app = BodyLimit(wait, ServeSettings(most_bytes_in_flight=1_000))
        first = asyncio.create_task(ask(app, piece(900, False)))
        await asyncio.sleep(0)
        status, body = await ask(app, piece(200, False))
        assert (status, ErrorReply.model_validate_json(body).code) == (503, "busy")
        go_on.set()
        assert (await first)[0] == 204
        assert (await ask(app, piece(200, False)))[0] == 204
        assert app.in_flight == 0

    go_on = asyncio.Event()
    asyncio.run(go())


def test_who_goes_away_while_sending_is_no_fault_of_ours():
    metrics = Metrics()
    app = counted(BodyLimit(nothing, ServeSettings()), metrics)
    assert asyncio.run(ask(app, piece(10, True), {"type": "http.disconnect"})) is None
    assert b'status="499"} 1.0' in metrics.text() and b'status="500"' not in metrics.text()


def test_a_fault_is_counted_as_one():
    async def fail(scope, receive, send):
        raise ZeroDivisionError

    metrics = Metrics()
    with pytest.raises(ZeroDivisionError):
        asyncio.run(ask(counted(fail, metrics)))
    assert b'status="500"} 1.0' in metrics.text()


def test_thousands_of_faults_are_not_all_complained_about():
    client = TestClient(create_app(), base_url="http://localhost")
    many_keys = json.dumps({f"k{k}": 0 for k in range(1_000)})
    for path in ("/v1/decide", "/v1/plan", "/v1/runs"):
        reply = client.post(path, content=many_keys, headers=JSON)
        assert reply.status_code == 422 and "more than 32 keys" in reply.json()["message"]
    relation = dict.fromkeys("abcdefghijklmnop", 0)
    for bad in (
        {"objects": [{}] * 200, "relations": []},
        {"objects": ["a"], "relations": [relation] * 4_000},
    ):
        with pytest.raises(ValidationError) as refused:
            DecideRequest.model_validate({"target": "a"} | bad)
        assert refused.value.error_count() < 32
