"""The ROS 2 node: the official definitions and bytes, a wire with others' types, and never a stale answer."""

import time
from dataclasses import dataclass, field

import numpy as np
import pytest
from rosbags.typesys import Stores, get_typestore
from support.bags import K
from support.box_table import Box, BoxTable, TableMasks

from cpor.bridges.ros2_messages import DEFINITIONS, WireError, decode, encode, fields_of, new
from cpor.bridges.ros2_node import STALE, DecideNode, NodeSettings
from cpor.bridges.ros2_transport import DdsTransport, SentTimes, type_name
from cpor.errors import InvalidSettingError
from cpor.system import System

COLOR, DEPTH, INFO = "/camera/color/image_raw", "/camera/depth/image_raw", "/camera/color/camera_info"
FREE = {1: Box((40, 56), (54, 66), 0.04, (200, 30, 30)), 2: Box((5, 18), (100, 120), 0.04, (200, 200, 30))}


@pytest.mark.parametrize("store", [Stores.ROS2_HUMBLE, Stores.ROS2_JAZZY])
def test_definitions_are_the_official_ones(store):
    types = get_typestore(store)
    compared = 0
    for kind in DEFINITIONS:
        if kind.startswith("vision_msgs/"):
            continue  # not among the common interfaces that come with rosbags
        text = types.generate_msgdef(kind.replace("/", "/msg/"), ros_version=2)[0].split("====")[0]
        official = [line.split()[:2] for line in text.splitlines() if line.strip() and "=" not in line]
        ours = []
        for name, (base, count) in fields_of(kind):
            size = "" if count is None else f"[{count or ''}]"
            ours.append([f"{base}{size}", name])
        plain = [[base.replace("/msg/", "/").replace("octet", "byte"), name] for base, name in official]
        assert plain == ours, kind
        compared += 1
    assert compared == 13


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
    assert type_name("sensor_msgs/Image") == "sensor_msgs::msg::dds_::Image_"


@dataclass
class InMemory:
    """A transport without a wire."""

    heard: dict = field(default_factory=dict)
    said: dict = field(default_factory=dict)
    services: dict = field(default_factory=dict)

    def subscribe(self, topic, kind, heard):
        self.heard[topic] = heard

    def publish(self, topic, kind):
        def say(message):
            self.said.setdefault(topic, []).append(decode(encode(message, kind), kind))

        return say

    def serve(self, name, kind, answer):
        self.services[name] = answer

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


def wait_for(condition, seconds=20.0):
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "it never came"
        time.sleep(0.005)


def call(**values):
    return new("cpor_msgs/Decide_Request", **({"x": -1.0} | values))


def test_a_lost_publisher_is_no_answer_and_never_a_stale_one():
    wire, table = InMemory(), BoxTable(dict(FREE))
    settings = NodeSettings(COLOR, DEPTH, INFO, target=1, max_age_s=1.0)
    node = DecideNode(wire, settings, System(TableMasks(table), "none"))
    decisions = wire.said.setdefault("/cpor/decision", [])
    try:
        assert wire.services["/cpor/decide"](call(target=1)).decision.state == "no_answer"
        for k in range(3):
            color, depth, info = frame(table, k)
            wire.heard[INFO](info, time.monotonic())
            wire.heard[DEPTH](depth, time.monotonic())
            before = len(decisions)
            wire.heard[COLOR](color, time.monotonic())
            wait_for(lambda before=before: len(decisions) > before)
        last = decisions[-1]
        assert (last.state, last.action, last.object) == ("not_obstructed", "grasp", 1)
        assert last.header.stamp.nanosec == color.header.stamp.nanosec and 0.5 < last.score <= 1.0
        assert {each.id for each in wire.said["/cpor/detections"][-1].detections} == {"1", "2"}
        labels = wire.said["/cpor/labels"][-1]
        shown = np.frombuffer(labels.data, "<u2").reshape(labels.height, labels.width)
        assert set(np.unique(shown)) == {0, 1, 2}
        assert wire.said["/cpor/annotated/compressed"][-1].data[:2] == b"\xff\xd8"
        assert wire.services["/cpor/decide"](call(target=2)).decision.object == 2
        assert wire.services["/cpor/decide"](call(target=2, request="x")).decision.state == "no_answer"
        time.sleep(1.1)
        before = len(decisions)
        wire.heard[DEPTH](frame(table, 9)[1], time.monotonic())
        wire.heard[COLOR](frame(table, 9)[0], time.monotonic() - 0.9999)  # it waited somewhere
        wait_for(lambda: any("too old to act on" in each.reason for each in decisions[before:]))
        assert {each.state for each in decisions[before:]} == {"no_answer"}
        wire.heard[COLOR](WireError("garbage"), time.monotonic())
        short = frame(table, 3)[0]
        short.data = short.data[:100]
        depth = frame(table, 3)[1]
        wire.heard[DEPTH](depth, time.monotonic())
        before = len(decisions)
        wire.heard[COLOR](short, time.monotonic())
        wait_for(lambda: any("cut short" in each.reason for each in decisions[before:]))
        before = len(decisions)
        wait_for(lambda: any("no whole frame" in each.reason for each in decisions[before:]))
        assert {each.state for each in decisions[before:]} == {"no_answer"}
        assert wire.services["/cpor/decide"](call(target=1)).decision.state == "no_answer"
        assert wire.said["/diagnostics"][-1].status[0].level == STALE
        assert node.counts.garbled == 2
    finally:
        node.close()
    with pytest.raises(InvalidSettingError, match="begin with /"):
        NodeSettings("color")


def test_what_waited_on_the_way_is_older():
    times = SentTimes()
    apart = 1_000.0  # the sender's clock is ahead of ours
    for k, delay in enumerate((0.005, 0.002, 0.9, 0.003)):
        sent = 50.0 + k
        estimate = times.estimate(round((sent + apart) * 1e9), sent + delay)
        assert sent - 1e-6 <= estimate <= sent + 0.0051
    assert times.estimate(0, 90.0) == 90.0  # no stamp
    assert times.estimate(1, 91.0) == 91.0  # a clock that began anew


def test_over_dds_with_the_types_of_others():
    """A publisher and a caller of plain cyclonedds types, in a domain of this test."""
    from support.dds_peer import Peer

    domain, table = 77, BoxTable(dict(FREE))
    settings = NodeSettings(COLOR, DEPTH, target=1, max_age_s=5.0, annotate=False)
    node = DecideNode(DdsTransport(domain), settings, System(TableMasks(table), "none"))
    peer = Peer(domain, COLOR, DEPTH)
    try:
        heard, number = [], 0
        until = time.monotonic() + 30.0
        while not heard and time.monotonic() < until:
            seen = table.observe()
            peer.send(seen.rgb, noisy(seen, number), number)
            number += 1
            time.sleep(0.1)
            heard = peer.decisions()
        assert heard and heard[-1].state == "not_obstructed" and heard[-1].object == 1
        assert len(heard[-1].p) == len(heard[-1].blocked) == len(heard[-1].blocker) > 0
        reply = peer.call(target=2, timeout_s=20.0)
        assert reply.decision.target == 2 and reply.number == 1
    finally:
        node.close()
        peer.close()
