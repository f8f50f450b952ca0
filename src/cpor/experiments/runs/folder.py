"""A run on disk: written piece by piece, each whole or not at all, so that a killed run goes on.

run.json         what was run on what, with what
cases/A-B.jsonl  while running: items A to B - 1, a line a case
cases.jsonl      once finished: all cases in order; the pieces are gone
"""

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from cpor.calibration.versioned import VersionedModel
from cpor.errors import CporError
from cpor.experiments.runs.answer import Shard
from cpor.experiments.runs.record import CaseRecord
from cpor.files.locks import held_alone
from cpor.inference.decide import MethodChoice


class RunFolderError(CporError, ValueError):
    """A folder that does not hold the run it should."""


class RunDataset(BaseModel):
    """What was run on."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: str
    fingerprint: str
    n_items: int


class RunSettings(BaseModel):
    """What a run was asked to do; nothing here but what changes its results."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    tau: float | None
    method: MethodChoice
    model: str | None
    seed: int
    all_targets: bool
    shift: float | None
    missing: str


class RunHeader(VersionedModel):
    """The content of `run.json`; `model` among the settings is the fingerprint of its file."""

    kind: Literal["cpor-run"] = "cpor-run"
    version: Literal[1] = 1
    dataset: RunDataset
    settings: RunSettings
    versions: dict[str, str]


class RunFolder:
    """A run folder that is open for writing; use `open_run_folder`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._pieces = path / "cases"
        self._whole = path / "cases.jsonl"

    def prepare(self, header: RunHeader) -> None:
        """Begin a run, or check that the one there is the same; drop what a killed run left half done."""
        for scratch in (*self.path.glob(".*.tmp"), *self._pieces.glob(".*.tmp")):
            scratch.unlink()
        place = self.path / "run.json"
        if place.exists():
            _refuse_other(self.path, RunHeader.load(place), header)
        elif strangers := sorted(path.name for path in self.path.iterdir()):
            raise RunFolderError(
                f"{self.path} holds no run but other files ({strangers[0]}); choose another --out"
            )
        else:
            _write_whole(place, header.to_json().encode() + b"\n")

    @property
    def is_finished(self) -> bool:
        """Whether all cases are there."""
        return self._whole.exists()

    def is_done(self, shard: Shard) -> bool:
        """Whether a shard is there; a damaged one is not."""
        place = self._place(shard)
        if not place.exists():
            return False
        content = place.read_bytes()
        try:
            found = {CaseRecord.model_validate_json(line).item for line in content.splitlines()}
        except ValidationError:
            return False
        return content.endswith(b"\n") and found == set(shard.numbers)

    def keep(self, shard: Shard, lines: bytes) -> None:
        """Write the lines of a shard, all of them or nothing."""
        self._pieces.mkdir(exist_ok=True)
        _write_whole(self._place(shard), lines)

    def finish(self, shards: Sequence[Shard]) -> None:
        """Join the shards in order."""
        if not self.is_finished:
            scratch = _scratch(self._whole)
            with scratch.open("wb") as file:
                for shard in shards:
                    file.write(self._place(shard).read_bytes())
                _to_disk(file)
            scratch.replace(self._whole)
        shutil.rmtree(self._pieces, ignore_errors=True)

    def _place(self, shard: Shard) -> Path:
        return self._pieces / f"{shard.first:08d}-{shard.first + len(shard.items):08d}.jsonl"


@contextmanager
def open_run_folder(path: Path, header: RunHeader) -> Iterator[RunFolder]:
    """Make or reopen a run folder; nobody else can write to it meanwhile.

    Raises:
        RunFolderError: It holds another run or other files, or another process is writing to it.
    """
    try:
        path.mkdir(exist_ok=True)
    except OSError as error:
        raise RunFolderError(f"cannot make the run folder {path}: {error.strerror}") from None
    with held_alone(path, RunFolderError):
        folder = RunFolder(path)
        folder.prepare(header)
        yield folder


def read_run_folder(path: Path) -> tuple[RunHeader, list[CaseRecord]]:
    """Read a finished run.

    Raises:
        RunFolderError: There is none, it is not finished, or it is damaged.
    """
    if not (path / "run.json").is_file():
        raise RunFolderError(f"{path} holds no run (no run.json); `cpor run DATASET --out {path}` makes one")
    header = RunHeader.load(path / "run.json")
    whole = path / "cases.jsonl"
    if not whole.is_file():
        raise RunFolderError(f"the run in {path} is not finished; give the same `cpor run` again to go on")
    records = []
    with whole.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            try:
                records.append(CaseRecord.model_validate_json(line))
            except ValidationError as error:
                why = error.errors()[0]["msg"]
                raise RunFolderError(
                    f"{whole}, line {number} is damaged ({why}); delete the file and run again"
                ) from None
    if {record.item for record in records} != set(range(header.dataset.n_items)):
        raise RunFolderError(f"{whole} lacks cases; delete the file and run again")
    return header, records


def _refuse_other(path: Path, there: RunHeader, wanted: RunHeader) -> None:
    """A run can only be gone on with as it was begun."""
    for part in ("dataset", "settings", "versions"):
        old, new = getattr(there, part), getattr(wanted, part)
        if old == new:
            continue
        old, new = dict(old), dict(new)
        key = next(key for key in {**old, **new} if old.get(key) != new.get(key))
        said = {"dataset": "of another dataset", "settings": "with other settings"}
        raise RunFolderError(
            f"{path} holds a run {said.get(part, 'with other versions')}: {key} is {old.get(key)}, now "
            f"{new.get(key)}; choose another --out, or delete it"
        )


def _scratch(place: Path) -> Path:
    return place.with_name(f".{place.name}.tmp")


def _write_whole(place: Path, content: bytes) -> None:
    with _scratch(place).open("wb") as file:
        file.write(content)
        _to_disk(file)
    _scratch(place).replace(place)


def _to_disk(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())  # else a power cut may leave a file of the right name and no content
