"""Images and arrays in files: photographs, depth and ids, read the same way wherever they come from.

Sizes are checked before anything is decoded, a photograph is turned upright as its EXIF says, and nothing
pickled is ever loaded.
"""

import io
import math
import re
import struct
import warnings
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
from jaxtyping import Shaped, UInt8
from PIL import ExifTags, Image, ImageOps, UnidentifiedImageError

from cpor.errors import SceneFileError

MAX_PIXELS = 64_000_000
"""A larger image is taken for a decompression bomb; Pillow only begins to warn at 89 million."""

DAMAGED = (
    OSError, SyntaxError, ValueError, EOFError, KeyError, IndexError, TypeError, OverflowError, RuntimeError,
    struct.error, zlib.error, zipfile.BadZipFile,
)  # fmt: skip
"""What the readers of images and archives raise at content that is damaged."""

_STARTS = {
    **{"PNG": (b"\x89PNG\r\n\x1a\n",), "JPEG": (b"\xff\xd8\xff",), "WEBP": (b"RIFF",)},
    "TIFF": (b"II*\0", b"MM\0*"),
}
IN_BROWSERS = ("PNG", "JPEG", "WEBP")
"""Photographs that a browser shows too."""

FROM_FILES = (*IN_BROWSERS, "TIFF")
"""Photographs in files."""

_KINDS = {"PNG": "PNG", "JPEG": "JPEG", "WEBP": "WebP", "TIFF": "TIFF"}
_PHOTOGRAPH_MODES = ("RGB", "RGBA", "L", "LA", "P", "1", "CMYK")


NPY, ZIP = b"\x93NUMPY", b"PK"
"""How these files begin."""

_HEADER = re.compile(
    rb"\{ ?'descr': ?'([^']{1,16})', ?'fortran_order': ?(True|False), ?'shape': ?\(([0-9, ]{0,64})\),? ?\}\s*"
)

_TYPE = re.compile(r"[<>|=]?(b1|[iu][1248]|f[248]|c8|c16|[US][0-9]{1,4})")

_LONGEST_HEADER = 1024

MOST_VALUES = 4 * MAX_PIXELS


class ImageKindError(SceneFileError):
    """An image of a kind we do not read."""


class ImageSizeError(SceneFileError):
    """An image with more pixels than are read."""


DEPTH, DEPTH_FILE, IDS = ("I;16",), ("I;16", "I;16B", "I", "F"), ("L", "P", "I;16")
"""Kinds of pixel, as Pillow names them, of images with one number a pixel: depth, depth in any file, ids."""


def decode_photograph(
    data: bytes,
    name: Path | str,
    companions: Sequence[str] = (),
    most_pixels: int = MAX_PIXELS,
    shrink_above: int | None = None,
    kinds: tuple[str, ...] = IN_BROWSERS,
) -> tuple[UInt8[np.ndarray, "h w 3"], tuple[int, int], int]:
    """Read the bytes of a photograph.

    Args:
        data: The bytes.
        name: What errors call the file.
        companions: Parts of the same frame, such as depth, which no orientation turns.
        most_pixels: That it may have.
        shrink_above: A picture with more pixels shrinks before it becomes an array; None: none does.
        kinds: Accepted file types: `IN_BROWSERS`, or `FROM_FILES`.

    Returns:
        The picture, upright, and shrunk where it was too large; height and width of the whole picture [px];
        and its pixels to one of those returned, along each side.

    Raises:
        ImageKindError: Another kind of file or of pixels.
        ImageSizeError: More pixels than allowed.
        SceneFileError: It is damaged, or stored on its side although it has companions.
    """
    with _opened(data, name, kinds, most_pixels) as image:
        if image.mode not in _PHOTOGRAPH_MODES:
            if image.mode.startswith(("I", "F")):
                raise ImageKindError(
                    f"{name} holds {image.mode} pixels, as depth does; give the photograph first, and "
                    "save it with 8 bits per channel"
                )
            raise ImageKindError(f"{name} holds {image.mode} pixels; save it with 8 bits per channel")
        image.load()
        if companions and image.getexif().get(ExifTags.Base.Orientation, 1) != 1:
            raise SceneFileError(
                f"{name} is stored on its side or mirrored, {companions[0]} is not; save {name} upright, "
                "without an orientation"
            )
        ImageOps.exif_transpose(image, in_place=True)
        shape = image.height, image.width
        step = 1
        while shrink_above is not None and shape[0] * shape[1] > shrink_above * step**2:
            step += 1
        return np.array(_as_rgb(image).reduce(step)), shape, step


def decode_grey(
    data: bytes,
    name: Path | str,
    modes: tuple[str, ...],
    most_pixels: int = MAX_PIXELS,
    shape: tuple[int, int] | None = None,
    kinds: tuple[str, ...] = ("PNG",),
) -> Shaped[np.ndarray, "h w"]:
    """Read the bytes of an image of depth or ids, as they are stored.

    Args:
        data: The bytes.
        name: What errors call the file.
        modes: `DEPTH`, `DEPTH_FILE` or `IDS`.
        most_pixels: That it may have.
        shape: Height and width of the photograph it belongs to; None: any.
        kinds: Accepted file types.
    """
    with _opened(data, name, kinds, most_pixels) as image:
        if shape is not None and (image.height, image.width) != shape:
            raise SceneFileError(
                f"{name} is {image.width} x {image.height} pixels, rgb {shape[1]} x {shape[0]}; bring them "
                "to one size"
            )
        if image.mode not in modes:
            remedy = "depth needs 16 bits a pixel: save uint16 steps of depth_unit_m"
            remedy = "save ids as 8- or 16-bit grey" if modes == IDS else remedy
            raise SceneFileError(f"{name} holds {image.mode} pixels; {remedy}")
        return np.array(image)


def encode_png(pixels: Shaped[np.ndarray, "..."]) -> bytes:
    """Bytes of a PNG file of uint8 or uint16 pixels."""
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, format="PNG")
    return buffer.getvalue()


def say_damage(error: BaseException) -> str:
    """A decoder's complaint in a few words; it knows no path, since it was given none."""
    return (str(error).splitlines() or [type(error).__name__])[0][:120]


@contextmanager
def reading(path: Path | str) -> Iterator[None]:
    """What a decoder raises says that the file, which errors call `path`, is damaged."""
    try:
        yield
    except (SceneFileError, Image.DecompressionBombError, UnidentifiedImageError):
        raise
    except DAMAGED as error:
        raise SceneFileError(f"{path} is damaged ({say_damage(error)}); write or fetch it again") from error


@contextmanager
def _opened(data: bytes, name: Path | str, kinds: tuple[str, ...], most_pixels: int) -> Iterator[Image.Image]:
    """The image of some bytes, its size checked and nothing decoded yet."""
    kind = next((kind for kind in kinds if data.startswith(_STARTS[kind])), None)
    if kind is None or (kind == "WEBP" and data[8:12] != b"WEBP"):
        named = [_KINDS[each] for each in kinds]
        wanted = f"{', '.join(named[:-1])} or {named[-1]}" if named[1:] else named[0]
        raise ImageKindError(f"{name} is not a {wanted} image; save it as PNG")
    if kind == "PNG" and len(data) >= 24:  # before Pillow, which may refuse a large one in its own words
        width, height = struct.unpack(">II", data[16:24])
        _check_pixels(name, width, height, most_pixels)
    try:
        with reading(name), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # sizes are checked here, and what is damaged raises
            with Image.open(io.BytesIO(data), formats=(kind,)) as image:
                # A second header would count: what is decoded must be what was checked.
                if kind == "PNG" and image.size != struct.unpack(">II", data[16:24]):
                    raise Image.DecompressionBombError
                _check_pixels(name, image.width, image.height, most_pixels)
                yield image
    except Image.DecompressionBombError:
        if kind == "PNG":
            raise SceneFileError(f"{name} is damaged (it has two sizes); write or fetch it again") from None
        raise ImageSizeError(f"{name} has more than {most_pixels:,} pixels; make it smaller") from None
    except UnidentifiedImageError:
        raise SceneFileError(
            f"{name} is damaged, or a {_KINDS[kind]} file of a kind we do not read; save it as PNG"
        ) from None


def _check_pixels(name: Path | str, width: int, height: int, most: int) -> None:
    if width * height == 0:
        raise SceneFileError(f"{name} is damaged (it has no pixels); write or fetch it again")
    if width * height > most:
        raise ImageSizeError(f"{name} has {width} x {height} pixels; at most {most:,} are read")


def _as_rgb(image: Image.Image) -> Image.Image:
    if image.mode == "P":
        image = image.convert("RGBA")  # a palette may say what shows through
    return image if image.mode == "RGB" else image.convert("RGB")


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
    with reading(path):
        return read_array(path, io.BytesIO(data))


def decode_npz(data: bytes, path: Path | str, most: int = MOST_VALUES) -> dict[str, np.ndarray]:
    """The arrays of numbers in an npz file by name, each of at most so many."""
    arrays: dict[str, np.ndarray] = {}
    with reading(path), zipfile.ZipFile(io.BytesIO(data)) as archive:
        for name in archive.namelist():
            if not name.endswith(".npy"):
                continue
            with open_entry(archive, name, path) as stream:
                found = read_array(f"{path}: {name}", stream, most)
                stream.read(1)  # the checksum is only compared at the end of the stream
            if found.dtype.kind in "biuf":
                arrays[name.removesuffix(".npy")] = found
    return arrays


def open_entry(archive: zipfile.ZipFile, name: str, path: Path | str) -> IO[bytes]:
    """One array of an npz file."""
    # Other methods may take gigabytes to unpack a few bytes.
    if archive.getinfo(name).compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise SceneFileError(f"{path} uses an unknown compression; save it with np.savez_compressed")
    return archive.open(name)


def read_array(path: Path | str, stream: Any, most: int = MOST_VALUES) -> np.ndarray:
    """The array that a stream begins with, of at most so many numbers; errors call the stream `path`."""
    shape, kind, columns_first = read_npy_header(path, stream)
    count = math.prod(shape)
    if count > most:
        raise SceneFileError(f"{path} holds {count:,} numbers; at most {most:,} are read")
    raw = stream.read(count * kind.itemsize)
    if len(raw) < count * kind.itemsize:
        raise SceneFileError(f"{path} ends before its last number; write or fetch it again")
    flat = np.frombuffer(raw, kind)
    return flat.reshape(shape[::-1]).T if columns_first else flat.reshape(shape)
