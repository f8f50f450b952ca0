"""`cpor ros2` in a process of its own, fed over DDS by a camera that is not ours: drops, garbage, restarts.

The camera (ros2_camera.py) is a third process, killed and started anew; it tells what it sent when, and what
that shows, so every decision is held against it. Latency counts from the camera's last byte of a frame on the
wire to the decision's write, by the clock of this machine. The library's own time is that of `look` and
`decide` alone, on frames of the same camera that come over the same kind of wire, measured in between, every
minute, while the node hears nothing.

Run: PYTHONPATH=src:tests python benchmarks/evidence_ros2.py [--seconds 300] [--width 320] [--networks]
"""

import argparse
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from evidence_page import keep
from long_parts import Row
from ros2_camera import COLOR, DEPTH, GARBLES, HZ, TARGET

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from support.dds_peer import Peer  # noqa: E402

from cpor.answer import View  # noqa: E402
from cpor.bridges.ros2_transport import DdsTransport  # noqa: E402
from cpor.bridges.ros_images import read_colour, read_depth  # noqa: E402
from cpor.errors import CporError  # noqa: E402
from cpor.io.frame_files import make_observation  # noqa: E402
from cpor.system import System  # noqa: E402

DOMAIN, AGE_S, AWAY_S, ALIVE_S = 79, 1.0, 2.5, 17.5


class Setup(NamedTuple):
    """What is measured."""

    width: int
    networks: bool

    @property
    def height(self) -> int:
        """Of a picture. [px]."""
        return self.width * 3 // 4

    @property
    def point(self) -> tuple[float, float]:
        """A pixel of the target."""
        return round(TARGET[0] * self.width), round(TARGET[1] * self.height)

    def system(self) -> System:
        """As the node has it."""
        return System() if self.networks else System("depth", "none")


class CameraProcess:
    """The camera, and what it told so far: by stamp [ns], when it was sent [s], what it shows, its garble."""

    def __init__(self, setup: Setup, domain: int) -> None:
        self._setup, self._domain = setup, domain
        self.sent: dict[int, tuple[float, str, str]] = {}
        self.drops = self.starts = 0
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Begin anew."""
        command = [sys.executable, str(ROOT / "benchmarks" / "ros2_camera.py"), str(self._domain)]
        command += [str(self._setup.width), str(self._setup.height)]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.starts += 1
        threading.Thread(target=self._read, args=(self._process,), daemon=True).start()

    def kill(self) -> None:
        """As a cable that is pulled."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def _read(self, process: Any) -> None:
        for line in process.stdout:
            stamp, sent, shows, garble = line.split()
            if shows == "drop":
                self.drops += 1
            else:
                self.sent[int(stamp)] = (int(sent) * 1e-9, shows, garble)


def memory_mb(pid: int) -> float:
    """Resident memory of a process."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    return float("nan")


def start_node(setup: Setup, domain: int = DOMAIN) -> subprocess.Popen[bytes]:
    """The node as a user starts it."""
    command = ["ros2", "--color", COLOR, "--depth", DEPTH, "--domain", str(domain)]
    command += ["--point", f"{setup.point[0]},{setup.point[1]}"]
    command += [] if setup.networks else ["--segmenter", "depth", "--scorer", "none"]
    code = "from cpor.cli.app import main; main()"
    return subprocess.Popen([sys.executable, "-c", code, *command], stdout=subprocess.DEVNULL)


class Library:
    """`look` and `decide` without a node, on the newest frames of a camera in a domain of its own."""

    def __init__(self, setup: Setup) -> None:
        self._setup, self._system = setup, setup.system()
        self.times_ms: list[float] = []

    def run(self, seconds: float) -> None:
        """Measure for so long; garbled frames do not count, nor do the first ones."""
        newest: dict[str, Any] = {}
        transport, camera = DdsTransport(DOMAIN + 1), CameraProcess(self._setup, DOMAIN + 1)
        for topic in (COLOR, DEPTH):
            transport.subscribe(
                topic, "sensor_msgs/Image", lambda message, _, topic=topic: newest.update({topic: message})
            )
        camera.start()
        previous: View | None = None
        times: list[float] = []
        last, until = 0, time.monotonic() + seconds
        while time.monotonic() < until:
            color, depth = newest.get(COLOR), newest.get(DEPTH)
            stamp = 0 if color is None else color.header.stamp.sec * 10**9 + color.header.stamp.nanosec
            if color is None or depth is None or depth.header.stamp != color.header.stamp or stamp == last:
                time.sleep(0.002)
                continue
            last, began = stamp, time.perf_counter()
            try:
                steps, unit = read_depth(depth, "depth")
                seen, _ = make_observation(read_colour(color, "colour"), steps, None, unit)
                previous = self._system.look(seen, previous=previous)
                answer = self._system.decide(previous, self._setup.point)
            except CporError:
                continue
            if answer.action is not None:
                times.append(1e3 * (time.perf_counter() - began))
        camera.kill()
        transport.close()
        self.times_ms += times[3:]


class Heard(NamedTuple):
    """A decision: when it was sent [s], about which stamp [ns], what it says."""

    at_s: float
    stamp: int
    state: str


def feed(setup: Setup, seconds: float, library: Library) -> tuple[CameraProcess, list[Heard], list[float]]:
    """Run the node and the camera; what was sent, what was heard, the node's memory over time."""
    node, camera, heard, memory = start_node(setup), CameraProcess(setup, DOMAIN), [], []
    peer = Peer(DOMAIN)
    decisions = peer.hear("/cpor/decision", "cpor_msgs/msg/Decision")
    try:
        library.run(20.0)  # meanwhile the node reads and compiles
        while (left := seconds - camera.starts * (ALIVE_S + AWAY_S)) > 0.0:
            camera.start()
            away = time.monotonic() + min(left, ALIVE_S)
            for end in (away, away + AWAY_S):
                while time.monotonic() < end:
                    time.sleep(0.25)
                    heard += _take(decisions)
                    memory.append(memory_mb(node.pid))
                if end is away:
                    camera.kill()
            if camera.starts % 3 == 0:
                library.run(15.0)
                heard += _take(decisions)
        time.sleep(1.5)
        heard += _take(decisions)
    finally:
        camera.kill()
        node.terminate()
        node.wait()
    return camera, heard, memory


def _take(decisions: Any) -> list[Heard]:
    found = []
    for each in decisions.take(100):
        if hasattr(each, "state"):
            stamp = each.header.stamp.sec * 10**9 + each.header.stamp.nanosec
            found.append(Heard(each.sample_info.source_timestamp * 1e-9, stamp, each.state))
    return found


def rows_of(setup: Setup, seconds: float) -> list[Row]:
    """Measure."""
    library = Library(setup)
    camera, heard, memory = feed(setup, seconds, library)
    own = library.times_ms
    answers = [each for each in heard if each.state != "no_answer"]
    known = [(each, *camera.sent[each.stamp]) for each in answers if each.stamp in camera.sent]
    if not known or not own:
        raise SystemExit("no answer came in time, or the library had none: the machine is too busy")
    late = np.array([each.at_s - sent for each, sent, _, _ in known])
    told = Counter((shows, each.state) for each, _, shows, _ in known)
    garbled = sum(garble != "-" for *_, garble in known)
    bad = Counter(garble for _, _, garble in camera.sent.values())
    quarter = max(1, len(memory) // 4)
    grown = float(np.median(memory[-quarter:]) - np.median(memory[quarter : 2 * quarter]))
    p95, alone = float(np.percentile(1e3 * late, 95)), float(np.percentile(own, 95))
    median, usual = float(np.median(1e3 * late)), float(np.median(own))
    eyes = "our networks" if setup.networks else "depth segmenter"
    point = (
        f"ROS 2 over DDS, {seconds:.0f} s at {HZ:.0f} Hz, {setup.width} x {setup.height}, {eyes}, "
        f"{len(camera.sent)} frames sent ({sum(bad[g] for g in GARBLES)} garbled), {camera.drops} dropped, "
        f"{camera.starts - 1} restarts of the camera's process"
    )
    wrong = told["obstructed", "not_obstructed"]
    return [
        ("safe", f"{point}: answers about a frame older than 1 s", "0", str(int((late > AGE_S).sum()))),
        (
            "safe",
            f"{point}: answers about a garbled, lost or unknown frame",
            "0",
            str(garbled + len(answers) - len(known)),
        ),
        ("safe", f"{point}: free where the frame shows the target obstructed", "0", str(wrong)),
        (
            "serves",
            f"{point}: answers (what the frame shows: what was said)",
            "reported",
            f"{len(answers)} ({', '.join(f'{a}: {b} {n}' for (a, b), n in sorted(told.items()))}), "
            f"{len(heard) - len(answers)} no answer",
        ),
        (
            "fast",
            f"{point}: p95 from the frame's last byte sent to the decision's write, against the library's "
            f"own on {len(own)} such frames under the same load",
            "1.5 times",
            f"{p95 / alone:.2f} times ({p95:.0f} / {alone:.0f} ms; medians {median:.0f} / {usual:.0f} ms, "
            f"{median / usual:.2f} times; load {os.getloadavg()[0]:.0f} on {os.cpu_count()} cores)",
        ),
        (
            "serves",
            f"{point}: memory of the node grown from the 2nd to the last quarter [MB]",
            "flat",
            f"{grown:.1f}",
        ),
    ]


def main() -> None:
    """Measure, and keep the rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--width", type=int, default=320)
    parser.add_argument("--networks", action="store_true", help="as a user starts it, without options")
    parser.add_argument("--dry", action="store_true", help="print the rows only")
    asked = parser.parse_args()
    setup = Setup(asked.width, asked.networks)
    rows = rows_of(setup, asked.seconds)
    for row in rows:
        print(" | ".join(row))
    if not asked.dry:
        name = "ros2_networks" if setup.networks else "ros2" if asked.seconds >= 300.0 else "ros2_short"
        keep({name: rows})


if __name__ == "__main__":
    main()
