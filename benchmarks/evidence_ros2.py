"""`cpor ros2` in a process of its own, fed over DDS by plain cyclonedds types: drops, pauses, garbage.

The publisher knows what it sent when, so every decision is held against it. Then the library's own time on
such frames is measured. Counts go to docs/evidence.json.

Run: PYTHONPATH=src:tests python benchmarks/evidence_ros2.py [--seconds 300]
"""

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from evidence_page import keep
from long_parts import Row

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from support.dds_peer import Peer  # noqa: E402

from cpor.data.frame_files import make_observation  # noqa: E402
from cpor.system import System  # noqa: E402
from cpor.testing import example_frame  # noqa: E402

COLOR, DEPTH, DOMAIN = "/camera/color/image_raw", "/camera/aligned_depth_to_color/image_raw", 79
SHAPE, HZ, AGE_S = (120, 160), 15.0, 1.0
FREE = (40, 90)  # x and y of the object that nothing obstructs in the example frame


def picture(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """A noisy look at the example scene: colours and millimetres."""
    seen = example_frame(SHAPE)
    rgb = np.clip(seen.rgb.astype(int) + rng.integers(-3, 4, seen.rgb.shape), 0, 255).astype(np.uint8)
    steps = np.rint(seen.depth * 1000 + rng.normal(0.0, 0.7, SHAPE)).astype(np.uint16)
    return rgb, steps


def memory_mb(pid: int) -> float:
    """Resident memory of a process."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    return float("nan")


def start_node() -> subprocess.Popen[bytes]:
    """The node as a user starts it."""
    command = ["ros2", "--color", COLOR, "--depth", DEPTH, "--point", f"{FREE[0]},{FREE[1]}"]
    command += ["--domain", str(DOMAIN), "--segmenter", "depth", "--scorer", "none"]
    code = "from cpor.cli.app import main; main()"
    return subprocess.Popen([sys.executable, "-c", code, *command], stdout=subprocess.DEVNULL)


class Tally:
    """What was sent and heard; stamps in ns, times in s on one clock."""

    def __init__(self) -> None:
        self.sent: dict[int, tuple[float, str]] = {}
        self.heard: list[tuple[float, int, str]] = []

    def hear(self, peer: Peer) -> None:
        """Take the decisions that came."""
        for each in peer.decisions():
            stamp = each.header.stamp.sec * 10**9 + each.header.stamp.nanosec
            said_at = each.sample_info.source_timestamp * 1e-9  # by the node, on this machine's clock
            self.heard.append((said_at, stamp, each.state))

    def answers(self) -> list[tuple[float, int, str]]:
        """Those that say something about the object."""
        return [each for each in self.heard if each[2] != "no_answer"]


def feed(seconds: float, node: subprocess.Popen[bytes]) -> tuple[Tally, list[float], int, int]:
    """Publish for so long; memory of the node once a second, drops and restarts."""
    rng, tally, memory = np.random.default_rng(5), Tally(), []
    peer: Peer | None = Peer(DOMAIN, COLOR, DEPTH)
    drops = restarts = number = 0
    began = due = time.time()
    quiet_until = 0.0
    while time.time() - began < seconds:
        due += 1.0 / HZ
        number += 1
        now = time.time()
        if peer is not None and number % 150 == 0:  # every ten seconds the camera goes away
            tally.hear(peer)
            quiet_until, restarts = now + 2.5, restarts + 1
        if now < quiet_until:
            if peer is not None:
                tally.hear(peer)
        elif rng.random() < 0.1:
            drops += 1
        else:
            assert peer is not None
            garble = str(rng.choice(["", "", "", "", "", "", "", "short", "encoding", "size"]))
            stamp = peer.send(*picture(rng), number, garble)
            tally.sent[stamp] = (time.time(), garble)  # now it is on the wire
            tally.hear(peer)
        if number % 15 == 0:
            memory.append(memory_mb(node.pid))
        time.sleep(max(0.0, due - time.time()))
    time.sleep(1.0)
    assert peer is not None
    tally.hear(peer)
    peer.close()
    return tally, memory, drops, restarts


def own_times(count: int = 150) -> np.ndarray:
    """Milliseconds of the library alone for such frames."""
    rng, system, times = np.random.default_rng(6), System("depth", "none"), []
    for _ in range(count):
        rgb, steps = picture(rng)
        start = time.perf_counter()
        view = system.look(make_observation(rgb, steps, None, 0.001)[0])
        system.decide(view, point=FREE)
        times.append(1e3 * (time.perf_counter() - start))
    return np.array(times[10:])


def main() -> None:
    """Measure, and keep the rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=300.0)
    asked = parser.parse_args()
    node = start_node()
    try:
        time.sleep(15.0)  # it reads and compiles
        tally, memory, drops, restarts = feed(asked.seconds, node)
    finally:
        node.terminate()
        node.wait()
    answers = tally.answers()
    known = [(came, *tally.sent[stamp], state) for came, stamp, state in answers if stamp in tally.sent]
    late = np.array([came - sent for came, sent, _, _ in known])
    garbled = sum(bool(garble) for _, _, garble, _ in known)
    unknown = len(answers) - len(known)
    free = sum(state == "not_obstructed" for _, _, _, state in known)
    times = own_times()
    quarter = max(1, len(memory) // 4)
    grown = float(np.median(memory[-quarter:]) - np.median(memory[quarter : 2 * quarter]))
    bad = sum(bool(garble) for _, garble in tally.sent.values())
    size, load = f"{SHAPE[1]} x {SHAPE[0]}", os.getloadavg()[0]
    point = (
        f"ROS 2 over DDS, {asked.seconds:.0f} s at {HZ:.0f} Hz, {size}, {len(tally.sent)} frames sent "
        f"({bad} garbled), {drops} dropped, {restarts} pauses of 2.5 s"
    )
    p95, own = float(np.percentile(1e3 * late, 95)), float(np.percentile(times, 95))
    rows: list[Row] = [
        ("safe", f"{point}: answers about a frame older than 1 s", "0", str(int((late > AGE_S).sum()))),
        ("safe", f"{point}: answers about a garbled or unknown frame", "0", str(garbled + unknown)),
        (
            "serves",
            f"{point}: answers",
            "reported",
            f"{len(answers)} ({free} free), {len(tally.heard) - len(answers)} no answer",
        ),
        (
            "fast",
            f"{point}: p95 from sending to the answer, against the library alone",
            "1.5 times",
            f"{p95 / own:.2f} times ({p95:.0f} / {own:.0f} ms; load {load:.0f} on {os.cpu_count()} cores)",
        ),
        (
            "serves",
            f"{point}: memory of the node grown from the 2nd to the last quarter [MB]",
            "flat",
            f"{grown:.1f}",
        ),
    ]
    for row in rows:
        print(" | ".join(row))
    keep({"ros2": rows})


if __name__ == "__main__":
    main()
