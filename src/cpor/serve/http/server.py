"""Runs an HTTP server: one process that answers, within limits that hold for every server of ours."""

import asyncio
import gc
import logging
import socket
import webbrowser
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from cpor.apps.label_queue import LabelQueue
from cpor.errors import InvalidSettingError
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


MOST_CONNECTIONS = 512
"""More connections at once are answered 503; idle ones are closed before it comes to that."""

_ROOM = 64
"""Connections that idle peers cannot take."""

_HEAD_LIMIT_S = 30.0
"""Longest time for the head of a request, from the connection or the last reply on. [s]"""

_READ_LIMIT_S = 10.0
"""Longest time in which a peer takes none of the reply that waits for it. [s]"""


class WatchedProtocol(H11Protocol):
    """A connection that is closed when its peer stays idle.

    It answers one request at a time. A peer that sends the next request before it has the reply gets that
    reply, and the connection is closed: our clients never do so, and thousands of requests could wait in one
    connection.
    """

    head_limit_s = _HEAD_LIMIT_S
    read_limit_s = _READ_LIMIT_S
    most_idle = MOST_CONNECTIONS - _ROOM

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._unsent_since: float | None = None
        self._head_timer: asyncio.TimerHandle | None = None
        self._read_timer: asyncio.TimerHandle | None = None

    @property
    def idle_since(self) -> float | None:
        """When the peer became idle, on the loop's clock; None while it is not, or while we close. [s]."""
        if self._read_timer is not None:
            return self._read_timer.when() - self.read_limit_s
        if self.transport is None or self.transport.is_closing():
            return None
        return self._unsent_since

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accept a connection; where there are many, close idle ones."""
        super().connection_made(transport)
        transport.set_write_buffer_limits(0)  # so that `pause_writing` reports whatever is not taken at once
        self._watch()
        self._make_room()

    def data_received(self, data: bytes) -> None:
        """Read some bytes; half a request does not count."""
        self._make_room()
        super().data_received(data)
        if self.cycle is not None and self.conn.their_state is h11.DONE and self.conn.trailing_data[0]:
            self.cycle.keep_alive = False  # the next request came before the reply to this one
        self._watch()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        super().on_response_complete()
        self._watch()

    def pause_writing(self) -> None:
        """Part of a reply is not taken yet."""
        super().pause_writing()
        self._expect_reading()

    def resume_writing(self) -> None:
        """The peer has taken the whole reply."""
        super().resume_writing()
        self._stop_read_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is closed."""
        self._stop_head_timer()
        self._stop_read_timer()
        super().connection_lost(exc)

    def _make_room(self) -> None:
        """Where there are too many, close the longest idle, of the peer with most connections."""
        surplus = len(self.connections) - self.most_idle
        if surplus <= 0:
            return
        watched = [
            each for each in self.connections if isinstance(each, WatchedProtocol) and each is not self
        ]
        of_peer = Counter(each._peer for each in watched)
        idle = [(-of_peer[each._peer], each.idle_since, each) for each in watched]
        found = [(n, since, each) for n, since, each in idle if since is not None]
        for _, _, each in sorted(found, key=lambda one: one[:2])[:surplus]:
            each.transport.abort()
            self.connections.discard(each)  # at once: the loop does it later, after others are counted

    @property
    def _peer(self) -> str | None:
        return self.client[0] if self.client else None

    def _expect_reading(self) -> None:
        """Close the connection unless the peer takes some of the reply in time."""
        left = self.transport.get_write_buffer_size()

        def check() -> None:
            if self.transport.get_write_buffer_size() < left:
                self._expect_reading()
            else:
                self.transport.abort()

        self._read_timer = self.loop.call_later(self.read_limit_s, check)

    def _watch(self) -> None:
        answering = self.cycle is not None and not self.cycle.response_complete
        if answering:
            self._stop_head_timer()
        elif self._head_timer is None and not self.transport.is_closing():
            self._head_timer = self.loop.call_later(self.head_limit_s, self.transport.close)
        # The time for the rest of a body is limited by `BodyLimit`; here it only counts as idle.
        if answering and self.conn.their_state is not h11.SEND_BODY:
            self._unsent_since = None
        elif self._unsent_since is None:
            self._unsent_since = self.loop.time()

    def _stop_head_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _stop_read_timer(self) -> None:
        if self._read_timer is not None:
            self._read_timer.cancel()
            self._read_timer = None
