"""Folders made piece by piece: killed at any moment and begun again, they end as if nothing had happened.

FOLDER/CLAIM       what is made there, as JSON; another claim is refused
FOLDER/PIECES/     a file for each finished piece, whole or absent
FOLDER/RESULT      written last, from all pieces
"""

import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cpor.errors import InputFileError
from cpor.io.whole_files import held_alone, write_bytes


class ResumableFolder:
    """A folder with a single writer, a file that says what is made there, and finished pieces."""

    def __init__(self, path: Path, claim_file: str, pieces: str) -> None:
        self.path = path
        self.claim_file = path / claim_file
        self.pieces = path / pieces

    def claim(self, wanted: Mapping[str, Any]) -> None:
        """Begin, or check that what was begun here is the same."""
        if self.claim_file.is_file():
            try:
                there = json.loads(self.claim_file.read_bytes())
            except ValueError:
                there = None
            if not isinstance(there, dict):
                raise InputFileError(
                    f"{self.claim_file} is damaged, so the run in this folder is unknown; delete "
                    f"{self.path}, or choose another --out"
                )
            refuse_other(self.path, there, wanted)
        elif strangers := sorted(each.name for each in self.path.iterdir() if each.name[0] != "."):
            raise InputFileError(
                f"{self.path} holds other files ({strangers[0]}), and nothing that could be gone on with; "
                "choose another --out"
            )
        self.claim_file.parent.mkdir(exist_ok=True)
        write_bytes(self.claim_file, (json.dumps(wanted, indent=2) + "\n").encode())

    def keep(self, name: str, content: bytes) -> None:
        """Write a piece, all of it or nothing."""
        self.pieces.mkdir(exist_ok=True)
        write_bytes(self.pieces / name, content)

    def kept(self, name: str) -> bytes | None:
        """A piece; None where it is not finished."""
        try:
            return (self.pieces / name).read_bytes()
        except FileNotFoundError:
            return None

    def finish(self, name: str, content: bytes, *, keep_pieces: bool = False) -> None:
        """Write the result, all of it or nothing; the pieces go."""
        write_bytes(self.path / name, content)
        if not keep_pieces:
            shutil.rmtree(self.pieces, ignore_errors=True)


@contextmanager
def open_resumable(path: Path, claim_file: str, pieces: str) -> Iterator[ResumableFolder]:
    """Make a folder, or open one that is there; what a killed process left half written is dropped."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise InputFileError(f"{path} is a file, and a folder is needed; choose another --out") from None
    except OSError as problem:
        raise InputFileError(
            f"cannot create the folder {path}: {problem.strerror}; choose another --out"
        ) from None
    with held_alone(path):
        for scratch in (*path.glob(".*.tmp"), *(path / pieces).glob(".*.tmp"), *path.glob(".scene-*")):
            shutil.rmtree(scratch) if scratch.is_dir() else scratch.unlink()
        yield ResumableFolder(path, claim_file, pieces)


def refuse_other(place: Path, there: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    """Refuse to go on with what was begun otherwise; the message names the first difference."""
    for part, new in json.loads(json.dumps(wanted)).items():
        old = there.get(part)
        if old == new:
            continue
        which = ""
        if isinstance(old, dict) and isinstance(new, dict):
            key = next(key for key in {**old, **new} if old.get(key) != new.get(key))
            which, old, new = f"{key} is ", old.get(key), new.get(key)
        raise InputFileError(
            f"{place} was made with other {part}: {which}{old}, now {new}; choose another --out, or delete it"
        )
