"""Replies and events of live runs."""

from typing import Literal, TypeAlias

from cpor.records import ActionRecord
from cpor.serve.api.messages.answered import DecideReply, ObjectMessage
from cpor.serve.api.messages.base import Message

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
        objects: What was seen, by id.
        target: The object asked for; null where it is not seen.
        retargeted: Whether another object than before is asked for from this cycle on.
        decision: null where there was nothing to decide.
        action: What is done: the decision's action unless `notes` say why another one.
        outcome: What came of it, in words.
        verdict: What the simulator's truth says of the action.
        right: The same as yes or no; null where nothing was done.
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
