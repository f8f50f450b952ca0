"""The bridges at size: bags, agents, behaviour trees, and grasps of others against the truth.

Counts go to out/evidence/.

Run: PYTHONPATH=src:tests python benchmarks/evidence_bridges.py [--heaps 12]
"""

import asyncio
import json
import random
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from long_parts import Row, measure_parts

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from bridges.test_bags import every_variant  # noqa: E402
from mcp import Client  # noqa: E402
from mcp.shared.exceptions import MCPError  # noqa: E402
from py_trees.common import Status  # noqa: E402
from support.bags import damaged_bags  # noqa: E402
from support.box_table import BoxTable, TableMasks  # noqa: E402

from cpor.bridges.agent import AgentTools  # noqa: E402
from cpor.bridges.agent_arm import AgentArm  # noqa: E402
from cpor.bridges.bag_cameras import BagError  # noqa: E402
from cpor.bridges.bags import open_bag  # noqa: E402
from cpor.bridges.grasp_planner import PlannedGrasps, met_on_the_way, points_of  # noqa: E402
from cpor.bridges.mcap_run import write_run_mcap  # noqa: E402
from cpor.bridges.mcp_server import make_mcp_server  # noqa: E402
from cpor.bridges.trees import Cell, fetch_tree  # noqa: E402
from cpor.robot.grasps import find_grasps  # noqa: E402
from cpor.robot.loop import retrieve  # noqa: E402
from cpor.robot.run_folder import RunFolder, read_run  # noqa: E402
from cpor.sim.arm import ur3e  # noqa: E402
from cpor.sim.staged_run import DemoSettings, set_stage  # noqa: E402
from cpor.system import System  # noqa: E402


def read_damaged_bags(count: int) -> list[Row]:
    """Cut short or overwritten at random; anything but our error ends this."""
    rng, refused, read = np.random.default_rng(0), 0, 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for broken in damaged_bags(folder, rng, count):
            try:
                bag = open_bag(broken)
                for frame in bag.frames:
                    bag.read(frame)
                read += 1
            except BagError:
                refused += 1
    said = f"{refused} refused in a sentence, {read} read, 0 other errors"
    return [("serves", f"{count} damaged bags (MCAP, SQLite, ROS 1)", "one clear error each", said)]


def decisions_from_bags() -> list[Row]:
    """Each form of a bag: what is decided on its frame, and on the frame as it was recorded."""
    system, equal, forms, lossy = System("depth", "none"), 0, 0, ""
    with tempfile.TemporaryDirectory() as name:
        for form, path, index, recorded in every_variant(Path(name)):
            bag = open_bag(path)
            read = replace(bag.read(bag.frames[index]), time_s=recorded.time_s, number=recorded.number)
            same = close = True
            for point in ((40, 40), (90, 60)):
                first, second = (
                    system.decide(system.look(seen), point).to_json(0) for seen in (read, recorded)
                )
                first.pop("times_ms"), second.pop("times_ms")
                same &= first == second
                close &= first["action"] == second["action"]
            if "to 1 mm" in form:  # depth in 16 bits of its inverse
                lossy = f"; depth that is rounded to 1 mm on the way: {'the same action' if close else form}"
            else:
                equal, forms = equal + same, forms + 1
    said = f"{equal} of {forms}{lossy}"
    return [
        (
            "serves",
            "forms of bags: whole answers for two points equal those from the frames",
            "12 of 12",
            said,
        )
    ]


def run_in_rerun() -> list[Row]:
    """A run as MCAP, read by Rerun's own importer: which topics become what."""
    wanted = {"color/image_raw": "Image:", "depth/image_raw": "DepthImage:", "color/camera_info": "Pinhole:"}
    wanted |= {
        "annotated/compressed": "EncodedImage:",
        "decision": "TextDocument:",
        "outcome": "TextDocument:",
    }
    with tempfile.TemporaryDirectory() as name:
        folder, robot = Path(name), BoxTable()
        retrieve(robot, System(TableMasks(robot), "none"), 1, record=RunFolder(folder / "run"))
        write_run_mcap(read_run(folder / "run"), folder / "run.mcap")
        rerun = [sys.executable, "-m", "rerun"]
        made = [*rerun, "mcap", "convert", folder / "run.mcap", "-o", folder / "run.rrd"]
        subprocess.run(made, check=True, capture_output=True)
        shown = subprocess.run([*rerun, "rrd", "print", folder / "run.rrd"], check=True, capture_output=True)
    found = sum(
        re.search(rf"/cpor/{topic} - data columns: .*{kind}", shown.stdout.decode()) is not None
        for topic, kind in wanted.items()
    )
    said = f"{found} of {len(wanted)} topics become pictures, cameras and texts"
    return [("serves", "a run of the loop as MCAP, opened by Rerun's importer", "opens", said)]


def cancelled_trees(count: int) -> list[Row]:
    """The example tree on the simulated arm, cancelled at a random moment: the arm must stand still."""
    rng, still, moving, done = np.random.default_rng(4), 0, 0, 0
    for seed in range(count):
        stage = set_stage(seed, DemoSettings(tier="medium", eyes="truth"))
        cell = Cell(stage.robot, System(stage.segmenter, "none"), stage.find_target)
        root = fetch_tree(cell, ask=lambda answer: None, most_failures=6)
        begins, after_s = seed % 2 == 1, float(rng.uniform(0.0, 2.0))  # before it moves, or on the way
        until = time.monotonic() + after_s
        while time.monotonic() < until and root.status in (Status.INVALID, Status.RUNNING):
            root.tick_once()
            time.sleep(0.01)
            if begins and stage.robot.status().state != "moving":
                until = time.monotonic() + after_s
        done += root.status not in (Status.INVALID, Status.RUNNING)
        moving += stage.robot.status().state == "moving"
        root.stop(Status.INVALID)
        before = np.array(stage.robot.world.data.qpos)
        time.sleep(0.3)
        stands = np.allclose(before, np.array(stage.robot.world.data.qpos), atol=1e-6)
        still += stands and stage.robot.status().state == "stopped"
    said = f"{still} of {count} ({moving} while it moved, {done} after the end)"
    return [("safe", f"behaviour tree cancelled at a random moment, simulated arm, {count} heaps: at rest",
             "all", said)]  # fmt: skip


def agents_that_fetch(count: int) -> list[Row]:
    """A scripted agent with the tools alone: look, decide, act, look again; no_answer is never acted on."""
    fetched = wrong = acts = 0

    async def go(seed: int) -> None:
        nonlocal fetched, wrong, acts
        held = AgentTools(System(scorer="none"))
        async with Client(make_mcp_server(held, AgentArm(held, "truth"))) as client:

            async def call(name: str, **arguments: Any) -> Any:
                return json.loads((await client.call_tool(name, arguments)).content[0].text)

            seen = await call("arm_reset", seed=seed, tier="medium")
            for _ in range(8):
                if seen["target"] is not None:
                    asked = {"view": seen["view"], "target": seen["target"], "mode": "balanced"}
                    said, done = await call("decide", **asked), await call("arm_act", **asked)
                    acts += done["moved"]
                    wrong += done["moved"] and said["state"] == "no_answer"
                    if done.get("target_is_out"):
                        fetched += 1
                        return
                seen = await call("arm_look")

    for seed in range(count):
        asyncio.run(go(seed))
    point = f"scripted MCP agent, tools alone, balanced, simulated arm, true masks, {count} heaps"
    return [
        (
            "acts",
            f"{point}: target fetched within 8 looks",
            "reported",
            f"{fetched} of {count}, {acts} acts",
        ),
        ("safe", f"{point}: moved where the state is no_answer", "0", str(wrong)),
    ]


def malformed_calls(count: int) -> list[Row]:
    """Nonsense for every tool; a crash would be an answer without a reason."""
    rng, ends = random.Random(3), Counter()
    keys = ["rgb", "depth", "view", "target", "point", "request", "mode", "scene", "camera", "x"]
    values = [None, 3, -1, 1e400, "", "x" * 9, "../..", [], [1], [1, 2], {}, {"a": 1}, True, "\0", "AAAA"]
    tools = ["look", "decide", "explain", "plan", "what_to_ask", "", "arm_act", "Look"]

    async def go() -> None:
        async with Client(make_mcp_server(AgentTools(System("depth", "none")))) as client:
            for _ in range(count):
                sent = {rng.choice(keys): rng.choice(values) for _ in range(rng.randint(0, 4))}
                try:
                    got = await client.call_tool(rng.choice(tools), sent)
                except MCPError:
                    ends["refused by the protocol"] += 1
                    continue
                text = got.content[0].text
                free = not got.is_error and json.loads(text).get("state") == "not_obstructed"
                crashed = got.is_error and ":" not in text
                ends["free" if free else "crashed" if crashed else "refused with a reason"] += 1

    asyncio.run(go())
    bad = ends["free"] + ends["crashed"]
    told = ", ".join(f"{n} {end}" for end, n in ends.most_common() if n)
    return [
        ("safe", f"{count} malformed MCP calls: crashes, or free to grasp", "0", str(bad)),
        ("serves", f"{count} malformed MCP calls", "reported", told),
    ]


def grasps_against_truth(heaps: int) -> list[Row]:
    """Grasps (ours, tight and loose, as if of others) in heaps: refused and kept, against the truth."""
    table: Counter[tuple[str, str]] = Counter()
    for seed in range(heaps):
        stage = set_stage(seed, DemoSettings(tier="medium", eyes="truth"))
        scene = stage.look_at_it()
        truth = stage.truth_in(scene)
        points = points_of(scene)
        known = np.isfinite(points[..., 0])
        assert scene.visible_ids is not None
        for obj in scene.ids:
            found = find_grasps(scene, obj, ur3e.GRIPPER)
            planned = PlannedGrasps(
                lambda _scene, _obj, found=found: found, System(scorer="none"), ur3e.GRIPPER
            )
            kept = {id(grasp) for grasp in planned(scene, obj)}
            for grasp in found:
                T = grasp.T_world_gripper
                local = (points[known] - T[:3, 3]) @ T[:3, :3]
                met = met_on_the_way(grasp, local, scene.visible_ids[known], ur3e.GRIPPER) - {obj}
                blocked = any((obj, other) in truth for other in met)
                table["kept" if id(grasp) in kept else "refused", "blocked" if blocked else "free"] += 1
    in_way = table["kept", "blocked"] + table["refused", "blocked"]
    free = table["kept", "free"] + table["refused", "free"]
    point = f"grasps of another planner in {heaps} heaps, true masks, no scores"
    return [
        (
            "safe",
            f"{point}: refused of those whose way meets a true blocker",
            "reported",
            f"{table['refused', 'blocked']} of {in_way}",
        ),
        ("acts", f"{point}: refused of the others", "reported", f"{table['refused', 'free']} of {free}"),
    ]


def measure_bridges(heaps: int = 12) -> list[Row]:
    """Measure the rows."""
    rows = [*read_damaged_bags(300), *decisions_from_bags(), *run_in_rerun(), *malformed_calls(500)]
    rows += [
        *cancelled_trees(heaps),
        *agents_that_fetch(heaps),
        *grasps_against_truth(heaps),
    ]
    return rows


if __name__ == "__main__":
    measure_parts({"bridges": measure_bridges}, __doc__)
