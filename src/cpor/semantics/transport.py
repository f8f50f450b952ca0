"""The one way to a provider over HTTP: no redirects, a bounded reply, and a time limit that ends the call.

Left to themselves, the SDKs take the key or the picture along to wherever a server redirects them, read a
reply of any length, and limit each wait for bytes but not the whole call.
"""

import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import suppress
from contextvars import ContextVar
from typing import Any, TypeVar

import httpx2

from cpor.semantics.config import address_of, scrub
from cpor.semantics.provider import FailureKind, ProviderFailure

MOST_REPLY_BYTES = 4 * 2**20
"""Most bytes of a reply. The longest honest one, 8192 tokens with log-probabilities, has about 1 MiB."""

T = TypeVar("T")


def bounded_client() -> httpx2.Client:
    """The HTTP client for an SDK; its requests are made in `within`."""
    return httpx2.Client(
        follow_redirects=False,
        # Each call has a connection of its own, so that cutting it ends this call and no other.
        limits=httpx2.Limits(max_connections=None, max_keepalive_connections=0),
        event_hooks={"request": [_prepare], "response": [_check]},
    )


def within(limit_s: float, key: str | None, ask: Callable[[], T]) -> T:
    """What a call gives or raises. When its time is up, its connection is cut, which ends its thread.

    Args:
        limit_s: Time for connecting, sending, reading and parsing together. [s]
        key: Is kept out of messages.
        ask: The call, and the parsing of its reply.

    Raises:
        ProviderFailure: It took too long, the server was not reached, or the reply was refused here.
    """
    call = _Call()
    found: Future[T] = Future()

    def run() -> None:
        _CALL.set(call)  # a thread has a context of its own
        try:
            found.set_result(ask())
        except BaseException as problem:  # handed on to the waiting caller
            found.set_exception(call.refusal or call.failure_in(problem, limit_s, key) or problem)
        finally:
            call.forget()

    threading.Thread(target=run, name="cpor-call", daemon=True).start()
    try:
        return found.result(limit_s)
    except TimeoutError:
        raise call.timeout(limit_s) from None
    finally:
        call.cut()


class _Call:
    """A call under way: its connections, and why its reply was refused."""

    def __init__(self) -> None:
        self.refusal: ProviderFailure | None = None
        self._connected = False
        self._is_cut = False
        self._sockets: list[socket.socket] = []
        self._lock = threading.Lock()

    def note_connection(self, event: str, info: Mapping[str, Any]) -> None:
        """Keep a handle on each new connection; httpcore reports its steps here."""
        if not event.endswith("connect_tcp.complete"):
            return
        handle = info["return_value"].get_extra_info("socket").dup()  # stays valid when TLS wraps the other
        with self._lock:
            self._connected = True
            self._sockets.append(handle)
            if self._is_cut:
                _shut(handle)

    def cut(self) -> None:
        """Cut the connections, now and those to come."""
        with self._lock:
            self._is_cut = True
            for handle in self._sockets:
                _shut(handle)

    def forget(self) -> None:
        """Give up the handles."""
        with self._lock:
            for handle in self._sockets:
                handle.close()
            self._sockets.clear()

    def refuse(self, kind: FailureKind, why: str) -> ProviderFailure:
        """Refuse a reply; kept, since an SDK may wrap or replace what is raised."""
        self.refusal = ProviderFailure(kind, why, None, kind == "unreadable")
        return self.refusal

    def timeout(self, limit_s: float) -> ProviderFailure:
        """What to say when the time is up; a call that was never sent costs nothing."""
        return ProviderFailure("timeout", f"no reply in {limit_s:g} s", None, self._connected)

    def failure_in(self, problem: BaseException, limit_s: float, key: str | None) -> ProviderFailure | None:
        """What a problem of the network means, also where an SDK wraps it; None where it is another."""
        cause = problem if isinstance(problem, _OF_THE_NETWORK) else problem.__cause__
        if isinstance(cause, httpx2.TimeoutException | TimeoutError):
            return self.timeout(limit_s)
        if isinstance(cause, _OF_THE_NETWORK):
            return ProviderFailure("connection", scrub(cause, key), None, self._connected)
        return None


_CALL: ContextVar[_Call] = ContextVar("call")

_OF_THE_NETWORK = (httpx2.RequestError, OSError)


def _shut(handle: socket.socket) -> None:
    with suppress(OSError):  # the other side was faster
        handle.shutdown(socket.SHUT_RDWR)


def _prepare(request: httpx2.Request) -> None:
    request.extensions["trace"] = _CALL.get().note_connection
    request.headers["Accept-Encoding"] = "identity"  # a compressed reply has no bound before it is unpacked


def _check(response: httpx2.Response) -> None:
    """Look at the head of a reply before its body is read."""
    call = _CALL.get()
    if 300 <= response.status_code < 400:
        place = address_of(response.headers.get("location", ""))
        to = f" to {scrub(place[0], None, 80)}" if place else ""
        why = f"{response.status_code}, a redirect{to}, is not followed; set base_url to the right address"
        raise call.refuse("refused_request", why)
    if response.headers.get("content-encoding", "identity").lower() != "identity":
        raise call.refuse("unreadable", "a compressed reply, which was not asked for")
    assert isinstance(response.stream, httpx2.SyncByteStream)
    response.stream = _Bounded(response.stream, call)


class _Bounded(httpx2.SyncByteStream):
    """The body of a reply, up to `MOST_REPLY_BYTES`."""

    def __init__(self, stream: httpx2.SyncByteStream, call: _Call) -> None:
        self._stream, self._call = stream, call

    def __iter__(self) -> Iterator[bytes]:
        left = MOST_REPLY_BYTES
        for chunk in self._stream:
            left -= len(chunk)
            if left < 0:
                raise self._call.refuse("unreadable", f"the reply has more than {MOST_REPLY_BYTES:,} bytes")
            yield chunk

    def close(self) -> None:
        """Close the connection."""
        self._stream.close()
