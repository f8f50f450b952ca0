"""Replies, and events of live runs; decisions are the records that every surface writes, `cpor.records`."""

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import AliasChoices, BeforeValidator, ConfigDict, Field

from cpor.answer import OpenQuestion
from cpor.gate.check import Check
from cpor.learn.modes import Mode
from cpor.records import (
    ActionRecord,
    AnswerRecord,
    ObjectRecord,
    PairBelief,
    PairRecord,
    Promise,
    record_action,
)
from cpor.serve.api.asked import Message, Point, Probability, RelationMessage, WireLabel, say_inherited


def _recorded(action: Any) -> Any:
    return action if action is None or isinstance(action, ActionRecord | dict) else record_action(action)


SaidAction: TypeAlias = Annotated[ActionRecord, BeforeValidator(_recorded)]
"""An action, also as the library has it."""


class EdgeMessage(RelationMessage):
    """A relation as it entered the decision.

    Attributes:
        in_cycle: Whether it lies on a cycle of candidate relations.
    """

    in_cycle: bool


class DecideReply(AnswerRecord):
    """An answer in the one form that every surface gives, and what a page shows besides.

    Attributes:
        words: The decision in sentences: `headline`, what to do; `why`, or the question where nothing was
            decided; `proof`, what is proven, and what was left out because the time was up.
        edges: `relations` with what the page shows of each.
        ask: What to ask a person; null where nothing helps, or a request did not want to know.
    """

    model_config = ConfigDict(json_schema_extra=say_inherited)

    words: dict[Literal["headline", "why", "proof"], str]
    edges: list[EdgeMessage]
    ask: OpenQuestion | None = None


class SceneDecideReply(DecideReply):
    """The same; `id` names the scene to `/v1/scenes/{id}/decide` for a while."""

    id: str


class EffectMessage(RelationMessage):
    """What one relation means for the decision; as `cpor.infer.explain.RelationEffect`.

    Attributes:
        words: Such as "If the box obstructed the mug with 62 % instead of 35 %: remove the box".
    """

    assumed: bool
    p_posterior: Probability
    flips_at: Probability | None
    flips_to: Annotated[ActionRecord | None, BeforeValidator(_recorded)]
    if_true: SaidAction
    if_false: SaidAction
    value_of_asking: float
    words: str


class ExplainReply(Message):
    """Why, what would change it, and what to ask next."""

    decision: DecideReply
    effects: list[EffectMessage]
    ask_next: PairRecord | None
    not_examined: int


class PlanStepMessage(Message):
    """One removal; as `cpor.infer.plan.PlanStep`."""

    object: Annotated[WireLabel, Field(validation_alias=AliasChoices("object", "obj"))]
    p_valid: Probability
    p_valid_so_far: Probability
    p_needed: Probability


class PlanReply(Message):
    """As `cpor.infer.plan.Plan`; `note` says why it begins otherwise than the single step, where it does."""

    target: WireLabel
    steps: list[PlanStepMessage]
    p_valid: Probability
    value: float
    value_of_asking: float
    ask: bool
    first_action: SaidAction
    note: str | None


class ObjectMessage(ObjectRecord):
    """One object of a picture.

    Attributes:
        visible: Outlines of what shows, each a closed polygon.
        amodal: Outlines with the hidden part; empty where unknown.
    """

    visible: list[list[Point]]
    amodal: list[list[Point]]


class SceneReply(Message):
    """What was seen in a picture, ready to be decided on for any target.

    Attributes:
        id: Names the scene to `/v1/scenes/{id}/decide` for a while.
        masks: Source of the masks: `given`, or a segmenter's name.
        scorer: Scorer of the relations; null where geometry alone decides.
        evidence: Every pair that may obstruct.
        relations: The same as `DecideRequest` wants them; what a person said counts.
        done, undone: Corrections in force, and such as can be redone.
        checks: What was found about the input.
        mode, tau: The risk setting where none is asked for, and its threshold.
        modes: Threshold of each mode.
        promise: The promised error rate in that mode; null where none is made, and `notes` say why.
        notes: What a person should know, in sentences.
        times_ms: Time of each stage.
    """

    id: str
    width: int
    height: int
    has_depth: bool
    masks: str
    scorer: str | None
    objects: list[ObjectMessage]
    evidence: list[PairBelief]
    relations: list[RelationMessage]
    done: int
    undone: int
    checks: list[Check]
    mode: Mode
    tau: Probability
    modes: dict[Mode, Probability]
    promise: Promise | None
    notes: list[str]
    times_ms: dict[str, float]


class CorrectReply(Message):
    """A scene after a correction, and the decision where one was asked for."""

    scene: SceneReply
    decision: DecideReply | None


class QueueReply(Message):
    """The photograph to label now; null where all are labelled.

    Attributes:
        name: Name of its folder.
        left, total: Photographs.
        minutes_left: About how long those left take.
        scene: What was seen in it.
    """

    name: str | None
    left: int
    total: int
    minutes_left: float
    scene: SceneReply | None


class ExampleMessage(Message):
    """An example scene: its picture is at `/v1/examples/{name}/rgb.png`."""

    name: str
    title: str
    width: int
    height: int


ErrorCode: TypeAlias = (
    Literal["invalid", "too_large", "unsupported", "unauthorised", "not_found"]
    | Literal["busy", "timeout", "conflict", "failed", "not_installed"]
)


class ErrorReply(Message):
    """What went wrong and what to do about it; `code` is for programs."""

    code: ErrorCode
    message: str


class HealthReply(Message):
    """Alive, and what there is.

    Attributes:
        labelling: Whether photographs wait to be labelled.
        camera: Kind of the service's camera: `realsense`, `folder`, or empty without one.
        drift: A warning where pictures no longer look like those the model was tested on; else empty.
    """

    status: Literal["ok"]
    version: str
    perception: bool
    simulator: bool
    labelling: bool
    camera: str
    drift: str


RunState: TypeAlias = Literal["preparing", "running", "paused", "asking", "ended", "failed"]


class RunReply(Message):
    """How a run stands; `ended` and `detail` as `cpor.robot.cycle.RunResult` has them."""

    run_id: str
    state: RunState
    cycle: int
    target: int | None
    target_name: str | None
    ended: str | None
    detail: str | None


CycleMoment: TypeAlias = Literal["decided", "done", "last"]


class CycleMessage(Message):
    """One cycle of a run, before or after the arm moved.

    Attributes:
        index: From 0.
        moment: `decided`: the arm has not moved yet; `done`: the cycle is over; `last`: a look after the last
            action, with nothing decided.
        picture: Path of the overlay picture, relative to the service.
        window: Left, top, right and bottom of the part of the frame that the picture shows, enlarged, above a
            line that says what its signs mean; in pixels of the frame, as those of `objects`.
        target: The object asked for; null where it is not seen.
        retargeted: Whether another object than before is asked for from this cycle on.
        decision: null where there was nothing to decide.
        action: What is done: the decision's action unless `notes` say why another one.
        outcome: What came of it, in words.
        verdict, right: What the simulator's truth says of the action, in words and as yes or no.
        notes: What else happened.
        times_ms: Time of each step.
    """

    index: int
    moment: CycleMoment
    picture: str
    window: tuple[int, int, int, int]
    objects: list[ObjectMessage]
    target: int | None
    retargeted: bool
    decision: DecideReply | None
    action: ActionRecord | None
    outcome: str | None
    verdict: str | None
    right: bool | None
    notes: list[str]
    times_ms: dict[str, float]


class FilmMessage(Message):
    """A new frame of the moving arm."""

    frame: int
    picture: str


class RunEvent(Message):
    """What the event stream carries; one of the three is set, `run` at every change of state."""

    number: int
    run: RunReply | None = None
    cycle: CycleMessage | None = None
    film: FilmMessage | None = None
