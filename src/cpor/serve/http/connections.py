"""Connections whose peer keeps us waiting: closed after a while, and sooner where somebody needs the room.

A peer keeps us waiting when it sends no request, or does not read its reply. Without a limit a few hundred
such connections, which need no token, shut everybody out: uvicorn counts them, and waits for ever.
"""

import asyncio
from collections import Counter
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

MOST_CONNECTIONS = 512
"""More at once are answered 503; those that keep us waiting are closed before it comes to that."""

_ROOM = 64
"""Connections that are kept free of those that keep us waiting."""

_HEAD_LIMIT_S = 30.0
"""For the whole head of a request, from the connection or the last reply on. [s]"""

_READ_LIMIT_S = 10.0
"""In which a peer has to take some of the reply that waits for it. [s]"""


class WatchedProtocol(H11Protocol):
    """A connection that must not keep us waiting for ever.

    It answers one request at a time. A peer that sends the next one before it has the reply gets that reply,
    and the connection is closed: no client of ours does so, and thousands of requests could wait in one
    connection.
    """

    head_limit_s = _HEAD_LIMIT_S
    read_limit_s = _READ_LIMIT_S
    most_waiting = MOST_CONNECTIONS - _ROOM

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._head_timer: asyncio.TimerHandle | None = None
        self._read_timer: asyncio.TimerHandle | None = None

    @property
    def waits_since(self) -> float | None:
        """Since when the peer keeps us waiting; None where it does not, or the connection is being closed.

        On the loop's clock. [s]
        """
        if self._read_timer is not None:
            return self._read_timer.when() - self.read_limit_s
        if self._head_timer is None or self.transport is None or self.transport.is_closing():
            return None
        return self._head_timer.when() - self.head_limit_s

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Somebody connects: where there are many, those that keep us waiting make room."""
        super().connection_made(transport)
        transport.set_write_buffer_limits(0)  # so that we are told of whatever is not taken at once
        self._watch()
        self._make_room()

    def data_received(self, data: bytes) -> None:
        """Some bytes; half a head does not count."""
        self._make_room()
        super().data_received(data)
        if self.cycle is not None and self.conn.their_state is h11.DONE and self.conn.trailing_data[0]:
            self.cycle.keep_alive = False  # the next request came before the reply to this one
        self._watch()

    def on_response_complete(self) -> None:
        """A reply is sent; from now on the next request is waited for."""
        super().on_response_complete()
        self._watch()

    def pause_writing(self) -> None:
        """A reply waits to be taken."""
        super().pause_writing()
        self._expect_reading()

    def resume_writing(self) -> None:
        """All of it is taken."""
        super().resume_writing()
        self._stop_read_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        """It is closed."""
        self._stop_head_timer()
        self._stop_read_timer()
        super().connection_lost(exc)

    def _make_room(self) -> None:
        """Where there are too many, close those that wait longest, of the peer that has most connections."""
        surplus = len(self.connections) - self.most_waiting
        if surplus <= 0:
            return
        watched = [
            each for each in self.connections if isinstance(each, WatchedProtocol) and each is not self
        ]
        of_peer = Counter(each._peer for each in watched)
        waiting = [(-of_peer[each._peer], each.waits_since, each) for each in watched]
        found = [(n, since, each) for n, since, each in waiting if since is not None]
        for _, _, each in sorted(found, key=lambda one: one[:2])[:surplus]:
            each.transport.abort()
            self.connections.discard(
                each
            )  # at once: the loop gets to it later, and others are counted before

    @property
    def _peer(self) -> str | None:
        return self.client[0] if self.client else None

    def _expect_reading(self) -> None:
        """Close the connection unless some of what waits is taken in time."""
        left = self.transport.get_write_buffer_size()

        def check() -> None:
            if self.transport.get_write_buffer_size() < left:
                self._expect_reading()
            else:
                self.transport.abort()

        self._read_timer = self.loop.call_later(self.read_limit_s, check)

    def _watch(self) -> None:
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop_head_timer()
        elif self._head_timer is None and not self.transport.is_closing():
            self._head_timer = self.loop.call_later(self.head_limit_s, self.transport.close)

    def _stop_head_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _stop_read_timer(self) -> None:
        if self._read_timer is not None:
            self._read_timer.cancel()
            self._read_timer = None
