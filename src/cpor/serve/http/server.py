"""Runs an HTTP server: one process that answers, within limits that hold for every server of ours."""

import gc
import logging
import socket
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import uvicorn
from starlette.types import ASGIApp

from cpor.apps.label_queue import LabelQueue
from cpor.errors import InvalidSettingError
from cpor.serve.http.connections import MOST_CONNECTIONS, WatchedProtocol
from cpor.serve.http.http_app import create_app
from cpor.serve.http.settings import ServeSettings

_STREAMS_END_S = 3
"""Longest time that open event streams last once the server ends. [s]"""

_ACCEPTED_AT_ONCE = 16
"""Connections accepted before others are served: fewer than the room that idle peers leave."""

_BACKLOG = 4096
"""Connections that may wait to be accepted; one too many waits a second for its next try."""


def serve(
    settings: ServeSettings,
    tell: Callable[[str], None],
    open_page: bool = False,
    queue: LabelQueue | None = None,
) -> None:
    """Serve the page and the REST service until interrupted; `tell` prints a line for the person."""
    logging.getLogger("python_multipart").setLevel(logging.ERROR)  # damaged bodies are refused, not news

    def ready(address: str) -> None:
        gc.collect()
        gc.freeze()  # a scan of the objects that stay would delay a request now and then
        gc.set_threshold(20_000, 20, 20)  # a request makes thousands of small objects without cycles
        tell(f"CPOR-Grasp is ready at {address}  (Ctrl-C ends it)")
        if settings.token is not None:
            tell(
                "Callers show the token as `Authorization: Bearer TOKEN`; a browser opens "
                f"{address}?token=TOKEN once."
            )
        if open_page:
            webbrowser.open(address)

    with listening(settings) as listener:
        tell("Starting: reading the networks and compiling (about a minute the first time) …")
        run_server(create_app(settings, queue), listener, ready)
    tell("Ended.")


@contextmanager
def listening(settings: ServeSettings) -> Iterator[socket.socket]:
    """A socket that listens where the settings say, until the block ends."""
    listener = listen(settings.host, settings.port)
    try:
        yield listener
    finally:
        listener.close()


def run_server(app: ASGIApp, listener: socket.socket, ready: Callable[[str], None]) -> None:
    """Run an application until interrupted, within the limits of every server of ours.

    The application is behind `cpor.serve.http.request_limits.guarded`. `ready` gets the address as soon as
    requests are answered.
    """
    host, port = listener.getsockname()[:2]
    address = f"http://{f'[{host}]' if ':' in host else host}:{port}/"
    with suppress(KeyboardInterrupt):  # uvicorn ends in order, then passes it on
        LimitedServer(app, lambda: ready(address)).run(sockets=[listener])


class LimitedServer(uvicorn.Server):
    """uvicorn with our limits on connections, heads and streams; calls `ready` once it answers."""

    def __init__(self, app: ASGIApp, ready: Callable[[], None] = lambda: None) -> None:
        config = uvicorn.Config(
            app,
            access_log=False,  # it would write query strings; ours does not
            log_level=logging.ERROR,  # a client that sends nonsense must not fill the log
            server_header=False,
            date_header=False,
            proxy_headers=False,
            http=WatchedProtocol,  # h11, whatever else is installed: it bounds the head of a request
            ws="none",
            timeout_keep_alive=30,
            timeout_graceful_shutdown=_STREAMS_END_S,
            h11_max_incomplete_event_size=64 * 2**10,
            limit_concurrency=MOST_CONNECTIONS,
            backlog=_ACCEPTED_AT_ONCE,
        )
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to listen."""
        await super().startup(sockets)
        for listener in sockets or ():
            listener.listen(_BACKLOG)  # more may wait than are accepted at once
        if self.started:
            self._ready()


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens; port 0 takes a free one.

    Raises:
        InvalidSettingError: It cannot.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except OSError as error:
        raise InvalidSettingError(f"{host} is no address of this machine; choose another --host") from error
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        raise InvalidSettingError(
            f"cannot listen on {host}, port {port}: {error.strerror}; choose another --port or --host"
        ) from error
    return listener
