"""The one JSON form of a decision, an answer and a belief; every surface and every record writes it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from cpor.decision import (
    Action,
    Certificate,
    Decision,
    Defer,
    DeferReason,
    Grasp,
    Method,
    Remove,
)
from cpor.gate.check import Check
from cpor.infer.graphs import GraphShare
from cpor.learn.modes import Mode, percent
from cpor.relations import Label

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


class GraphRecord(RecordPart):
    """One of the likeliest graphs; `share` is null where it is out of reach."""

    share: float | None
    relations: tuple[PairRecord, ...]


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
    certificate: Certificate
    method: Method
    tau: float
    blocker_threshold: float
    mu: float | None
    mu_target: float | None
    top_graphs: tuple[GraphRecord, ...]


@dataclass(frozen=True)
class Promise:
    """At most a share `alpha` of the actions taken is wrong, with this confidence."""

    alpha: float
    confidence: float

    def in_words(self) -> str:
        """For people."""
        return (
            f"Promised: at most {percent(self.alpha)} of the actions taken are wrong "
            f"(confidence {percent(self.confidence)}, scenes like those it was tested on; clear and very "
            "thin covers are not among them)."
        )


class ObjectRecord(RecordPart):
    """One object of a scene; lengths in pixels of the picture.

    Attributes:
        name: What it is called, unique in the scene; null where it was not named.
        point: x and y of a pixel that shows it, well inside; null where none does.
        box: Left, top, right and bottom of what shows, the last two exclusive; null likewise.
        score: Confidence of the detector.
        occluded: Whether the detector says that part of it is hidden.
        hidden_share: Share of its amodal mask that does not show; null where that is not known.
    """

    id: int
    name: str | None
    point: tuple[float, float] | None
    box: tuple[int, int, int, int] | None
    score: float | None
    occluded: bool | None
    hidden_share: float | None


class CandidateRecord(ObjectRecord):
    """An object that may be meant, and how well it fits in [0, 1]."""

    fit: float


class ReadingRecord(RecordPart):
    """How well words fit the object they were read as, and the object that they fit next best."""

    fit: float
    runner_up: CandidateRecord | None


class AnswerRecord(RecordPart):
    """What `Answer.to_json` gives; see `cpor.Answer` and `DecisionRecord`.

    Where it is not clear which object is meant, `action` is null, `question` is what to ask back, and the
    fields of the decision are absent.

    Attributes:
        objects: What was seen; the labels alone where probabilities were given.
        reading: What words, or a point, were read as; null where an id was given, or nothing was found.
        masks: `given`, or the name of the segmenter; null where probabilities were given.
        odds_factor: The action holds while the odds of every relation are off by less than this factor, 1000
            at most; where it deferred as `not_robust`, that of the action found. See `docs/guarantees.md`.
        radius: `Decision.radius`, 6.9 at most; null where it defers.
        scorer: Name of the relation scorer; null if relations were not scored.
    """

    action: ActionRecord | None
    target: FileLabel | None
    question: str | None
    candidates: tuple[CandidateRecord, ...]
    reading: ReadingRecord | None = None
    mode: Mode | None
    tau: float | None
    promise: Promise | None
    checks: tuple[Check, ...]
    p_success: float | None
    notes: tuple[str, ...]
    objects: tuple[ObjectRecord | FileLabel, ...]
    masks: str | None
    scorer: str | None
    times_ms: dict[str, float]
    scores: dict[str, float] = Field(default_factory=dict)
    score_ranges: Ranges | None = None
    score_bounds: Ranges | None = None
    blockers: tuple[FileLabel, ...] = ()
    certificate: Certificate | None = None
    method: Method | None = None
    blocker_threshold: float | None = None
    mu: float | None = None
    mu_target: float | None = None
    odds_factor: float | None = None
    radius: float | None = None
    relations: tuple[RelationRecord, ...] = ()
    top_graphs: tuple[GraphRecord, ...] = ()


StateName: TypeAlias = Literal["no_contact", "candidate", "unanswered"]
"""`cpor.evidence.PairState` in lower case."""


class SourceBelief(RecordPart):
    """What one source says of a pair; None is no answer.

    Attributes:
        score: As it comes.
        p: Calibrated.
    """

    score: float | None
    p: float | None


class PairBelief(RecordPart):
    """What each stage says of one ordered pair; None is no answer.

    Attributes:
        blocked, blocker: The pair.
        p: What is decided from; in a loop for its target only.
        p_fused: All sources fused, whatever the target.
        sources: Each source, by its name.
        state: What geometry has to say.
        hidden_overlap, clearance, depth_order: The geometric cues of eq. mask-support.
        reliability: Share of usable depth readings.
        carried: Whether the semantic score is known to be kept from an earlier look, not asked for anew.
    """

    blocked: int
    blocker: int
    p: float | None
    p_fused: float | None
    sources: dict[str, SourceBelief] = Field(default_factory=dict)
    state: StateName = "candidate"
    hidden_overlap: float | None = None
    clearance: float | None = None
    depth_order: float | None = None
    reliability: float | None = None
    carried: bool = False


def record_action(action: Action) -> ActionRecord:
    """An action as it is written."""
    if isinstance(action, Defer):
        return ActionRecord(type="defer", object=None, reason=action.reason)
    kind: Literal["grasp", "remove"] = "grasp" if isinstance(action, Grasp) else "remove"
    obj: Any = action.obj  # labels of a file are text or numbers
    return ActionRecord(type=kind, object=obj, reason=None)


def read_action(record: ActionRecord) -> Action:
    """The action that was written."""
    if record.type == "defer":
        return Defer(record.reason or "weak_evidence")
    return Grasp(record.object) if record.type == "grasp" else Remove(record.object)


def record_decision(decision: Decision, graphs: tuple[GraphShare, ...] = ()) -> DecisionRecord:
    """A decision and the likeliest graphs behind it."""
    blockers: tuple[Any, ...] = tuple(label for label in decision.scores if label in decision.blockers)
    return DecisionRecord(
        action=record_action(decision.action),
        scores={str(label): score for label, score in decision.scores.items()},
        score_ranges=_by_text(decision.unanswered_range),
        score_bounds=_by_text(decision.bounds),
        blockers=blockers,
        certificate=decision.certificate,
        method=decision.method,
        tau=decision.tau,
        blocker_threshold=decision.blocker_threshold,
        mu=decision.mu,
        mu_target=decision.mu_target,
        top_graphs=tuple(
            GraphRecord(
                share=graph.share,
                relations=tuple(PairRecord(blocked=r.blocked, blocker=r.blocker) for r in graph.relations),
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
        certificate=record.certificate,
        method=record.method,
        tau=record.tau,
        blocker_threshold=record.blocker_threshold,
        mu=record.mu,
        mu_target=record.mu_target,
        unanswered_range=by_label(record.score_ranges),
        bounds=by_label(record.score_bounds),
    )


def _by_text(ranges: Mapping[Label, tuple[float, float]] | None) -> Ranges | None:
    return None if ranges is None else {str(label): each for label, each in ranges.items()}
