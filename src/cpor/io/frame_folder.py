"""The frames of a folder that is no scene folder: match photographs with depth images.

color_0007.png depth_0007.png          side by side, in any usual words
rgb/0007.png   depth/0007.png          in folders of their own: BOP, ScanNet, GraspNet, Open3D
rgb/1.30.png   depth/1.31.png          by time: TUM, with or without associations.txt; RealSense exports
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cpor.errors import SceneFileError, list_labels
from cpor.io.camera_files import TUM_LISTS
from cpor.io.folder_files import read_text
from cpor.io.frames import DEPTHS, PHOTOGRAPHS, Role, clean_name, role_of

APART_S = 0.02
"""Pictures at most so far apart are of one frame, as the tools of the TUM data sets have it. [s]"""

_MILLISECONDS = 1e11
"""Numbers in names above this count milliseconds since 1970, below it seconds."""


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
    """The frames of a folder in the order of their names; none where it holds no photograph.

    Raises:
        SceneFileError: There are photographs and depth, but nothing says which belong together.
    """
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
