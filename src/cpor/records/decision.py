"""The one JSON form of a decision: the command line, the service, run logs and records all write this."""

from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict

from cpor.decision import (
    Action,
    Certificate,
    CertificateKind,
    Decision,
    Defer,
    DeferReason,
    Grasp,
    Method,
    Remove,
)
from cpor.gate.check import CheckState
from cpor.infer.graphs import GraphShare
from cpor.relations import Label, ObstructionPosterior

FileLabel: TypeAlias = str | int | float
"""Labels as JSON can hold them."""

Ranges: TypeAlias = dict[str, tuple[float, float]]
"""Intervals by label."""


class RecordPart(BaseModel):
    """A piece of a record: frozen, nothing but what is listed, finite numbers only."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class PairRecord(RecordPart):
    """A relation that holds: `blocker` obstructs `blocked`."""

    blocked: FileLabel
    blocker: FileLabel


class RelationRecord(PairRecord):
    """A candidate relation; `p` is null where there was no answer."""

    p: float | None


class ActionRecord(RecordPart):
    """`grasp` or `remove` an object, or `defer` for a reason; null where it does not apply."""

    type: Literal["grasp", "remove", "defer"]
    object: FileLabel | None
    reason: DeferReason | None


class CertificateRecord(RecordPart):
    """See `cpor.Certificate`."""

    kind: CertificateKind
    epsilon: float
    k: int | None
    exact: bool
    blockers_certified: bool


class GraphRecord(RecordPart):
    """One of the likeliest graphs; `share` is null where it is out of reach."""

    share: float | None
    relations: tuple[PairRecord, ...]


class CheckRecord(RecordPart):
    """See `cpor.gate.check.Check`."""

    name: str
    state: CheckState
    says: str
    remedy: str


class DecisionRecord(RecordPart):
    """See `cpor.Decision`; `scores` in the order of the objects.

    Attributes:
        score_ranges: Where answers are missing: the range of each score over everything they could be.
        score_bounds: Where scores are not exact: the interval in which each is proven to lie.
        top_graphs: The likeliest graphs; none where answers are missing.
    """

    action: ActionRecord
    scores: dict[str, float]
    score_ranges: Ranges | None
    score_bounds: Ranges | None = None
    blockers: tuple[FileLabel, ...]
    certificate: CertificateRecord
    method: Method
    tau: float
    blocker_threshold: float
    mu: float | None
    mu_target: float | None
    top_graphs: tuple[GraphRecord, ...]


def record_action(action: Action) -> ActionRecord:
    """An action as it is written."""
    if isinstance(action, Defer):
        return ActionRecord(type="defer", object=None, reason=action.reason)
    kind: Literal["grasp", "remove"] = "grasp" if isinstance(action, Grasp) else "remove"
    return ActionRecord(type=kind, object=_file_label(action.obj), reason=None)


def read_action(record: ActionRecord) -> Action:
    """The action that was written."""
    if record.type == "defer":
        return Defer(record.reason or "weak_evidence")
    return Grasp(record.object) if record.type == "grasp" else Remove(record.object)


def record_decision(decision: Decision, graphs: tuple[GraphShare, ...] = ()) -> DecisionRecord:
    """A decision and the likeliest graphs behind it."""
    found = decision.certificate
    return DecisionRecord(
        action=record_action(decision.action),
        scores={str(label): score for label, score in decision.scores.items()},
        score_ranges=_by_text(decision.unanswered_range),
        score_bounds=_by_text(decision.bounds),
        blockers=tuple(_file_label(label) for label in decision.scores if label in decision.blockers),
        certificate=_record_certificate(found),
        method=decision.method,
        tau=decision.tau,
        blocker_threshold=decision.blocker_threshold,
        mu=decision.mu,
        mu_target=decision.mu_target,
        top_graphs=tuple(
            GraphRecord(
                share=graph.share,
                relations=tuple(
                    PairRecord(blocked=_file_label(r.blocked), blocker=_file_label(r.blocker))
                    for r in graph.relations
                ),
            )
            for graph in graphs
        ),
    )


def read_decision(record: DecisionRecord, objects: Iterable[Label]) -> Decision:
    """The decision that was written, about the given objects; the likeliest graphs are not kept."""
    label = {str(each): each for each in objects}

    def by_label(ranges: Ranges | None) -> Mapping[Label, tuple[float, float]] | None:
        return None if ranges is None else {label[name]: each for name, each in ranges.items()}

    return Decision(
        action=read_action(record.action),
        scores={label[name]: score for name, score in record.scores.items()},
        blockers=frozenset(record.blockers),
        certificate=Certificate(**record.certificate.model_dump()),
        method=record.method,
        tau=record.tau,
        blocker_threshold=record.blocker_threshold,
        mu=record.mu,
        mu_target=record.mu_target,
        unanswered_range=by_label(record.score_ranges),
        bounds=by_label(record.score_bounds),
    )


def record_relations(posterior: ObstructionPosterior) -> tuple[RelationRecord, ...]:
    """Every candidate relation of a scene."""
    return tuple(
        RelationRecord(blocked=_file_label(r.blocked), blocker=_file_label(r.blocker), p=r.p)
        for r in posterior.relations()
    )


def _by_text(ranges: Mapping[Label, tuple[float, float]] | None) -> Ranges | None:
    return None if ranges is None else {str(label): each for label, each in ranges.items()}


def _record_certificate(found: Certificate) -> CertificateRecord:
    return CertificateRecord(
        kind=found.kind,
        epsilon=found.epsilon,
        k=found.k,
        exact=found.exact,
        blockers_certified=found.blockers_certified,
    )


def _file_label(label: Label) -> Any:
    return label
