"""Robots that share one service: each asks for a decision on an RGB-D frame, again and again.

Processor time of the service for each decision tells how many cores a fleet needs; it hardly depends on what
else runs on the machine, latencies do.

Run: python benchmarks/bench_serve.py [--robots 1,4] [--decisions 40]
"""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from evidence_page import Row
from harness import measure_parts

from cpor.serve.api.example_scenes import FOLDER
from cpor.serve.client import Client

WARM = 3
"""Decisions of each robot before the clock starts."""


@dataclass
class Watch:
    """The largest memory of a process and its children; shared pages are counted once."""

    pid: int
    peak_pss: int = 0
    _over: threading.Event = field(default_factory=threading.Event)

    def look(self) -> None:
        """Look until told to end."""
        while not self._over.wait(0.1):
            pids = [self.pid, *_children(self.pid)]
            self.peak_pss = max(self.peak_pss, sum(map(_memory, pids)))

    def end(self) -> None:
        """Look no more."""
        self._over.set()


def _children(pid: int) -> list[int]:
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            own = [int(child) for child in task.read_text().split()]
        except OSError:
            continue
        found += own + [grandchild for child in own for grandchild in _children(child)]
    return found


def cpu_seconds(pid: int) -> float:
    """Seconds of processor time of a process and its children so far."""
    total = 0
    for each in (pid, *_children(pid)):
        fields = Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split()
        total += int(fields[11]) + int(fields[12])
    return total / os.sysconf("SC_CLK_TCK")


def _memory(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(1024 * int(line.split()[1]) for line in lines if line.startswith("Pss:"))


@contextmanager
def service() -> Iterator[tuple[str, Watch]]:
    """The address of a service and the watch over its memory."""
    code = "import sys; from cpor.cli.app import main; sys.argv = ['cpor', 'serve', '--port', '0']; main()"
    command = [sys.executable, "-u", "-c", code]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line = ""
        while "ready at" not in line:
            line = process.stdout.readline()
            if not line:
                raise SystemExit("the service did not start")
        watch = Watch(process.pid)
        thread = threading.Thread(target=watch.look)
        thread.start()
        try:
            yield line.split("ready at ")[1].split()[0].rstrip("/"), watch
        finally:
            watch.end()
            thread.join()
            process.terminate()


def measure_fleet(robots: str = "1,4", decisions: int = 40) -> Iterator[Row]:
    """Numbers of robots at a time, separated by commas, and decisions in all."""
    for count in map(int, robots.split(",")):
        with service() as (address, watch):
            began, times, answered = drive(address, watch.pid, count, decisions)
            wall, cpu = time.perf_counter() - began[0], cpu_seconds(watch.pid) - began[1]
            memory = watch.peak_pss / 2**20
        median, slowest = 1e3 * np.quantile(times, [0.5, 0.95])
        said = (
            f"{answered} of {decisions} answered; {1e3 * cpu / decisions:.0f} ms of processor time each; "
            f"{decisions / wall:.1f} a second, {median:.0f} ms (median), {slowest:.0f} (95 %); "
            f"{memory:.0f} MiB; {os.cpu_count()} cores, load {os.getloadavg()[0]:.0f}"
        )
        yield Row("serves", f"{count} robots, one service: RGB-D decisions", "all", said)


def drive(
    address: str, pid: int, robots: int, decisions: int
) -> tuple[tuple[float, float], list[float], int]:
    """When the clock and the processor's clock began, seconds of each decision, number of answers."""
    scenes = sorted(each for each in FOLDER.iterdir() if each.is_dir())
    clients = [Client(address) for _ in range(robots)]

    def ask(k: int) -> tuple[float, bool]:
        start, place = time.perf_counter(), scenes[k % len(scenes)]
        reply = clients[k % robots].decide_rgbd(
            place / "rgb.png", None, place / "depth.png", point=(320.0, 240.0), depth_unit_m=0.001
        )
        return time.perf_counter() - start, reply is not None

    with ThreadPoolExecutor(robots) as threads:
        list(threads.map(ask, range(WARM * robots)))
        began = time.perf_counter(), cpu_seconds(pid)
        told = list(threads.map(ask, range(decisions)))
    return began, [spent for spent, _ in told], sum(is_answered for _, is_answered in told)


if __name__ == "__main__":
    measure_parts({"fleet": measure_fleet}, __doc__)
