"""Photographs and depth in files of every kind we read, as they are stored; and what their names say."""

import re
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np
from jaxtyping import Shaped, UInt8

from cpor.errors import SceneFileError, list_labels
from cpor.io import images
from cpor.io.arrays import NPY, ZIP, decode_npy, decode_npz

Role: TypeAlias = Literal["colour", "depth"]

PHOTOGRAPHS = (".png", ".jpg", ".jpeg", ".webp", ".tif", ".tiff", ".npy", ".npz")
"""How photographs in files may end."""

EXR = b"\x76\x2f\x31\x01"
"""First bytes of an OpenEXR file."""

DEPTHS = (".npy", ".npz", ".exr", ".tif", ".tiff", ".raw", ".png")
"""How depth in files may end, the most exact first: a PNG beside another one is often drawn for people."""

_OTHERS = re.compile(
    r"mask|seg|label|instance|normal|infra|overlay|preview|metadata|amodal|annot|heat|colou?r_?(map|iz|is)"
    r"|(?<![a-z])(ir|vis|viz)(?![a-z])"
)
_DEPTH = re.compile(
    r"(?<![a-z])(aligned[_-]?)?depths?([_-]?(image|img|map|raw))?([_-]?to[_-]?(colou?r|rgb))?(?![a-z])"
    r"|(?<=\d)d$"
)
_COLOUR = re.compile(
    r"(?<![a-z])((rgb|colou?rs?)([_-]?(images?|img|raw))?|images?|img|photo|picture)(?![a-z])|(?<=\d)c$"
)


def role_of(name: str) -> tuple[Role | None, str]:
    """What a file or array of this name holds, None where that is not clear; and its name without that word.

    `color_0007` and `depth_0007` give the same rest, `7`, by which they find each other.
    """
    lower = name.casefold()
    if _OTHERS.search(lower):
        return None, lower
    for role, pattern in (("depth", _DEPTH), ("colour", _COLOUR)):
        if found := pattern.search(lower):
            rest = lower[: found.start()] + " " + lower[found.end() :]
            return role, clean_name(rest)  # type: ignore[return-value]
    return None, clean_name(lower)


def clean_name(name: str) -> str:
    """A name in which `0007` and `7`, `a_b` and `a-b` are the same."""
    words = re.split(r"[\s_\-]+", name.casefold().strip(" _-."))
    return " ".join(re.sub(r"\d+", lambda found: str(int(found[0])), word) for word in words if word)


def decode_any_photograph(
    data: bytes, path: Path, companions: tuple[str, ...] = ()
) -> UInt8[np.ndarray, "h w 3"]:
    """A photograph of any kind of file. Shape (h, w, 3)."""
    if data.startswith(EXR):
        raise images.ImageKindError(f"{path} is an EXR file, which holds no photograph; save it as PNG")
    if not data.startswith((NPY, ZIP)):
        return images.decode_photograph(data, path, companions, kinds=images.FROM_FILES).pixels
    return as_photograph(_pick(data, path, "colour"), path)


def decode_any_depth(
    data: bytes, path: Path, raw_shape: tuple[int, int] | None = None
) -> Shaped[np.ndarray, "h w"]:
    """Depth of any kind of file, in its own steps.

    Args:
        data: Content of the file.
        path: Its name.
        raw_shape: Height and width of a file that holds nothing but 16-bit numbers. [px]
    """
    if data.startswith(EXR):
        from cpor.io.exr import decode_exr_depth

        return decode_exr_depth(data, path)
    if data.startswith((NPY, ZIP)):
        return as_depth(_pick(data, path, "depth"), path)
    if path.suffix.casefold() == ".raw":
        if raw_shape is None or len(data) != 2 * raw_shape[0] * raw_shape[1]:
            raise SceneFileError(
                f"{path} has {len(data)} bytes, and its size in pixels is unknown; save it as PNG"
            )
        return np.frombuffer(data, "<u2").reshape(raw_shape)
    if data.startswith((b"\xff\xd8\xff", b"RIFF")):
        raise SceneFileError(f"{path} is a photograph; depth needs 16 bits a pixel: save it as 16-bit PNG")
    try:
        return images.decode_grey(data, path, images.DEPTH_FILE, kinds=("PNG", "TIFF"))
    except images.ImageKindError:
        raise SceneFileError(
            f"{path} is no PNG, TIFF, EXR, npy or npz file; save depth as 16-bit PNG"
        ) from None


def as_photograph(found: np.ndarray, path: Path | str) -> UInt8[np.ndarray, "h w 3"]:
    """An array as a photograph: uint8, channels last. Shape (h, w, 3)."""
    if found.ndim == 3 and found.shape[0] == 3 and found.shape[2] not in (3, 4):
        found = np.moveaxis(found, 0, 2)
    if found.dtype != np.uint8 or found.ndim != 3 or found.shape[2] not in (3, 4) or not found.size:
        raise SceneFileError(
            f"{path} holds {found.dtype} {found.shape}; a photograph is uint8 (height, width, 3), 0 to 255"
        )
    return np.ascontiguousarray(found[..., :3])


def as_depth(found: np.ndarray, path: Path | str) -> Shaped[np.ndarray, "h w"]:
    """An array as depth: numbers, one a pixel. Shape (h, w)."""
    found = found.squeeze()
    if found.ndim != 2 or not found.size or found.dtype.kind not in "iuf" or found.dtype.itemsize < 2:
        raise SceneFileError(
            f"{path} holds {found.dtype} {found.shape}; depth is (height, width) of 16-bit or decimal numbers"
        )
    return found


def pick_array(arrays: dict[str, np.ndarray], role: Role) -> np.ndarray | None:
    """The array of an npz file with the name of the role, or the only one."""
    named = [array for name, array in arrays.items() if role_of(name)[0] == role]
    if len(named) == 1:
        return named[0]
    return next(iter(arrays.values())) if len(arrays) == 1 else None


def _pick(data: bytes, path: Path, role: Role) -> np.ndarray:
    if data.startswith(NPY):
        return decode_npy(data, path)
    arrays = decode_npz(data, path)
    found = pick_array(arrays, role)
    if found is None:
        wanted = "rgb" if role == "colour" else "depth"
        listed = list_labels(sorted(arrays)) or "none"
        raise SceneFileError(f"{path} has no array {wanted!r}; it has: {listed}; name it so")
    return found
