"""docs/extending.md as a new user reads it: save the blocks, run them, check them."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from cpor.io.scene_folder import write_scene_folder
from cpor.perception.segmenter import make_segmenter
from cpor.robot.cycle import LoopSettings
from cpor.robot.loop import retrieve
from cpor.robot.protocol import Outcome
from cpor.robot.robot_file import make_robot
from cpor.scene import DetectedObject, MaskCrop, Scene
from cpor.semantics.scorer import RelationScorer, ScoredPairs
from cpor.system import System
from cpor.testing import check_robot, check_scorer, check_segmenter, example_scene

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
FILES = ("colour_segmenter", "depth_scorer", "nearer_patch", "toy_robot")
SOURCE = "nearer_patch:NearerPatch"
COLOURS, NEARER, TOY = "colour_segmenter:ColourSegmenter", "depth_scorer:DepthScorer", "toy_robot:ToyRobot"


@pytest.fixture
def saved(tmp_path, monkeypatch):
    """The first blocks in files of the names that the document says."""
    for name, code in zip(FILES, BLOCKS, strict=False):
        assert f"`{name}.py`" in TEXT
        (tmp_path / f"{name}.py").write_text(code)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    for name in FILES:
        sys.modules.pop(name, None)


def test_each_is_about_twenty_lines(evidence):
    lengths = [len([line for line in code.splitlines() if line.strip()]) for code in BLOCKS[: len(FILES)]]
    assert max(lengths) <= 32
    evidence(
        "serves",
        "a segmenter, a scorer, a source of belief and a robot of one's own",
        "about 20 lines each",
        ", ".join(map(str, lengths)) + " lines",
    )


def test_the_checks_of_the_document_pass(saved):
    scope: dict[str, object] = {}
    exec(BLOCKS[5], scope)
    scope["test_mine"]()


def test_the_loop_of_the_document_retrieves(saved, capsys):
    exec(BLOCKS[4], {})
    assert capsys.readouterr().out.startswith("retrieved")


def test_they_work_together_by_module_and_attribute(saved):
    robot, segmenter = make_robot(TOY), make_segmenter(COLOURS, least=60)
    system = System(segmenter, NEARER, "none", second_look=False, tau=0.5)
    result = retrieve(robot, system, 1, LoopSettings(ids_are_kept=True))
    assert result.retrieved and list(robot.boxes) == [2]


def test_the_command_line_takes_them(saved):
    write_scene_folder(Scene(example_scene().observation), saved / "scene")
    asked = ["decide", "scene", "--segmenter", COLOURS, "--scorer", NEARER, "--target", "3", "--json"]
    environment = os.environ | {"PYTHONPATH": f"{saved}{os.pathsep}{ROOT / 'src'}"}
    command = [sys.executable, "-c", "from cpor.cli.app import main; main()", *asked]
    ran = subprocess.run(command, cwd=saved, capture_output=True, text=True, env=environment)
    assert ran.returncode in (0, 1), ran.stderr
    assert [each["id"] for each in json.loads(ran.stdout)["objects"]] == [1, 2, 3]
    alone = [*command, "--source", SOURCE, "--scorer", "none"]
    refused, ran = (
        subprocess.run([*alone, *more], cwd=saved, capture_output=True, text=True, env=environment)
        for more in ([], ["--model", "none"])
    )
    assert refused.returncode == 2 and "not fitted with the source" in refused.stderr
    assert ran.returncode in (0, 1), ran.stderr
    said = {(each["blocked"], each["blocker"]): each["p"] for each in json.loads(ran.stdout)["relations"]}
    assert said[1, 3] > 0.9  # the blue box is 10 cm nearer than the red one, and nothing else speaks of them


class Forgetful(RelationScorer):
    name = "forgetful"

    def score(self, scene, pairs):
        return ScoredPairs(dict.fromkeys(pairs[1:], 0.5), self.name)


class Certain(RelationScorer):
    name = "certain"

    def score(self, scene, pairs):
        return ScoredPairs(dict.fromkeys(pairs, 1.5), self.name)


class Trusting(RelationScorer):
    name = "trusting"

    def score(self, scene, pairs):
        return ScoredPairs(dict.fromkeys(pairs, 0.5), self.name)


@pytest.mark.parametrize(
    ("make", "said"),
    [(Forgetful, "every pair asked"), (Certain, "within 0 and 1"), (Trusting, "InvalidSceneError")],
)
def test_a_scorer_that_breaks_a_rule_is_found_out(make, said):
    with pytest.raises(AssertionError, match=said):
        check_scorer(make)


class Restless:
    """Other masks each time."""

    def __init__(self):
        self.seen = 0

    def segment(self, observation):
        self.seen += 1
        ids = np.zeros(observation.shape, np.int32)
        ids[: self.seen] = 1
        return Scene(observation, (DetectedObject(1),), ids)


class TooSmall:
    """An amodal mask smaller than what shows."""

    def segment(self, observation):
        ids = np.ones(observation.shape, np.int32)
        few = np.zeros(observation.shape, np.bool_)
        few[0, 0] = True
        return Scene(observation, (DetectedObject(1, MaskCrop.from_mask(few)),), ids)


@pytest.mark.parametrize(
    ("make", "said"), [(Restless, "the same scene twice"), (TooSmall, "must hold its visible mask")]
)
def test_a_segmenter_that_breaks_a_rule_is_found_out(make, said):
    with pytest.raises(AssertionError, match=said):
        check_segmenter(make)


def test_a_robot_that_breaks_a_rule_is_found_out(saved):
    import toy_robot

    class Boasting(toy_robot.ToyRobot):
        def grasp(self, scene, obj):
            return Outcome("done", "surely", 1.0)

        remove = grasp

    class Deaf(toy_robot.ToyRobot):
        def stop(self):
            pass

    for make, said in ((Boasting, "the next picture shows it"), (Deaf, "after stop the status")):
        with pytest.raises(AssertionError, match=said):
            check_robot(lambda make=make: (make(), make_segmenter(COLOURS)))
