"""From questions to records: what a worker does with a shard of a dataset."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import BinaryIO

from pydantic import ValidationError

from cpor.decision import ROUNDING, Decision, Defer
from cpor.errors import CporError
from cpor.infer.certificate import unseen_index
from cpor.infer.local import reachable
from cpor.model import FittedModel
from cpor.paper.runs.dataset import FolderItem, Item
from cpor.paper.runs.questions import CaseQuestion, RunSettings, item_name, questions
from cpor.paper.runs.record import BestRecord, CaseOutcome, CaseRecord, TruthRecord, record_error
from cpor.records import RelationRecord, record_decision
from cpor.relations import ObstructionPosterior
from cpor.system import System


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


@dataclass(frozen=True)
class Shard:
    """A piece of a run, with everything a worker needs, so that it can travel.

    Attributes:
        first: Number of its first item in the dataset.
        items: Its items.
        settings: What is asked, and how it is decided.
        model: Fitted model; None: the bundled one.
        begun: File that takes each case as soon as it is decided; None: none does.
    """

    first: int
    items: tuple[Item, ...]
    settings: RunSettings
    model: FittedModel | None = None
    begun: Path | None = None

    def __str__(self) -> str:
        return f"items {self.first} to {self.numbers[-1]} of the dataset"

    @property
    def numbers(self) -> range:
        """Numbers of its items."""
        return range(self.first, self.first + len(self.items))


def answer_shard(shard: Shard) -> bytes:
    """The lines of a shard, in order; the same shard gives the same bytes."""
    s = shard.settings
    system = System(s.segmenter, s.scorer, shard.model, s.mode)
    lines = []
    with BegunCases(shard.begun) as begun:
        for number, item in zip(shard.numbers, shard.items, strict=True):
            known = begun.known(number)
            for record in answer_item(number, item, system, s, known):
                lines.append(record.to_line())
                begun.add(record)
    return b"".join(lines)


def answer_item(
    number: int,
    item: Item,
    system: System,
    settings: RunSettings,
    known: Mapping[str, CaseRecord] = MappingProxyType({}),
) -> Iterator[CaseRecord]:
    """The records of one item, those `known` as they are; where it cannot be read, one that says so."""
    hide = f"{item.root}/" if isinstance(item, FolderItem) else ""
    try:
        for question in questions(item, system, settings):
            yield known.get(question.case) or _answer(number, question, hide)
    except CporError as error:
        yield CaseRecord(item=number, case=item_name(item), outcome="error", error=record_error(error, hide))


def _answer(number: int, question: CaseQuestion, hide: str) -> CaseRecord:
    asked = CaseRecord(
        item=number,
        case=question.case,
        image=question.image,
        tier=question.tier,
        truth=question.truth,
        outcome="error",
    )
    try:
        answer = question.ask()
        graphs = answer.top_graphs()
    except CporError as error:
        return asked.model_copy(update={"error": record_error(error, hide)})
    decision, posterior = answer.decision, answer.posterior
    assert decision is not None and posterior is not None  # every case names its target
    return asked.model_copy(
        update={
            "target": posterior.target,
            "objects": posterior.objects,
            "relations": tuple(RelationRecord(**each._asdict()) for each in posterior.relations()),
            "n_reachable": len(reachable(posterior.p_obstructs, posterior.target_index)),
            "decision": record_decision(decision, graphs),
            "mode": answer.mode,
            "promise": answer.promise,
            "checks": answer.checks,
            "p_success": answer.p_success,
            "best": _best(posterior, decision, question.truth),
            "outcome": _outcome(decision, question.truth),
        }
    )


def _best(posterior: ObstructionPosterior, decision: Decision, truth: TruthRecord | None) -> BestRecord:
    """The likeliest action on an object with a mask, also where something without one may be before it."""
    unseen = unseen_index(posterior)
    known = {o: decision.scores[o] for k, o in enumerate(posterior.objects) if k not in unseen}
    enough = max(known.values()) - ROUNDING
    on_top = posterior.target if known[posterior.target] >= enough else None
    obj = on_top if on_top is not None else next(o for o, score in known.items() if score >= enough)
    return BestRecord(object=obj, score=known[obj], right=None if truth is None else obj in truth.right)


def _outcome(decision: Decision, truth: TruthRecord | None) -> CaseOutcome:
    if isinstance(decision.action, Defer):
        return "deferred"
    if truth is None:
        return "unjudged"
    return "right" if decision.action.obj in truth.right else "wrong"
