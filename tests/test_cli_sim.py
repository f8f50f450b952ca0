"""The commands `simulate` and `demo` as a user runs them."""

import json
import os
import subprocess
import sys

import pytest
from support.box_table import BoxTable, TableMasks
from support.plain_system import plain_system
from typer.testing import CliRunner

from cpor.cli.app import app, main
from cpor.robot.loop import retrieve
from cpor.robot.run_folder import RunFolder, read_run
from cpor.sim.dataset.manifest import read_split

MAIN = "from cpor.cli.app import main; main()"
SMALL = ("--scenes", "2", "--size", "160x120")


def cpor(*arguments, code=MAIN):
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        capture_output=True,
        text=True,
        env=os.environ | {"COLUMNS": "100"},
        check=False,
    )


def test_simulate_writes_a_data_set_and_says_what_is_in_it(tmp_path):
    asked = ["simulate", "--out", str(tmp_path / "set"), *SMALL, "--tier", "easy", "--workers", "2", "--json"]
    ran = CliRunner().invoke(app, asked)
    assert ran.exit_code == 0, ran.output
    told = json.loads(ran.stdout)
    assert told["n_cases"] == {"easy": 2, "medium": 0, "hard": 0}
    assert set(told["n_cyclic"]) == {"relations.json", "relations_sweep.json"}
    assert [case.tier for case in read_split(tmp_path / "set")] == ["easy", "easy"]
    scene = str(tmp_path / "set" / "scene_00000")
    decided = CliRunner().invoke(app, ["decide", scene, "--target", "1", "--prior", "0.15", "--json"])
    assert decided.exit_code == 0, decided.output


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "give --scenes N, or --split dev or test"),
        (("--split", "train"), "choose one of: dev, test"),
        (("--split", "dev", "--scenes", "3"), "drop --scenes"),
        (("--split", "dev", "--density", "loose"), "drop --density"),
        ((*SMALL, "--tier", "deep"), "choose one of: easy, medium, hard, all"),
        (("--scenes", "1000000000"), "at most 1,000,000"),
        ((*SMALL[:2], "--size", "huge"), "give it like 640x480"),
        ((*SMALL, "--workers", "0"), "at least 1"),
    ],
)
def test_simulate_refuses_what_it_cannot_do(tmp_path, monkeypatch, capsys, arguments, said):
    monkeypatch.setattr(sys, "argv", ["cpor", "simulate", "--out", str(tmp_path / "set"), *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2 and said in capsys.readouterr().err
    assert not (tmp_path / "set").exists()


@pytest.mark.parametrize("command", ["simulate --out {} --scenes 1", "demo --out {}"])
def test_without_mujoco_it_says_what_to_install(tmp_path, command):
    code = f"import sys; sys.modules['mujoco'] = None; {MAIN}"  # as if it were not installed
    ran = cpor(*command.format(tmp_path / "out").split(), code=code)
    assert ran.returncode == 2
    assert "pip install 'cpor-grasp[sim]'" in ran.stderr and "Traceback" not in ran.stderr


@pytest.mark.slow
def test_demo_tells_programs_and_people_the_same(tmp_path, evidence):
    out = str(tmp_path / "demo")
    ran = CliRunner().invoke(app, f"demo --seed 3 --tier easy --no-film --json --out {out}".split())
    told = json.loads(ran.stdout)
    assert {"retrieved", "cycles", "wrong_removals", "deferrals", "actions"} <= set(told)
    assert ran.exit_code == (0 if told["retrieved"] else 1), ran.output
    record = read_run(tmp_path / "demo" / "run")
    assert len(record.cycles) == told["cycles"] and record.head.actions == told["actions"]
    assert record.ended == told["ended"]
    page = (tmp_path / "demo" / "story.html").read_text()
    assert ("was retrieved" in page) == told["retrieved"]
    assert (tmp_path / "demo" / "first_look.webp").is_file()
    evidence("acts", "fields that cpor demo --json tells", "", ", ".join(sorted(told)))


@pytest.fixture
def refused(monkeypatch, capsys):
    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["cpor", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        assert ended.value.code == 2
        return capsys.readouterr().err

    return run


def test_demo_says_what_is_wrong_before_it_begins(tmp_path, refused):
    assert "choose one of: easy, medium, hard, any" in refused("demo", "--tier", "foo")
    (tmp_path / "letter.txt").write_text("dear")
    assert "letter.txt is a file" in refused("demo", "--out", tmp_path / "letter.txt")
    for out in ("/proc/x", tmp_path / "letter.txt" / "x"):
        said = refused("demo", "--eyes", "truth", "--out", out)
        assert f"cannot create the folder {out}: " in said and "choose another --out" in said


def test_a_recorded_run_is_told_as_a_page(tmp_path, refused):
    table = BoxTable()
    assert retrieve(table, plain_system(TableMasks(table)), 1, record=RunFolder(tmp_path / "run")).retrieved
    ran = CliRunner().invoke(app, ["story", str(tmp_path / "run"), "--out", str(tmp_path / "page.html")])
    assert ran.exit_code == 0 and "3 steps" in ran.stdout, ran.output
    assert "was retrieved" in (tmp_path / "page.html").read_text()
    assert "is a folder" in refused("story", tmp_path / "run", "--out", tmp_path)
    assert "does not exist; create it" in refused(
        "story", tmp_path / "run", "--out", tmp_path / "none" / "page.html"
    )
    assert "holds no run" in refused("story", tmp_path / "none", "--out", tmp_path / "page.html")


def test_demo_leaves_a_full_folder_alone(tmp_path, monkeypatch, capsys):
    (tmp_path / "letter.txt").write_text("dear")
    monkeypatch.setattr(sys, "argv", ["cpor", "demo", "--out", str(tmp_path)])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2 and "not empty" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["letter.txt"]
