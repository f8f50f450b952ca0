"""A power cut in the middle of a carry, and the restart: it asks first, drops nothing and loses nothing."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cpor.robot.run_folder import read_run

ROOT = Path(__file__).parents[2]


def live(folder, record, cut_at, grip):
    """One life of the program, which ends at a call of arm or gripper; its exit status and the world then."""
    command = [sys.executable, "-m", "support.power_cuts", str(folder / "world.json"), str(folder / record)]
    where = os.environ | {
        "PYTHONPATH": os.pathsep.join(str(ROOT / part) for part in ("src", "tests", "")),
        "XDG_STATE_HOME": str(folder / "state"),
    }
    done = subprocess.run([*command, "1", str(cut_at), grip], env=where, check=False)
    return done.returncode, json.loads((folder / "world.json").read_text())


@pytest.mark.slow
@pytest.mark.parametrize(("cut_at", "grip"), [(9, "tells"), (15, "blind")])
def test_a_power_cut_while_it_carries_drops_and_loses_nothing(tmp_path, cut_at, grip):
    status, world = live(tmp_path, "first", cut_at, grip)
    assert status == -signal.SIGKILL and world["held"] == 1
    asked = world["asked"]
    (cycle,) = read_run(tmp_path / "first").cycles
    assert cycle.attempt == "begun" and cycle.outcome is None
    status, world = live(tmp_path, "second", 0, grip)
    assert status == 0 and world["asked"] - asked == 2  # the last program, and the gripper
    assert not world["unasked"] and not world["dropped"]
    assert world["trays"] == {"1": "discard"} and world["boxes"] == [2]
