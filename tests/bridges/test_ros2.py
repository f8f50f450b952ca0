"""The ROS 2 node without a wire: the official types and bytes, and never a stale answer."""

import hashlib
import json
import queue
import re
import shlex
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
import typer
from rosbags.typesys import Stores, get_typestore
from support.bags import K
from support.box_table import Box, BoxTable, TableMasks

from cpor.bridges import ros2_node
from cpor.bridges.ros2_actions import CANCELED, REJECTED
from cpor.bridges.ros2_messages import WireError, decode, encode, full_name, new, type_store
from cpor.bridges.ros2_moveit import planning_boxes
from cpor.bridges.ros2_node import MOST_GOALS, STALE, DecideNode
from cpor.bridges.ros2_parameters import NodeSettings
from cpor.bridges.ros2_transport import SentTimes
from cpor.cli.app import app
from cpor.errors import CporError, InvalidSettingError
from cpor.system import System

COLOR, DEPTH, INFO = "/camera/color/image_raw", "/camera/depth/image_raw", "/camera/color/camera_info"
FREE = {1: Box((40, 56), (54, 66), 0.04, (200, 30, 30)), 2: Box((5, 18), (100, 120), 0.04, (200, 200, 30))}


# As installed by ROS 2 (share/PACKAGE/msg/TYPE.json, type_hashes): Jazzy and Kilted.
INSTALLED = {
    "builtin_interfaces/Time": "b106235e25a4c5ed35098aa0a61a3ee9c9b18d197f398b0e4206cea9acf9c197",
    "std_msgs/Header": "f49fb3ae2cf070f793645ff749683ac6b06203e41c891e17701b1cb597ce6a01",
    "sensor_msgs/Image": "d31d41a9a4c4bc8eae9be757b0beed306564f7526c88ea6a4588fb9582527d47",
    "sensor_msgs/CompressedImage": "15640771531571185e2efc8a100baf923961a4d15d5569652e6cb6691e8e371a",
    "sensor_msgs/CameraInfo": "b3dfd68ff46c9d56c80fd3bd4ed22c7a4ddce8c8348f2f59c299e73118e7e275",
    "sensor_msgs/RegionOfInterest": "ad16bcba5f9131dcdba6fbded19f726f5440e3c513b4fb586dd3027eeed8abb1",
    "rcl_interfaces/ParameterDescriptor": "52175dbfda6c51153101d33d2a9da05743f66f02d5ab2ca9ec4709b46b73d704",
}


USED = (
    *("builtin_interfaces/Duration", "std_msgs/String", "std_msgs/Empty", "sensor_msgs/JointState"),
    *("tf2_msgs/TFMessage", "trajectory_msgs/JointTrajectory", "diagnostic_msgs/DiagnosticArray"),
    *("action_msgs/GoalStatusArray", "geometry_msgs/PoseWithCovariance", "rcl_interfaces/Parameter"),
    *("trajectory_msgs/MultiDOFJointTrajectory", "rcl_interfaces/ListParametersResult"),
    "rcl_interfaces/SetParametersResult",
)
"""Messages of others beside the installed ones; the hash of each covers what it is made of."""

ADDED = "21c1aad17093ae1134034b141ae0452f41447dc100887274eac5155df5c7593b"
"""SHA-256 of names and hashes of all types that rosbags has not; two implementations agree."""


def test_types_and_hashes_are_the_official_ones(evidence):
    """Those that ROS 2 installs; those of Humble equal those of Jazzy."""
    store, humble = type_store(), get_typestore(Stores.ROS2_HUMBLE)
    for kind, installed in INSTALLED.items():
        assert store.hash_rihs01(full_name(kind)) == f"RIHS01_{installed}"
    for kind in (*INSTALLED, *USED):
        assert store.hash_rihs01(full_name(kind)) == humble.hash_rihs01(full_name(kind)), kind
    jazzy = get_typestore(Stores.ROS2_JAZZY)
    added = sorted(
        f"{full} {store.hash_rihs01(full)}" for full in set(store.fielddefs) - set(jazzy.fielddefs)
    )
    assert len(added) == 71
    assert hashlib.sha256("\n".join(added).encode()).hexdigest() == ADDED
    evidence(
        "serves", "ROS 2 type hashes equal to those that ROS 2 installs", "all", f"{len(INSTALLED)} of 7"
    )


def message(kind, seed=3):
    rng = np.random.default_rng(seed)
    header = new("std_msgs/Header", frame_id="optical")
    header.stamp.sec, header.stamp.nanosec = 5, 7
    if kind == "sensor_msgs/Image":
        data = rng.integers(0, 256, 30).astype(np.uint8).tobytes()
        return new(kind, header=header, height=2, width=5, encoding="rgb8", step=15, data=data)
    info = new(kind, header=header, height=2, width=5, distortion_model="plumb_bob", d=[0.1, 0.2])
    info.k = [float(each) for each in rng.normal(size=9)]
    return info


@pytest.mark.parametrize("kind", ["sensor_msgs/Image", "sensor_msgs/CameraInfo"])
def test_bytes_are_those_of_another_implementation(kind):
    types = get_typestore(Stores.ROS2_HUMBLE)
    full = kind.replace("/", "/msg/")
    ours = encode(message(kind), kind)
    theirs = types.deserialize_cdr(ours, full)
    assert theirs.header.frame_id == "optical" and theirs.header.stamp.nanosec == 7
    written = bytes(types.serialize_cdr(theirs, full))
    assert written == ours
    assert encode(decode(written, kind), kind) == ours


def test_garbage_is_one_error(rng, evidence):
    whole = encode(message("sensor_msgs/Image"), "sensor_msgs/Image")
    refused = 0
    for k in range(2000):
        data = bytearray(whole)
        if k % 2:
            data = data[: int(rng.integers(0, len(data)))]
        for _ in range(int(rng.integers(0, 6))):
            if data:
                data[int(rng.integers(0, len(data)))] = int(rng.integers(0, 256))
        try:
            decode(bytes(data), "sensor_msgs/Image")
        except WireError:
            refused += 1
    assert refused > 900
    evidence(
        "serves", "garbled ROS 2 messages", "one error", f"2,000 tried, {refused} refused, 0 other errors"
    )
    with pytest.raises(WireError, match="no field"):
        new("sensor_msgs/Image", hight=3)


@dataclass
class InMemory:
    """A transport without a wire."""

    heard: dict = field(default_factory=dict)
    garbled: dict = field(default_factory=dict)
    topics: set = field(default_factory=set)
    said: dict = field(default_factory=dict)
    services: dict = field(default_factory=dict)
    nobody_hears: bool = False

    def subscribe(self, topic, kind, heard, garbled):
        self.heard[topic], self.garbled[topic] = heard, garbled
        return lambda: self.heard.pop(topic)

    def publish(self, topic, kind, latched=False):
        def say(message):
            self.said.setdefault(topic, []).append(decode(encode(message, kind), kind))

        self.topics.add(topic)
        say.wanted = lambda: not self.nobody_hears
        return say

    def serve(self, name, kind, answers):
        def call(request):
            came = queue.Queue()
            answers(decode(encode(request, f"{kind}_Request"), f"{kind}_Request"), came.put)
            response = came.get(timeout=60.0)
            return decode(encode(response, f"{kind}_Response"), f"{kind}_Response")

        self.services[name] = call

    def close(self):
        pass


def noisy(seen, number):
    """Depth in millimetres; a camera that repeats it to the last pixel is taken to hang."""
    noise = np.random.default_rng(number).integers(0, 2, seen.shape)
    return (np.rint(seen.depth * 1000) + noise).astype(np.uint16)


def frame(table, number):
    """Messages of a picture of a table: colour, depth, camera info."""
    seen = table.observe()
    header = new("std_msgs/Header", frame_id="optical")
    header.stamp.sec, header.stamp.nanosec = 100 + number // 15, number % 15 * 66_000_000
    height, width = seen.shape
    color = new(
        "sensor_msgs/Image", header=header, height=height, width=width, encoding="rgb8", step=3 * width
    )
    color.data = seen.rgb.tobytes()
    steps = noisy(seen, number)
    depth = new(
        "sensor_msgs/Image", header=header, height=height, width=width, encoding="16UC1", step=2 * width
    )
    depth.data = steps.tobytes()
    info = new("sensor_msgs/CameraInfo", header=header, height=height, width=width)
    info.k = [K.fx, 0.0, K.cx, 0.0, K.fy, K.cy, 0.0, 0.0, 1.0]
    return color, depth, info


def wait_for(condition, seconds=60.0):
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "it never came"
        time.sleep(0.005)


def call(**values):
    return new("cpor_msgs/srv/Decide_Request", **({"x": -1.0} | values))


class Fed:
    """A node without a wire, and frames for it."""

    def __init__(self, make_masks=TableMasks, **settings):
        self.wire, self.table, self.number = InMemory(), BoxTable(dict(FREE)), 0
        self.masks = make_masks(self.table)
        self.said = self.wire.said
        for topic in ("decision", "labels", "detections", "annotated/compressed"):
            self.said[f"/cpor/{topic}"] = []
        self.decisions = self.said["/cpor/decision"]
        settings = NodeSettings(COLOR, DEPTH, INFO, **settings)
        self.node = DecideNode(self.wire, settings, System(self.masks, "none"))

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.node.close()

    def hear(self, color, depth, ago_s=0.0):
        self.wire.heard[DEPTH](depth, time.monotonic())
        self.wire.heard[COLOR](color, time.monotonic() - ago_s)

    def feed(self):
        """A new frame; the header of its photograph."""
        color, depth, info = frame(self.table, self.number)
        self.number += 1
        self.wire.heard[INFO](info, time.monotonic())
        self.hear(color, depth)
        return color.header

    def feed_until(self, condition, seconds=60.0):
        """New frames, one after each answer; a machine that is too slow for a frame gets another."""
        until, header = time.monotonic() + seconds, None
        while not condition():
            assert time.monotonic() < until, "it never came"
            before = len(self.decisions)
            header = self.feed()
            wait_for(lambda before=before: len(self.decisions) > before or condition())
        return header

    def call(self, **values):
        return self.wire.services["/cpor/decide"](call(**values)).decision

    def set_parameter(self, name, text):
        value = new("rcl_interfaces/ParameterValue", type=4, string_value=text)
        wanted = new("rcl_interfaces/Parameter", name=name, value=value)
        request = new("rcl_interfaces/srv/SetParameters_Request", parameters=[wanted])
        assert self.wire.services["/cpor/set_parameters"](request).results[0].successful


def test_a_lost_publisher_is_no_answer_and_never_a_stale_one():
    with Fed(target=1, max_age_s=1.0) as fed:
        decisions = fed.decisions
        assert fed.call(target=1).state == "no_answer"
        header = fed.feed_until(lambda: decisions and decisions[-1].state != "no_answer")
        last = decisions[-1]
        assert (last.state, last.action, last.object) == ("not_obstructed", "grasp", 1)
        assert last.header.stamp.nanosec == header.stamp.nanosec and 0.5 < last.score <= 1.0
        wait_for(lambda: fed.said["/cpor/annotated/compressed"])
        assert fed.said["/cpor/annotated/compressed"][-1].data[:2].tobytes() == b"\xff\xd8"
        assert {each.id for each in fed.said["/cpor/detections"][-1].detections} == {"1", "2"}
        labels = fed.said["/cpor/labels"][-1]
        shown = np.frombuffer(labels.data, "<u2").reshape(labels.height, labels.width)
        assert set(np.unique(shown)) == {0, 1, 2}
        fed.feed_until(lambda: fed.call(target=2).object == 2)
        assert fed.call(target=2, request="x").state == "no_answer"
        time.sleep(1.1)
        before = len(decisions)
        fed.hear(*frame(fed.table, 90)[:2], ago_s=0.9999)  # it waited somewhere
        wait_for(lambda: any("too old to act on" in each.reason for each in decisions[before:]))
        assert {each.state for each in decisions[before:]} == {"no_answer"}
        garbled = fed.node.counts.garbled
        fed.wire.garbled[COLOR]("garbage")
        short, depth, _ = frame(fed.table, 3)
        short.data = short.data[:100]
        before = len(decisions)
        fed.hear(short, depth)
        wait_for(lambda: any("cut short" in each.reason for each in decisions[before:]))
        before = len(decisions)
        wait_for(lambda: any("no whole frame" in each.reason for each in decisions[before:]))
        assert {each.state for each in decisions[before:]} == {"no_answer"}
        assert fed.call(target=1).state == "no_answer"
        wait_for(lambda: fed.said["/diagnostics"][-1].status[0].level == STALE)
        assert fed.node.counts.garbled == garbled + 2
    with pytest.raises(InvalidSettingError, match="begin with /"):
        NodeSettings("color")


class Gated(TableMasks):
    """A segmenter that waits for leave."""

    def __init__(self, table):
        super().__init__(table)
        self.entered, self.leave = threading.Semaphore(0), threading.Semaphore(0)

    def segment(self, observation):
        self.entered.release()
        assert self.leave.acquire(timeout=60.0)
        return super().segment(observation)


def test_the_newest_frame_is_decided_on_and_the_decision_comes_first():
    with Fed(make_masks=Gated, target=1, max_age_s=60.0) as fed:
        gate = fed.masks
        fed.wire.nobody_hears = True
        fed.feed()
        assert gate.entered.acquire(timeout=60.0)
        headers = [fed.feed() for _ in range(3)]  # while it looks at the first
        gate.leave.release(2)
        wait_for(lambda: len(fed.decisions) == 2)
        assert fed.decisions[1].header.stamp.nanosec == headers[-1].stamp.nanosec
        assert fed.node.counts.passed == 2
        assert not fed.said["/cpor/labels"] and not fed.said["/cpor/annotated/compressed"]
        # Another camera is wanted while it looks: the picture of the old one is not answered about.
        assert gate.entered.acquire(timeout=60.0)
        fed.feed()
        assert gate.entered.acquire(timeout=60.0)
        fed.set_parameter("color", "/other/image_raw")
        assert COLOR not in fed.wire.heard and "/other/image_raw" in fed.wire.heard
        gate.leave.release()
        assert fed.call(target=1).state == "no_answer" and len(fed.decisions) == 2


def test_goals_are_refused_beyond_the_limit_and_cancelled_all_at_once():
    with Fed() as fed:
        send = fed.wire.services["/cpor/decide/_action/send_goal"]
        cancel = fed.wire.services["/cpor/decide/_action/cancel_goal"]
        give = fed.wire.services["/cpor/decide/_action/get_result"]

        def request(kind, id_, **values):
            return new(kind, goal_id=new("unique_identifier_msgs/UUID", uuid=bytes([id_] * 16)), **values)

        accepted = [
            send(request("cpor_msgs/action/Decide_SendGoal_Request", k)).accepted
            for k in (*range(1, 2 + MOST_GOALS), 1)
        ]
        assert accepted == [True] * MOST_GOALS + [False, False]
        told = cancel(new("action_msgs/srv/CancelGoal_Request"))
        assert told.return_code == 0 and len(told.goals_canceling) == MOST_GOALS
        for k in range(1, 1 + MOST_GOALS):
            result = give(request("cpor_msgs/action/Decide_GetResult_Request", k))
            assert (result.status, result.result.decision.state) == (CANCELED, "no_answer")
        assert cancel(new("action_msgs/srv/CancelGoal_Request")).return_code == REJECTED
        fed.node._actions[0].close()
        late = send(request("cpor_msgs/action/Decide_SendGoal_Request", 99))
        assert not late.accepted  # it is about to end


def test_what_waited_on_the_way_is_older():
    times = SentTimes()
    apart = 1_000.0  # the sender's clock is ahead of ours
    for k, delay in enumerate((0.005, 0.002, 0.9, 0.003)):
        sent = 50.0 + k
        estimate = times.estimate(round((sent + apart) * 1e9), sent + delay)
        assert sent - 1e-6 <= estimate <= sent + 0.0051
    assert times.estimate(0, 90.0) == 90.0  # no stamp
    assert times.estimate(1, 91.0) == 91.0  # a clock that began anew


def test_the_package_for_a_workspace():
    """What cannot be run here is at least well-formed, and names what the node has."""
    root = Path(ros2_node.__file__).parent / "cpor_msgs"
    built = (root / "CMakeLists.txt").read_text()
    for path in (*root.glob("msg/*"), *root.glob("srv/*"), *root.glob("action/*")):
        assert f'"{path.relative_to(root).as_posix()}"' in built
    assert ElementTree.parse(root / "package.xml").findtext("name") == "cpor_msgs"
    launch = ElementTree.parse(root / "launch" / "cpor.launch.xml").getroot()
    words = shlex.split(launch.find("executable").get("cmd"))
    known = {option for each in typer.main.get_command(app).commands["ros2"].params for option in each.opts}
    assert words[:2] == ["cpor", "ros2"] and {word for word in words if word.startswith("--")} <= known
    layout = json.loads((root / "foxglove.json").read_text())
    wire = InMemory()
    DecideNode(wire, NodeSettings(COLOR), System("depth", "none")).close()
    shown = set(re.findall(r"/(?:cpor|diagnostics)[a-z/]*", json.dumps(layout["configById"])))
    assert shown <= {*wire.topics, *wire.services}, shown
    tree = ElementTree.parse(root / "fetch.xml")
    names = {each.get("action_name") for each in tree.iter() if each.get("action_name")}
    assert names == {"/cpor/decide", "/cpor/retrieve"}
    assert f"{min(names)}/_action/send_goal" in wire.services


def test_boxes_for_a_planner():
    table = BoxTable(dict(FREE))
    seen = table.observe()
    _, depth, info = frame(table, 1)
    labels = new("sensor_msgs/Image", height=seen.shape[0], width=seen.shape[1], encoding="mono16")
    ids = np.zeros(seen.shape, "<u2")
    for obj, box in FREE.items():
        ids[box.mask()] = obj
    labels.step, labels.data = 2 * seen.shape[1], ids.tobytes()
    (first,) = planning_boxes(labels, depth, info, leave_out=[2], behind_m=0.02)
    x = (60 - K.cx) / K.fx * 0.76
    assert first.id == 1 and abs(first.center[0] - x) < 0.01 and abs(first.center[2] - 0.77) < 0.003
    assert abs(first.size[0] - 12 / K.fx * 0.76) < 0.006 and abs(first.size[2] - 0.02) < 0.003
    assert [box.id for box in planning_boxes(labels, depth, info)] == [1, 2]
    info.height = 7
    with pytest.raises(CporError, match="of one frame"):
        planning_boxes(labels, depth, info)
