"""The events of a run: numbered, kept within bounds, handed to every listener without waiting for any."""

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncIterator
from typing import NamedTuple

from cpor.serve.api.answered import RunEvent
from cpor.serve.http.refusals import Busy
from cpor.serve.http.settings import RunLimits


class Event(NamedTuple):
    """An event as it is sent."""

    number: int
    text: bytes


class RunListener:
    """One follower of a run; `offer` never waits. Of more than `most` events that wait, it is dropped."""

    def __init__(self, most: int) -> None:
        self._waiting: asyncio.Queue[Event | None] = asyncio.Queue()
        self._most = most
        self.dropped = False

    def offer(self, event: Event | None) -> None:
        """Hand over an event, or None where no more will come."""
        if self.dropped:
            return
        if self._waiting.qsize() >= self._most and event is not None:
            self.dropped = True
            event = None
        self._waiting.put_nowait(event)

    async def events(self, heartbeat_s: float) -> AsyncIterator[Event | None]:
        """Events as they come; None is a sign of life after a silence."""
        while not self.dropped:
            try:
                event = await asyncio.wait_for(self._waiting.get(), heartbeat_s)
            except TimeoutError:
                yield None
                continue
            if event is None:
                return
            yield event


class EventLog:
    """What happened in a run, as far as it is kept."""

    def __init__(self, limits: RunLimits) -> None:
        self._limits = limits
        self._kept: deque[Event] = deque()
        self._bytes = 0
        self._last_frame: Event | None = None
        self._number = 0
        self._listeners: set[RunListener] = set()
        self._closed = False

    @property
    def listeners(self) -> int:
        """How many follow now."""
        return len(self._listeners)

    def add(self, event: RunEvent) -> None:
        """Number an event, keep it and hand it to all; of frames of the film only the last one is kept."""
        self._number += 1
        numbered = event.model_copy(update={"number": self._number})
        sent = Event(self._number, numbered.model_dump_json(exclude_unset=True).encode())
        if event.film is not None:
            self._last_frame = sent
        else:
            self._keep(sent)
        for listener in self._listeners:
            listener.offer(sent)
        self._listeners = {each for each in self._listeners if not each.dropped}

    def close(self) -> None:
        """No more will come."""
        self._closed = True
        for listener in self._listeners:
            listener.offer(None)

    def subscribe(self, after: int) -> RunListener | None:
        """A listener that first gets what is kept and newer than `after`; None where nothing will come.

        Raises:
            Busy: Too many follow already.
        """
        kept = [*self._kept, *(() if self._last_frame is None else (self._last_frame,))]
        missed = sorted(event for event in kept if event.number > after)
        if self._closed and not missed:
            return None
        if len(self._listeners) >= self._limits.most_listeners:
            raise Busy(f"{len(self._listeners)} follow this run already; try again later")
        listener = RunListener(len(missed) + self._limits.most_waiting_events)
        for event in missed:
            listener.offer(event)
        if self._closed:
            listener.offer(None)
        self._listeners.add(listener)
        return listener

    def leave(self, listener: RunListener) -> None:
        """Forget a listener."""
        self._listeners.discard(listener)

    def _keep(self, event: Event) -> None:
        self._kept.append(event)
        self._bytes += len(event.text)
        while len(self._kept) > self._limits.most_events or (
            self._bytes > self._limits.most_event_bytes and len(self._kept) > 1
        ):
            self._bytes -= len(self._kept.popleft().text)


class Pictures:
    """The last `most` pictures by name."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: OrderedDict[str, bytes] = OrderedDict()

    def add(self, name: str, picture: bytes) -> None:
        """Keep a picture; the oldest goes where there are too many."""
        self._kept[name] = picture
        while len(self._kept) > self._most:
            self._kept.popitem(last=False)

    def get(self, name: str) -> bytes | None:
        """The picture, if it is kept."""
        return self._kept.get(name)
