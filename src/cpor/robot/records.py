"""Cycles and runs as JSON: the only place that knows how they are written."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from cpor.data.scene_file import action_to_json
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
from cpor.robot.cycle import Attempt, Cycle, Ended, PairBelief
from cpor.robot.protocol import Outcome, OutcomeKind, RobotState, RobotStatus
from cpor.scene import Scene


class Record(BaseModel):
    """Frozen, strict about keys; numbers are finite."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class StatusRecord(Record):
    """How the robot was left."""

    state: RobotState
    detail: str
    holding: bool | None


class RunRecord(Record):
    """`run.json`; the target's id is that of the first frame, and what the end brings is None until then.

    Where `retargeted` is not 0, other objects were asked for on the way, `ended` is about the last of them,
    and every cycle names its own target.
    """

    kind: Literal["cpor-retrieval"] = "cpor-retrieval"
    version: Literal[1] = 1
    target: int | None
    settings: dict[str, Any]
    versions: dict[str, str]
    about: dict[str, Any]
    began: str
    ended: Ended | None = None
    detail: str | None = None
    cycles: int | None = None
    actions: int | None = None
    deferrals: int | None = None
    retargeted: int = 0
    robot: StatusRecord | None = None


class ActionRecord(Record):
    """An action as `cpor decide --json` prints it."""

    type: Literal["grasp", "remove", "defer"]
    object: int | None
    reason: DeferReason | None


class CertificateRecord(Record):
    """What certifies a decision."""

    kind: CertificateKind
    epsilon: float
    k: int | None
    exact: bool
    blockers_certified: bool


class DecisionRecord(Record):
    """A decision in full."""

    action: ActionRecord
    scores: dict[int, float]
    blockers: list[int]
    certificate: CertificateRecord
    method: Method
    tau: float
    blocker_threshold: float
    mu: float | None
    mu_target: float | None
    unanswered_range: dict[int, tuple[float, float]] | None


class BeliefRecord(Record):
    """What was believed of one pair."""

    blocked: int
    blocker: int
    p: float | None
    p_fused: float | None
    p_geometry: float | None
    score_semantic: float | None
    carried: bool


class OutcomeRecord(Record):
    """What came of an attempt."""

    kind: OutcomeKind
    detail: str
    duration_s: float


class CycleRecord(Record):
    """`cycle_00.json`: all of a cycle but its scene."""

    kind: Literal["cpor-cycle"] = "cpor-cycle"
    version: Literal[1] = 1
    index: int
    target: int | None
    decision: DecisionRecord | None
    action: ActionRecord | None
    p_success: float | None
    attempt: Attempt
    outcome: OutcomeRecord | None
    beliefs: list[BeliefRecord]
    same_as: dict[int, int]
    unchanged: list[int]
    notes: list[str]
    times_s: dict[str, float]
    retargeted: bool = False


def status_to_record(status: RobotStatus | None) -> StatusRecord | None:
    """A robot's status as it is written."""
    if status is None:
        return None
    return StatusRecord(state=status.state, detail=status.detail, holding=status.holding)


def cycle_to_record(cycle: Cycle) -> CycleRecord:
    """A cycle as it is written."""
    outcome = cycle.outcome
    return CycleRecord(
        index=cycle.index,
        target=cycle.target,
        decision=_decision_to_record(cycle.decision) if cycle.decision else None,
        action=ActionRecord(**action_to_json(cycle.action)) if cycle.action else None,
        p_success=cycle.p_success,
        attempt=cycle.attempt,
        outcome=OutcomeRecord(kind=outcome.kind, detail=outcome.detail, duration_s=outcome.duration_s)
        if outcome
        else None,
        beliefs=[BeliefRecord(**belief._asdict()) for belief in cycle.beliefs],
        same_as=dict(cycle.same_as),
        unchanged=sorted(cycle.unchanged),
        notes=list(cycle.notes),
        times_s=dict(cycle.times_s),
        retargeted=cycle.retargeted,
    )


def cycle_from_record(record: CycleRecord, scene: Scene) -> Cycle:
    """The cycle of a record and its scene."""
    outcome = record.outcome
    return Cycle(
        index=record.index,
        scene=scene,
        target=record.target,
        decision=_decision_from_record(record.decision) if record.decision else None,
        action=_action_from_record(record.action) if record.action else None,
        p_success=record.p_success,
        attempt=record.attempt,
        outcome=Outcome(outcome.kind, outcome.detail, outcome.duration_s) if outcome else None,
        beliefs=tuple(PairBelief(**belief.model_dump()) for belief in record.beliefs),
        same_as=record.same_as,
        unchanged=frozenset(record.unchanged),
        notes=tuple(record.notes),
        times_s=record.times_s,
        retargeted=record.retargeted,
    )


def _decision_to_record(decision: Decision) -> DecisionRecord:
    certificate = decision.certificate
    return DecisionRecord(
        action=ActionRecord(**action_to_json(decision.action)),
        scores=decision.scores,
        blockers=sorted(decision.blockers),
        certificate=CertificateRecord(
            kind=certificate.kind,
            epsilon=certificate.epsilon,
            k=certificate.k,
            exact=certificate.exact,
            blockers_certified=certificate.blockers_certified,
        ),
        method=decision.method,
        tau=decision.tau,
        blocker_threshold=decision.blocker_threshold,
        mu=decision.mu,
        mu_target=decision.mu_target,
        unanswered_range=decision.unanswered_range,
    )


def _decision_from_record(record: DecisionRecord) -> Decision:
    return Decision(
        action=_action_from_record(record.action),
        scores=dict(record.scores.items()),
        blockers=frozenset(record.blockers),
        certificate=Certificate(**record.certificate.model_dump()),
        method=record.method,
        tau=record.tau,
        blocker_threshold=record.blocker_threshold,
        mu=record.mu,
        mu_target=record.mu_target,
        unanswered_range=dict(record.unanswered_range.items()) if record.unanswered_range else None,
    )


def _action_from_record(record: ActionRecord) -> Action:
    if record.type == "defer":
        return Defer(record.reason or "weak_evidence")
    assert record.object is not None
    return Grasp(record.object) if record.type == "grasp" else Remove(record.object)
