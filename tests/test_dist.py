"""What is published: the same bytes twice, with the weights and the commit, and nothing else."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MOST_BYTES = 45e6


def build(out):
    pytest.importorskip("build", reason="needs build (extra dev)")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), str(ROOT)]
    at = os.environ | {"SOURCE_DATE_EPOCH": "1700000000"}
    subprocess.run(command, check=True, capture_output=True, env=at)
    (wheel,) = out.glob("*.whl")
    return wheel


@pytest.mark.slow
def test_a_wheel_is_complete_small_and_the_same_twice(tmp_path):
    wheel = build(tmp_path / "first")
    assert wheel.read_bytes() == build(tmp_path / "second").read_bytes()
    assert wheel.stat().st_size < MOST_BYTES
    with zipfile.ZipFile(wheel) as packed:
        names = packed.namelist()
    tracked = subprocess.run(
        ["git", "ls-files", "src/cpor"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    missing = {name.removeprefix("src/") for name in tracked.stdout.split()} - set(names)
    missing = {name for name in missing if (ROOT / "src" / name).exists()}
    assert not missing
    assert {name.split("/")[0] for name in names} == {"cpor", "cpor_grasp-0.1.0.dist-info"}
    assert {"cpor/commit.txt", "cpor/py.typed"} <= set(names)
    assert not [name for name in names if name.endswith((".pyc", ".nbi", ".nbc")) or "/__pycache__/" in name]
