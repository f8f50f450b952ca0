"""One case of a run as it is kept: the only place that knows the JSON of `cases.jsonl`."""

from typing import Literal, TypeAlias

from pydantic import BaseModel, ConfigDict

from cpor.data.scene_file import action_to_json
from cpor.decision import CertificateKind, Decision, DeferReason, Method
from cpor.errors import CporError
from cpor.inference.graphs import GraphShare
from cpor.relations import ObstructionPosterior

FileLabel: TypeAlias = str | int | float
"""Labels as JSON can hold them."""

Outcome: TypeAlias = Literal["right", "wrong", "deferred", "unjudged", "error"]
"""`unjudged`: acted, and the truth is not known. `error`: no decision came; never free to grasp."""


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class PairRecord(_Part):
    """A relation that holds: `blocker` obstructs `blocked`."""

    blocked: FileLabel
    blocker: FileLabel


class RelationRecord(PairRecord):
    """A candidate relation; `p` is null where there was no answer."""

    p: float | None


class ActionRecord(_Part):
    """What was decided."""

    type: Literal["grasp", "remove", "defer"]
    object: FileLabel | None
    reason: DeferReason | None


class CertificateRecord(_Part):
    """See `cpor.Certificate`."""

    kind: CertificateKind
    epsilon: float
    k: int | None
    exact: bool
    blockers_certified: bool


class GraphRecord(_Part):
    """One of the likeliest graphs."""

    share: float
    relations: tuple[PairRecord, ...]


class DecisionRecord(_Part):
    """See `cpor.Decision`; lists over objects follow the order of `CaseRecord.objects`."""

    action: ActionRecord
    scores: tuple[float, ...]
    score_ranges: tuple[tuple[float, float], ...] | None
    blockers: tuple[FileLabel, ...]
    certificate: CertificateRecord
    method: Method
    tau: float
    mu: float | None
    mu_target: float | None
    p_success: float | None
    graphs: tuple[GraphRecord, ...]


class BestRecord(_Part):
    """The action with the best score, taken or not, and whether it would be right (null: not known)."""

    object: FileLabel
    score: float
    right: bool | None


class TruthRecord(_Part):
    """What is known to be right.

    Attributes:
        right: The objects that are right to act on next; the target alone where nothing obstructs it.
        relations: The true relations, where known.
    """

    right: tuple[FileLabel, ...]
    relations: tuple[PairRecord, ...] | None


class ErrorRecord(_Part):
    """Why there is no decision."""

    type: str
    message: str


class CaseRecord(_Part):
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
        best: The action with the best score.
        truth: Null where not known.
        outcome: See `Outcome`.
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
    best: BestRecord | None = None
    truth: TruthRecord | None = None
    outcome: Outcome
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


def record_relations(posterior: ObstructionPosterior) -> tuple[RelationRecord, ...]:
    """Every candidate relation of a scene."""
    return tuple(RelationRecord(**relation._asdict()) for relation in posterior.relations())


def record_decision(
    decision: Decision, graphs: tuple[GraphShare, ...], p_success: float | None
) -> DecisionRecord:
    """A decision and the likeliest graphs behind it."""
    found, ranges = decision.certificate, decision.unanswered_range
    return DecisionRecord(
        action=ActionRecord(**action_to_json(decision.action)),
        scores=tuple(decision.scores.values()),
        score_ranges=None if ranges is None else tuple(ranges.values()),
        blockers=tuple(label for label in decision.scores if label in decision.blockers),
        certificate=CertificateRecord(
            kind=found.kind,
            epsilon=found.epsilon,
            k=found.k,
            exact=found.exact,
            blockers_certified=found.blockers_certified,
        ),
        method=decision.method,
        tau=decision.tau,
        mu=decision.mu,
        mu_target=decision.mu_target,
        p_success=p_success,
        graphs=tuple(
            GraphRecord(
                share=graph.share,
                relations=tuple(
                    PairRecord.model_validate({"blocked": r.blocked, "blocker": r.blocker})
                    for r in graph.relations
                ),
            )
            for graph in graphs
        ),
    )


def record_error(error: CporError, hide: str) -> ErrorRecord:
    """Why there is no decision; without `hide`, the place of the dataset, which differs by machine."""
    message = clean_text(str(error))
    return ErrorRecord(type=type(error).__name__, message=message.replace(hide, "") if hide else message)


def clean_text(text: str) -> str:
    """Text that UTF-8 can hold: halves of surrogate pairs become question marks."""
    return text.encode("utf-8", "replace").decode()
