"""A power cut in the middle of a carry, and the restart: it asks first, drops nothing and loses nothing.

The program that drives the arm is this file: `WORLD.json RECORD TARGET CUT_AT tells|blind`. It is killed at
a call of arm and gripper (0: not at all). The world (boxes, what the gripper holds, where the tool is) lies
in a file, since it outlives the program. A blind gripper cannot tell whether it holds something.
"""

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.box_table import Box, BoxTable, OverTheTable, TableMasks
from support.plain_system import plain_system
from support.sizes import sized

from cpor.robot.cycle import LoopSettings
from cpor.robot.dry_arm import DryRunArm
from cpor.robot.loop import retrieve
from cpor.robot.protocol import RobotStatus
from cpor.robot.run_folder import RunFolder, read_run
from cpor.robot.ur import Station, UniversalRobot

BOXES = {
    1: Box((40, 56), (54, 66), 0.04, (200, 30, 30)),
    2: Box((40, 56), (24, 36), 0.04, (30, 30, 200)),
}
TRAYS = {"deliver": Station().T_world_deliver, "discard": Station().T_world_discard}
NEAR_M = 0.02


class World:
    """What is there, written down before and after every motion."""

    def __init__(self, path: Path, cut_at: int, can_tell: bool) -> None:
        self.path, self.cut_at, self.calls = path, cut_at, 0
        first = {"boxes": sorted(BOXES), "held": None, "trays": {}, "dropped": [], "asked": 0, "unasked": 0}
        first |= {"tool": Station().T_world_look.tolist(), "closed": 0}
        self.now: dict[str, Any] = json.loads(path.read_text()) if path.is_file() else first
        self.allowed = (
            can_tell and self.now["held"] is None
        )  # whether the arm may move without a person's leave
        self.table = BoxTable({k: BOXES[k] for k in self.now["boxes"]})

    def write(self) -> None:
        """Keep it."""
        scratch = self.path.with_suffix(".tmp")
        scratch.write_text(json.dumps(self.now))
        scratch.replace(self.path)

    def count(self) -> None:
        """One call of arm or gripper; the power may go now."""
        self.calls += 1
        self.now["unasked"] += not self.allowed
        self.write()
        if self.calls == self.cut_at:
            os.kill(os.getpid(), signal.SIGKILL)


class RealArm(DryRunArm):
    """An arm of the world."""

    address = "ur 192.0.2.9"
    world: World

    def status(self) -> RobotStatus:
        return replace(super().status(), dry_run=False)

    def _say(self, motion: str) -> None:
        super()._say(motion)
        self.world.count()

    def move_line(self, T_base_tool: np.ndarray, speed: float, acceleration: float) -> None:
        super().move_line(T_base_tool, speed, acceleration)
        self.world.now["tool"] = self.T_base_tool.tolist()

    def move_joints(self, joints: tuple[float, ...], speed: float, acceleration: float) -> None:
        super().move_joints(joints, speed, acceleration)
        self.world.now["tool"] = self.T_base_tool.tolist()


class Gripper:
    """Takes the box between its fingers; lets it fall where it opens."""

    def __init__(self, world: World, can_tell: bool) -> None:
        self.world, self.can_tell = world, can_tell

    def open(self, width: float | None = None) -> None:
        now = self.world.now
        if now["held"] is not None:
            here = np.array(now["tool"])[:3, 3]
            over = [k for k, T in TRAYS.items() if np.linalg.norm(here - T[:3, 3]) < NEAR_M]
            if over:
                now["trays"][str(now["held"])] = over[0]
            else:
                now["dropped"].append(now["held"])
            now["held"] = None
        self.world.count()

    def close(self) -> None:
        now, boxes = self.world.now, self.world.table.boxes
        camera = OverTheTable(self.world.table).frame().camera
        x, y, z = (np.linalg.inv(camera.T_world_camera) @ np.array(now["tool"])[:, 3])[:3]
        row, col = round(camera.intrinsics.cy + 200.0 * y / z), round(camera.intrinsics.cx + 200.0 * x / z)
        here = [k for k, box in boxes.items() if box.mask()[row, col]]
        if here:
            del boxes[here[0]]
            now["boxes"].remove(here[0])
            now["held"] = here[0]
        now["closed"] += 1
        self.world.count()

    def holding(self) -> bool | None:
        return self.world.now["held"] is not None if self.can_tell else None


def live_once(world: World, record: Path, target: int, can_tell: bool) -> str:
    """Drive the arm until the run ends, or the power goes; how it ended."""
    table = world.table
    look = Station().T_world_look
    arm = RealArm(np.array(world.now["tool"]), look)
    arm.world = world
    robot = UniversalRobot(arm, OverTheTable(table), Gripper(world, can_tell))

    def confirm(question: str) -> bool:
        world.now["asked"] += 1
        world.allowed = True
        world.write()
        return True

    masks = TableMasks(table)
    result = retrieve(
        robot, plain_system(masks), masks.find(BOXES[target].colour), LoopSettings(budget=2),
        RunFolder(record), confirm=confirm,
    )  # fmt: skip
    return str(result.ended)


def main() -> None:
    """Command line."""
    path, record, target, cut_at, can_tell = sys.argv[1:]
    world = World(Path(path), int(cut_at), can_tell == "tells")
    world.now["ended"] = None
    world.write()
    world.now["ended"] = live_once(world, Path(record), int(target), can_tell == "tells")
    world.write()


ROOT = Path(__file__).parents[2]
GRIPS = ("tells", "blind")


def live(folder, record, cut_at, grip):
    """One life of the program, which ends at a call of arm or gripper; its exit status and the world then."""
    command = [sys.executable, __file__, str(folder / "world.json"), str(folder / record)]
    where = os.environ | {
        "PYTHONPATH": os.pathsep.join(str(ROOT / part) for part in ("src", "tests", "")),
        "XDG_STATE_HOME": str(folder / "state"),
    }
    done = subprocess.run([*command, "1", str(cut_at), grip], env=where, check=False)
    return done.returncode, json.loads((folder / "world.json").read_text())


CARRIES = [(9, "tells"), (15, "blind")]
"""Moments at which the arm carries the box."""

ANY = np.random.default_rng(7).integers(1, [[17, 23]] * 25).tolist()
"""Calls that one run makes at least with a gripper that tells, and with a blind one."""

MOMENTS = sized(
    CARRIES, [*CARRIES, *((at, grip) for both in ANY for at, grip in zip(both, GRIPS, strict=True))]
)


@pytest.mark.slow
@pytest.mark.parametrize(("cut_at", "grip"), MOMENTS)
def test_a_power_cut_drops_and_loses_nothing_and_the_restart_asks_first(tmp_path, cut_at, grip):
    status, before = live(tmp_path, "first", cut_at, grip)
    assert status == -signal.SIGKILL
    first = read_run(tmp_path / "first").cycles
    if (cut_at, grip) in CARRIES:
        assert before["held"] == 1 and first[0].attempt == "begun" and first[0].outcome is None
    status, after = live(tmp_path, "second", 0, grip)
    asked = after["asked"] - before["asked"]
    assert status == 0 and asked >= 1
    assert not after["unasked"] and not after["dropped"]
    assert len(after["boxes"]) + len(after["trays"]) + (after["held"] is not None) == len(BOXES)
    tried = [*first, *read_run(tmp_path / "second").cycles]
    assert after["closed"] <= sum(cycle.attempt != "none" for cycle in tried)
    if (cut_at, grip) in CARRIES:
        assert after["trays"] == {"1": "discard"} and after["boxes"] == [2]
        assert asked == 2  # the last program, and the gripper


if __name__ == "__main__":
    main()
