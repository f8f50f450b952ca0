"""What can be said to the question which object is meant: this one, one of these, or none."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from cpor.errors import InvalidSettingError
from cpor.scene import PixelPoint, Scene
from cpor.words.vocabulary import vocabulary

LEAST_FIT = 0.35
"""An object that fits worse is not acted on."""

PERHAPS = 0.15
"""An object that fits worse is not asked about either."""

LEAST_DOUBT = 0.02
"""Objects that are meant with less probability do not count as other readings."""

CLEAR_RATIO = 0.5
"""The best object is meant where the next fits at most this much as well."""


ASKED_RATIO = 0.25
"""Where it is not certain what the objects are, those that fit this much as well are asked about too."""


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
        ranked: All objects, the best first; the second is the runner-up.
        margin: Fit of the best less that of the next.
        p: Probability that it is meant, by words; None: it was pointed at, or given by id or by its name.
    """

    id: int
    ranked: tuple[Candidate, ...] = ()
    margin: float = 1.0
    p: float | None = None

    @property
    def others(self) -> dict[int, float]:
        """Probability of each other object that may well be meant."""
        return {each.id: each.fit for each in self.ranked if each.fit >= LEAST_DOUBT and each.id != self.id}


@dataclass(frozen=True)
class AmbiguousRequest:
    """Several objects fit; a person has to say which is meant.

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


@dataclass(frozen=True)
class Exchange:
    """What was said and done before a request, as far as words may point to it.

    Attributes:
        last: The object meant last: "it", "the other one".
        candidates: The objects that the last question named, in its order: "the second one".
        moved: Objects that were moved, the last one last: "the one that was moved".
        asking: Whether the last question is still open: "yes", "no", and "the left one" answer it.
    """

    last: int | None = None
    candidates: tuple[int, ...] = ()
    moved: tuple[int, ...] = ()
    asking: bool = False

    def after(self, meant: Grounding) -> "Exchange":
        """The exchange with what was said now; a question about several objects stays until one is meant."""
        if isinstance(meant, Found):
            return replace(self, last=meant.id, asking=False)
        if isinstance(meant, AmbiguousRequest):
            return replace(self, candidates=tuple(each.id for each in meant.candidates), asking=True)
        return self


@dataclass(frozen=True)
class Request:
    """Which object is asked for: an id, a point, or words; nothing means the request the scene came with.

    Attributes:
        id: Its id.
        point: A pixel that shows it. [px]
        words: What it looks like.
        before: What was said before, for words that point to it; None: as the view remembers.

    Raises:
        InvalidSettingError: The object is named in several ways.
    """

    id: int | None = None
    point: PixelPoint | None = None
    words: str | None = None
    before: Exchange | None = None

    def __post_init__(self) -> None:
        if self.ways > 1:
            raise InvalidSettingError("name the object in one way only: by its id, by a point, or in words")
        if self.point is not None:
            object.__setattr__(self, "point", PixelPoint(*self.point))

    @property
    def ways(self) -> int:
        """In how many ways the object is named."""
        return sum(way is not None for way in (self.id, self.point, self.words))

    def required(self) -> "Request":
        """The request, which must name the object.

        Raises:
            InvalidSettingError: It does not.
        """
        if not self.ways:
            raise InvalidSettingError("name the object in one way: by its id, by a point, or in words")
        return self


RequestLike: TypeAlias = Request | int | str | tuple[float, float] | None
"""A request, or one given as an id, as words, as a pixel x, y, or not at all."""


def as_request(asked: RequestLike) -> Request:
    """The request that a plain value means."""
    if isinstance(asked, Request):
        return asked
    if asked is None:
        return Request()
    if isinstance(asked, str):
        return Request(words=asked)
    return Request(point=PixelPoint(*asked)) if isinstance(asked, tuple) else Request(int(asked))


def weigh(words: str, ranked: tuple[Candidate, ...], called: Mapping[int, str]) -> Grounding:
    """The object that clearly fits best, whatever judged; else what to ask.

    Args:
        words: The request.
        ranked: All objects of a scene, the best first; at least one.
        called: What each object is called.
    """
    best, second = ranked[0], ranked[1].fit if len(ranked) > 1 else 0.0
    if best.fit < LEAST_FIT or second > CLEAR_RATIO * best.fit:
        return ask_which(words, ranked, called, CLEAR_RATIO)
    return Found(best.id, ranked, best.fit - second)


def ask_which(
    words: str, ranked: tuple[Candidate, ...], called: Mapping[int, str], ratio: float, poorly: bool = False
) -> AmbiguousRequest | NotFound:
    """The question which object is meant, or that none fits; see `weigh`.

    Args:
        words: The request.
        ranked: All objects of a scene, the best first; at least one.
        called: What each object is called.
        ratio: Objects that fit this much as well as the best are asked about too.
        poorly: None fits well, whatever its probability.
    """
    said, best = vocabulary().said, ranked[0]
    if best.fit < PERHAPS:
        return NotFound(" ".join((said["fits_none"].format(words=words), say_there(called))), ranked)
    several = tuple(each for each in ranked if each.fit > ratio * best.fit)
    poorly = poorly or best.fit < LEAST_FIT or len(several) == 1
    fitting = say_objects([each.id for each in several], called)
    asked = said["fits_poorly" if poorly else "fits"].format(words=words, objects=fitting)
    return AmbiguousRequest(several, f"{asked} {say_question(len(several))}")


def confirm(meant: Found, scene: Scene) -> AmbiguousRequest:
    """The question whether the likeliest object is meant, or which of the likely ones."""
    likely = (Candidate(meant.id, meant.p or 0.0), *(Candidate(k, p) for k, p in meant.others.items()))
    several = tuple(each for each in likely if each.fit > ASKED_RATIO * likely[0].fit)
    objects = say_objects([each.id for each in several], {o.id: o.title or "" for o in scene.objects})
    asked = vocabulary().said["not_sure_enough"].format(objects=objects, p=likely[0].fit)
    return AmbiguousRequest(several, f"{asked} {say_question(len(several))}")


def say_question(count: int) -> str:
    """The question about so many candidates: which one, or whether it is the only one."""
    return vocabulary().said["which" if count > 1 else "is_this"]


def say_objects(ids: list[int], called: Mapping[int, str]) -> str:
    """Objects with their numbers, as in `4 (red ball), 5 (red box)`."""
    return ", ".join(f"{k} ({called[k]})" if called.get(k) else str(k) for k in ids)


def say_there(called: Mapping[int, str]) -> str:
    """What there is to ask for, and what to do where nothing fits."""
    said = vocabulary().said
    return f"{said['there_are'].format(objects=say_objects(sorted(called), called))} {said['otherwise']}"


def say_words(words: list[str]) -> str:
    """`word "car"`, or `words "toy", "car"`; each once."""
    each = list(dict.fromkeys(words))
    return f"word{'s' if len(each) > 1 else ''} " + ", ".join(f'"{word}"' for word in each)


class RefusedError(Exception):
    """Carries the sentence that says why no object can be meant."""
