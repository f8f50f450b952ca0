"""A small picture in the terminal, where that can show one: Kitty's protocol, or sixels.

Kitty: PNG in base64, in chunks of at most 4096 characters. Sixel: six rows at a time, colour by colour; one
character holds six pixels of a column.
"""

import base64
import io
import os
import select
import sys
from collections.abc import Mapping
from typing import Literal, TextIO

import numpy as np
from PIL import Image

WIDTH = 640
"""Width of the picture. [px]"""

_COLOURS = 128
_WAIT_S = 0.15
"""Longest wait for the terminal to say what it can. [s]"""


def show_picture(picture: Image.Image, stream: TextIO | None = None) -> bool:
    """Show a picture below what was printed; False where the terminal shows none."""
    stream = stream or sys.stdout
    way = picture_way(stream)
    if way is None:
        return False
    small = picture.convert("RGB").resize((WIDTH, round(picture.height * WIDTH / picture.width)))
    stream.write((kitty(small) if way == "kitty" else sixel(small)) + "\n")
    stream.flush()
    return True


def picture_way(stream: TextIO, environ: Mapping[str, str] = os.environ) -> Literal["kitty", "sixel"] | None:
    """How the terminal behind a stream shows pictures; None: it does not, or is none."""
    if not stream.isatty() or environ.get("TMUX") or environ.get("TERM", "dumb") == "dumb":
        return None
    if (
        environ.get("KITTY_WINDOW_ID")
        or environ.get("TERM") in ("xterm-kitty", "xterm-ghostty")
        or environ.get("TERM_PROGRAM") in ("WezTerm", "ghostty")
    ):
        return "kitty"
    return "sixel" if "4" in _attributes(stream) else None


def kitty(picture: Image.Image) -> str:
    """A picture as Kitty's protocol has it."""
    buffer = io.BytesIO()
    picture.save(buffer, format="PNG")
    text = base64.b64encode(buffer.getvalue()).decode()
    chunks = [text[at : at + 4096] for at in range(0, len(text), 4096)]
    said = []
    for k, chunk in enumerate(chunks):
        head = "a=T,f=100," if k == 0 else ""
        said.append(f"\x1b_G{head}m={int(k < len(chunks) - 1)};{chunk}\x1b\\")
    return "".join(said)


def sixel(picture: Image.Image) -> str:
    """A picture as sixels."""
    indexed = picture.quantize(_COLOURS)
    palette = np.array(indexed.getpalette() or []).reshape(-1, 3)
    pixels = np.array(indexed)
    used = np.unique(pixels).tolist()
    colours = "".join(f"#{c};2;{';'.join(str(round(v / 2.55)) for v in palette[c])}" for c in used)
    lines = []
    for top in range(0, pixels.shape[0], 6):
        band = pixels[top : top + 6]
        weights = 1 << np.arange(band.shape[0])[:, None]
        parts = []
        for c in np.unique(band).tolist():
            columns = ((band == c) * weights).sum(axis=0) + 63
            parts.append(f"#{c}{_runs(columns.tolist())}")
        lines.append("$".join(parts))
    return f'\x1bPq"1;1;{pixels.shape[1]};{pixels.shape[0]}{colours}{"-".join(lines)}\x1b\\'


def _runs(values: list[int]) -> str:
    """Characters, with `!n` before one that is repeated."""
    out = []
    start = 0
    for k in range(1, len(values) + 1):
        if k == len(values) or values[k] != values[start]:
            count, sign = k - start, chr(values[start])
            out.append(f"!{count}{sign}" if count > 3 else sign * count)
            start = k
    return "".join(out)


def _attributes(stream: TextIO) -> list[str]:
    """What the terminal answers when asked for its attributes; nothing where it does not answer in time."""
    try:
        import termios
        import tty
    except ImportError:  # no such terminals on Windows
        return []
    try:
        fd = stream.fileno()
        before = termios.tcgetattr(fd)
    except (OSError, termios.error):
        return []
    said = b""
    try:
        tty.setcbreak(fd)
        os.write(fd, b"\x1b[c")
        while not said.endswith(b"c") and select.select([fd], [], [], _WAIT_S)[0]:
            said += os.read(fd, 64)
    except OSError:
        return []
    finally:
        termios.tcsetattr(fd, termios.TCSADRAIN, before)
    return said.decode("ascii", "replace").removeprefix("\x1b[?").removesuffix("c").split(";")
