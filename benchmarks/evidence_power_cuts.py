"""The loop on an arm of a made-up world, killed at random motions and started again, as after a power cut.

Run: PYTHONPATH=tests:. python benchmarks/evidence_power_cuts.py [--cuts 50] [--dry]
"""

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from long_parts import Row, measure_parts

from cpor.robot.run_folder import read_run

MOST_CALLS = {"tells": 16, "blind": 22}
"""Calls of arm and gripper that one retrieval makes; a blind gripper is emptied into the tray first."""


def live(world: Path, record: Path, target: int, cut_at: int, grip: str) -> int:
    """One life of the program; its exit status."""
    command = [
        sys.executable,
        "-m",
        "support.power_cuts",
        str(world),
        str(record),
        str(target),
        str(cut_at),
        grip,
    ]
    where = os.environ | {"XDG_STATE_HOME": str(world.parent / "state")}
    return subprocess.run(command, env=where, check=False, capture_output=True).returncode


def cut_and_restart(rng: random.Random, folder: Path) -> dict[str, object]:
    """A life that is cut at a random motion, and one that runs to its end; what came of both."""
    target, grip = rng.choice((1, 2)), rng.choice(("tells", "blind"))
    cut_at = rng.randint(1, MOST_CALLS[grip])
    world = folder / "world.json"
    cut = live(world, folder / "first", target, cut_at, grip) == -signal.SIGKILL
    before = json.loads(world.read_text())
    status = live(world, folder / "second", target, 0, grip)
    after = json.loads(world.read_text())
    attempts = sum(
        cycle.attempt != "none" for name in ("first", "second") for cycle in read_run(folder / name).cycles
    )
    everything = len(after["boxes"]) + len(after["trays"]) + (after["held"] is not None)
    return {
        "cut": cut,
        "full": before["held"] is not None,
        "asked": after["asked"] - before["asked"],
        "dropped": len(after["dropped"]),
        "unasked": after["unasked"],
        "lost": 2 - everything,
        "unrecorded": max(0, after["closed"] - attempts),
        "failed": status != 0,
        "ended": after["ended"],
    }


def rows_of(cuts: int, seed: int = 7) -> list[Row]:
    """The rows of so many cuts."""
    rng, found = random.Random(seed), []
    with tempfile.TemporaryDirectory() as name:
        while sum(bool(each["cut"]) for each in found) < cuts:
            folder = Path(name) / str(len(found))
            folder.mkdir()
            found.append(cut_and_restart(rng, folder))
            print(len(found), found[-1], flush=True)
    cut = [each for each in found if each["cut"]]
    silent = sum(not each["asked"] for each in cut)
    full = sum(bool(each["full"]) for each in cut)
    point = f"the loop killed at a random motion and started again, {cuts} times ({full} with a full gripper)"
    ended = ", ".join(f"{name} {n}" for name, n in Counter(str(each["ended"]) for each in cut).items())

    def total(key: str) -> str:
        return f"{sum(int(each[key]) for each in cut)} of {cuts}"  # type: ignore[call-overload]

    return [
        ("safe", f"{point}: objects dropped", "0", total("dropped")),
        ("safe", f"{point}: motions before leave, the gripper not known to be empty", "0", total("unasked")),
        ("safe", f"{point}: restarts without a question", "0", f"{silent} of {cuts}"),
        ("safe", f"{point}: objects lost, attempts missing in the record, restarts that failed", "0",
         f"{total('lost')}, {total('unrecorded')}, {total('failed')}; then ended: {ended}"),
    ]  # fmt: skip


def measure_power_cuts(cuts: int = 50) -> list[Row]:
    """Measure the rows."""
    return rows_of(cuts)


if __name__ == "__main__":
    measure_parts({"power_cuts": measure_power_cuts}, __doc__)
