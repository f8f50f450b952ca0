"""What the ROS 2 node needs of a middleware, and that over DDS (Cyclone), without rclpy.

ROS 2 names a topic `/a/b` `rt/a/b` on the wire, and a type `pkg/T` `pkg::msg::dds_::T_`. Services travel as
rmw_cyclonedds has them. Whoever has rclpy can write these four methods over it.
"""

import threading
import time
from collections import deque
from collections.abc import Callable
from functools import cache
from types import SimpleNamespace
from typing import Any, Protocol, TypeAlias

from cpor.bridges.ros2_messages import WireError, decode, encode, fields_of
from cpor.perception.network_file import MissingExtraError

Heard: TypeAlias = Callable[[SimpleNamespace | WireError, float], None]
"""Told each message, or what is wrong with what came, and when it was sent, as near as can be told, on this
machine's `time.monotonic`; called in the transport's thread. [s]"""

JUMP_S = 5.0
"""A clock that is off by so much more than before has jumped. [s]"""

POLL_S = 0.004
"""How often is looked for messages. [s]"""


class Transport(Protocol):
    """Subscribe, publish and serve by ROS names; messages are namespaces, see `ros2_messages`."""

    def subscribe(self, topic: str, kind: str, heard: Heard) -> None:
        """Hear a topic with the quality of service of sensors: best effort, the newest few."""
        ...

    def publish(self, topic: str, kind: str) -> Callable[[SimpleNamespace], None]:
        """A function that sends messages on a topic, reliably."""
        ...

    def serve(self, name: str, kind: str, answer: Callable[[SimpleNamespace], SimpleNamespace]) -> None:
        """Answer calls of a service."""
        ...

    def close(self) -> None:
        """End; nothing is heard or sent any more."""
        ...


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


class DdsTransport:
    """The middleware over Cyclone DDS.

    Args:
        domain: `ROS_DOMAIN_ID`.

    Raises:
        MissingExtraError: The extra `ros2` is not installed.
    """

    def __init__(self, domain: int = 0) -> None:
        try:
            from cyclonedds.domain import DomainParticipant
        except ImportError:
            raise MissingExtraError(
                "ROS 2 needs cyclonedds, which is not installed; get it with: pip install 'cpor-grasp[ros2]'"
            ) from None
        self._participant = DomainParticipant(domain)
        self._heard: list[tuple[Any, str, Heard, SentTimes]] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._listen, name="cpor-dds", daemon=True)
        self._thread.start()

    def subscribe(self, topic: str, kind: str, heard: Heard) -> None:
        """Hear a topic."""
        reader = self._reader(f"rt{topic}", type_name(kind), kind, best_effort=True)
        self._heard.append((reader, kind, heard, SentTimes()))

    def publish(self, topic: str, kind: str) -> Callable[[SimpleNamespace], None]:
        """A function that sends messages."""
        return self._writer(f"rt{topic}", type_name(kind), kind)

    def serve(self, name: str, kind: str, answer: Callable[[SimpleNamespace], SimpleNamespace]) -> None:
        """Answer calls, one after the other."""
        asked, told = f"{kind}_Request", f"{kind}_Response"
        reader = self._reader(f"rq{name}Request", type_name(asked, "srv"), asked, best_effort=False)
        send = self._writer(f"rr{name}Reply", type_name(told, "srv"), told)

        def heard(request: SimpleNamespace | WireError, sent_s: float) -> None:
            if isinstance(request, WireError):
                return  # nobody to answer: who asked stands in what cannot be read
            reply = answer(request)
            reply.client, reply.number = request.client, request.number
            send(reply)

        self._heard.append((reader, asked, heard, SentTimes()))

    def close(self) -> None:
        """Stop listening."""
        self._ended.set()
        self._thread.join()
        self._heard.clear()
        del self._participant

    def _listen(self) -> None:
        while not self._ended.is_set():
            came = False
            for reader, kind, heard, times in tuple(self._heard):
                for sample in reader.take(8):
                    raw = getattr(sample, "raw", None)
                    if raw is None:
                        continue  # a publisher that went
                    came = True
                    try:
                        message: SimpleNamespace | WireError = decode(raw, kind)
                    except WireError as error:
                        message = error
                    heard(message, times.estimate(sample.sample_info.source_timestamp, time.monotonic()))
            if not came:
                time.sleep(POLL_S)

    def _reader(self, name: str, typed: str, kind: str, best_effort: bool) -> Any:
        from cyclonedds.sub import DataReader
        from cyclonedds.topic import Topic

        topic = Topic(self._participant, name, wire_type(kind, typed))
        return DataReader(self._participant, topic, qos=_quality(best_effort))

    def _writer(self, name: str, typed: str, kind: str) -> Callable[[SimpleNamespace], None]:
        from cyclonedds.pub import DataWriter
        from cyclonedds.topic import Topic

        sample_type = wire_type(kind, typed)
        topic = Topic(self._participant, name, sample_type)
        writer = DataWriter(self._participant, topic, qos=_quality(best_effort=False))

        def send(message: SimpleNamespace) -> None:
            sample = sample_type.__new__(sample_type)
            sample.raw = encode(message, kind)
            writer.write(sample)

        return send


def type_name(kind: str, folder: str = "msg") -> str:
    """The name of a type on the wire."""
    package, _, name = kind.partition("/")
    return f"{package}::{folder}::dds_::{name}_"


@cache
def wire_type(kind: str, typed: str) -> Any:
    """A type of Cyclone's for a message, whose samples keep their bytes: reading them is ours."""
    from cyclonedds.idl import make_idl_struct

    plain: Any = make_idl_struct(typed.split("::")[-1], typed, {n: _idl(t) for n, t in fields_of(kind)})

    def serialize(self: Any, *_: object, **__: object) -> bytes:
        raw: bytes = self.raw
        return raw

    def deserialize(cls: Any, /, data: bytes, *_: object, **__: object) -> Any:
        sample = cls.__new__(cls)
        sample.raw = bytes(data)
        return sample

    plain.serialize = serialize
    plain.deserialize = classmethod(deserialize)
    return plain


def _idl(field: Any) -> Any:
    from cyclonedds import idl

    types: Any = idl.types

    base, count = field
    names = {"string": str, "bool": bool, "byte": types.byte, "char": types.uint8}
    if base in names:
        one = names[base]
    elif hasattr(types, base):
        one = getattr(types, base)
    else:
        one = idl.make_idl_struct(
            f"{base.partition('/')[2]}_", type_name(base), {n: _idl(t) for n, t in fields_of(base)}
        )
    if count is None:
        return one
    return types.sequence[one] if count == 0 else types.array[one, count]


def _quality(best_effort: bool) -> Any:
    from cyclonedds.core import Policy, Qos
    from cyclonedds.util import duration

    reliability = (
        Policy.Reliability.BestEffort
        if best_effort
        else Policy.Reliability.Reliable(duration(milliseconds=100))
    )
    return Qos(
        reliability,
        Policy.Durability.Volatile,
        Policy.History.KeepLast(5),
        Policy.DataRepresentation(use_cdrv0_representation=True),
    )
