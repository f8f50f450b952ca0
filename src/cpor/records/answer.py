"""The one JSON form of an answer: the record of a decision, and what belongs to the view it was made on."""

from pydantic import Field

from cpor.decision import Method
from cpor.learn.modes import Mode
from cpor.records.decision import (
    ActionRecord,
    CertificateRecord,
    CheckRecord,
    FileLabel,
    GraphRecord,
    Ranges,
    RecordPart,
    RelationRecord,
)


class PromiseRecord(RecordPart):
    """At most a share `alpha` of the actions taken is wrong, with this confidence."""

    alpha: float
    confidence: float


class ObjectRecord(RecordPart):
    """See `cpor.perception.object_list.ListedObject`; lengths in pixels of the picture."""

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
    promise: PromiseRecord | None
    checks: tuple[CheckRecord, ...]
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
    certificate: CertificateRecord | None = None
    method: Method | None = None
    blocker_threshold: float | None = None
    mu: float | None = None
    mu_target: float | None = None
    odds_factor: float | None = None
    radius: float | None = None
    relations: tuple[RelationRecord, ...] = ()
    top_graphs: tuple[GraphRecord, ...] = ()
