"""The client follows a run to its end, also where the service drops it on the way."""

import asyncio
import threading
import time
from contextlib import contextmanager

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route

from cpor.serve.api.answered import RunEvent, RunReply
from cpor.serve.client import Client, ServiceError
from cpor.serve.http.settings import RunLimits
from cpor.serve.live.events import EventLog


def said(state):
    reply = RunReply(run_id="x", state=state, cycle=0, target=None, target_name=None, ended=None, detail=None)
    return RunEvent(number=0, run=reply)


@contextmanager
def dropping(states, each=2):
    """Events of a run as they are kept, two a stream: the rest is for those who come back."""

    async def follow(request):
        asked.append(request.headers.get("last-event-id"))
        log = EventLog(RunLimits())
        for state in states:
            log.add(said(state))
        log.close()
        listener = log.subscribe(int(asked[-1] or 0))
        if listener is None:
            return Response(status_code=204)
        await asyncio.sleep(0)
        lines = [b"id: %d\ndata: %s\n\n" % (e.number, e.text) async for e in listener.events(5.0)]
        return Response(b"".join(lines[:each]), media_type="text/event-stream")

    asked = []
    app = Starlette(routes=[Route("/v1/runs/x/events", follow)])
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error", ws="none", lifespan="off"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        while not server.started:
            time.sleep(0.01)
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}", asked
    finally:
        server.should_exit = True
        thread.join(30.0)


def test_who_is_dropped_comes_back_for_the_rest():
    states = ["preparing", "running", "paused", "running", "ended"]
    with dropping(states) as (address, asked), Client(address) as client:
        events = list(client.events("x"))
    assert [(e.number, e.run.state) for e in events] == list(enumerate(states, 1))
    assert asked == [None, "2", "4"]


def test_a_run_of_which_nothing_is_left_to_tell_has_no_events():
    with dropping(["running", "ended"]) as (address, asked), Client(address) as client:
        assert list(client.events("x", after=2)) == []
        assert [e.number for e in client.events("x", after=1)] == [2]
        with pytest.raises(ServiceError, match="404"):
            list(client.events("y"))
    assert asked == ["2", "1"]
