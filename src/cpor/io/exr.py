"""Depth in OpenEXR files: scan lines, stored plain, run-length coded or zipped, as renderers write them.

A block of lines holds, line by line, every channel's values. Coded blocks keep even and odd bytes apart, each
byte as the difference to the one before (plus 128).
"""

import struct
import zlib
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from cpor.errors import SceneFileError
from cpor.io.images import MAX_PIXELS, reading

_LONG_NAMES = 0x400
_TYPES = (np.dtype("<u4"), np.dtype("<f2"), np.dtype("<f4"))
_CODINGS = {0: ("none", 1), 1: ("rle", 1), 2: ("zip", 1), 3: ("zip", 16)}
_DEPTH_NAMES = ("z", "depth", "d", "v", "y")
"""Last parts of channel names that mean depth, the likeliest first: `ViewLayer.Depth.Z`, a grey `Y`."""

_Channel: TypeAlias = tuple[str, np.dtype[Any]]
"""Name and type of a channel."""


def decode_exr_depth(data: bytes, path: Path | str) -> np.ndarray:
    """The depth channel of an EXR file, which errors call `path`. Shape (h, w)."""
    with reading(path):
        return _decode(data, path)


def _decode(data: bytes, path: Path | str) -> np.ndarray:
    if struct.unpack_from("<I", data, 4)[0] & ~(0xFF | _LONG_NAMES):
        raise SceneFileError(
            f"{path} is an EXR file of tiles, layers or several parts; save it as scan lines"
        )
    header, at = _read_header(data)
    channels = _read_channels(header["channels"])
    chosen = _choose(channels, path)
    wanted = channels[chosen][1]
    coding = _CODINGS.get(header["compression"][0])
    if coding is None:
        raise SceneFileError(f"{path} is an EXR file of another compression; save it with ZIP or without")
    x0, y0, x1, y1 = struct.unpack("<4i", header["dataWindow"])
    width, height = x1 - x0 + 1, y1 - y0 + 1
    if not 0 < width * height <= MAX_PIXELS or width < 1:
        raise SceneFileError(f"{path} has {width} x {height} pixels; at most {MAX_PIXELS:,} are read")
    way, lines = coding
    line_bytes = sum(width * kind.itemsize for _, kind in channels)
    before = sum(width * kind.itemsize for _, kind in channels[:chosen])
    depth = np.empty((height, width), wanted)
    done = 0
    for number in range(-(-height // lines)):
        place = struct.unpack_from("<Q", data, at + 8 * number)[0]
        y, size = struct.unpack_from("<ii", data, place)
        rows = min(lines, height - (y - y0))
        block = _unpack(data[place + 8 : place + 8 + size], way, rows * line_bytes)
        both = np.frombuffer(block, np.uint8).reshape(rows, line_bytes)
        values = both[:, before : before + width * wanted.itemsize]
        depth[y - y0 : y - y0 + rows] = np.ascontiguousarray(values).view(wanted)
        done += rows
    if done != height:
        raise SceneFileError(f"{path} is damaged (it lacks lines); write or fetch it again")
    return depth


def _read_header(data: bytes) -> tuple[dict[str, bytes], int]:
    """Attributes by name, and where the table of blocks begins."""
    header: dict[str, bytes] = {}
    at = 8
    while data[at] != 0:
        name, _, rest = data[at : at + 512].partition(b"\0")
        kind, _, _ = rest.partition(b"\0")
        at += len(name) + len(kind) + 2
        size = struct.unpack_from("<I", data, at)[0]
        header[name.decode("latin-1")] = data[at + 4 : at + 4 + size]
        at += 4 + size
    return header, at + 1


def _read_channels(listed: bytes) -> list[_Channel]:
    channels = []
    at = 0
    while listed[at] != 0:
        name = listed[at:].partition(b"\0")[0]
        at += len(name) + 1
        kind, _, x_step, y_step = struct.unpack_from("<iIii", listed, at)
        if (x_step, y_step) != (1, 1):
            raise ValueError("a channel is stored at another size")
        channels.append((name.decode("latin-1"), _TYPES[kind]))
        at += 16
    return channels


def _choose(channels: list[_Channel], path: Path | str) -> int:
    """Place of the channel of depth."""
    names = [name for name, _ in channels]
    for wanted in _DEPTH_NAMES:
        for place, name in enumerate(names):
            if name.rpartition(".")[2].casefold() == wanted:
                return place
    # A grey picture that some programs store three times.
    if len(names) == 1 or names == ["B", "G", "R"]:
        return len(names) - 1
    raise SceneFileError(f"{path} has no channel Z; it has: {', '.join(names)}; export the depth pass")


def _unpack(block: bytes, way: str, size: int) -> bytes:
    if way == "none" or len(block) == size:  # what coding would not shorten is stored plain
        plain = block
    else:
        coded = zlib.decompressobj().decompress(block, size) if way == "zip" else _unpack_runs(block, size)
        steps = np.frombuffer(coded, np.uint8).astype(np.int64)
        summed = ((np.cumsum(steps) - 128 * np.arange(steps.size)) % 256).astype(np.uint8)
        half = (steps.size + 1) // 2
        out = np.empty(steps.size, np.uint8)
        out[0::2], out[1::2] = summed[:half], summed[half:]
        plain = out.tobytes()
    if len(plain) != size:
        raise ValueError("a block is shorter than its lines")
    return plain


def _unpack_runs(block: bytes, size: int) -> bytes:
    out = bytearray()
    at = 0
    while at < len(block) and len(out) <= size:
        count = struct.unpack_from("<b", block, at)[0]
        if count < 0:
            out += block[at + 1 : at + 1 - count]
            at += 1 - count
        else:
            out += block[at + 1 : at + 2] * (count + 1)
            at += 2
    return bytes(out)
