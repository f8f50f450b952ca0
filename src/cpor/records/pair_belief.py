"""What is believed of one pair of objects: one form in memory, in the record of a run, and on the wire."""

from typing import Literal, TypeAlias

from pydantic import Field

from cpor.records.decision import RecordPart

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
