"""What a person who knows the truth says of an action, in words; MuJoCo is not needed."""

from collections.abc import Callable, Set
from dataclasses import dataclass

from cpor.decision import Action, Defer, Grasp
from cpor.scene import BlockedBy
from cpor.truth import chain_of, is_wrong


@dataclass(frozen=True)
class Verdict:
    """What the truth says of an action.

    Attributes:
        is_wrong: Whether it grasps an obstructed target or removes what is not removable next.
        because: Why, in words; empty where it was right.
    """

    is_wrong: bool
    because: str = ""


def judge(action: Action, target: int, truth: Set[BlockedBy], name: Callable[[int], str]) -> Verdict:
    """Judge an action by the true relations at its time.

    Args:
        action: What is to be done.
        target: Id of the object asked for.
        truth: What truly obstructs what.
        name: Gives an object's name.
    """
    if isinstance(action, Defer) or not is_wrong(action, target, truth):
        return Verdict(False)
    obj = int(action.obj)  # type: ignore[call-overload]
    above = sorted(blocker for blocked, blocker in truth if blocked == obj)
    if above:
        verb = "lies" if len(above) == 1 else "lie"
        return Verdict(True, f"{_join([name(k) for k in above])} still {verb} in its way")
    if not isinstance(action, Grasp) and obj not in chain_of(target, truth):
        return Verdict(True, f"it is not in the way of {name(target)}")
    return Verdict(True, "it is not what was asked for")


def _join(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
