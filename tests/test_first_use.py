"""The first minute: a small scene needs no compiler, and whoever waits for it is told."""

import os
import re
import subprocess
import sys
from pathlib import Path

from cpor.cli.first_use import make_listener

HEAP = Path(__file__).parents[1] / "examples" / "scenes" / "heap.json"


def test_a_small_scene_is_decided_at_once_on_a_new_machine(tmp_path):
    command = [sys.executable, "-c", "from cpor.cli.app import main; main()", "decide", str(HEAP), "--why"]
    new = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    said = subprocess.run(command, env=new, capture_output=True, text=True, check=True)
    assert re.search(r"remove screwdriver +81.4%", said.stdout)
    assert said.stderr == "" and not list(tmp_path.rglob("*.nbi"))


def test_compiling_is_said_once(capsys):
    teller = make_listener()
    for _ in range(2):
        teller.on_start(None)
        teller.on_start(None)  # on the way to the first
        teller.on_end(None)
        teller.on_end(None)
    assert capsys.readouterr().err.count("Compiling what is new on this machine") == 1
