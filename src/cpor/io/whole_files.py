"""Files read and written whole: one that is written is there whole, or as it was before."""

import os
from pathlib import Path

from cpor.errors import CporError, SceneFileError


class OutputFileError(CporError):
    """A result that cannot be written where it was asked for."""


def read_bytes(path: Path) -> bytes:
    """Content of a file."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise SceneFileError(f"{path} cannot be read: {error.strerror}") from error


def write_text(path: Path, text: str) -> None:
    """Write a text file, all of it or nothing."""
    write_bytes(path, text.encode())


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file, all of it or nothing."""
    scratch = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with scratch.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())  # else a power cut may leave a file of the right name and no content
        scratch.replace(path)
    except OSError as error:
        scratch.unlink(missing_ok=True)
        raise OutputFileError(f"cannot write {path}: {error.strerror}; choose another place") from None
