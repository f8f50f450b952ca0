"""The site: it builds without a broken link, asks no other host, and its tutorials do what they say."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cpor.cli.app import app

ROOT = Path(__file__).parents[1]
TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.md"))
OURS = "examples"
"""Commands on files that come with the package are run; others name files of the reader's."""
SAVED = r"as `(\w+\.py)`[^\n]*\n\n```python\n(.*?)```"
"""Code that the reader is told to save."""


@pytest.mark.slow
def test_the_site_builds_strictly_and_asks_no_other_host(tmp_path):
    pytest.importorskip("mkdocs", reason="needs mkdocs (extra dev)")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", str(tmp_path)]
    quiet = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    built = subprocess.run(command, cwd=ROOT, env=quiet, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stdout + built.stderr
    pages = list(tmp_path.rglob("*.html"))
    assert len(pages) > 25
    for page in pages:
        asked = re.findall(
            r"""<(?:script|img|link|iframe)[^>]+(?:src|href)=["']?(https?:)?//""", page.read_text()
        )
        assert not asked, page
    commands = (tmp_path / "reference" / "cli.html").read_text()
    assert "cpor decide" in commands and "--depth-unit-m" in commands
    first = tmp_path / "index.html"
    assert first.stat().st_size < 100_000 and "Grasp it, remove something first, or ask" in first.read_text()


@pytest.mark.slow
@pytest.mark.parametrize("tutorial", TUTORIALS, ids=lambda path: path.stem)
def test_a_tutorial_runs_as_it_is_written(tutorial, tmp_path, monkeypatch, capsys):
    for needed in ("onnxruntime", "mujoco"):
        pytest.importorskip(needed, reason="needs the extras perception and sim")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)  # as `python` does for the folder it is started in
    text = tutorial.read_text(encoding="utf-8")
    for name, code in re.findall(SAVED, text, re.DOTALL):
        (tmp_path / name).write_text(code)
    text = re.sub(SAVED, "", text, flags=re.DOTALL)
    for line in re.findall(r"^\$ (cpor .*)$", text, re.MULTILINE):
        if OURS in line and "FOLDER" not in line:
            ran = CliRunner().invoke(app, shlex.split(line)[1:])
            assert ran.exit_code == 0 and ran.stdout, ran.output
    for code in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        exec(compile(code, tutorial.name, "exec"), {"__name__": "__main__"})
        assert capsys.readouterr().out, code
