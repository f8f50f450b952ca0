"""Clients that take connections and give nothing: silent, slow, half-sent, unfinished and non-reading."""

import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import NamedTuple

BIG = b'{"x": "' + b"a" * 300_000  # never ends


class Surface(NamedTuple):
    """One HTTP server and what an honest client asks it."""

    port: int
    page: str
    post: str
    stream: str


def _head(method: str, path: str, more: str = "") -> bytes:
    return f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n{more}\r\n".encode()


def _unfinished(surface: Surface, length: int) -> bytes:
    more = f"Content-Type: application/json\r\nContent-Length: {length}\r\n"
    return _head("POST", surface.post, more)


KINDS: dict[str, Callable[[Surface], bytes]] = {
    "silent": lambda surface: b"",
    "half a head": lambda surface: _head("GET", surface.page)[:-9],
    "half a body": lambda surface: _unfinished(surface, 100_000) + b'{"x"',
    "a long unfinished body": lambda surface: _unfinished(surface, 1_000_000) + BIG,
    "a body without end": lambda surface: (
        _head("POST", surface.post, "Transfer-Encoding: chunked\r\n") + b"5\r\n12345\r\n"
    ),
    "not reading": lambda surface: _head("GET", surface.page) * 100,
    "an event stream": lambda surface: _head("GET", surface.stream, "Accept: text/event-stream\r\n"),
    "nonsense": lambda surface: bytes(range(256)) * 20,
}
"""What each kind of client sends at once; then it only drips a byte now and then, and reads nothing."""


@contextmanager
def hostile(surface: Surface, kinds: list[str], n: int) -> Iterator[Iterator[int]]:
    """`n` connections of these kinds, held until the block ends; yields how many are open, one by one."""
    held: list[socket.socket] = []

    def connect() -> Iterator[int]:
        for k in range(n):
            it = stack.enter_context(socket.socket())
            it.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            it.settimeout(30.0)
            with suppress(OSError):
                it.connect(("127.0.0.1", surface.port))
                it.setblocking(False)
                it.send(KINDS[kinds[k % len(kinds)]](surface))
            held.append(it)
            if k % 7 == 0:
                with suppress(OSError):
                    held[k // 2].send(b"1")  # slow, not silent
            yield k + 1

    with ExitStack() as stack:
        yield connect()
