"""A real server on a free port, in a thread of this process; the workers of the service are processes."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import httpx
from starlette.types import ASGIApp

from cpor.serve.http.http_app import create_app
from cpor.serve.http.server import LimitedServer, listen
from cpor.serve.http.settings import ServeSettings

PATIENCE_S = 120.0
"""Longest wait for an answer: a loaded machine takes its time. [s]"""

get = partial(httpx.get, timeout=PATIENCE_S)
post = partial(httpx.post, timeout=PATIENCE_S)


@contextmanager
def served(settings: ServeSettings | None = None, app: ASGIApp | None = None) -> Iterator[str]:
    """The address of a server that runs until the block ends; `app` in place of the service."""
    settings = settings or ServeSettings(port=0)
    listener = listen(settings.host, 0)
    server = LimitedServer(app or create_app(settings))
    thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive(), "the service did not start"
            time.sleep(0.02)
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(PATIENCE_S)
        listener.close()
        assert not thread.is_alive(), "the service did not end"
