"""What callers ask."""

from typing import Annotated, Literal

from pydantic import Field, StrictBool

from cpor.serve.api.messages.base import (
    LONGEST_TEXT,
    MOST_OBJECTS,
    MOST_RELATIONS,
    Message,
    Point,
    Probability,
    WireLabel,
)


class RelationMessage(Message):
    """`blocker` obstructs `blocked` with probability `p`; null where no answer came."""

    blocked: WireLabel
    blocker: WireLabel
    p: Probability | None


class DecideRequest(Message):
    """Decide from probabilities.

    Attributes:
        objects: Labels of all objects.
        target: The one asked for.
        relations: Every pair that may obstruct; one that is left out is known not to.
        tau: Act only above this probability of being right.
        method: As `cpor.decide` has it.
        prior: Probability to assume where there was no answer; null defers instead.
        graphs: How many of the likeliest graphs to list.
        require_certificate: Defer unless proven to be the exact answer.
    """

    objects: Annotated[list[WireLabel], Field(min_length=1, max_length=MOST_OBJECTS, fail_fast=True)]
    target: WireLabel
    relations: Annotated[list[RelationMessage], Field(max_length=MOST_RELATIONS, fail_fast=True)]
    tau: Probability = 0.5
    method: Literal["auto", "exact", "topk"] = "auto"
    prior: Probability | None = None
    graphs: Annotated[int, Field(ge=0, le=20, strict=True)] = 3
    require_certificate: StrictBool = False


class ExplainRequest(DecideRequest):
    """Explain the decision that `DecideRequest` would bring."""


class PlanRequest(Message):
    """The removals, in order, that lead to the target; as `cpor.plan` has it."""

    objects: Annotated[list[WireLabel], Field(min_length=1, max_length=MOST_OBJECTS, fail_fast=True)]
    target: WireLabel
    relations: Annotated[list[RelationMessage], Field(max_length=MOST_RELATIONS, fail_fast=True)]
    tau: Probability = 0.5
    prior: Probability | None = None
    max_steps: Annotated[int, Field(ge=0, le=MOST_OBJECTS, strict=True)] | None = None
    cost_removal: Annotated[float, Field(ge=0.0, le=1e6, allow_inf_nan=False, strict=True)] = 0.05
    cost_wrong: Annotated[float, Field(ge=0.0, le=1e6, allow_inf_nan=False, strict=True)] = 1.0
    cost_ask: Annotated[float, Field(ge=0.0, le=1e6, allow_inf_nan=False, strict=True)] = 0.5


class GroundRequest(Message):
    """Which object of a scene is meant: by words or by a point, one of the two."""

    words: Annotated[str, Field(min_length=1, max_length=LONGEST_TEXT)] | None = None
    point: Point | None = None


class RunRequest(Message):
    """Begin a run of the simulated arm.

    Attributes:
        seed: Of the heap.
        tier: How deep the target lies.
        eyes: Who finds the objects: our networks, or the simulator's truth.
        paused: Wait before every action until told to go on.
        speed: How many times as fast as its own clock the arm moves at most.
    """

    seed: Annotated[int, Field(ge=0, le=10**9, strict=True)] = 0
    tier: Literal["easy", "medium", "hard"] = "hard"
    eyes: Literal["networks", "truth"] = "truth"
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
