"""What the process of a run and the service tell each other through their pipe."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from cpor.robot.cycle import Ended
from cpor.serve.api.messages import CycleMessage, RunState


@dataclass(frozen=True)
class StateTold:
    """How the run stands; fields as `RunReply` has them."""

    state: RunState
    cycle: int
    target: int | None
    target_name: str | None
    ended: Ended | None = None
    detail: str | None = None


@dataclass(frozen=True)
class CycleTold:
    """A cycle; `picture` is a JPEG under the name that the message has, None where it was told before."""

    message: CycleMessage
    picture: bytes | None


@dataclass(frozen=True)
class FrameTold:
    """A frame of the moving arm, a JPEG."""

    picture: bytes


@dataclass(frozen=True)
class Done:
    """An order was carried out, or refused for a reason."""

    order: int
    refused: str | None = None


PipeMessage: TypeAlias = StateTold | CycleTold | FrameTold | Done


@dataclass(frozen=True)
class RunOrder:
    """What the run is told to do.

    Attributes:
        number: Answered by a `Done` with the same number.
        do: As `ControlRequest` has it.
        obj: The object it is about.
    """

    number: int
    do: Literal["pause", "resume", "step", "stop", "retarget", "answer"]
    obj: int | None = None
