"""What the README shows is what happens."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


def test_the_quickstart_runs_and_prints_what_it_says():
    code = re.search(r"```python\n(.*?)```", README, re.DOTALL).group(1)
    assert len(code.strip().splitlines()) <= 12
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    said = re.search(r"```text\n(.*?)```", README[README.index(code) :], re.DOTALL).group(1)
    assert ran.stdout == said


def test_the_two_commands_are_there():
    for command in ("make demo", "make test"):
        assert command in README


def test_examples_run():
    for example in sorted((ROOT / "examples").glob("*.py")):
        ran = subprocess.run([sys.executable, example], capture_output=True, text=True, cwd=ROOT, check=False)
        assert ran.returncode == 0, ran.stderr


def test_links_lead_somewhere():
    for link in re.findall(r"\]\(([^)#]+)\)", README):
        if not link.startswith("http"):
            assert (ROOT / link).exists(), link
