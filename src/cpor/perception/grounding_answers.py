"""What can be said to the question which object is meant: this one, one of these, or none."""

from dataclasses import dataclass
from typing import TypeAlias

from cpor.errors import list_labels

LEAST_FIT = 0.35
"""An object that fits worse is not meant."""

CLEAR_RATIO = 0.5
"""The best object is meant where the next fits at most this much as well."""

SAY_OTHERWISE = "Say it in other words, or point at the object."
"""What to do where no object fits."""


@dataclass(frozen=True)
class Candidate:
    """An object and how well it fits a request, in [0, 1]."""

    id: int
    fit: float


@dataclass(frozen=True)
class Found:
    """The object that is meant.

    Attributes:
        id: The object.
        ranked: All objects, the best first.
        margin: Fit of the best less that of the next.
    """

    id: int
    ranked: tuple[Candidate, ...] = ()
    margin: float = 1.0


@dataclass(frozen=True)
class AmbiguousRequest:
    """Several objects fit; somebody has to say which is meant.

    Attributes:
        candidates: The objects that fit, the best first.
        question: What to ask.
    """

    candidates: tuple[Candidate, ...]
    question: str


@dataclass(frozen=True)
class NotFound:
    """No object fits, or the request is not understood.

    Attributes:
        reason: Why, and what to do.
        ranked: All objects, the best first, as far as they were judged.
    """

    reason: str
    ranked: tuple[Candidate, ...] = ()


Grounding: TypeAlias = Found | AmbiguousRequest | NotFound


def weigh(words: str, ranked: tuple[Candidate, ...]) -> Grounding:
    """The object that clearly fits best, whoever judged; else what to ask.

    Args:
        words: The request.
        ranked: All objects of a scene, the best first; at least one.
    """
    best, second = ranked[0], ranked[1].fit if len(ranked) > 1 else 0.0
    if best.fit < LEAST_FIT:
        return NotFound(f'No object fits "{words}". {SAY_OTHERWISE}', ranked)
    if second > CLEAR_RATIO * best.fit:
        several = tuple(each for each in ranked if each.fit > CLEAR_RATIO * best.fit)
        fitting = list_labels([each.id for each in several])
        return AmbiguousRequest(several, f'"{words}" fits objects {fitting}. Which one do you mean?')
    return Found(best.id, ranked, best.fit - second)
