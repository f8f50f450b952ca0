"""`cpor retrieve`: any robot by name and file, and nothing moves before a dry run."""

import json

import pytest
from bridges.test_grasps import APART, BESIDE
from support.box_table import OverTheTable
from typer.testing import CliRunner

from cpor.cli.app import app
from cpor.errors import CporError, InvalidSettingError
from cpor.io.scene_folder import write_scene_folder
from cpor.model import FittedModel, bundled_model
from cpor.robot.judged_retrievals import FILE, keep_retrieval, read_retrievals
from cpor.robot.protocol import Outcome, RobotStatus
from cpor.robot.robot_file import build_ur, open_robot, read_robot_file
from cpor.robot.run_folder import read_run
from cpor.scene import Scene


@pytest.fixture
def cell(tmp_path):
    return write_cell(tmp_path, APART)


def write_cell(tmp_path, boxes):
    camera = OverTheTable(boxes)
    for k in range(6):
        write_scene_folder(Scene(camera.frame()), tmp_path / "frames" / f"{k:02d}")
    text = f'[robot]\nhost = "192.0.2.1"\ncamera = "{tmp_path / "frames"}"\n[loop]\nbudget = 3\n'
    (tmp_path / "cell.toml").write_text(text)
    return tmp_path / "cell.toml"


def retrieve(*arguments, **options):
    common = ["--segmenter", "depth", "--scorer", "none"]
    return CliRunner().invoke(app, ["retrieve", *map(str, arguments), *common], **options)


UR = "cpor.robot.robot_file:build_ur"


def test_a_dry_run_says_what_it_would_do(cell, tmp_path):
    ran = retrieve(
        "--robot", UR, "--config", cell, "--point", "60,48", "--record", tmp_path / "run", "--json"
    )
    assert ran.exit_code == 0, ran.output
    said = json.loads(ran.stdout)
    assert said["dry_run"] and said["ended"] == "budget"
    run = read_run(tmp_path / "run")
    assert run.cycles[0].outcome.kind == "done" and "a dry run" in " ".join(run.cycles[0].notes)
    words = retrieve("--robot", UR, "--config", cell, "--point", "60,48")
    assert words.exit_code == 0 and "1. It would grasp " in words.output


def test_a_fault_says_its_cause_first_and_has_an_exit_code_of_its_own(cell, tmp_path):
    outside = retrieve("--robot", UR, "--config", cell, "--point", "9999,48")
    assert outside.exit_code == 2 and "lies outside of the" in outside.output
    for frame in (tmp_path / "frames").iterdir():
        (frame / "camera.json").unlink()
    no_unit = retrieve("--robot", UR, "--config", cell, "--point", "60,48")
    assert no_unit.exit_code == 2 and "depth has no unit" in no_unit.output


@pytest.mark.parametrize(
    ("request_", "says"),
    [
        (("--point", "2,2"), "moved. The target was not seen in 1 look; the scene has: 1, 2."),
        (("--request", "the gizmo"), "moved. A person has to say: it is not clear which object is meant"),
        (("--point", "60,48", "--mode", "robust", "--model", "none"), "moved. It deferred 1 time in a row"),
    ],
)
def test_a_dry_run_that_finds_nothing_to_do_says_why_and_exits_with_1(tmp_path, request_, says):
    ran = retrieve("--robot", UR, "--config", write_cell(tmp_path, BESIDE), *request_)
    assert ran.exit_code == 1 and says in ran.output


def test_a_dry_run_without_a_grasp_exits_with_1_and_says_so_in_words(cell, monkeypatch):
    monkeypatch.setattr("cpor.robot.ur.find_grasps", lambda *args, **more: [])
    ran = retrieve("--robot", UR, "--config", cell, "--point", "60,48")
    assert ran.exit_code == 1 and "No grasp was found: " in ran.output and "no_grasp" not in ran.output


def test_live_comes_after_a_dry_run_and_a_yes(cell):
    ran = retrieve("--robot", UR, "--config", cell, "--point", "60,48", "--live", input="n\n")
    assert ran.exit_code == 1 and "Move the arm now?" in ran.output and "1. It would grasp" in ran.output


class Bold:
    """A robot without a dry run."""

    address = None
    moved = 0

    def observe(self):
        return OverTheTable(APART).frame()

    def grasp(self, scene, obj):
        Bold.moved += 1
        return Outcome("fault", "it broke")

    remove = grasp

    def home(self):
        return Outcome("done", "at home")

    def stop(self):
        pass

    heartbeat = stop

    def status(self):
        return RobotStatus("ready", "at rest", False)


def test_a_robot_without_a_dry_run_moves_only_when_told():
    name = f"{__name__}:Bold"
    with pytest.raises(InvalidSettingError, match="--live"):
        open_robot(name, {}, live=False)
    assert Bold.moved == 0
    assert isinstance(open_robot(name, {}, live=True), Bold)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[robot", "no TOML"),
        ("[arm]\n", "takes the tables"),
        ("[loop]\nspeed = 3\n", "takes: budget"),
        ("[loop]\nbudget = 0\n", "at least 1"),
    ],
)
def test_what_is_wrong_with_a_file_is_said(tmp_path, text, says):
    (tmp_path / "x.toml").write_text(text)
    with pytest.raises(InvalidSettingError, match=says):
        read_robot_file(tmp_path / "x.toml")


def test_options_of_a_ur_are_plain_values(cell, tmp_path):
    box = {"low": [0.05, -0.4, 0.0], "high": [0.5, 0.4, 0.5]}
    made = build_ur("192.0.2.1", str(tmp_path / "frames"), limits={"speed": 0.05, "workspace": box})
    assert made.limits.speed == 0.05 and made.limits.workspace.high == (0.5, 0.4, 0.5)
    with pytest.raises(InvalidSettingError, match="dry_run"):
        open_robot(UR, {"host": "x", "dry_run": False}, live=False)
    with pytest.raises(CporError, match="takes: acceleration"):
        build_ur("192.0.2.1", str(tmp_path / "frames"), limits={"sped": 1})
    assert retrieve("--robot", UR, "--config", cell, "--target", 1, "--point", "1,1").exit_code != 0


def test_a_run_is_judged_beside_its_record_and_a_model_is_tested_on_it(tmp_path, monkeypatch):
    monkeypatch.setattr(Bold, "moved", 0)
    name, runs = f"{__name__}:Bold", tmp_path / "runs"
    common = ("--robot", name, "--point", "60,48", "--live", "--judge", "--mode", "bold")
    assert "give --record" in str(retrieve(*common).exception)
    runs.mkdir()
    ran = retrieve(*common, "--record", runs / "001", input="n\n")
    assert "Was any action of this run wrong?" in ran.output
    (kept,) = read_retrievals([runs / FILE])
    assert (kept.run, kept.wrong, kept.ended) == ("001", False, "fault")
    assert f"{name}, mode bold, masks of " in kept.where

    def fit(*arguments):
        asked = ["fit", "--episodes", runs, "--out", tmp_path / "model.json", *arguments]
        return CliRunner().invoke(app, [*map(str, asked)])

    assert "1 of 1 retrievals" in str(
        fit("--prior", "bundled").exception
    )  # another model than the one that ran
    own = str(bundled_model("geometry"))
    found = fit("--prior", own, "--json")
    assert found.exit_code == 0, found.output
    assert (
        FittedModel.load(tmp_path / "model.json").retrievals.tau is None and "22 without any" in found.stdout
    )
    for _ in range(21):
        keep_retrieval(runs / FILE, kept)
    fit("--prior", own)
    assert FittedModel.load(tmp_path / "model.json").retrievals.tau == kept.tau
    keep_retrieval(runs / FILE, kept.model_copy(update={"wrong": None}))
    assert "nobody judged 001" in str(fit("--prior", own).exception)
