"""Weights in files, in parts of limited size, for places that take no large ones."""

import io
from pathlib import Path

from torch import Tensor, nn

from cpor.errors import InvalidSettingError

PART_BYTES = 15 * 1024 * 1024


def halved(net: nn.Module) -> dict[str, Tensor]:
    """The state of a network with its kernels in half precision; statistics and biases stay as they are."""
    return {k: v.half() if v.dim() > 1 else v for k, v in net.state_dict().items()}


def write_parts(content: bytes, folder: Path, name: str) -> list[Path]:
    """Writes `name.0`, `name.1`, …; older parts of the same name go away."""
    for old in folder.glob(f"{name}.[0-9]*"):
        old.unlink()
    paths = []
    for k, start in enumerate(range(0, max(len(content), 1), PART_BYTES)):
        path = folder / f"{name}.{k}"
        path.write_bytes(content[start : start + PART_BYTES])
        paths.append(path)
    return paths


def join_parts(folder: Path, name: str) -> io.BytesIO:
    """What `write_parts` wrote, in one piece.

    Raises:
        InvalidSettingError: There are none.
    """
    paths = sorted(folder.glob(f"{name}.[0-9]*"), key=lambda path: int(path.suffix[1:]))
    if not paths:
        raise InvalidSettingError(f"no {name}.0 in {folder}; the training writes it")
    return io.BytesIO(b"".join(path.read_bytes() for path in paths))
