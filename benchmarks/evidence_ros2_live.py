"""Our two ROS 2 transports against peers with rclpy in another process: topics both ways, and a service.

Needs an interpreter with rclpy and this package: PyPI has `ros-rclpy`, `ros-rmw-fastrtps-cpp`,
`ros-sensor-msgs` and `ros-diagnostic-msgs`. The peer publishes photographs with their camera info, hears an
answer to each, and calls `get_parameters`.

    python benchmarks/evidence_ros2_live.py [--transport rclpy] [--frames 200] [--dry]
"""

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
from evidence_page import keep

import cpor.bridges
from cpor.bridges.ros2_messages import RosMessage, new
from cpor.bridges.ros2_parameters import NodeSettings, serve_parameters
from cpor.bridges.ros2_transport import DdsTransport, Transport

DOMAIN, WIDTH, HEIGHT, HZ = 78, 320, 240, 20.0
COLOR, INFO, ECHO, PREFIX = "/live/color", "/live/info", "/live/echo", "/live"
CALLS, WAIT_S = 20, 10.0

PLAIN_TYPES = "dds, with fastdds_no_types.xml for the peer"
NAMES = ["rclpy", "dds", PLAIN_TYPES]
PROFILE = Path(cpor.bridges.__file__).parent / "cpor_msgs" / "fastdds_no_types.xml"
"""Without it, Cyclone refuses the descriptions of types that Fast DDS 3 sends, and hears nothing."""


def peer(frames: int) -> None:
    """The other process, of plain rclpy; prints what it sent, heard and was answered."""
    import rclpy
    from diagnostic_msgs.msg import KeyValue
    from rcl_interfaces.srv import GetParameters
    from sensor_msgs.msg import CameraInfo, Image

    rclpy.init(domain_id=DOMAIN)
    node = rclpy.create_node("camera")
    colour, info = (node.create_publisher(kind, at, 10) for kind, at in ((Image, COLOR), (CameraInfo, INFO)))
    sent: dict[str, float] = {}
    took: list[float] = []

    def echoed(message: KeyValue) -> None:
        took.append(time.monotonic() - sent[message.key])
        wrong.append(message.value != message.key[-3:])

    wrong: list[bool] = []
    node.create_subscription(KeyValue, ECHO, echoed, 50)
    until = time.monotonic() + WAIT_S
    while time.monotonic() < until and not (
        colour.get_subscription_count() and info.get_subscription_count()
    ):
        rclpy.spin_once(node, timeout_sec=0.05)
    time.sleep(1.0)  # the other end may not have matched yet
    pixels = np.random.default_rng(0).integers(0, 256, (HEIGHT, WIDTH, 3), np.uint8)
    picture = Image(height=HEIGHT, width=WIDTH, encoding="rgb8", step=3 * WIDTH)
    for k in range(frames):
        pixels[0, 0, 0] = k % 256
        picture.data = pixels.tobytes()
        picture.header.stamp.sec, picture.header.stamp.nanosec = 1 + k, k
        camera = CameraInfo(header=picture.header, height=HEIGHT, width=WIDTH)
        sent[f"{k:03d}"] = time.monotonic()
        info.publish(camera)
        colour.publish(picture)
        until = time.monotonic() + 1 / HZ
        while time.monotonic() < until:
            rclpy.spin_once(node, timeout_sec=0.01)
    until = time.monotonic() + 3.0
    while time.monotonic() < until:
        rclpy.spin_once(node, timeout_sec=0.05)
    client, calls = node.create_client(GetParameters, f"{PREFIX}/get_parameters"), []
    if client.wait_for_service(timeout_sec=5.0):
        for _ in range(CALLS):
            began = time.monotonic()
            future = client.call_async(GetParameters.Request(names=["request"]))
            rclpy.spin_until_future_complete(node, future, timeout_sec=5.0)
            if future.done() and future.result().values[0].string_value == "the red mug":
                calls.append(time.monotonic() - began)
    print(json.dumps({"took": took, "wrong": sum(wrong), "calls": calls}), flush=True)
    node.destroy_node()
    rclpy.shutdown()


def transport_of(name: str) -> Transport:
    """Ours, by name."""
    if name.startswith("dds"):
        return DdsTransport(DOMAIN)
    from cpor.bridges.ros2_rclpy import RclpyTransport

    return RclpyTransport("/cpor_live", DOMAIN)


def measure(name: str, frames: int) -> list[tuple[str, str, str, str]]:
    """The rows of a transport."""
    transport = transport_of(name)
    say = transport.publish(ECHO, "diagnostic_msgs/KeyValue")
    lock, infos, heard, garbled = threading.Lock(), set[int](), set[int](), [0]

    def bad(why: str) -> None:
        garbled[0] += 1

    def came(kept: set[int], echo: bool, message: RosMessage) -> None:
        k = message.header.stamp.nanosec
        good = (message.height, message.width, message.header.stamp.sec) == (HEIGHT, WIDTH, k + 1)
        if echo:
            good &= len(message.data) == 3 * WIDTH * HEIGHT and message.data[0] == k % 256
        with lock:
            garbled[0] += not good
            kept.add(k)
        if echo:
            say(new("diagnostic_msgs/KeyValue", key=f"{k:03d}", value=f"{k:03d}"))

    transport.subscribe(
        COLOR, "sensor_msgs/Image", lambda message, _: came(heard, True, message), garbled=bad
    )
    transport.subscribe(
        INFO, "sensor_msgs/CameraInfo", lambda message, _: came(infos, False, message), garbled=bad
    )
    settings = NodeSettings(COLOR, "/live/depth", request="the red mug")
    serve_parameters(transport, PREFIX, lambda: settings, lambda changed: None)
    profile = {"FASTDDS_DEFAULT_PROFILES_FILE": str(PROFILE)} if name == PLAIN_TYPES else {}
    ran = subprocess.run(
        [sys.executable, __file__, "--peer", "--frames", str(frames)],
        env=os.environ | profile,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    transport.close()
    if ran.returncode:
        raise SystemExit(ran.stderr)
    said = json.loads(ran.stdout.splitlines()[-1])
    took, calls = 1e3 * np.array(said["took"] or [np.nan]), 1e3 * np.array(said["calls"] or [np.nan])
    with_peer = f"transport {name}; peer rclpy, Fast DDS"
    times = f"; there and back {np.median(took):.1f} ms (median), {np.quantile(took, 0.99):.1f} (99 %)"
    topics = (
        f"{len(heard)} photographs and {len(infos)} camera infos heard, {len(said['took'])} answers came "
        f"back, {garbled[0] + said['wrong']} garbled{times if said['took'] else ''}"
    )
    served = f"{len(said['calls'])} of {CALLS}" + (
        f"; {np.median(calls):.1f} ms (median)" if said["calls"] else ""
    )
    return [
        ("serves", f"{with_peer}: {frames} photographs at {HZ:.0f} Hz", "all, 0 garbled", topics),
        ("serves", f"{with_peer}: calls of get_parameters answered", "all", served),
    ]


def main() -> None:
    """Measure, and keep the rows."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--transport", choices=NAMES, help="only this one")
    parser.add_argument("--frames", type=int, default=200)
    parser.add_argument("--dry", action="store_true", help="print the rows only")
    parser.add_argument("--peer", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.peer:
        peer(asked.frames)
        return
    if importlib.util.find_spec("rclpy") is None:
        print("The live graph was not measured: rclpy is not installed.")
        return
    names = [asked.transport] if asked.transport else NAMES
    rows = [row for name in names for row in measure(name, asked.frames)]
    for row in rows:
        print(" | ".join(row))
    if not asked.dry:
        keep({"ros2_live": rows})


if __name__ == "__main__":
    main()
