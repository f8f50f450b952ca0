"""A run on disk: written piece by piece, each whole or not at all, so that a killed run goes on.

run.json         what was run on what, with what
cases/A-B.jsonl  while running: items A to B - 1, a line a case; .A-B.jsonl.begun: those of them done so far
cases.jsonl      once finished: all cases in order; the pieces are gone
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from cpor.errors import InputFileError
from cpor.io.whole_files import ResumableFolder, open_resumable
from cpor.learn.versioned import VersionedModel
from cpor.paper.runs.answer_items import Shard
from cpor.paper.runs.questions import RunSettings
from cpor.paper.runs.record import CaseRecord

_WHOLE = "cases.jsonl"


class RunDataset(BaseModel):
    """What was run on."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: str
    fingerprint: str
    n_items: int


class RunHeader(VersionedModel):
    """The content of `run.json`; `model` among the settings is the fingerprint of its file."""

    kind: Literal["cpor-run"] = "cpor-run"
    version: Literal[1] = 1
    dataset: RunDataset
    settings: RunSettings
    versions: dict[str, str]


class ShardFolder:
    """A run folder that is open for writing; use `open_run_folder`."""

    def __init__(self, folder: ResumableFolder) -> None:
        self._folder = folder

    @property
    def is_finished(self) -> bool:
        """Whether all cases are there."""
        return (self._folder.path / _WHOLE).exists()

    def is_done(self, shard: Shard) -> bool:
        """Whether a shard is there; a damaged one is not."""
        content = self._folder.kept(_name(shard))
        if content is None:
            return False
        try:
            found = {CaseRecord.model_validate_json(line).item for line in content.splitlines()}
        except ValidationError:
            return False
        return content.endswith(b"\n") and found == set(shard.numbers)

    def begun(self, shard: Shard) -> Path:
        """Where a worker writes the cases of a shard as it goes, so that a kill costs one case only."""
        self._folder.pieces.mkdir(exist_ok=True)
        return self._folder.pieces / f".{_name(shard)}.begun"

    def keep(self, shard: Shard, lines: bytes) -> None:
        """Write the lines of a shard, all of them or nothing."""
        self._folder.keep(_name(shard), lines)
        self.begun(shard).unlink(missing_ok=True)

    def finish(self, shards: Sequence[Shard]) -> None:
        """Join the shards in order."""
        if not self.is_finished:
            pieces = (self._folder.kept(_name(shard)) for shard in shards)
            self._folder.finish(_WHOLE, b"".join(piece for piece in pieces if piece is not None))


@contextmanager
def open_run_folder(path: Path, header: RunHeader) -> Iterator[ShardFolder]:
    """Make or reopen a run folder; no other process can write to it meanwhile.

    Raises:
        InputFileError: It holds another run or other files, or another process is writing to it.
    """
    with open_resumable(path, "run.json", "cases") as folder:
        folder.claim(header.model_dump(mode="json"))
        yield ShardFolder(folder)


def read_run_folder(path: Path) -> tuple[RunHeader, list[CaseRecord]]:
    """Read a finished run.

    Raises:
        InputFileError: There is none, it is not finished, or it is damaged.
    """
    if not (path / "run.json").is_file():
        raise InputFileError(f"{path} holds no run (no run.json); `cpor run DATASET --out {path}` makes one")
    header = RunHeader.load(path / "run.json")
    whole = path / _WHOLE
    if not whole.is_file():
        raise InputFileError(
            f"the run in {path} is not finished; call the same `cpor run` again to resume it"
        )
    records = []
    with whole.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            try:
                records.append(CaseRecord.model_validate_json(line))
            except ValidationError as error:
                why = error.errors()[0]["msg"]
                raise InputFileError(
                    f"{whole}, line {number} is damaged ({why}); delete the file and run again"
                ) from None
    if {record.item for record in records} != set(range(header.dataset.n_items)):
        raise InputFileError(f"{whole} lacks cases; delete the file and run again")
    return header, records


def _name(shard: Shard) -> str:
    return f"{shard.first:08d}-{shard.first + len(shard.items):08d}.jsonl"
