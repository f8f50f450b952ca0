"""The three states in which every bridge speaks of an object."""

from typing import Literal, TypeAlias

from cpor.decision import Action, Grasp, Remove

State: TypeAlias = Literal["not_obstructed", "obstructed", "no_answer"]


def state_of(action: Action | None) -> State:
    """What a decision says of the object asked for; a question or a deferral is no answer."""
    if isinstance(action, Grasp):
        return "not_obstructed"
    return "obstructed" if isinstance(action, Remove) else "no_answer"
