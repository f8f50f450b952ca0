"""The other end of the wire: plain cyclonedds, which writes and reads the bytes of all messages itself."""

import itertools
import os
import time
from functools import cache

import numpy as np
from cyclonedds.core import Policy, Qos
from cyclonedds.domain import DomainParticipant
from cyclonedds.idl import make_idl_struct, types
from cyclonedds.pub import DataWriter
from cyclonedds.sub import DataReader
from cyclonedds.topic import Topic
from cyclonedds.util import duration

from cpor.bridges.ros2_messages import type_store

XCDR1 = Policy.DataRepresentation(use_cdrv0_representation=True)
SENSOR = Qos(Policy.Reliability.BestEffort, Policy.History.KeepLast(5), XCDR1)
RELIABLE = Qos(Policy.Reliability.Reliable(duration(seconds=1)), Policy.History.KeepLast(10), XCDR1)
LATCHED = Qos(
    Policy.Reliability.Reliable(duration(seconds=1)),
    Policy.Durability.TransientLocal,
    Policy.History.KeepLast(1),
    XCDR1,
)


def is_half(full):
    """Whether it is a half of a service: rmw_cyclonedds sends who asked, and the number, before it."""
    return full.endswith(("_Request", "_Response"))


@cache
def plain(full):
    """A plain type of cyclonedds for a full name such as `sensor_msgs/msg/Image`."""

    def typed(node):
        kind, inner = node
        if kind.name == "NAME":
            return plain(inner)
        if kind.name == "BASE":
            names = {"string": str, "bool": bool} | dict.fromkeys(("octet", "byte", "char"), types.uint8)
            return names.get(inner[0]) or getattr(types, inner[0])
        one = typed(inner[0])
        if kind.name == "ARRAY":
            return types.array[one, inner[1]]
        return types.sequence[one, inner[1]] if inner[1] else types.sequence[one]

    package, folder, name = full.split("/")
    fields = {field: typed(node) for field, node in type_store().fielddefs[full][1]}
    if is_half(full):
        fields = {"client": types.uint64, "number": types.int64, **fields}
    return make_idl_struct(f"{name}_", f"{package}::{folder}::dds_::{name}_", fields)


def empty(full):
    """A message of a full name with nothing in it."""

    def nothing(node):
        kind, inner = node
        if kind.name == "NAME":
            return empty(inner)
        if kind.name == "BASE":
            return "" if inner[0] == "string" else False if inner[0] == "bool" else 0
        if kind.name == "SEQUENCE":
            return []
        return [nothing(inner[0]) for _ in range(inner[1])]

    header = {"client": 0, "number": 0} if is_half(full) else {}
    return plain(full)(**header, **{name: nothing(node) for name, node in type_store().fielddefs[full][1]})


class Peer:
    """A participant of its own, which speaks, hears and calls by ROS names."""

    def __init__(self, domain):
        self.here = DomainParticipant(domain)

    def speak(self, topic, full, qos=SENSOR):
        """A writer."""
        return DataWriter(self.here, Topic(self.here, f"rt{topic}", plain(full)), qos=qos)

    def hear(self, topic, full, qos=RELIABLE):
        """A reader."""
        return DataReader(self.here, Topic(self.here, f"rt{topic}", plain(full)), qos=qos)

    def client(self, name, full):
        """A client of a service."""
        return Client(self.here, name, full)


class Camera(Peer):
    """Publishes frames, and hears decisions."""

    def __init__(self, domain, color, depth):
        super().__init__(domain)
        self.color = self.speak(color, "sensor_msgs/msg/Image")
        self.depth = self.speak(depth, "sensor_msgs/msg/Image")

    def send(self, rgb, steps, garble=""):
        """A frame; `garble` is "short", "encoding" or "size". Its stamp. [ns]."""
        stamp_ns = time.time_ns()
        shown, deep = empty("sensor_msgs/msg/Image"), empty("sensor_msgs/msg/Image")
        height, width = rgb.shape[:2]
        for image, encoding, pixel, data in ((shown, "rgb8", 3, rgb), (deep, "16UC1", 2, steps)):
            image.header.stamp.sec, image.header.stamp.nanosec = divmod(stamp_ns, 10**9)
            image.height, image.width, image.encoding = height, width, encoding
            image.step, image.data = pixel * width, np.ascontiguousarray(data).tobytes()
        if garble == "short":
            shown.data = shown.data[: len(shown.data) // 3]
        elif garble == "encoding":
            shown.encoding = "nonsense"
        elif garble == "size":
            shown.width = 7 * width
        self.depth.write(deep)
        self.color.write(shown)
        return stamp_ns


class Client:
    """Calls a service as rmw_cyclonedds does."""

    def __init__(self, here, name, full):
        asked, told = plain(f"{full}_Request"), plain(f"{full}_Response")
        self.asked = f"{full}_Request"
        self._writer = DataWriter(here, Topic(here, f"rq{name}Request", asked), qos=RELIABLE)
        self._reader = DataReader(here, Topic(here, f"rr{name}Reply", told), qos=RELIABLE)
        self._guid = int.from_bytes(os.urandom(8), "little")
        self._numbers = itertools.count(1)

    def ask(self, timeout_s=60.0, **values):
        """Send a request; its number."""
        until = time.monotonic() + timeout_s
        while not (self._writer.get_matched_subscriptions() and self._reader.get_matched_publications()):
            assert time.monotonic() < until, "the service was not found"
            time.sleep(0.005)
        request = empty(self.asked)
        request.client, request.number = self._guid, next(self._numbers)
        for name, value in values.items():
            setattr(request, name, value)
        self._writer.write(request)
        return request.number

    def reply(self, number, timeout_s=60.0):
        """The reply to a request; None where none came in time."""
        until = time.monotonic() + timeout_s
        while time.monotonic() < until:
            for each in self._reader.take(10):
                if (getattr(each, "client", 0), getattr(each, "number", 0)) == (self._guid, number):
                    return each
            time.sleep(0.005)
        return None

    def call(self, **values):
        """Ask, and wait for the reply."""
        reply = self.reply(self.ask(**values))
        assert reply is not None, "no reply came"
        return reply


class Server:
    """Answers a service as rmw_cyclonedds does; `answer` fills in the response."""

    def __init__(self, peer, name, full, answer):
        asked, self._told = plain(f"{full}_Request"), f"{full}_Response"
        here, self._answer = peer.here, answer
        self._reader = DataReader(here, Topic(here, f"rq{name}Request", asked), qos=RELIABLE)
        self._writer = DataWriter(here, Topic(here, f"rr{name}Reply", plain(self._told)), qos=RELIABLE)

    def serve(self, shift=0):
        """Answer what came; `shift` makes them answers to another client. How many."""
        requests = [each for each in self._reader.take(5) if hasattr(each, "client")]
        for request in requests:
            response = empty(self._told)
            response.client, response.number = request.client + shift, request.number
            self._answer(request, response)
            self._writer.write(response)
        return len(requests)


class ActionClient:
    """Sends goals as rcl_action does."""

    def __init__(self, peer, name, full):
        path = f"{name}/_action"
        self._full = full
        self._goals = peer.client(f"{path}/send_goal", f"{full}_SendGoal")
        self._cancel = peer.client(f"{path}/cancel_goal", "action_msgs/srv/CancelGoal")
        self._results = peer.client(f"{path}/get_result", f"{full}_GetResult")
        self._feedback = peer.hear(f"{path}/feedback", f"{full}_FeedbackMessage")
        self._status = peer.hear(f"{path}/status", "action_msgs/msg/GoalStatusArray", LATCHED)
        self._came, self._told = [], []

    def send(self, **values):
        """A goal: its id, and whether it was accepted."""
        goal = empty(f"{self._full}_Goal")
        for name, value in values.items():
            setattr(goal, name, value)
        id_ = empty("unique_identifier_msgs/msg/UUID")
        id_.uuid = list(os.urandom(16))
        return id_, self._goals.call(goal_id=id_, goal=goal).accepted

    def result(self, id_):
        """Wait for the end: status and result."""
        reply = self._results.call(goal_id=id_)
        return reply.status, reply.result

    def cancel(self, id_=None):
        """Cancel a goal, or all: the return code, and how many are cancelled."""
        info = empty("action_msgs/msg/GoalInfo")
        if id_ is not None:
            info.goal_id = id_
        reply = self._cancel.call(goal_info=info)
        return reply.return_code, len(reply.goals_canceling)

    def feedback(self, id_):
        """What came about a goal so far."""
        self._came += [each for each in self._feedback.take(100) if hasattr(each, "feedback")]
        return [each.feedback for each in self._came if list(each.goal_id.uuid) == list(id_.uuid)]

    def statuses(self):
        """Of all goals, as told last."""
        self._told += [each for each in self._status.take(100) if hasattr(each, "status_list")]
        return [each.status for each in self._told[-1].status_list] if self._told else []


def parameter(name, **value):
    """A parameter to set: `string_value="x"` and the like."""
    made = empty("rcl_interfaces/msg/Parameter")
    made.name = name
    ((field, content),) = value.items()
    kinds = {
        "bool_value": 1,
        "integer_value": 2,
        "double_value": 3,
        "string_value": 4,
        "double_array_value": 8,
    }
    made.value.type = kinds[field]
    setattr(made.value, field, content)
    return made
