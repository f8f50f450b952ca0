"""`cpor decide` on a terminal: it asks, a person replies, it acts, and a session remembers the replies."""

import json
import os
import pty
import re
import select
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import cpor
from cpor.cli.app import app

FULL = Path(cpor.__file__).parent / "serve" / "examples" / "full-bin"


class Terminal:
    """A program on a pseudo-terminal, as a person sees it."""

    def __init__(self, *arguments):
        self.screen = ""
        self._own, theirs = pty.openpty()
        code = "from cpor.cli.app import main; main()"
        self.process = subprocess.Popen(
            [sys.executable, "-c", code, *map(str, arguments)],
            stdin=theirs, stdout=theirs, stderr=theirs, env=os.environ | {"TERM": "dumb", "COLUMNS": "100"},
        )  # fmt: skip
        os.close(theirs)

    def wait_for(self, words):
        """Read until it says so; what was said so far."""
        while words not in self.screen:
            assert select.select([self._own], [], [], 240)[0], self.screen
            self._read()
        return self.screen

    def reply(self, words):
        """Type a line; what was on the screen before counts no more."""
        self.screen = ""
        os.write(self._own, f"{words}\n".encode())

    def end(self):
        """Read to the end; the exit code."""
        while self._read():
            pass
        os.close(self._own)
        return self.process.wait(240)

    def _read(self):
        try:
            said = os.read(self._own, 4096).decode()
        except OSError:  # Linux: the other side is closed
            said = ""
        self.screen += said
        return said


@pytest.fixture
def frame():
    pytest.importorskip("onnxruntime", reason="needs the extra perception")
    return FULL / "rgb.png", FULL / "depth.png"


@pytest.mark.slow
def test_it_asks_on_a_terminal_reads_the_reply_and_acts(frame, tmp_path):
    session = tmp_path / "talk.json"
    terminal = Terminal("decide", *frame, "--request", "the blue tool", "--session", session)
    asked = terminal.wait_for("> ")
    assert "Not sure enough to act" in asked and "Reply yes or no." in asked and "--t" not in asked
    pair = re.search(r"Does (\d+) .* obstruct (\d+) ", asked)
    terminal.reply("perhaps")
    assert "I do not understand the reply" in terminal.wait_for("> ")
    terminal.reply("yes")
    while "│" not in terminal.screen and terminal._read():
        if terminal.screen.endswith("> "):
            terminal.reply("no")
    assert terminal.end() == 0
    assert re.search(r"(REMOVE|GRASP) \d+", terminal.screen), terminal.screen
    kept = json.loads(session.read_text())
    assert kept["request"] == "the blue tool" and kept["replies"][0] == "yes"

    ran = CliRunner().invoke(app, ["decide", *map(str, frame), "--session", str(session), "--json"])
    said = json.loads(ran.stdout)
    certain = {(each["blocked"], each["blocker"]) for each in said["relations"] if each["p"] == 1.0}
    assert said["action"]["type"] != "defer" and (int(pair[2]), int(pair[1])) in certain
