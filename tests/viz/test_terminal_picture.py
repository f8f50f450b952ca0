"""A picture in the terminal: only where it can show one, and then the right pixels."""

import base64
import io
import os
import pty
import re
import threading

import numpy as np
import pytest
from PIL import Image

from cpor.viz.terminal_picture import kitty, picture_way, show_picture, sixel


def painted():
    pixels = np.zeros((13, 20, 3), np.uint8)
    pixels[:, :7] = (255, 0, 0)
    pixels[5:, 7:] = (0, 255, 0)
    return Image.fromarray(pixels)


@pytest.fixture
def terminal():
    """A terminal that answers, when asked for its attributes, what a test says."""
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "w") as stream:
        yield ours, stream
    os.close(ours)


def answering(ours, reply):
    def answer():
        asked = b""
        while not asked.endswith(b"\x1b[c"):
            asked += os.read(ours, 1)
        os.write(ours, reply)

    thread = threading.Thread(target=answer)
    thread.start()
    return thread


@pytest.mark.parametrize(("reply", "way"), [(b"\x1b[?62;4;22c", "sixel"), (b"\x1b[?62;22c", None)])
def test_a_terminal_is_asked_whether_it_shows_sixels(terminal, reply, way):
    thread = answering(terminal[0], reply)
    assert picture_way(terminal[1], {"TERM": "xterm-256color"}) == way
    thread.join()


def test_some_terminals_are_known_by_name_and_others_show_nothing(terminal):
    stream = terminal[1]
    assert picture_way(stream, {"TERM": "xterm-kitty"}) == "kitty"
    assert picture_way(stream, {"TERM": "xterm", "TERM_PROGRAM": "WezTerm"}) == "kitty"
    assert picture_way(stream, {"TERM": "dumb", "KITTY_WINDOW_ID": "1"}) is None
    assert picture_way(stream, {}) is None
    assert not show_picture(painted(), io.StringIO())  # a file or a pipe


def test_kitty_gets_the_picture_in_chunks():
    noise = Image.fromarray(np.random.default_rng(0).integers(0, 256, (60, 60, 3), dtype=np.uint8))
    parts = re.findall(r"\x1b_G([^;]*);([^\x1b]*)\x1b\\", kitty(noise))
    assert parts[0][0] == "a=T,f=100,m=1" and parts[-1][0] == "m=0" and all(len(p) <= 4096 for _, p in parts)
    again = Image.open(io.BytesIO(base64.b64decode("".join(chunk for _, chunk in parts))))
    assert (np.asarray(again) == np.asarray(noise)).all()


def test_sixels_hold_the_pixels():
    text = sixel(painted())
    body = re.fullmatch(r'\x1bPq"1;1;20;13((?:#\d+;2;\d+;\d+;\d+)+)(.*)\x1b\\', text, re.S)
    colours = {int(c): tuple(map(int, v)) for c, *v in re.findall(r"#(\d+);2;(\d+);(\d+);(\d+)", body[1])}
    found = np.zeros((18, 20, 3), int)
    for band, line in enumerate(body[2].split("-")):
        for part in line.split("$"):
            colour, rest = re.fullmatch(r"#(\d+)(.*)", part, re.S).groups()
            column = 0
            for count, sign in re.findall(r"(?:!(\d+))?([?-~])", rest):
                for _ in range(int(count or 1)):
                    for bit in range(6):
                        if ord(sign) - 63 >> bit & 1:
                            found[6 * band + bit, column] = colours[int(colour)]
                    column += 1
    assert (found[:13] == np.rint(np.asarray(painted()) / 2.55)).all()
