"""Somebody else on the wire: plain cyclonedds types, written by hand from the official definitions."""

import time
from dataclasses import dataclass

import numpy as np
from cyclonedds.core import Policy, Qos
from cyclonedds.domain import DomainParticipant
from cyclonedds.idl import IdlStruct
from cyclonedds.idl.types import float64, int32, int64, sequence, uint8, uint16, uint32, uint64
from cyclonedds.pub import DataWriter
from cyclonedds.sub import DataReader
from cyclonedds.topic import Topic
from cyclonedds.util import duration

XCDR1 = Policy.DataRepresentation(use_cdrv0_representation=True)
SENSOR = Qos(Policy.Reliability.BestEffort, Policy.History.KeepLast(5), XCDR1)
RELIABLE = Qos(Policy.Reliability.Reliable(duration(seconds=1)), Policy.History.KeepLast(10), XCDR1)


@dataclass
class Time(IdlStruct, typename="builtin_interfaces::msg::dds_::Time_"):
    sec: int32
    nanosec: uint32


@dataclass
class Header(IdlStruct, typename="std_msgs::msg::dds_::Header_"):
    stamp: Time
    frame_id: str


@dataclass
class Image(IdlStruct, typename="sensor_msgs::msg::dds_::Image_"):
    header: Header
    height: uint32
    width: uint32
    encoding: str
    is_bigendian: uint8
    step: uint32
    data: sequence[uint8]


@dataclass
class Decision(IdlStruct, typename="cpor_msgs::msg::dds_::Decision_"):
    header: Header
    state: str
    action: str
    target: uint16
    object: uint16
    score: float64
    tau: float64
    promised: bool
    alpha: float64
    confidence: float64
    reason: str
    blocked: sequence[uint16]
    blocker: sequence[uint16]
    p: sequence[float64]
    json: str


@dataclass
class Request(IdlStruct, typename="cpor_msgs::srv::dds_::Decide_Request_"):
    client: uint64
    number: int64
    request: str
    target: int32
    x: float64
    y: float64
    mode: str


@dataclass
class Reply(IdlStruct, typename="cpor_msgs::srv::dds_::Decide_Response_"):
    client: uint64
    number: int64
    decision: Decision


class Peer:
    """Publishes camera frames, hears decisions, calls the service."""

    def __init__(self, domain: int, color: str, depth: str) -> None:
        self._participant = here = DomainParticipant(domain)
        self._color = DataWriter(here, Topic(here, f"rt{color}", Image), qos=SENSOR)
        self._depth = DataWriter(here, Topic(here, f"rt{depth}", Image), qos=SENSOR)
        self._decisions = DataReader(here, Topic(here, "rt/cpor/decision", Decision), qos=RELIABLE)
        self._ask = DataWriter(here, Topic(here, "rq/cpor/decideRequest", Request), qos=RELIABLE)
        self._replies = DataReader(here, Topic(here, "rr/cpor/decideReply", Reply), qos=RELIABLE)

    def send(self, rgb: np.ndarray, steps: np.ndarray, number: int, garble: str = "") -> int:
        """A frame; `garble` is "short", "encoding" or "size". Its stamp. [ns]."""
        stamp_ns = time.time_ns()
        header = Header(Time(stamp_ns // 10**9, stamp_ns % 10**9), "optical")
        height, width = rgb.shape[:2]
        data = rgb.tobytes()
        shown = Image(header, height, width, "rgb8", 0, 3 * width, data)
        if garble == "short":
            shown.data = data[: len(data) // 3]
        elif garble == "encoding":
            shown.encoding = "nonsense"
        elif garble == "size":
            shown.width = 7 * width
        self._depth.write(Image(header, height, width, "16UC1", 0, 2 * width, steps.tobytes()))
        self._color.write(shown)
        return stamp_ns

    def decisions(self) -> list[Decision]:
        """What came since the last call."""
        return [each for each in self._decisions.take(50) if isinstance(each, Decision)]

    def call(self, target: int, timeout_s: float) -> Reply:
        """Call the service."""
        until = time.monotonic() + timeout_s
        while not self._ask.get_matched_subscriptions() or not self._replies.get_matched_publications():
            assert time.monotonic() < until, "the service was not found"
            time.sleep(0.02)
        self._ask.write(Request(11, 1, "", target, -1.0, 0.0, ""))
        while time.monotonic() < until:
            for each in self._replies.take(5):
                if isinstance(each, Reply) and each.client == 11:
                    return each
            time.sleep(0.02)
        raise AssertionError("no reply came")

    def close(self) -> None:
        """Leave the wire."""
        for name in ("_color", "_depth", "_decisions", "_ask", "_replies", "_participant"):
            delattr(self, name)
