"""What the ROS 2 node needs of a middleware, and that over DDS (Cyclone), without rclpy.

ROS 2 names a topic `/a/b` `rt/a/b` on the wire, and the halves of a service `rq/a/bRequest` and
`rr/a/bReply`. Services travel as rmw_cyclonedds has them: the client and the number of the request stand
before each half. `cpor.bridges.ros2_rclpy` is the same over rclpy.
"""

import itertools
import logging
import os
import struct
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, TypeAlias

from cpor.bridges.ros2_messages import (
    RosMessage,
    WireError,
    decode,
    encode,
    fields_of,
    full_name,
    new,
    type_store,
)
from cpor.errors import needing

Heard: TypeAlias = Callable[[RosMessage, float], None]
"""Takes each message, and when it was sent, as near as can be known, on `time.monotonic` of here. Called
in the transport's thread; it must not block. [s]"""

CameRaw: TypeAlias = Callable[[bytes, int], None]
"""Takes the bytes of each message, and the sender's stamp; 0: none. [ns]"""

OnReply: TypeAlias = Callable[[RosMessage], None]
"""Takes the response to a call, once, in any thread; it must not block."""

OnAnswers: TypeAlias = Callable[[RosMessage, OnReply], None]
"""Told a request and how to answer it, now or later. Called in the transport's thread; it must not block."""

JUMP_S = 5.0
"""A clock that is off by so much more than before has jumped. [s]"""

WAKE_S = 0.1
"""How often the listening thread looks whether it is to end. [s]"""

MATCH_S = 1.0
"""A caller whose end for replies is not found by then gets none. [s]"""

_HEADER = 16
"""Bytes before each half of a service: the client, and the number of the request."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Publisher:
    """Sends messages on a topic, reliably; `wanted` says whether anything hears it."""

    kind: str
    send: Callable[[bytes], None]
    wanted: Callable[[], bool]

    def __call__(self, message: RosMessage) -> None:
        """Send one."""
        self.send(encode(message, self.kind))


@dataclass(frozen=True)
class ServiceClient:
    """Calls a service.

    Attributes:
        send: Takes a request, and what takes its response; that never comes from a server that is gone.
        ready: Says whether a server was found.
    """

    send: Callable[[RosMessage, OnReply], None]
    ready: Callable[[], bool]


class Transport(ABC):
    """Subscribe, publish, serve and call by ROS names."""

    def subscribe(
        self,
        topic: str,
        kind: str,
        heard: Heard,
        latched: bool = False,
        garbled: Callable[[str], None] = lambda why: None,
    ) -> Callable[[], None]:
        """Hear a topic, best effort, the newest few; `latched`: reliably, and kept messages too.

        What cannot be read goes to `garbled`, as a sentence. Returns a function that ends it.
        """
        decode(encode(new(kind), kind), kind)  # compile its reader now: it would hold up the first messages
        times = SentTimes()

        def came(raw: bytes, source_ns: int) -> None:
            sent_s = times.estimate(source_ns, time.monotonic())
            try:
                message = decode(raw, kind)
            except WireError as error:
                garbled(f"{topic}: {error}")
            else:
                heard(message, sent_s)

        return self._hear_raw(topic, kind, came, latched)

    @abstractmethod
    def _hear_raw(self, topic: str, kind: str, came: CameRaw, latched: bool) -> Callable[[], None]: ...

    @abstractmethod
    def publish(self, topic: str, kind: str, latched: bool = False) -> Publisher:
        """Speak on a topic; `latched`: later subscribers get the last message too."""

    @abstractmethod
    def serve(self, name: str, kind: str, answers: OnAnswers) -> None:
        """Answer calls of a service, such as of the kind `cpor_msgs/srv/Decide`."""

    @abstractmethod
    def client(self, name: str, kind: str) -> ServiceClient:
        """Call a service of a kind."""

    @abstractmethod
    def close(self) -> None:
        """End; nothing is heard or sent any more."""


def serve_now(
    transport: Transport, name: str, kind: str, answer: Callable[[RosMessage], dict[str, Any]]
) -> None:
    """Answer calls of a service at once, with these fields of the response."""
    transport.serve(name, kind, lambda asked, reply: reply(new(f"{kind}_Response", **answer(asked))))


class SentTimes:
    """When messages were sent, on our clock, although the sender's is another.

    The quickest message on record tells how far the clocks are apart; what took longer waited somewhere.
    Where the clocks are suddenly apart by more than `JUMP_S`, as after a restart, it begins anew.
    """

    def __init__(self) -> None:
        self._apart: deque[float] = deque(maxlen=150)

    def estimate(self, source_ns: int, now_s: float) -> float:
        """When a message was sent that the sender stamped so and that is heard now; 0 is no stamp. [s]."""
        if source_ns == 0:
            return now_s
        apart = now_s - source_ns * 1e-9
        if self._apart and abs(apart - self._apart[-1]) > JUMP_S:
            self._apart.clear()
        self._apart.append(apart)
        return now_s - (apart - min(self._apart))


class DdsTransport(Transport):
    """The middleware over Cyclone DDS; `domain` is `ROS_DOMAIN_ID`."""

    def __init__(self, domain: int = 0) -> None:
        with needing("ros2", "ROS 2 needs cyclonedds"):
            from cyclonedds.core import WaitSet
            from cyclonedds.domain import DomainParticipant
        self._participant = DomainParticipant(domain)
        self._wakes = WaitSet(self._participant)
        self._heard: dict[Any, Callable[[Any], None]] = {}
        # Conditions that the listening thread, which may be in them, is to let go of.
        self._unheard: deque[Any] = deque()
        self._writers: list[Any] = []  # kept alive: one that is dropped leaves the wire
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._listen, name="cpor-dds", daemon=True)
        self._thread.start()

    def _hear_raw(self, topic: str, kind: str, came: CameRaw, latched: bool) -> Callable[[], None]:
        reader = self._reader(f"rt{topic}", kind, best_effort=not latched, latched=latched)
        condition = self._hear(reader, lambda sample: came(sample.raw, sample.sample_info.source_timestamp))

        def end() -> None:
            del self._heard[reader]
            self._unheard.append(condition)

        return end

    def publish(self, topic: str, kind: str, latched: bool = False) -> Publisher:
        """Speak on a topic."""
        writer = self._writer(f"rt{topic}", kind, latched)
        return Publisher(
            kind, partial(_write, writer, kind), lambda: bool(writer.get_matched_subscriptions())
        )

    def serve(self, name: str, kind: str, answers: OnAnswers) -> None:
        """Answer calls."""
        asked, told = f"{kind}_Request", f"{kind}_Response"
        reader = self._reader(f"rq{name}Request", asked, best_effort=False)
        writer = self._writer(f"rr{name}Reply", told)

        def came(sample: Any) -> None:
            found = _split(sample.raw, asked, name)
            if found is None:
                return
            header, request = found
            caller = reader.get_matched_publication_data(sample.sample_info.publication_handle)

            def reply(response: RosMessage) -> None:
                if caller is not None:
                    _wait_for_reader(writer, caller.participant_key)
                _write(writer, told, encode(response, told), header)

            answers(request, reply)

        self._hear(reader, came)

    def client(self, name: str, kind: str) -> ServiceClient:
        """Call a service."""
        asked, told = f"{kind}_Request", f"{kind}_Response"
        writer = self._writer(f"rq{name}Request", asked)
        reader = self._reader(f"rr{name}Reply", told, best_effort=False)
        id_, numbers = int.from_bytes(os.urandom(8), "little"), itertools.count(1)
        waiting: dict[int, OnReply] = {}

        def came(sample: Any) -> None:
            found = _split(sample.raw, told, name)
            if found is None or found[0][0] != id_:
                return  # a reply to another client
            reply = waiting.pop(found[0][1], None)
            if reply is not None:
                reply(found[1])

        def send(request: RosMessage, reply: OnReply) -> None:
            number = next(numbers)
            waiting[number] = reply
            _write(writer, asked, encode(request, asked), (id_, number))

        def ready() -> bool:
            return bool(writer.get_matched_subscriptions() and reader.get_matched_publications())

        self._hear(reader, came)
        return ServiceClient(send, ready)

    def close(self) -> None:
        """Stop listening."""
        self._ended.set()
        self._thread.join()
        self._let_go()
        self._heard.clear()
        self._writers.clear()
        del self._wakes, self._participant

    def _listen(self) -> None:
        from cyclonedds.util import duration

        while not self._ended.is_set():
            self._wakes.wait(duration(seconds=WAKE_S))
            self._let_go()
            for reader, came in tuple(self._heard.items()):
                for sample in reader.take(8):
                    if hasattr(sample, "raw") and reader in self._heard:  # else a publisher that went
                        came(sample)

    def _let_go(self) -> None:
        while self._unheard:
            self._wakes.detach(self._unheard.popleft())

    def _hear(self, reader: Any, came: Callable[[Any], None]) -> Any:
        from cyclonedds.core import InstanceState, ReadCondition, SampleState, ViewState

        self._heard[reader] = came
        condition = ReadCondition(reader, SampleState.Any | ViewState.Any | InstanceState.Any)
        self._wakes.attach(condition)
        return condition

    def _reader(self, name: str, kind: str, best_effort: bool, latched: bool = False) -> Any:
        from cyclonedds.sub import DataReader
        from cyclonedds.topic import Topic

        topic = Topic(self._participant, name, wire_type(kind))
        return DataReader(self._participant, topic, qos=_quality(kind, best_effort, latched))

    def _writer(self, name: str, kind: str, latched: bool = False) -> Any:
        from cyclonedds.pub import DataWriter
        from cyclonedds.topic import Topic

        topic = Topic(self._participant, name, wire_type(kind))
        self._writers.append(DataWriter(self._participant, topic, qos=_quality(kind, latched=latched)))
        return self._writers[-1]


def _write(writer: Any, kind: str, raw: bytes, header: tuple[int, int] | None = None) -> None:
    """Send bytes, those of a service with its header; what is not taken in time is lost, and logged."""
    from cyclonedds.core import DDSException

    made = wire_type(kind)
    sample = made.__new__(made)
    sample.raw = raw if header is None else raw[:4] + struct.pack("<Qq", *header) + raw[4:]
    try:
        writer.write(sample)
    except DDSException as error:
        _log.warning("a message %s was not sent: %s", kind, error)


def _split(raw: Any, kind: str, name: str) -> tuple[tuple[int, int], RosMessage] | None:
    """The header of a half of a service, and the half; None for bytes that are none."""
    if len(raw) < 4 + _HEADER:
        return None  # the client is not known: it stands in the missing part
    client, number = struct.unpack_from("<Qq" if raw[1] else ">Qq", raw, 4)
    try:
        return (client, number), decode(raw[:4] + raw[4 + _HEADER :], kind)
    except WireError as error:
        _log.warning("a call of %s cannot be read: %s", name, error)
        return None


def _wait_for_reader(writer: Any, participant: Any) -> None:
    """Wait until the caller's end for replies is found: a reply that is sent before is lost."""
    until = time.monotonic() + MATCH_S
    while time.monotonic() < until:
        for handle in writer.get_matched_subscriptions():
            found = writer.get_matched_subscription_data(handle)
            if found is not None and found.participant_key == participant:
                return
        time.sleep(0.005)


@cache
def wire_type(kind: str) -> Any:
    """The Cyclone type of a kind; its samples keep their bytes, which we read."""
    plain = _struct(kind)

    def serialize(self: Any, *_: object, **__: object) -> bytes:
        raw: bytes = self.raw
        return raw

    def deserialize(cls: Any, /, data: bytes, *_: object, **__: object) -> Any:
        sample = cls.__new__(cls)
        sample.raw = data
        return sample

    plain.serialize = serialize
    plain.deserialize = classmethod(deserialize)
    return plain


def _struct(kind: str) -> Any:
    """As rmw_cyclonedds describes its types to others: a byte is an uint8 there.

    Cyclone checks what is sent against the type, so the header of a service is a part of it here.
    """
    from cyclonedds import idl

    types: Any = idl.types
    names = {"string": str, "bool": bool, "byte": types.uint8, "char": types.uint8}

    def typed(node: Any) -> Any:
        tag, inner = node
        if tag.name == "NAME":
            return _struct(inner)
        if tag.name == "BASE":
            return names.get(inner[0]) or getattr(types, inner[0])
        one, count = typed(inner[0]), inner[1]
        if tag.name == "ARRAY":
            return types.array[one, count]
        return types.sequence[(one, count) if count else one]

    fields = {name: typed(node) for name, node in fields_of(kind)}
    if kind.endswith(("_Request", "_Response")):
        fields = {"client": types.uint64, "number": types.int64, **fields}
    package, folder, name = full_name(kind).split("/")
    return idl.make_idl_struct(f"{name}_", f"{package}::{folder}::dds_::{name}_", fields)


def _quality(kind: str, best_effort: bool = False, latched: bool = False) -> Any:
    from cyclonedds.core import Policy, Qos
    from cyclonedds.util import duration

    reliable = Policy.Reliability.Reliable(duration(milliseconds=100))
    return Qos(
        Policy.Reliability.BestEffort if best_effort else reliable,
        Policy.Durability.TransientLocal if latched else Policy.Durability.Volatile,
        Policy.History.KeepLast(1 if latched else 5 if best_effort else 10),
        Policy.DataRepresentation(use_cdrv0_representation=True),
        Policy.Userdata(f"typehash={type_store().hash_rihs01(full_name(kind))};".encode()),
    )
