"""One case of a run as it is kept: the only place that knows the JSON of `cases.jsonl`."""

from typing import Literal, TypeAlias

from cpor.errors import CporError
from cpor.gate.check import Check
from cpor.learn.modes import Mode
from cpor.records import (
    DecisionRecord,
    FileLabel,
    PairRecord,
    Promise,
    RecordPart,
    RelationRecord,
)

CaseOutcome: TypeAlias = Literal["right", "wrong", "deferred", "unjudged", "error"]
"""`unjudged`: acted, and the truth is not known. `error`: no decision came; never free to grasp."""


class BestRecord(RecordPart):
    """The action with the best score, taken or not, and whether it would be right (null: not known)."""

    object: FileLabel
    score: float
    right: bool | None


class TruthRecord(RecordPart):
    """What is known to be right.

    Attributes:
        right: The objects that are right to act on next; the target alone where nothing obstructs it.
        relations: The true relations, where known.
    """

    right: tuple[FileLabel, ...]
    relations: tuple[PairRecord, ...] | None


class ErrorRecord(RecordPart):
    """Why there is no decision."""

    type: str
    message: str


class CaseRecord(RecordPart):
    """One case: what was asked, what was believed, decided and true.

    Attributes:
        item: Which item of the dataset it comes from, from 0.
        case: Its name.
        image: Cases of one image are not independent of each other; null: an image of its own.
        tier: Difficulty, where the dataset tells.
        target: The object asked for; null where that could not be read.
        objects: The objects.
        relations: The candidate relations.
        n_reachable: Objects that matter to the target, itself included.
        decision: Null where there is none; then `error` says why.
        mode: The risk setting; null where a threshold was given.
        promise: The promised error rate; null where none is made.
        checks: What was found about the input.
        p_success: How often actions with such a score were right; null where unknown.
        best: The action with the best score.
        truth: Null where not known.
        outcome: See `CaseOutcome`.
        error: Why there is no decision.
    """

    item: int
    case: str
    image: str | None = None
    tier: str | None = None
    target: FileLabel | None = None
    objects: tuple[FileLabel, ...] = ()
    relations: tuple[RelationRecord, ...] = ()
    n_reachable: int = 0
    decision: DecisionRecord | None = None
    mode: Mode | None = None
    promise: Promise | None = None
    checks: tuple[Check, ...] = ()
    p_success: float | None = None
    best: BestRecord | None = None
    truth: TruthRecord | None = None
    outcome: CaseOutcome
    error: ErrorRecord | None = None

    def to_line(self) -> bytes:
        """The record as a line of `cases.jsonl`."""
        return self.model_dump_json().encode() + b"\n"

    @property
    def action(self) -> str:
        """`grasp`, `remove`, `defer` or `error`."""
        return "error" if self.decision is None else self.decision.action.type

    @property
    def acted(self) -> bool:
        """Whether something was done."""
        return self.action in ("grasp", "remove")

    @property
    def group(self) -> str:
        """Cases of one group are resampled together."""
        return f"case {self.item}" if self.image is None else f"image {self.image}"


def record_error(error: CporError, hide: str) -> ErrorRecord:
    """Why there is no decision; without `hide`, the place of the dataset, which differs by machine."""
    message = clean_text(str(error))
    return ErrorRecord(type=type(error).__name__, message=message.replace(hide, "") if hide else message)


def clean_text(text: str) -> str:
    """Text that UTF-8 can hold: halves of surrogate pairs become question marks."""
    return text.encode("utf-8", "replace").decode()
