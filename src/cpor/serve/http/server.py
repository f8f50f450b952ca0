"""Runs the service: one process that answers, its workers beside it."""

import gc
import logging
import socket
import webbrowser
from collections.abc import Callable
from contextlib import suppress

import uvicorn
from fastapi import FastAPI

from cpor.apps.label_queue import LabelQueue
from cpor.errors import CporError
from cpor.serve.http.app import create_app
from cpor.serve.http.connections import MOST_CONNECTIONS, WatchedProtocol
from cpor.serve.http.settings import ServeSettings

_STREAMS_END_S = 3
"""How long open event streams may last once the service is to end. [s]"""


class CannotListenError(CporError):
    """The address is taken, or not this machine's."""


def serve(
    settings: ServeSettings,
    tell: Callable[[str], None],
    open_page: bool = False,
    queue: LabelQueue | None = None,
) -> None:
    """Serve until interrupted.

    Args:
        settings: Of the service.
        tell: Is given lines for the person who started it.
        open_page: Whether to open the page in a browser once it is ready.
        queue: Photographs to label.
    """
    logging.getLogger("python_multipart").setLevel(logging.ERROR)  # damaged bodies are refused, not news
    listener = listen(settings.host, settings.port)
    port = listener.getsockname()[1]
    shown = f"[{settings.host}]" if ":" in settings.host else settings.host
    address = f"http://{shown}:{port}/"
    tell("Starting: reading the networks and compiling (about a minute the first time) …")

    def ready() -> None:
        gc.collect()
        gc.freeze()  # what is there now stays; looking through it again would hold up a request now and then
        gc.set_threshold(20_000, 20, 20)  # a request makes thousands of small things, none of them cyclic
        tell(f"CPOR-Grasp is ready at {address}  (Ctrl-C ends it)")
        if settings.token is not None:
            tell(
                "Callers show the token as `Authorization: Bearer TOKEN`; a browser opens "
                f"{address}?token=TOKEN once."
            )
        if open_page:
            webbrowser.open(address)

    server = _Server(configure(create_app(settings, queue)), ready)
    try:
        with suppress(KeyboardInterrupt):  # uvicorn ends in order, then passes it on
            server.run(sockets=[listener])
    finally:
        listener.close()
    tell("Ended.")


def configure(app: FastAPI) -> uvicorn.Config:
    """How uvicorn runs the application."""
    return uvicorn.Config(
        app,
        access_log=False,  # it would write query strings; ours does not
        log_level=logging.WARNING,
        server_header=False,
        date_header=False,
        proxy_headers=False,
        http=WatchedProtocol,  # h11, whatever else is installed: it bounds the head of a request
        ws="none",
        timeout_keep_alive=30,
        timeout_graceful_shutdown=_STREAMS_END_S,
        h11_max_incomplete_event_size=64 * 2**10,
        limit_concurrency=MOST_CONNECTIONS,
    )


class _Server(uvicorn.Server):
    """Says when it is ready."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to listen."""
        await super().startup(sockets)
        if self.started:
            self._ready()


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens; port 0 is a free one.

    Raises:
        CannotListenError: It cannot.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except OSError as error:
        raise CannotListenError(f"{host} is no address of this machine; choose another --host") from error
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(512)
    except OSError as error:
        listener.close()
        raise CannotListenError(
            f"cannot listen on {host}, port {port}: {error.strerror}; choose another --port or --host"
        ) from error
    return listener
