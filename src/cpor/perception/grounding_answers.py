"""What can be said to the question which object is meant: this one, one of these, or none."""

from dataclasses import dataclass
from typing import TypeAlias


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
        unchecked: Words that could not be held against anything seen, and so did not count.
    """

    id: int
    ranked: tuple[Candidate, ...] = ()
    margin: float = 1.0
    unchecked: tuple[str, ...] = ()


@dataclass(frozen=True)
class AmbiguousRequest:
    """Several objects fit; somebody has to say which is meant.

    Attributes:
        candidates: The objects that fit, the best first.
        question: What to ask.
        unchecked: Words that could not be held against anything seen.
    """

    candidates: tuple[Candidate, ...]
    question: str
    unchecked: tuple[str, ...] = ()


@dataclass(frozen=True)
class NotFound:
    """No object fits, or the request is not understood.

    Attributes:
        reason: Why, and what to do.
        ranked: All objects, the best first, as far as they were judged.
        unchecked: Words that could not be held against anything seen.
    """

    reason: str
    ranked: tuple[Candidate, ...] = ()
    unchecked: tuple[str, ...] = ()


Grounding: TypeAlias = Found | AmbiguousRequest | NotFound
