"""Arrays in npy and npz files, read strictly: sizes are checked first, and nothing pickled is ever loaded."""

import io
import math
import re
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from cpor.errors import SceneFileError
from cpor.io.images import DAMAGED, MAX_PIXELS, say_damage

NPY, ZIP = b"\x93NUMPY", b"PK"
"""How these files begin."""

_HEADER = re.compile(
    rb"\{ ?'descr': ?'([^']{1,16})', ?'fortran_order': ?(True|False), ?'shape': ?\(([0-9, ]{0,64})\),? ?\}\s*"
)
_TYPE = re.compile(r"[<>|=]?(b1|[iu][1248]|f[248]|c8|c16|[US][0-9]{1,4})")
_LONGEST_HEADER = 1024
_MOST_VALUES = 4 * MAX_PIXELS


def read_npy_header(path: Path | str, stream: Any) -> tuple[tuple[int, ...], np.dtype[Any], bool]:
    """Shape, type, and whether columns come first, of the array that a stream begins with.

    Errors call the stream `path`.

    NumPy's own reader hands the text to Python's parser, which a few hundred bytes can exhaust.
    """
    start = stream.read(8)
    if start[:6] != NPY or start[6:] not in (b"\x01\x00", b"\x02\x00"):
        raise SceneFileError(f"{path} holds no array of a known format; save it with NumPy")
    length = int.from_bytes(stream.read(2 if start[6] == 1 else 4), "little")
    header = _HEADER.fullmatch(stream.read(min(length, _LONGEST_HEADER)))
    if length > _LONGEST_HEADER or header is None:
        raise SceneFileError(f"{path} holds arrays that are not plain; save plain numbers with NumPy")
    kind = header[1].decode("latin-1")
    if kind.lstrip("<>|=")[:1] == "O":
        raise SceneFileError(f"{path} holds pickled objects, which are never loaded; save plain arrays")
    if _TYPE.fullmatch(kind) is None:
        raise SceneFileError(f"{path} holds arrays that are not of numbers; save plain numbers with NumPy")
    shape = tuple(int(size) for size in header[3].split(b",") if size.strip())
    return shape, np.dtype(kind), header[2] == b"True" and len(shape) > 1


def decode_npy(data: bytes, path: Path | str) -> np.ndarray:
    """The array of an npy file."""
    try:
        return _read_array(path, io.BytesIO(data))
    except DAMAGED as error:
        if isinstance(error, SceneFileError):
            raise
        raise SceneFileError(f"{path} is damaged ({say_damage(error)}); write or fetch it again") from error


def decode_npz(data: bytes, path: Path | str) -> dict[str, np.ndarray]:
    """The arrays of an npz file by name; those that hold no numbers are left out."""
    arrays: dict[str, np.ndarray] = {}
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            for entry in archive.infolist():
                if not entry.filename.endswith(".npy"):
                    continue
                # Other methods may take gigabytes to unpack a few bytes.
                if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                    raise SceneFileError(
                        f"{path} uses an unknown compression; save it with np.savez_compressed"
                    )
                with archive.open(entry) as stream:
                    found = _read_array(f"{path}: {entry.filename}", stream)
                    stream.read(1)  # the checksum is only compared at the end of the stream
                if found.dtype.kind in "biuf":
                    arrays[entry.filename.removesuffix(".npy")] = found
    except DAMAGED as error:
        if isinstance(error, SceneFileError):
            raise
        raise SceneFileError(f"{path} is damaged ({say_damage(error)}); write or fetch it again") from error
    return arrays


def _read_array(path: Path | str, stream: Any) -> np.ndarray:
    shape, kind, columns_first = read_npy_header(path, stream)
    count = math.prod(shape)
    if count > _MOST_VALUES:
        raise SceneFileError(f"{path} holds {count:,} numbers; at most {_MOST_VALUES:,} are read")
    raw = stream.read(count * kind.itemsize)
    if len(raw) < count * kind.itemsize:
        raise SceneFileError(f"{path} ends before its last number; write or fetch it again")
    flat = np.frombuffer(raw, kind)
    return flat.reshape(shape[::-1]).T if columns_first else flat.reshape(shape)
