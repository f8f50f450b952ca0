"""What the README shows is what happens."""

import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cpor.cli.app import app

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


@pytest.mark.parametrize("code", re.findall(r"```python\n(.*?)```", README, re.DOTALL))
def test_the_quickstarts_run_and_print_what_they_say(code):
    assert len(code.strip().splitlines()) <= 12
    if "look(" in code:
        pytest.importorskip("onnxruntime", reason="pip install 'cpor-grasp[perception]'")
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    said = re.match(r"```\n\n```text\n(.*?)```", README[README.index(code) + len(code) :], re.DOTALL)
    assert ran.stdout and (said is None or ran.stdout == said.group(1))


@pytest.mark.slow
def test_the_examples_act_with_a_promise_ask_and_need_no_masks(tmp_path, monkeypatch):
    pytest.importorskip("onnxruntime", reason="pip install 'cpor-grasp[perception]'")
    monkeypatch.chdir(tmp_path)
    commands = re.findall(r"^    cpor (examples .*?|decide cpor-examples.*?)(?:  .*)?$", README, re.MULTILINE)
    assert len(commands) == 3
    said = [CliRunner().invoke(app, command.split(), env={"COLUMNS": "80"}) for command in commands]
    assert [ran.exit_code for ran in said] == [0, 0, 0], said
    assert not list(tmp_path.glob("cpor-examples/*/instances.png"))
    shown = re.search(r"```text\n(╭.*?)```", README, re.DOTALL)
    # The networks round in their own way on every kind of processor: a per cent or two more or less.
    share = re.compile(r"\d+\.\d%")
    printed = said[1].output[said[1].output.index("╭") :][: len(shown[1])]
    assert share.sub("%", printed) == share.sub("%", shown[1])
    p, q = ([float(each[:-1]) for each in share.findall(card)] for card in (printed, shown[1]))
    assert p == pytest.approx(q, abs=2.0)
    assert "Promised: at most" in shown[1] and "REMOVE" in shown[1]
    assert "ASK" in said[2].output and "Question: Does " in said[2].output


def test_the_two_commands_are_there():
    for command in ("make demo", "make test"):
        assert command in README


def test_examples_run(monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    for example in sorted((ROOT / "examples").glob("*.py")):
        monkeypatch.setattr(sys, "argv", [str(example)])
        runpy.run_path(str(example), run_name="__main__")
        assert capsys.readouterr().out, example.name


def test_links_lead_somewhere():
    for link in re.findall(r"\]\(([^)#]+)\)", README):
        if not link.startswith("http"):
            assert (ROOT / link).exists(), link
