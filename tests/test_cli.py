"""The command line as a user runs it: its own process, its exit code, what it prints."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from cpor.cli.app import main
from cpor.learn.modes import LEAST_SCORE

HEAP = Path(__file__).parents[1] / "examples" / "scenes" / "heap.json"


def cpor(*arguments, **environment):
    return subprocess.run(
        [sys.executable, "-c", "from cpor.cli.app import main; main()", *map(str, arguments)],
        capture_output=True,
        text=True,
        env=os.environ | {"COLUMNS": "100"} | environment,
        check=False,
    )


@pytest.fixture
def write(tmp_path):
    def write(content):
        path = tmp_path / "scene.json"
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return path

    return write


def test_json_has_the_promised_keys():
    ran = cpor("decide", HEAP, "--json", "--mode", "bold")
    assert ran.returncode == 0, ran.stderr
    answer = json.loads(ran.stdout)
    assert answer["action"] == {"type": "remove", "object": "screwdriver", "reason": None}
    assert set(answer["scores"]) == set(json.loads(HEAP.read_text())["objects"])
    assert answer["blockers"] == ["screwdriver"]
    assert answer["certificate"] == {
        "kind": "exact",
        "epsilon": 0.0,
        "k": None,
        "exact": True,
        "blockers_certified": True,
    }
    assert answer["method"] == "exact"
    assert (answer["mode"], answer["tau"]) == ("bold", LEAST_SCORE["bold"])
    assert answer["mu"] == pytest.approx(0.88 * 0.21)
    shares = [graph["share"] for graph in answer["top_graphs"]]
    assert shares == sorted(shares, reverse=True)
    assert set(answer["top_graphs"][0]["relations"][0]) == {"blocked", "blocker"}


def test_the_card_tells_a_person_what_to_do_and_why():
    ran = cpor("decide", HEAP, "--tau", "0.5")
    assert ran.returncode == 0, ran.stderr
    lines = [line for line in ran.stdout.splitlines() if line.startswith("│")]
    assert "REMOVE screwdriver" in ran.stdout and "With probability 81.4%" in ran.stdout and len(lines) <= 8
    ran = cpor("decide", HEAP, "--tau", "0.5", "--why")
    for words in ("REMOVE screwdriver", "81.4%", "Likeliest arrangements", "What would change this", "Exact"):
        assert words in ran.stdout


@pytest.fixture
def run(monkeypatch, capsys):
    """The command line within this process, for many small runs."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["cpor", *map(str, arguments)])
        with pytest.raises(SystemExit) as stopped:
            main()
        printed = capsys.readouterr()
        return stopped.value.code, printed.out, printed.err

    return run


def test_settings_reach_the_decision(run, write):
    def decided(*arguments):
        return json.loads(run("decide", *arguments, "--json")[1])

    answer = decided(HEAP, "--tau", "0.9", "--method", "topk")
    assert answer["action"]["type"] == "defer"
    assert answer["method"] == "topk"
    gap = {"objects": [1, 2], "target": 1, "relations": [{"blocked": 1, "blocker": 2, "p": None}]}
    path = write(gap)
    answer = decided(path)
    assert answer["action"] == {"type": "defer", "object": None, "reason": "no_evidence"}
    assert answer["mu"] is None
    assert answer["top_graphs"] == []
    answer = decided(path, "--prior", "0.05")
    assert answer["action"] == {"type": "grasp", "object": 1, "reason": None}
    assert "an answer is missing" in run("decide", path)[1]


def test_the_risk_setting_is_cautious_unless_told(run):
    said = {
        mode: json.loads(run("decide", HEAP, "--json", *(["--mode", mode] if mode else []))[1])
        for mode in (None, "cautious", "balanced", "bold")
    }
    assert {mode: (each["mode"], each["tau"]) for mode, each in said.items()} == {
        None: ("cautious", 0.9),
        "cautious": ("cautious", 0.9),
        "balanced": ("balanced", 0.5),
        "bold": ("bold", 0.3),
    }
    kinds = [each["action"]["type"] for each in said.values()]
    assert kinds == ["defer", "defer", "remove", "remove"]  # the best action is right with 81.4 %
    assert all(each["promise"] is None for each in said.values())


def relation(**changes):
    return {"blocked": "a", "blocker": "b", "p": 0.5} | changes


def scene(*relations, objects=("a", "b"), target="a"):
    return {"objects": list(objects), "target": target, "relations": list(relations)}


@pytest.mark.parametrize(
    ("content", "culprit"),
    [
        ("{not json", "not JSON"),
        ("[1, 2]", "JSON object"),
        ("[" * 100_000, "nested too deeply"),
        ('{"objects": ["a"], "target": "a"}', '"relations" is missing'),
        (scene(relation(p=1.5)), "1.5"),
        (json.dumps(scene(relation(p=float("nan")))), "NaN"),
        (scene(relation(p="high")), '"high"'),
        (scene(relation(p=True)), "true"),
        (scene({"blocked": "a", "blocker": "b"}), 'no "p"'),
        (scene(relation(blocker="a")), "itself"),
        (scene(relation(), relation(p=0.6)), "twice"),
        (scene(relation(blocker="z")), "'z'.*a, b"),
        (scene(target="z"), "target 'z'"),
        (scene(target=None), "target"),
        (scene(objects=(), target="a"), "empty"),
        (scene(objects=("a", ["b"])), "labels are strings or numbers"),
        (scene(objects=("1", 1), target=1), "read the same"),
        (scene("a blocks b"), "must be an object"),
        ({"objects": "a", "target": "a", "relations": []}, "list of labels"),
        ({"objects": ["a"], "target": "a", "relations": {}}, "must be a list"),
        ('{"objects": ["a"], "target": "a", "relations": [], "relations": []}', '"relations" is given twice'),
        ('{"objects": [' + "9" * 5000 + '], "target": 1, "relations": []}', "not JSON"),
        ('{"objects": [1e999], "target": 1, "relations": []}', "too large a number"),
        ('{"objects": ["\\ud800"], "target": "a", "relations": []}', "surrogate"),
        (scene(objects=(1, 2), target="1"), "different labels"),
        (scene(objects=("a\nb", "c"), target="z"), "target 'z'"),
    ],
)
def test_bad_files_get_one_clear_line_and_exit_code_2(run, write, content, culprit):
    code, out, error = run("decide", write(content))
    assert (code, out) == (2, "")
    assert len(error.splitlines()) == 1
    assert "scene.json" in error
    assert re.search(culprit, error), error


def test_files_that_cannot_be_read(run, tmp_path):
    assert "No such file" in run("decide", tmp_path / "nowhere.json")[2]
    binary = tmp_path / "binary.json"
    binary.write_bytes(b"\xff\xfe\x00")
    code, _, error = run("decide", binary)
    assert (code, len(error.splitlines())) == (2, 1)
    assert "UTF-8" in error


@pytest.mark.parametrize(
    "arguments", [("--tau", "2"), ("--method", "guess"), ("--prior", "7"), ("--deadline-ms", "-1")]
)
def test_bad_settings_exit_with_2(run, arguments):
    code, out, error = run("decide", HEAP, *arguments)
    assert (code, out) == (2, "")
    assert error


def test_no_traceback_reaches_a_user(write):
    ran = cpor("decide", write("{not json"))
    assert ran.returncode == 2
    assert "Traceback" not in ran.stderr


def test_labels_cannot_act_on_the_terminal(run, write):
    hostile = ["[bold]mug[/bold]", "\x1b[31mred", ":bomb:", "back\\"]
    path = write(
        scene(
            {"blocked": hostile[0], "blocker": hostile[1], "p": 0.9},
            {"blocked": hostile[0], "blocker": hostile[2], "p": 0.3},
            objects=hostile,
            target=hostile[0],
        )
    )
    shown = cpor("decide", path, "--tau", "0.5", "--why").stdout
    assert "\x1b" not in shown
    assert "[bold]mug[/bold]" in shown
    assert ":bomb:" in shown
    assert json.loads(run("decide", path, "--json", "--tau", "0.5")[1])["action"]["object"] == hostile[1]


def test_a_plain_terminal_gets_an_answer_too():
    ran = cpor("decide", HEAP, "--mode", "bold", PYTHONIOENCODING="ascii", COLUMNS="40")
    assert ran.returncode == 0, ran.stderr
    assert "REMOVE screwdriver" in ran.stdout


def test_a_scene_file_loads_none_of_the_stages():
    heavy = ["scipy.stats", "scipy.optimize", "PIL", "cpor.pipeline", "cpor.learn.logistic"]
    code = (
        "import sys; from cpor.cli.app import main; sys.argv = ['cpor', 'decide', sys.argv[1], '--json']\n"
        f"try: main()\nexcept SystemExit: print([m for m in {heavy} if m in sys.modules], file=sys.stderr)"
    )
    ran = subprocess.run([sys.executable, "-c", code, HEAP], capture_output=True, text=True, check=True)
    assert ran.stderr.strip() == "[]"


def test_python_does_not_search_for_garbage_as_a_command_ends():
    code = (
        "import atexit, gc; from cpor.cli.app import main\n"
        "atexit.register(lambda: print(gc.get_count()[0], gc.get_freeze_count())); main()"
    )
    ran = subprocess.run([sys.executable, "-c", code, "--version"], stdout=subprocess.PIPE, check=True)
    left, frozen = map(int, ran.stdout.split()[-2:])
    assert left < 1000 < frozen


def test_version(run):
    code, out, _ = run("--version")
    assert code == 0
    assert out.startswith("cpor 0.")
