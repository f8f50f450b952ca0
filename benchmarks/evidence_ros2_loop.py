"""The whole loop through a live ROS 2 graph: the same heaps in process, and with `cpor sim --ros2`.

The camera is without noise, so that both see the same pictures. In process the simulated robot picks by
itself; through the graph its own pick action does (`pick`), or trajectories and gripper commands do
(`trajectories`), which is another way to pick: no second try, no descent that ends when it meets something.

Run: PYTHONPATH=src:benchmarks python benchmarks/evidence_ros2_loop.py [--seeds 4] [--ways pick,trajectories]
"""

import argparse
import os
import subprocess
import sys
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

from evidence_page import keep

from cpor.bridges.ros2_arm import build
from cpor.decision import Defer
from cpor.robot.cycle import RunResult
from cpor.robot.loop import retrieve
from cpor.robot.protocol import Robot
from cpor.robot.robot_file import read_robot_file
from cpor.scene import PixelPoint
from cpor.sim.arm import simulated_robot
from cpor.sim.camera.views import cast_views
from cpor.sim.dataset.manifest import TIERS, Tier
from cpor.sim.physics.clutter import HeapSettings, make_heap
from cpor.sim.staged_run import deepest_point
from cpor.system import System

CONFIG = Path(str(files("cpor.bridges") / "simulated_ur3e.toml"))
DOMAIN = 1 + os.getpid() % 200


class Told(NamedTuple):
    """What came of a run."""

    ended: str
    actions: tuple[str, ...]


def fetch(robot: Robot, point: PixelPoint) -> Told:
    """Fetch what a pixel shows; nothing else is asked of a person."""
    _, settings = read_robot_file(None)
    settings = replace(settings, budget=12, frames_may_repeat=True)
    done: RunResult = retrieve(robot, System(mode="balanced"), point, settings, confirm=lambda question: True)
    taken = [cycle.action for cycle in done.cycles if cycle.attempt == "ended"]
    return Told(
        str(done.ended),
        tuple(f"{type(each).__name__} {each.obj}" for each in taken if not isinstance(each, Defer)),
    )


def through_graph(seed: int, tier: Tier, way: str, point: PixelPoint) -> Told:
    """The same with the arm in another process."""
    command = [
        "sim",
        "--ros2",
        "--seed",
        str(seed),
        "--tier",
        tier,
        "--sensor",
        "none",
        "--domain",
        str(DOMAIN),
    ]
    code = "from cpor.cli.app import main; main()"
    process = subprocess.Popen([sys.executable, "-uc", code, *command], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    process.stdout.readline()
    options, _ = read_robot_file(CONFIG)
    options["arm"] |= {"pick": "/arm/pick"} if way == "pick" else {}
    try:
        robot = build(**options, graph={"domain": DOMAIN}, dry_run=False)
        try:
            return fetch(robot, point)
        finally:
            getattr(robot, "arm", robot).close()
            robot.camera.close()
    finally:
        process.kill()
        process.wait()


def main() -> None:
    """Measure, and keep the rows."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=4, help="heaps of each tier")
    parser.add_argument("--ways", default="pick,trajectories")
    parser.add_argument("--dry", action="store_true", help="print the rows only")
    asked = parser.parse_args()
    rows, found = [], []
    for tier in TIERS:
        for seed in range(asked.seeds):
            heap = make_heap(seed, HeapSettings(tier=tier))
            point = deepest_point(cast_views(heap.world, heap.camera).visible_ids, heap.target)
            if point is None:
                continue
            told = {"in process": fetch(simulated_robot.build(seed, tier, "none"), point)}
            told |= {way: through_graph(seed, tier, way, point) for way in asked.ways.split(",")}
            found.append(told)
            print(tier, seed, told, flush=True)
    ours = [told["in process"] for told in found]
    out = sum(each.ended == "retrieved" for each in ours)
    for way in asked.ways.split(","):
        theirs = [told[way] for told in found]
        ended = sum(a.ended == b.ended for a, b in zip(ours, theirs, strict=True))
        equal = sum(a == b for a, b in zip(ours, theirs, strict=True))
        retrieved = sum(each.ended == "retrieved" for each in theirs)
        said = f"{ended} of {len(found)} end alike, {equal} by the same actions; "
        said += f"{retrieved} retrieved, {out} in process"
        point_of = f"the loop through a live ROS 2 graph ({way}), against the same heaps in process"
        rows.append(("serves", point_of, f"{len(found)} of {len(found)} end alike", said))
    for row in rows:
        print(" | ".join(row))
    if not asked.dry:
        keep({"ros2_loop": rows})


if __name__ == "__main__":
    main()
