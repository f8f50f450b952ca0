"""Everything that goes over the wire beside the records of `cpor.records`, which all surfaces share.

Numbers are probabilities in [0, 1], lengths are pixels, times are milliseconds. A probability of null is no
answer, never "does not obstruct". Objects keep the labels the caller gave them.
"""

from cpor.serve.api.messages.answered import (
    DecideReply,
    EdgeMessage,
    EffectMessage,
    ErrorCode,
    ErrorReply,
    EvidenceMessage,
    ExampleMessage,
    ExplainReply,
    HealthReply,
    ObjectMessage,
    PlanReply,
    PlanStepMessage,
    SceneDecideReply,
    SceneReply,
    WordsMessage,
)
from cpor.serve.api.messages.asked import (
    ControlRequest,
    DecideRequest,
    ExplainRequest,
    GivenScene,
    OverrideMessage,
    PlanRequest,
    RelationMessage,
    RunRequest,
    SceneDecideRequest,
)
from cpor.serve.api.messages.base import (
    LONGEST_TEXT,
    MOST_OBJECTS,
    MOST_RELATIONS,
    Message,
    Point,
    Probability,
    WireLabel,
)
from cpor.serve.api.messages.runs import CycleMessage, FilmMessage, RunEvent, RunReply, RunState

__all__ = [
    "LONGEST_TEXT",
    "MOST_OBJECTS",
    "MOST_RELATIONS",
    "ControlRequest",
    "CycleMessage",
    "DecideReply",
    "DecideRequest",
    "EdgeMessage",
    "EffectMessage",
    "ErrorCode",
    "ErrorReply",
    "EvidenceMessage",
    "ExampleMessage",
    "ExplainReply",
    "ExplainRequest",
    "FilmMessage",
    "GivenScene",
    "HealthReply",
    "Message",
    "ObjectMessage",
    "OverrideMessage",
    "PlanReply",
    "PlanRequest",
    "PlanStepMessage",
    "Point",
    "Probability",
    "RelationMessage",
    "RunEvent",
    "RunReply",
    "RunRequest",
    "RunState",
    "SceneDecideReply",
    "SceneDecideRequest",
    "SceneReply",
    "WireLabel",
    "WordsMessage",
]
