"""Fitted parts on disk: JSON with a kind and a version, read back to the last bit."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from cpor.errors import InputFileError, list_labels
from cpor.io.whole_files import write_text

ModelT = TypeVar("ModelT", bound="VersionedModel")


class VersionedModel(BaseModel):
    """Base of everything that is fitted and kept: frozen, and JSON on disk.

    A child gives `kind` and `version` as fields with a Literal type, so that both are written to the
    file and checked when it is read.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    latest_version: ClassVar[int] = 1

    def to_json(self) -> str:
        """The fitted part as JSON; every number is written so that it reads back to the same bits."""
        return json.dumps(self.model_dump(), indent=2, allow_nan=False)

    def save(self, path: str | Path) -> None:
        """Write the JSON to a file, all of it or nothing."""
        write_text(Path(path), self.to_json() + "\n")

    @classmethod
    def from_json(cls: type[ModelT], text: str) -> ModelT:
        """Read what `to_json` wrote; another kind or a newer version is an error that says so."""
        return read_versioned(text, {kind_of(cls): cls})

    @classmethod
    def load(cls: type[ModelT], path: str | Path) -> ModelT:
        """Read what `save` wrote."""
        return cls.from_json(read_text(path))


def kind_of(model: type[VersionedModel]) -> str:
    """The name under which a class is found in files."""
    return str(model.model_fields["kind"].default)


def read_text(path: str | Path) -> str:
    """The text of a model file; a file that cannot be read is an error that names it."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        raise InputFileError(f"cannot read the model file {path}: {problem}") from None


def read_versioned(text: str, known: Mapping[str, type[ModelT]]) -> ModelT:
    """Read JSON into the class its `kind` names.

    Args:
        text: JSON, as `to_json` writes it.
        known: The classes to choose from, by kind.

    Raises:
        InputFileError: No JSON object, an unknown kind, a newer version, or fields that do not fit.
    """
    try:
        content: Any = json.loads(text)
    except (ValueError, RecursionError) as problem:
        raise InputFileError(f"this is not JSON: {problem}") from None
    if not isinstance(content, dict):
        raise InputFileError(f"a fitted part is a JSON object, got {type(content).__name__}")
    kind = content.get("kind")
    if not isinstance(kind, str) or kind not in known:
        raise InputFileError(f"unknown kind {kind!r}; known kinds: {list_labels(sorted(known))}")
    model = known[kind]
    version = content.get("version")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise InputFileError(f"'{kind}' has version {version!r}; versions are numbers from 1 on")
    if version != model.latest_version:
        newer = version > model.latest_version
        made, remedy = ("a newer", "upgrade, or fit again") if newer else ("an older", "fit again")
        raise InputFileError(
            f"'{kind}' has version {version}, written by {made} release; this one reads "
            f"{model.latest_version}: {remedy}"
        )
    try:
        return model.model_validate(content)
    except ValidationError as problem:
        first = problem.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the whole"
        raise InputFileError(f"'{kind}' cannot be read: {where}: {first['msg']}") from None
