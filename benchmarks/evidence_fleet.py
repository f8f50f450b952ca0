"""Robots that share one service: each sends an RGB-D frame and asks for a decision, again and again.

Processor time of the service for each decision tells how many cores a fleet needs; it hardly depends on what
else runs on the machine, latencies do.

Run: PYTHONPATH=src:benchmarks python benchmarks/evidence_fleet.py [--robots 1,4] [--decisions 40] [--dry]
"""

import argparse
import os
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from bench_serve import cpu_seconds, service
from evidence_page import keep

from cpor.serve.api.example_scenes import FOLDER
from cpor.serve.client import Client

WARM = 3
"""Decisions of each worker before the clock starts."""


def drive(address: str, pid: int, robots: int, decisions: int) -> tuple[float, float, list[float], int]:
    """Seconds, processor seconds, seconds of each decision, and how many had an answer."""
    scenes = sorted(each for each in FOLDER.iterdir() if each.is_dir())
    clients = [Client(address) for _ in range(robots)]

    def ask(k: int) -> tuple[float, bool]:
        began = time.perf_counter()
        place = scenes[k % len(scenes)]
        reply = clients[k % robots].decide_rgbd(
            place / "rgb.png", None, place / "depth.png", point=(320.0, 240.0), depth_unit_m=0.001
        )
        return time.perf_counter() - began, reply is not None

    with ThreadPoolExecutor(robots) as threads:
        list(threads.map(ask, range(WARM * robots)))
        began, cpu = time.perf_counter(), cpu_seconds(pid)
        told = list(threads.map(ask, range(decisions)))
    return (
        time.perf_counter() - began,
        cpu_seconds(pid) - cpu,
        [seconds for seconds, _ in told],
        sum(answered for _, answered in told),
    )


def main() -> None:
    """Measure, and keep the rows."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--robots", default="1,4", help="robots at a time, with commas between them")
    parser.add_argument("--decisions", type=int, default=40)
    parser.add_argument("--dry", action="store_true", help="print the rows only")
    asked = parser.parse_args()
    rows = []
    for robots in map(int, asked.robots.split(",")):
        with service() as (address, watch):
            seconds, cpu, each, answered = drive(address, watch.pid, robots, asked.decisions)
            memory = watch.peak_pss / 2**20
        median, slowest = np.quantile(each, [0.5, 0.95])
        said = (
            f"{answered} of {asked.decisions} answered; {1e3 * cpu / asked.decisions:.0f} ms of processor "
            f"time each; {asked.decisions / seconds:.1f} a second, {1e3 * median:.0f} ms (median), "
            f"{1e3 * slowest:.0f} (95 %); {memory:.0f} MiB; {os.cpu_count()} cores, "
            f"load {os.getloadavg()[0]:.0f}"
        )
        rows.append(("serves", f"{robots} robots, one service: RGB-D decisions", "all", said))
        print(" | ".join(rows[-1]), flush=True)
    if not asked.dry:
        keep({"fleet": rows})


if __name__ == "__main__":
    main()
