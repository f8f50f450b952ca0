"""Files read and written whole, JSON read strictly, one writer at a time, and folders made piece by piece.

A resumable folder may be killed at any moment and begun again; it ends as if nothing had happened.

FOLDER/CLAIM       what is made there, as JSON; another claim is refused
FOLDER/PIECES/     a file for each finished piece, whole or absent
FOLDER/RESULT      written last, from all pieces
"""

import json
import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from cpor.errors import InputFileError, InvalidSettingError, SceneFileError


def read_bytes(path: Path) -> bytes:
    """Content of a file."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise SceneFileError(f"{path} cannot be read: {error.strerror}") from error


def read_text(path: Path) -> str:
    """Content of a UTF-8 text file."""
    try:
        return read_bytes(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise SceneFileError(f"{path} is not UTF-8 text ({error.reason}); save it as UTF-8") from error


def make_folder(path: Path) -> None:
    """Make a folder for what `--out` names, unless it is there.

    Raises:
        InvalidSettingError: It cannot be made.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidSettingError(
            f"cannot create the folder {path}: {error.strerror}; choose another --out"
        ) from None


def write_text(path: Path, text: str) -> None:
    """Write a text file, all of it or nothing."""
    write_bytes(path, text.encode())


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file, all of it or nothing: it is there whole, or as it was before."""
    scratch = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with scratch.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())  # else a power cut may leave a file of the right name and no content
        scratch.replace(path)
    except OSError as error:
        scratch.unlink(missing_ok=True)
        raise InputFileError(f"cannot write {path}: {error.strerror}; choose another place") from None


@contextmanager
def held_alone(path: Path) -> Iterator[None]:
    """Hold a file or folder, which must exist; the system lets go of it however the process ends.

    Raises:
        InputFileError: Another process holds it.
    """
    if sys.platform == "win32":
        yield
        return
    import fcntl

    handle = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise InputFileError(f"another process is writing to {path}; wait for it, or end it") from None
    else:
        yield
    finally:
        os.close(handle)


def parse_strict(
    text: str | bytes, most_keys: int | None = None, *, name: Path | str | None = None, remedy: str = ""
) -> Any:
    """What a JSON text says.

    Args:
        text: The text; bytes are UTF-8.
        most_keys: Limit for one object; None: no limit.
        name: What errors call the text; None: the caller says where it stood.
        remedy: What errors advise besides.

    Raises:
        SceneFileError: It is not JSON, not UTF-8, nested too deeply, or has too many keys, a key twice, or
            NaN or Infinity for a number.
    """
    try:
        return json.loads(
            text, object_pairs_hook=partial(_refuse_repeats, most_keys), parse_constant=_refuse_constant
        )
    except SceneFileError as error:
        fault = str(error)
    except UnicodeDecodeError as error:
        fault = f"it is not UTF-8 text ({error.reason}); save it as UTF-8"
    except ValueError as error:
        fault = f"it is not JSON ({error})"
    except RecursionError:
        fault = "it is nested too deeply"
    advice = f"{fault}; {remedy}" if remedy else fault
    raise SceneFileError(advice if name is None else f"{name}: {advice}")


def _refuse_repeats(most_keys: int | None, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Reject duplicate keys: JSON readers keep the last one, and a lost relation would read as none."""
    if most_keys is not None and len(pairs) > most_keys:
        raise SceneFileError(f"an object has more than {most_keys} keys")
    content = dict(pairs)
    if len(content) < len(pairs):
        names = [name for name, _ in pairs]
        twice = max(names, key=names.count)
        raise SceneFileError(f"{json.dumps(twice)} is given twice in one object; keep one")
    return content


def _refuse_constant(name: str) -> NoReturn:
    raise SceneFileError(f"{name} is not a JSON number; write null where there was no answer")


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
