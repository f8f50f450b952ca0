"""`cpor ros2` against another implementation of DDS: Fast DDS, with the bytes that rosbags writes and reads.

Frames of two scenes go out over Fast DDS, decisions and labels come back over it; then the service and the
action `decide` are called, in rmw_cyclonedds's form of requests. It needs fastdds_relay.cpp, built.

Run: PYTHONPATH=src:tests python benchmarks/evidence_fastdds.py RELAY [--seconds 60]
"""

import argparse
import os
import struct
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from evidence_page import keep
from evidence_ros2 import Setup, start_node
from long_parts import Row
from ros2_camera import COLOR, DEPTH, draw

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from support.dds_peer import official  # noqa: E402

DOMAIN = 81
HEADER = struct.Struct("<Qq")


class Relay:
    """A process that speaks Fast DDS for us."""

    def __init__(self, program: Path) -> None:
        ends = [("w", f"rt{COLOR}", "sensor_msgs/msg/Image"), ("w", f"rt{DEPTH}", "sensor_msgs/msg/Image")]
        ends += [("r", "rt/cpor/decision", "cpor_msgs/msg/Decision")]
        ends += [("r", "rt/cpor/labels", "sensor_msgs/msg/Image")]
        for name, full in (
            ("/cpor/decide", "cpor_msgs/srv/Decide"),
            ("/cpor/decide/_action/send_goal", "cpor_msgs/action/Decide_SendGoal"),
            ("/cpor/decide/_action/get_result", "cpor_msgs/action/Decide_GetResult"),
        ):
            ends.append(("W", f"rq{name}Request", f"{full}_Request"))
            ends.append(("r", f"rr{name}Reply", f"{full}_Response"))
        self._full = [full for _, _, full in ends]
        words = [f"{how}:{topic}:{_dds(full)}" for how, topic, full in ends]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen([str(program), str(DOMAIN), *words], stdin=pipe, stdout=pipe)
        self._index = {topic: k for k, (_, topic, _) in enumerate(ends)}
        self.came: dict[str, list[Any]] = {topic: [] for _, topic, _ in ends}
        threading.Thread(target=self._read, daemon=True).start()

    def send(self, topic: str, message: Any, header: bytes = b"") -> None:
        """Write a message, as rosbags serializes it."""
        k = self._index[topic]
        raw = bytes(official().serialize_cdr(message, self._full[k], little_endian=True))
        raw = raw[:4] + header + raw[4:]
        assert self._process.stdin is not None
        self._process.stdin.write(struct.pack("<BI", k, len(raw)) + raw)
        self._process.stdin.flush()

    def call(self, name: str, message: Any, number: int, timeout_s: float = 20.0) -> Any:
        """Call a service; None where no reply comes."""
        header = HEADER.pack(4242, number)
        self.send(f"rq{name}Request", message, header)
        until = time.monotonic() + timeout_s
        while time.monotonic() < until:
            for before, reply in self.came[f"rr{name}Reply"]:
                if before == header:
                    return reply
            time.sleep(0.01)
        return None

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()

    def _read(self) -> None:
        names = {k: topic for topic, k in self._index.items()}
        stream = self._process.stdout
        assert stream is not None
        while len(head := stream.read(5)) == 5:
            k, length = struct.unpack("<BI", head)
            raw = stream.read(length)
            before = b""
            if names[k].startswith("rr"):
                raw, before = raw[:4] + raw[4 + HEADER.size :], raw[4 : 4 + HEADER.size]
            self.came[names[k]].append((before, official().deserialize_cdr(raw, self._full[k])))


def _dds(full: str) -> str:
    package, folder, name = full.split("/")
    return f"{package}::{folder}::dds_::{name}_"


def image(stamp_ns: int, encoding: str, pixels: np.ndarray) -> Any:
    """A message of rosbags."""
    kinds = official().types
    stamp = kinds["builtin_interfaces/msg/Time"](*divmod(stamp_ns, 10**9))
    header = kinds["std_msgs/msg/Header"](stamp, "optical")
    height, width = pixels.shape[:2]
    data = np.frombuffer(pixels.tobytes(), np.uint8)
    return kinds["sensor_msgs/msg/Image"](header, height, width, encoding, 0, data.size // height, data)


def main() -> None:
    """Measure, and keep the rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("relay", type=Path)
    parser.add_argument("--seconds", type=float, default=60.0)
    asked = parser.parse_args()
    setup, kinds, rng = Setup(320, False), official().types, np.random.default_rng(3)
    node, relay = start_node(setup, DOMAIN), Relay(asked.relay)
    shown: dict[int, str] = {}
    ended = threading.Event()

    def film() -> None:
        while not ended.wait(1 / 15):
            stamp, free = time.time_ns(), int(time.time() / 3) % 2 == 0
            rgb, steps = draw(free, (setup.height, setup.width), rng)
            shown[stamp] = "free" if free else "obstructed"
            relay.send(f"rt{DEPTH}", image(stamp, "16UC1", steps))
            relay.send(f"rt{COLOR}", image(stamp, "rgb8", rgb))

    filming = threading.Thread(target=film)
    filming.start()
    try:
        time.sleep(12.0 + asked.seconds)
        x, y = map(float, setup.point)
        replies = [
            relay.call("/cpor/decide", kinds["cpor_msgs/srv/Decide_Request"]("", 0, x, y, ""), k)
            for k in range(20)
        ]
        results = []
        for k in range(20):
            id_ = kinds["unique_identifier_msgs/msg/UUID"](np.frombuffer(os.urandom(16), np.uint8))
            goal = kinds["cpor_msgs/action/Decide_Goal"]("", 0, x, y, "")
            sent = kinds["cpor_msgs/action/Decide_SendGoal_Request"](id_, goal)
            accepted = relay.call("/cpor/decide/_action/send_goal", sent, k)
            wanted = kinds["cpor_msgs/action/Decide_GetResult_Request"](id_)
            if accepted is not None and accepted.accepted:
                results.append(relay.call("/cpor/decide/_action/get_result", wanted, k))
    finally:
        ended.set()
        filming.join()
        node.terminate()
        node.wait()
        relay.close()
    told: Counter[tuple[str, str]] = Counter()
    for _, each in relay.came["rt/cpor/decision"]:
        stamp = each.header.stamp.sec * 10**9 + each.header.stamp.nanosec
        if each.state != "no_answer":
            told[shown.get(stamp, "unknown"), each.state] += 1
    wrong = told["obstructed", "not_obstructed"] + sum(
        n for (what, _), n in told.items() if what == "unknown"
    )
    point = f"ROS 2 against Fast DDS 2.9, {asked.seconds:.0f} s, {len(shown)} frames, bytes by rosbags"
    said = ", ".join(f"{a}: {b} {n}" for (a, b), n in sorted(told.items()))
    labels = len(relay.came["rt/cpor/labels"])
    served = sum(reply is not None for reply in replies)
    done = sum(result is not None and result.status == 4 for result in results)
    rows: list[Row] = [
        ("serves", f"{point}: decisions (what the frame shows: what was said)", "reported", said),
        ("safe", f"{point}: free where the target is obstructed, or about an unknown frame", "0", str(wrong)),
        ("serves", f"{point}: label images that came back", "reported", str(labels)),
        ("serves", f"{point}: calls of the service answered; goals of the action reached", "20; 20",
         f"{served}; {done}"),
    ]  # fmt: skip
    for row in rows:
        print(" | ".join(row))
    keep({"ros2_fastdds": rows})


if __name__ == "__main__":
    main()
