"""Cycles and runs as JSON: the only place that knows how they are written."""

from dataclasses import asdict, astuple
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from cpor.gate.check import Check
from cpor.pipeline import UNSEEN
from cpor.records import (
    ActionRecord,
    DecisionRecord,
    PairBelief,
    Promise,
    read_action,
    read_decision,
    record_action,
    record_decision,
)
from cpor.robot.cycle import Attempt, Cycle, Ended
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


class OutcomeRecord(Record):
    """What came of an attempt."""

    kind: OutcomeKind
    detail: str
    duration_s: float
    holding: bool | None = None


class CycleRecord(Record):
    """`cycle_00.json`: all of a cycle but its scene."""

    kind: Literal["cpor-cycle"] = "cpor-cycle"
    version: Literal[1] = 1
    index: int
    target: int | None
    decision: DecisionRecord | None
    action: ActionRecord | None
    p_success: float | None
    promise: tuple[float, float] | None = None
    checks: list[Check] = []
    attempt: Attempt
    outcome: OutcomeRecord | None
    beliefs: list[PairBelief]
    p_same: dict[int, float]
    unchanged: list[int]
    near: list[int] = []
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
        decision=record_decision(cycle.decision) if cycle.decision else None,
        action=record_action(cycle.action) if cycle.action else None,
        p_success=cycle.p_success,
        promise=None if cycle.promise is None else astuple(cycle.promise),
        checks=list(cycle.checks),
        attempt=cycle.attempt,
        outcome=OutcomeRecord(**asdict(outcome)) if outcome else None,
        beliefs=list(cycle.beliefs),
        p_same=dict(cycle.p_same),
        unchanged=sorted(cycle.unchanged),
        near=sorted(cycle.near),
        notes=list(cycle.notes),
        times_s=dict(cycle.times_s),
        retargeted=cycle.retargeted,
    )


def cycle_from_record(record: CycleRecord, scene: Scene) -> Cycle:
    """The cycle of a record and its scene."""
    outcome, objects = record.outcome, (*scene.ids, UNSEEN)
    return Cycle(
        index=record.index,
        scene=scene,
        target=record.target,
        decision=read_decision(record.decision, objects) if record.decision else None,
        action=read_action(record.action) if record.action else None,
        p_success=record.p_success,
        promise=None if record.promise is None else Promise(*record.promise),
        checks=tuple(record.checks),
        attempt=record.attempt,
        outcome=Outcome(**outcome.model_dump()) if outcome else None,
        beliefs=tuple(record.beliefs),
        p_same=record.p_same,
        unchanged=frozenset(record.unchanged),
        near=frozenset(record.near),
        notes=tuple(record.notes),
        times_s=record.times_s,
        retargeted=record.retargeted,
    )
