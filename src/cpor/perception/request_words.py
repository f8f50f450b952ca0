"""The words of a request that we understand, and what each asks of an object."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from cpor.perception.colours import COLOURS, SYNONYMS
from cpor.perception.outlines import Outline


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


FILLERS = _words(
    "a an and are as at bin bring can colored coloured colour color could every fetch find for from get give "
    "go grab grasp hand i image in is it item just lift like located looking looks lying me my need now "
    "object of on one pass pick picture piece please put retrieve robot scene shaped side something table "
    "take that the thing this to up want we which with would you your"
)
"""Words that say nothing about which object is meant."""

RELATING = _words(
    "above against behind below beneath beside besides between beyond by except covering holding inside near "
    "next not no other over than touching under underneath without on in from at"
)
"""Words that point to another object, or away from one. What follows them must be a place, or it is not
understood: a half understood request is worse than none."""

PLACES = _words("left right middle centre center upper lower front back table bin side image picture scene")
"""Where in the image, or in what all objects are."""

UNCLEAR: Mapping[str, str] = {
    "top": "say upper (in the image) or highest (in the heap)",
    "bottom": "say lower (in the image) or lowest (in the heap)",
    "topmost": "say upper (in the image) or highest (in the heap)",
    "same": "say what it looks like",
    "them": "ask for one object",
    "all": "ask for one object",
    "both": "ask for one object",
}
"""Words that mean two things, and what to say instead."""

Fits = Callable[[Outline], float | None]
"""How well an outline fits a word, in [0, 1]; None where it cannot be told."""

Measures = Callable[[Outline], float | None]
"""A quantity of which the word asks for the most; None where it is not known."""


def ramp(value: float, low: float, high: float) -> float:
    """0 up to `low`, 1 from `high` on, a straight line between; falling where `low` is above `high`."""
    return min(1.0, max(0.0, (value - low) / (high - low)))


def _known(value: float | None, low: float, high: float) -> float | None:
    return None if value is None else ramp(value, low, high)


def _round(o: Outline) -> float:
    return ramp(o.roundness, 0.66, 0.82)


def _ball(o: Outline) -> float:
    return _round(o) if o.bulge is None else _round(o) * ramp(o.bulge, 0.05, 0.25)


def _long(o: Outline) -> float:
    return ramp(o.elongation, 1.6, 2.6)


def _box(o: Outline) -> float:
    return ramp(o.rectangularity, 0.8, 0.9) * ramp(o.roundness, 0.88, 0.8)


def _square(o: Outline) -> float:
    return _box(o) * ramp(o.elongation, 1.6, 1.25)


def _flat(o: Outline) -> float | None:
    return _known(o.height, 0.045, 0.02)


def _negative(value: float | None) -> float | None:
    return None if value is None else -value


FORMS: Mapping[str, Fits] = {
    **dict.fromkeys(("round", "circular", "disk", "disc"), _round),
    **dict.fromkeys(("ball", "sphere", "spherical"), _ball),
    **dict.fromkeys(("long", "elongated", "thin", "narrow", "slim", "stick", "rod"), _long),
    **dict.fromkeys(("box", "rectangular", "rectangle", "block", "brick"), _box),
    **dict.fromkeys(("square", "cube"), _square),
    "flat": _flat,
}
"""Words for a form, judged on each object by itself."""

EXTREMES: Mapping[str, tuple[Measures, float]] = {
    **dict.fromkeys(("left", "leftmost"), (lambda o: -o.x, 0.06)),
    **dict.fromkeys(("right", "rightmost"), (lambda o: o.x, 0.06)),
    **dict.fromkeys(
        ("upper", "uppermost", "back", "rear", "far", "farthest", "furthest"), (lambda o: -o.y, 0.06)
    ),
    **dict.fromkeys(("lower", "lowermost", "front", "near", "nearest", "closest"), (lambda o: o.y, 0.06)),
    **dict.fromkeys(
        ("middle", "centre", "center", "central"),
        (lambda o: -(((o.x - 0.5) ** 2 + (o.y - 0.5) ** 2) ** 0.5), 0.06),
    ),
    **dict.fromkeys(
        ("big", "bigger", "biggest", "large", "larger", "largest", "huge"), (lambda o: o.size, 0.0)
    ),
    **dict.fromkeys(("small", "smaller", "smallest", "little", "tiny"), (lambda o: 1.0 / o.size, 0.0)),
    **dict.fromkeys(("longest",), (lambda o: o.elongation, 0.0)),
    **dict.fromkeys(("highest", "tallest", "tall"), (lambda o: o.height, 0.012)),
    **dict.fromkeys(("lowest", "flattest"), (lambda o: _negative(o.height), 0.012)),
}
"""Words that ask for the most of something among the objects that fit otherwise, and the difference that
tells two apart: in the measure itself, or, where 0, a fifth of the larger."""


@dataclass(frozen=True)
class Request:
    """A request taken apart.

    Attributes:
        colours: Colour words, in our spelling.
        forms: Words of `FORMS`.
        extremes: Words of `EXTREMES`.
        names: Other words: what the object is called, perhaps.
        number: An object's number, where the request gives one.
        trouble: Why it cannot be understood; None where it can.
    """

    colours: tuple[str, ...] = ()
    forms: tuple[str, ...] = ()
    extremes: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    number: int | None = None
    trouble: str | None = None


@dataclass
class _Sorted:
    colours: list[str] = field(default_factory=list)
    forms: list[str] = field(default_factory=list)
    extremes: list[str] = field(default_factory=list)
    names: list[str] = field(default_factory=list)


def split_words(text: str) -> list[str]:
    """Words of a text in lower case, plurals and possessives cut to the stem we compare."""
    return [_stem(word) for word in re.findall(r"[^\W_]+", text.lower().replace("'s", ""))]


def parse_request(text: str, names: frozenset[str]) -> Request:
    """Take a request apart.

    Args:
        text: Such as "the red mug on the left".
        names: Words of the objects' names, as `split_words` gives them; they go before ours.
    """
    # A polite start would otherwise ask for the object called "can".
    text = re.sub(r"^\W*(can|could|would|will)\s+(you|i|we)\b", "", text.lower())
    words = split_words(text)
    if number := re.search(r"(?:object|number|no|id|badge|#)\s*\.?\s*(\d+)\W*$", text):
        return Request(number=int(number.group(1)))
    if not words:
        return Request(trouble="the request is empty; say which object is meant")
    kinds = _Sorted()
    for k, word in enumerate(words):
        # "a bottle of water" is one thing, "left of the water" is not where the water is.
        relates = word in RELATING or (word == "of" and k > 0 and words[k - 1] in PLACES)
        if word in names:
            kinds.names.append(word)
        elif relates and not _leads_to_place(words[k + 1 :]):
            return Request(
                trouble=f"{word!r} points to another object; describe the one that is meant by itself"
            )
        elif word in UNCLEAR:
            return Request(trouble=f"{word!r} is not clear; {UNCLEAR[word]}")
        elif (colour := SYNONYMS.get(word, word)) in COLOURS:
            kinds.colours.append(colour)
        elif word in EXTREMES:
            kinds.extremes.append(word)
        elif word in FORMS:
            kinds.forms.append(word)
        elif word not in FILLERS and word not in PLACES and word not in RELATING:
            kinds.names.append(word)
    return Request(tuple(kinds.colours), tuple(kinds.forms), tuple(kinds.extremes), tuple(kinds.names))


def _leads_to_place(rest: list[str]) -> bool:
    """Whether a phrase names nothing but a place in the image, or nothing at all."""
    return all(word in PLACES or word in FILLERS or word in EXTREMES for word in rest)


def _stem(word: str) -> str:
    if word not in FILLERS and len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us")):
        return word[:-2] if word.endswith(("xes", "ches", "shes", "oes", "sses")) else word[:-1]
    return word
