"""Limits on idle connections: each is closed after a while, and sooner when others need the room.

A connection is idle while its peer sends no request, half a request, or does not read the reply. Without a
limit a few hundred such connections, which need no token, block all other clients: uvicorn counts them, and
waits for ever.
"""

import asyncio
from collections import Counter
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

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
