"""Requests over the wire, and what all messages share.

Numbers are probabilities in [0, 1], lengths are pixels, times are milliseconds. A probability of null is no
answer, never "does not obstruct". Objects keep the labels the caller gave them.
"""

import inspect
from typing import Annotated, Any, Literal, Self, TypeAlias, TypeVar

from pydantic import BaseModel, ConfigDict, Field, StrictBool, ValidationError, model_validator

from cpor.answer import N_GRAPHS
from cpor.conversation import LONGEST_REPLY, MOST_REPLIES
from cpor.corrections.history import Correction
from cpor.decision import COST_ASK
from cpor.errors import InvalidSettingError
from cpor.learn.modes import DEFAULT_MODE, Mode

MOST_OBJECTS = 200
MOST_RELATIONS = 4_000
LONGEST_TEXT = 200

WireLabel: TypeAlias = (
    Annotated[str, Field(max_length=LONGEST_TEXT, strict=True)]
    | Annotated[int, Field(ge=-(2**53), le=2**53, strict=True)]
)
"""What a caller calls an object: a short text or a whole number."""

# Strict throughout: `false` would pass for "known not to obstruct", and "yes" for a number or a switch.
Probability: TypeAlias = Annotated[float, Field(ge=0.0, le=1.0, allow_inf_nan=False, strict=True)]
Cost: TypeAlias = Annotated[float, Field(ge=0.0, le=1e6, allow_inf_nan=False, strict=True)]
_Coordinate: TypeAlias = Annotated[float, Field(strict=True)]
Point: TypeAlias = tuple[_Coordinate, _Coordinate]
"""x and y. [px]"""

GraphCount: TypeAlias = Annotated[int, Field(ge=0, le=20, strict=True)]
ObjectId: TypeAlias = Annotated[int, Field(ge=-(2**53), le=2**53, strict=True)]
Reply: TypeAlias = Annotated[str, Field(min_length=1, max_length=LONGEST_REPLY)]


def say_inherited(schema: dict[str, Any], model: type[BaseModel]) -> None:
    """Add to the description in a schema what the docstrings of base classes say of their fields."""
    bases = [each for each in model.__mro__ if issubclass(each, BaseModel) and each is not BaseModel]
    said = [inspect.cleandoc(each.__doc__ or "").partition("Attributes:\n") for each in bases]
    fields = "\n".join(rest.rstrip() for _, _, rest in said if rest)
    schema["description"] = said[0][0] + (f"Attributes:\n{fields}" if fields else "")


class Message(BaseModel):
    """Base of all: unknown fields are refused, so that a misspelt setting cannot pass in silence."""

    model_config = ConfigDict(extra="forbid", frozen=True, json_schema_extra=say_inherited)


_Message = TypeVar("_Message", bound=BaseModel)


def validated(kind: type[_Message], content: dict[str, Any]) -> _Message:
    """A message from its content; the first fault is one sentence.

    Raises:
        InvalidSettingError: A field is wrong.
    """
    try:
        return kind.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(step) for step in first["loc"])
        raise InvalidSettingError(f"{where}: {first['msg']}") from None


class RelationMessage(Message):
    """A relation of two objects.

    Attributes:
        blocked: The object that may be obstructed.
        blocker: The object that may lie in its way.
        p: Probability that it does; null where no answer came.
    """

    blocked: WireLabel
    blocker: WireLabel
    p: Probability | None


class OverrideMessage(RelationMessage):
    """A relation changed by hand: use `p` in place of what is believed; null is no answer."""

    blocked: ObjectId
    blocker: ObjectId


Overrides: TypeAlias = Annotated[list[OverrideMessage], Field(max_length=MOST_RELATIONS, fail_fast=True)]


def by_pair(changed: list[OverrideMessage]) -> dict[tuple[int, int], float | None]:
    """Probabilities of changed relations, by (blocked, blocker)."""
    return {(each.blocked, each.blocker): each.p for each in changed}


class RiskSetting(Message):
    """How sure it must be before it acts; `cautious` where neither is given.

    Attributes:
        mode: A risk setting, with a threshold of its own.
        tau: A threshold instead: act only where the probability of being right is above it.
    """

    mode: Mode | None = None
    tau: Probability | None = None

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if self.mode is not None and self.tau is not None:
            raise ValueError("give mode or tau, not both")
        return self


class GivenScene(RiskSetting):
    """Objects and probabilities that the caller gives.

    Attributes:
        objects: Labels of all objects, texts or numbers.
        target: Label of the object asked for.
        relations: Every pair that may obstruct; one that is left out is known not to.
        unseen: The label of what was not segmented and cannot be removed; null: there is no such label.
        prior: Probability to assume where there was no answer; null defers instead.
    """

    objects: Annotated[list[WireLabel], Field(min_length=1, max_length=MOST_OBJECTS, fail_fast=True)]
    target: WireLabel
    relations: Annotated[list[RelationMessage], Field(max_length=MOST_RELATIONS, fail_fast=True)]
    unseen: WireLabel | None = None
    prior: Probability | None = None


class DecideRequest(GivenScene):
    """Decide from probabilities.

    Attributes:
        method: `exact`, or `auto`: exact where that is not too much work, else proven bounds.
        graphs: How many of the likeliest graphs to list.
        require_certificate: Defer unless proven to be the exact answer.
    """

    method: Literal["auto", "exact"] = "auto"
    graphs: GraphCount = N_GRAPHS
    require_certificate: StrictBool = False


class ExplainRequest(DecideRequest):
    """Explain the decision that `DecideRequest` would bring."""


class PlanRequest(GivenScene):
    """The removals, in order, that lead to the target; as `cpor.plan` has it."""

    max_steps: Annotated[int, Field(ge=0, le=MOST_OBJECTS, strict=True)] | None = None
    cost_removal: Cost = 0.05
    cost_wrong: Cost = 1.0
    cost_ask: Cost = COST_ASK


class SceneDecideRequest(RiskSetting):
    """Decide for an object of a picture, asked for in one way: by id, by a point, or in words.

    Attributes:
        point: A pixel that shows it, in the picture as it was sent.
        request: What it looks like, in words.
        relations: Relations changed by hand; nothing is promised then.
        answers: What a person replied since, in order: "yes" or "no" to the question `ask` of the decision
            before, "1 on 7", "not 1 on 7", "3", "not 3". Nothing is promised of what is decided from replies
            about pairs.
        ask: Also say which question to a person would help most.
        graphs: How many of the likeliest graphs to list.
        ignore_checks: Act although a check of the input failed; nothing is promised then.
    """

    target: ObjectId | None = None
    point: Point | None = None
    request: Annotated[str, Field(min_length=1, max_length=LONGEST_TEXT)] | None = None
    relations: Overrides = Field(default_factory=list)
    answers: Annotated[list[Reply], Field(max_length=MOST_REPLIES)] = Field(default_factory=list)
    ask: StrictBool = False
    graphs: GraphCount = N_GRAPHS
    ignore_checks: StrictBool = False


class CorrectRequest(Message):
    """Correct a scene that is kept.

    Attributes:
        do: `make` a correction, `undo` the last one, `redo` what was undone.
        correction: What to make, in pixels of the picture as it was sent.
        decide: Decide on the corrected scene at once.
    """

    do: Literal["make", "undo", "redo"] = "make"
    correction: Correction | None = None
    decide: SceneDecideRequest | None = None

    @model_validator(mode="after")
    def _make_something(self) -> Self:
        if (self.do == "make") != (self.correction is not None):
            raise ValueError("give a correction to make, and none to undo or redo")
        return self


class FolderRequest(Message):
    """Save a scene as a labelled scene folder; `relations` are those changed by hand besides."""

    relations: Overrides = Field(default_factory=list)


class AcceptRequest(FolderRequest):
    """Accept the photograph of the queue that is shown; `id` names its scene."""

    id: Annotated[str, Field(max_length=100)]


class RunRequest(Message):
    """Begin a run of the simulated arm.

    Attributes:
        seed: Random seed for the heap.
        tier: How deep the target lies.
        eyes: What finds the objects: our networks, or the simulator's truth.
        paused: Wait before every action until told to go on.
        speed: How many times as fast as its own clock the arm moves at most.
    """

    seed: Annotated[int, Field(ge=0, le=10**9, strict=True)] = 0
    tier: Literal["easy", "medium", "hard"] = "hard"
    eyes: Literal["networks", "truth"] = "networks"
    mode: Mode = DEFAULT_MODE
    paused: StrictBool = False
    speed: Annotated[float, Field(ge=0.25, le=100.0, allow_inf_nan=False, strict=True)] = 2.0


class ControlRequest(Message):
    """Control a run.

    Attributes:
        do: `pause` before the next action, `resume`, `step` one action and pause again, `stop` at once,
            `retarget`: ask for another object from the next cycle on, `answer`: say what to do where it asks.
        obj: The new target, or the object to act on; an id of the last cycle.
    """

    do: Literal["pause", "resume", "step", "stop", "retarget", "answer"]
    obj: Annotated[int, Field(ge=1, le=10**6, strict=True)] | None = None
