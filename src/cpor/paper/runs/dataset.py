"""What a run goes over: scene folders, a file of scenes, or a score log; in order, with a fingerprint."""

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from cpor.errors import InvalidSettingError, SceneFileError
from cpor.io.scene_folder import Progress, list_scene_folders
from cpor.io.whole_files import read_bytes
from cpor.paper.unobench import read_fused_scores, read_truth
from cpor.scene import BlockedBy, Observation

DatasetKind: TypeAlias = Literal["folders", "frames", "scenes", "score log"]


@dataclass(frozen=True)
class FolderItem:
    """A scene folder: `name` in the folder `root`."""

    root: str
    name: str


@dataclass(frozen=True)
class FrameItem:
    """A frame of a recording: `name` in it, and what reads it, also in another process."""

    name: str
    read: Callable[[], Observation]


@dataclass(frozen=True)
class LineItem:
    """A line of a file of scenes, as it was read; `number` counts from 1."""

    number: int
    text: bytes


@dataclass(frozen=True)
class LogItem:
    """A case of a score log.

    Attributes:
        case: Its number.
        image: Its image.
        tier: Its difficulty.
        target: The object asked for.
        pairs: Each pair with its score, None for no answer. None altogether: the log has no row of this case.
        right: The objects that are right to act on next.
        relations: The true relations.
    """

    case: int
    image: str
    tier: str | None
    target: int
    pairs: tuple[tuple[BlockedBy, float | None], ...] | None
    right: tuple[int, ...]
    relations: tuple[BlockedBy, ...]


Item: TypeAlias = FolderItem | FrameItem | LineItem | LogItem


@dataclass(frozen=True)
class Dataset:
    """The items of a run, in order.

    Attributes:
        kind: What they are.
        fingerprint: SHA-256 of everything that was, or will be, read.
        items: The items.
    """

    kind: DatasetKind
    fingerprint: str
    items: tuple[Item, ...]

    @property
    def is_pictures(self) -> bool:
        """Whether objects are found and relations scored in its items; else they bring probabilities."""
        return self.kind in ("folders", "frames")


def read_dataset(path: Path, progress: Progress) -> Dataset:
    """A folder of scene folders, or a JSONL file with a scene a line.

    A line that cannot be read is found out when its turn comes: it is one case in error, not the end.
    """
    if path.is_dir():
        return _read_folders(path.resolve(), progress)
    if path.suffix == ".csv":
        raise InvalidSettingError(f"{path} looks like a score log; give it as --scores, with --truth")
    content = read_bytes(path)
    lines = [LineItem(k, text) for k, text in enumerate(content.split(b"\n"), 1) if text.strip()]
    if not lines:
        raise SceneFileError(f"{path} is empty; give one scene per line: {{objects, target, relations}}")
    return Dataset("scenes", hashlib.sha256(content).hexdigest(), tuple(lines))


def _read_folders(root: Path, progress: Progress) -> Dataset:
    scenes = list_scene_folders(root)
    digest = hashlib.sha256()
    for k, scene in enumerate(scenes):
        for file in sorted(path for path in scene.iterdir() if path.is_file()):
            content = hashlib.sha256(read_bytes(file)).hexdigest()
            digest.update(f"{len(file.name)} {scene.name}/{file.name} {content}\n".encode())
        progress("fingerprint", k + 1, len(scenes))
    items = tuple(FolderItem(str(root), scene.name) for scene in scenes)
    return Dataset("folders", digest.hexdigest(), items)


def fingerprint_files(paths: Iterable[Path]) -> str:
    """SHA-256 over the contents of files, in order."""
    digest = hashlib.sha256()
    for path in paths:
        digest.update(hashlib.sha256(read_bytes(path)).digest())
    return digest.hexdigest()


def read_logged_dataset(scores: Path, truth: Path) -> Dataset:
    """Every case of the truth, in its order, with what the log says of it.

    The tier of a case is the field `difficulty`, the one of the paper's tables.

    Raises:
        CporError: With the file, the line and what is wrong in it.
    """
    cases = read_truth(truth)
    log = read_fused_scores(scores, len(cases)).by_case()
    items = tuple(
        LogItem(
            case=case.index,
            image=str(case.image_id),
            tier=case.difficulty,
            target=case.target,
            pairs=None if (pairs := log.get(case.index)) is None else tuple(sorted(pairs.items())),
            right=tuple(sorted(case.top_objects)),
            relations=tuple(sorted(case.relations)),
        )
        for case in cases
    )
    return Dataset("score log", fingerprint_files([scores, truth]), items)
