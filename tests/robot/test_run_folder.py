"""The record of a run: complete, replayable, and readable whenever the run was killed."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from support.box_table import BoxTable, TableMasks
from support.plain_system import plain_system
from support.sizes import sized

from cpor.decision import Defer, Grasp, Remove
from cpor.errors import InputFileError
from cpor.robot.loop import retrieve
from cpor.robot.run_folder import RunFolder, read_run, replay

TESTS = Path(__file__).parents[1]


@pytest.fixture
def recorded(tmp_path):
    table = BoxTable(misses={3: 1})
    result = retrieve(
        table, plain_system(TableMasks(table)), 1, record=RunFolder(tmp_path / "run", {"seed": 7})
    )
    return tmp_path / "run", result


def test_reads_back_what_was_done(recorded):
    folder, result = recorded
    run = read_run(folder)
    assert run.ended == "retrieved" and run.head.target == 1 and run.head.about == {"seed": 7}
    assert run.head.settings["budget"] == 12 and run.head.robot.state == "ready"
    for then, now in zip(result.cycles, run.cycles, strict=True):
        assert now.decision == then.decision and now.beliefs == then.beliefs and now.times_s == then.times_s
        assert now.p_same == then.p_same and now.unchanged == then.unchanged and now.scene == then.scene


def test_replay_decides_alike_and_tells_where_another_decider_differs(recorded):
    folder, _ = recorded
    assert [each.differs for each in replay(folder, plain_system("given"))] == [False] * 4
    cautious = replay(folder, plain_system("given", tau=1.0))
    assert all(each.differs and isinstance(each.decision.action, Defer) for each in cautious)
    assert [each.recorded for each in cautious] == [Remove(3), Remove(3), Remove(2), Grasp(1)]


def test_a_folder_with_something_in_it_is_refused(recorded):
    with pytest.raises(InputFileError, match="not empty"):
        RunFolder(recorded[0])


def test_what_is_no_run_or_damaged_is_refused(recorded, tmp_path):
    folder, _ = recorded
    with pytest.raises(InputFileError, match="holds no run"):
        read_run(tmp_path)
    content = json.loads((folder / "cycle_01.json").read_text())
    (folder / "cycle_01.json").write_text(json.dumps({**content, "attempt": "maybe"}))
    with pytest.raises(InputFileError, match=r"cycle_01\.json is damaged: attempt"):
        read_run(folder)
    (folder / "cycle_01.json").unlink()
    with pytest.raises(InputFileError, match="lacks a cycle"):
        read_run(folder)


@pytest.mark.parametrize("value", [float("nan"), {1, 2}])
def test_what_is_not_json_is_refused(tmp_path, value):
    with pytest.raises(InputFileError, match="about"):
        RunFolder(tmp_path / "run", {"rng": value})


# A process of its own, since it kills itself: with -9 at the k-th time it touches a file of the run.
KILLED = """
import os, signal, sys
sys.path.insert(0, sys.argv[1])
from support.box_table import BoxTable, TableMasks
from cpor.robot.loop import retrieve
from cpor.robot.run_folder import RunFolder, InputFileError, read_run
from support.plain_system import plain_system

def run(folder, die_at):
    touched = 0
    def hook(event, args):
        nonlocal touched
        if event in ("open", "os.rename", "os.mkdir", "os.remove", "os.rmdir") and folder in str(args[0]):
            touched += 1
            if touched == die_at:
                os.kill(os.getpid(), signal.SIGKILL)
    sys.addaudithook(hook)
    table = BoxTable(misses={3: 1})
    retrieve(table, plain_system(TableMasks(table)), 1, record=RunFolder(folder))

table = BoxTable()
system = plain_system(TableMasks(table))
system.decide(system.look(table.observe()), 1)  # compile once, before the forks
kills, most_cycles, begun, unreadable = 0, 0, 0, []
for k in map(int, sys.argv[3:]):
    folder = os.path.join(sys.argv[2], f"run{k}")
    child = os.fork()
    if child == 0:
        run(folder, k)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if not os.WIFSIGNALED(status):
        break
    kills += 1
    try:
        found = read_run(folder)
        assert found.ended is None or k > 50
        most_cycles = max(most_cycles, len(found.cycles))
        begun += any(cycle.attempt == "begun" for cycle in found.cycles)
    except InputFileError as error:
        if "holds no run" not in str(error):
            unreadable.append(str(error))
print(kills, most_cycles, begun, unreadable)
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(__import__("os"), "fork"), reason="needs fork")
def test_a_run_killed_at_any_moment_leaves_what_is_complete_readable(tmp_path, evidence):
    moments = sized(
        [1, 8, *range(15, 29, 3), *range(30, 500, 14)], [1, 4, 8, 12, *range(15, 29), *range(30, 500, 7)]
    )
    command = [sys.executable, "-c", KILLED, str(TESTS), str(tmp_path), *map(str, moments)]
    ran = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    kills, most_cycles, begun, unreadable = ran.stdout.split(maxsplit=3)
    assert (
        int(kills) >= sized(10, 20)
        and int(most_cycles) == 4
        and int(begun) > 0
        and unreadable.strip() == "[]"
    )
    evidence("safe", "runs killed with -9 while writing that read back", "all", f"{kills} of {kills}")
