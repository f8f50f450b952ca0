"""A real server with the routes of live runs, and somebody who follows them."""

import json
import threading
import time
from contextlib import asynccontextmanager, contextmanager

import httpx
import uvicorn
from fastapi import FastAPI

from cpor.errors import CporError
from cpor.serve.http.refusals import as_refusal
from cpor.serve.http.security import refuse
from cpor.serve.http.settings import RunLimits
from cpor.serve.live.routes import add_run_routes

PATIENCE_S = 600.0
"""Longest wait for anything: on a busy machine a run may take minutes to begin."""


@contextmanager
def live_service(**limits):
    """The base address of a service that has live runs only."""

    @asynccontextmanager
    async def lifespan(app):
        yield
        await keeper.close()

    app = FastAPI(lifespan=lifespan)

    async def ours(request, error):
        return refuse(as_refusal(error))

    app.add_exception_handler(CporError, ours)
    keeper = add_run_routes(app, RunLimits(**limits))
    config = uvicorn.Config(app, port=0, log_level="warning", ws="none", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            time.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE_S) as client:
            yield client
    finally:
        server.should_exit = True
        thread.join()


class Follower:
    """Follows the events of a run in a thread of its own."""

    def __init__(self, client, run_id, after=None):
        self.events = []
        self.comments = []
        self.ids = []
        self._news = threading.Condition()
        self._closed = False
        self._client, self._run_id, self._after = client, run_id, after
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    def _follow(self):
        headers = {} if self._after is None else {"Last-Event-ID": str(self._after)}
        path = f"/v1/runs/{self._run_id}/events"
        with self._client.stream("GET", path, headers=headers, timeout=PATIENCE_S) as reply:
            assert reply.status_code == 200, reply.status_code
            assert reply.headers["content-type"].startswith("text/event-stream")
            for line in reply.iter_lines():
                self._hear(line)
                if self._stop.is_set():
                    break
        with self._news:
            self._closed = True
            self._news.notify_all()

    def _hear(self, line):
        with self._news:
            if line.startswith("id: "):
                self.ids.append(int(line[4:]))
            elif line.startswith("data: "):
                self.events.append(json.loads(line[6:]))
            elif line.startswith(":"):
                self.comments.append(line)
            self._news.notify_all()

    def wait_for(self, wanted, seconds=PATIENCE_S):
        """The first event, already heard or to come, of which `wanted` is true."""
        until = time.monotonic() + seconds
        looked = 0
        with self._news:
            while True:
                for event in self.events[looked:]:
                    looked += 1
                    if wanted(event):
                        return event
                assert not self._closed, self.told
                assert self._news.wait(until - time.monotonic()), self.told

    def wait_for_state(self, state, cycle=None):
        return self.wait_for(
            lambda e: "run" in e and e["run"]["state"] == state and cycle in (None, e["run"]["cycle"])
        )["run"]

    def wait_for_cycle(self, index, moment):
        found = self.wait_for(
            lambda e: "cycle" in e and (e["cycle"]["index"], e["cycle"]["moment"]) == (index, moment)
        )
        return found["cycle"]

    def join(self):
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive()
        return self

    def leave(self):
        self._stop.set()

    @property
    def told(self):
        """Everything but the film."""
        return [event for event in self.events if "film" not in event]
