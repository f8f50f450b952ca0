"""docs/bridges.md as a new user reads it: every quickstart is ten lines and runs."""

import asyncio
import json
import re
import subprocess
import sys
import tomllib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from bridges.test_grasps import APART, across, see, to_graspnet
from support.bags import BagMaker, plain
from support.box_table import OverTheTable

from cpor.io.scene_folder import write_scene_folder
from cpor.scene import BlockedBy, Scene, SemanticScores
from cpor.testing import example_scene

DOCS = Path(__file__).parents[2] / "docs"
TEXT = "\n".join((DOCS / name).read_text(encoding="utf-8") for name in ("bridges.md", "ros2.md"))
PYTHON = dict(re.findall(r"## ([^\n]+)\n(?:(?!\n## ).)*?```python\n(.*?)```", TEXT, re.DOTALL))


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Runs the first block of a section in an empty folder; what it printed."""
    monkeypatch.chdir(tmp_path)

    def run(section):
        code = PYTHON[section]
        assert len([line for line in code.splitlines() if line.strip()]) <= 10
        scope = {}
        exec(code, scope)
        return scope, capsys.readouterr().out

    return run


def test_bags(run, tmp_path):
    made = plain(BagMaker(tmp_path / "made")).write()
    next(made.glob("*.mcap")).rename(tmp_path / "lab.mcap")
    assert len(re.findall(r"\d s: \w+", run("Bags")[1])) == 3


def test_agents(run, tmp_path):
    scene = example_scene()
    scores = SemanticScores(
        {BlockedBy(a, b): 0.1 for a in scene.ids for b in scene.ids if a != b}, "somebody"
    )
    write_scene_folder(replace(scene, semantic_scores=scores), tmp_path / "heap")
    scope, _ = run("Agents")
    said = json.loads(asyncio.run(scope["may_i_grasp"]("heap", scene.ids[0])))
    assert said["state"] in ("not_obstructed", "obstructed", "no_answer") and said["promise"] is None


def test_grasps_from_elsewhere(run, tmp_path):
    scene = see(APART)
    write_scene_folder(replace(scene, semantic_scores=SemanticScores({}, "somebody")), tmp_path / "heap")
    np.save(tmp_path / "grasps.npy", to_graspnet([across(scene, 1), across(scene, 2)], scene.observation))
    assert run("Grasps from elsewhere")[1] == "1 kept; refused: {'not_its_own': 1}\n"


def test_robots(run, tmp_path):
    camera = OverTheTable(APART)
    for k in range(4):
        write_scene_folder(Scene(camera.frame()), tmp_path / "frames" / f"{k:02d}")
    assert run("Robots")[1].startswith("True [")


def test_behaviour_trees(run, tmp_path):
    camera = OverTheTable(APART)
    for k in range(4):
        write_scene_folder(Scene(camera.frame()), tmp_path / "frames" / f"{k:02d}")
    assert run("Behaviour trees")[1].startswith("FAILURE - a dry run, nothing moved: would take object")


def test_ros2(run):
    assert run("The node")[1].startswith("NodeCounts(frames=0, passed=0, decided=0")


def test_the_base_install_has_none_of_it():
    """No bridge is among the base dependencies; without its extra each says how to get it."""
    told = tomllib.loads((DOCS.parent / "pyproject.toml").read_text())["project"]
    extras = ("bags", "grasps", "trees", "ros2", "mcp")
    names = {
        re.split("[><=\\[]", each)[0] for extra in extras for each in told["optional-dependencies"][extra]
    }
    assert not names & {re.split("[><=\\[]", each)[0] for each in told["dependencies"]}
    hidden = ["rosbags", "mcap", "msgpack", "zmq", "py_trees", "cyclonedds", "mcp", "rclpy"]
    code = f"""
import importlib, sys
sys.modules.update(dict.fromkeys({hidden}))
from cpor.perception.network_file import MissingExtraError
def ros2(): importlib.import_module("cpor.bridges.ros2_transport").DdsTransport()
def rclpy(): importlib.import_module("cpor.bridges.ros2_rclpy").RclpyTransport()
def trees(): importlib.import_module("cpor.bridges.trees")
def bags(): importlib.import_module("cpor.bridges.bags").open_bag("x.mcap")
for bridge in (ros2, rclpy, trees, bags):
    try: bridge()
    except MissingExtraError as error: print(bridge.__name__, str(error).split(",")[0])
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert [line.split()[0] for line in ran.stdout.splitlines()] == ["ros2", "rclpy", "trees", "bags"]
