"""The cases of a shard that are decided already, written down one by one: what a kill costs is one case."""

from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

from pydantic import ValidationError

from cpor.experiments.runs.record import CaseRecord


class BegunCases:
    """A file of cases that grows by a line a case; a last line that was cut off is dropped.

    On a node that does not see the run folder nothing is written, and a kill costs the shard.

    Args:
        path: The file; None: nothing is written.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._known: dict[int, dict[str, CaseRecord]] = {}
        self._file: BinaryIO | None = None

    def __enter__(self) -> "BegunCases":
        if self._path is None or not self._path.parent.is_dir():
            return self
        self._file = self._path.open("a+b")
        self._file.seek(0)
        whole = 0
        with suppress(ValidationError):
            for line in self._file:
                record = CaseRecord.model_validate_json(line)
                if not line.endswith(b"\n"):
                    break
                self._known.setdefault(record.item, {})[record.case] = record
                whole += len(line)
        self._file.truncate(whole)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            self._file.close()

    def known(self, item: int) -> dict[str, CaseRecord]:
        """The cases of an item that are decided already, by name."""
        return {name: case for name, case in self._known.get(item, {}).items() if case.error is None}

    def add(self, record: CaseRecord) -> None:
        """Write down a case that was not known."""
        if self._file is not None and record.case not in self._known.get(record.item, {}):
            self._file.write(record.to_line())
            self._file.flush()
