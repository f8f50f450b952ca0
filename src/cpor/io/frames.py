"""Photographs and depth in files of every kind we read, and the frames of a folder that is no scene folder.

color_0007.png depth_0007.png          side by side, in any usual words
rgb/0007.png   depth/0007.png          in folders of their own: BOP, ScanNet, GraspNet, Open3D
rgb/1.30.png   depth/1.31.png          by time: TUM, with or without associations.txt; RealSense exports
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np
from jaxtyping import Shaped, UInt8

from cpor.errors import SceneFileError, list_labels
from cpor.io import images
from cpor.io.images import NPY, ZIP, decode_npy, decode_npz
from cpor.io.whole_files import read_text

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

TUM_LISTS = ("associations.txt", "associate.txt", "association.txt", "rgb.txt", "depth.txt")
"""Files by which a folder in the form of the TUM data sets is known."""

APART_S = 0.02
"""Pictures at most so far apart are of one frame, as the tools of the TUM data sets have it. [s]"""

_MILLISECONDS = 1e11
"""Numbers in names above this count milliseconds since 1970, below it seconds."""


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
        return images.decode_photograph(data, path, companions, kinds=images.FROM_FILES)[0]
    return as_photograph(_pick(data, path, "colour"), path)


def decode_any_depth(
    data: bytes, path: Path, raw_shape: tuple[int, int] | None = None
) -> Shaped[np.ndarray, "h w"]:
    """Depth of any kind of file, in its own steps. A raw file needs its height and width. [px]."""
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


@dataclass(frozen=True)
class FrameFiles:
    """The files of one frame.

    Attributes:
        name: Without the word for colour, such as its number.
        rgb: The photograph.
        depth: None where there is none.
        folder: Folder with the files that describe the camera.
    """

    name: str
    rgb: Path
    depth: Path | None
    folder: Path


def find_frames(folder: Path) -> list[FrameFiles]:
    """The frames of a folder in the order of their names; none where it holds no photograph."""
    listed = _associated(folder)
    if listed:
        return listed
    colour, depth = _files_of(folder, "colour"), _files_of(folder, "depth")
    if not colour:
        return _nameless(folder)
    pairs = {name: (path, depth.get(name)) for name, path in colour.items()}
    if depth and not any(found for _, found in pairs.values()):
        by_time = _pair_by_time(colour, depth)
        if not by_time and len(colour) == len(depth) == 1:
            by_time = {name: (path, next(iter(depth.values()))) for name, path in colour.items()}
        if not by_time:
            one, other = next(iter(colour.values())), next(iter(depth.values()))
            raise SceneFileError(
                f"{folder}: which depth belongs to which photograph is not clear from names such as "
                f"{one.name} and {other.name}; name them alike (color_0001.png, depth_0001.png), or give the "
                "two files"
            )
        pairs = by_time
    # A photograph without depth is left out where others have depth.
    complete = {name: pair for name, pair in pairs.items() if pair[1] is not None} or pairs
    return [FrameFiles(name, rgb, found, folder) for name, (rgb, found) in complete.items()]


def choose_frame(frames: Sequence[FrameFiles], number: int | None, folder: Path) -> FrameFiles:
    """The frame of that number, counted from 0; None: the first."""
    if not 0 <= (number or 0) < len(frames):
        raise SceneFileError(
            f"{folder} has the frames 0 to {len(frames) - 1}, not {number}; choose one of them"
        )
    return frames[number or 0]


def _files_of(folder: Path, role: Role) -> dict[str, Path]:
    """Files that hold the role, by the rest of their names: in a folder named after it, else side by side."""
    endings = PHOTOGRAPHS if role == "colour" else DEPTHS
    inside = [p for p in sorted(folder.iterdir()) if p.is_dir() and role_of(p.name) == (role, "")]
    found: dict[str, Path] = {}
    if inside:
        candidates = [(role_of(path.stem)[1], path) for path in sorted(inside[0].iterdir())]
    else:
        names = [(role_of(path.stem), path) for path in sorted(folder.iterdir())]
        candidates = [(rest, path) for (own, rest), path in names if own == role]
    for rest, path in candidates:
        if not path.is_file() or path.suffix.casefold() not in endings:
            continue
        before = found.get(rest)
        if before is None or endings.index(path.suffix.casefold()) < endings.index(before.suffix.casefold()):
            found[rest] = path
    return dict(sorted(found.items(), key=lambda item: _in_order(item[0])))


def _nameless(folder: Path) -> list[FrameFiles]:
    """A single picture, whatever it is called."""
    found = [p for p in sorted(folder.iterdir()) if p.is_file() and p.suffix.casefold() in PHOTOGRAPHS]
    if len(found) == 1 and role_of(found[0].stem)[0] is None:
        return [FrameFiles(clean_name(found[0].stem), found[0], None, folder)]
    if found:
        raise SceneFileError(
            f"{folder} holds {list_labels([p.name for p in found], 4)}; which one is the photograph, which "
            "depth? Name them rgb and depth, or give the two files"
        )
    return []


def _associated(folder: Path) -> list[FrameFiles]:
    """As a list of a TUM data set says: time, file, time, file."""
    for name in TUM_LISTS[:3]:
        if not (path := folder / name).is_file():
            continue
        frames = []
        for line in read_text(path).splitlines():
            words = line.split()
            if not words or words[0].startswith("#"):
                continue
            files = {role_of(Path(word).parts[0])[0]: folder / word for word in words[1:4:2]}
            if len(words) != 4 or set(files) != {"colour", "depth"}:
                raise SceneFileError(
                    f"{path}: {line[:60]!r} is no frame; a line is: time, colour file, time, depth file"
                )
            frames.append(FrameFiles(clean_name(words[0]), files["colour"], files["depth"], folder))
        return frames
    return []


def _pair_by_time(colour: dict[str, Path], depth: dict[str, Path]) -> dict[str, tuple[Path, Path | None]]:
    """Each photograph with the depth nearest in time, where names are times."""
    times = {name: time for name in depth if (time := _time(name)) is not None}
    pairs: dict[str, tuple[Path, Path | None]] = {}
    for name, path in colour.items():
        at = _time(name)
        if at is None or not times:
            continue
        nearest = min(times, key=lambda other: abs(times[other] - at))
        if abs(times[nearest] - at) <= APART_S:
            pairs[name] = (path, depth[nearest])
    return pairs


def _time(name: str) -> float | None:
    """Seconds, where the last word of a name is a time."""
    try:
        value = float(name.split()[-1])
    except (ValueError, IndexError):
        return None
    return value / 1000.0 if value > _MILLISECONDS else value if "." in name else None


def _in_order(name: str) -> list[tuple[float, str]]:
    """A key by which 9 comes before 10."""
    words = name.split()
    return [(float(word), "") if word.replace(".", "", 1).isdecimal() else (-1.0, word) for word in words]
