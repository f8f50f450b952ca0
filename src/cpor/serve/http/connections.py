"""Connections that send no request: closed after a while, and sooner where somebody else needs the room.

Without it a few hundred silent connections, which need no token, shut everybody out: uvicorn counts them, and
waits for the head of a request for ever.
"""

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

MOST_CONNECTIONS = 512
"""More at once are answered 503; silent ones are closed before it comes to that."""

_ROOM = 64
"""Connections that are kept free of silent ones."""

_HEAD_LIMIT_S = 30.0
"""For the whole head of a request, from the connection or the last reply on. [s]"""


class WatchedProtocol(H11Protocol):
    """A connection that must not wait without a request for ever."""

    head_limit_s = _HEAD_LIMIT_S
    most_silent = MOST_CONNECTIONS - _ROOM

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._timer: asyncio.TimerHandle | None = None

    @property
    def silent_until(self) -> float | None:
        """When it is closed unless a request comes; None where it has one, or is being closed.

        On the loop's clock. [s]
        """
        closing = self.transport is None or self.transport.is_closing()
        return None if closing or self._timer is None else self._timer.when()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Somebody connects: where there are many, whoever has been silent longest makes room."""
        super().connection_made(transport)
        self._watch()
        if len(self.connections) > self.most_silent:
            silent = [each for each in self.connections if isinstance(each, WatchedProtocol)]
            waiting = [(each.silent_until, each) for each in silent if each.silent_until is not None]
            if waiting:
                min(waiting, key=lambda pair: pair[0])[1].transport.close()

    def data_received(self, data: bytes) -> None:
        """Some bytes; half a head does not count."""
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        """A reply is sent; from now on the next request is waited for."""
        super().on_response_complete()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """It is closed."""
        self._stop_timer()
        super().connection_lost(exc)

    def _watch(self) -> None:
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop_timer()
        elif self._timer is None and not self.transport.is_closing():
            self._timer = self.loop.call_later(self.head_limit_s, self.transport.close)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
