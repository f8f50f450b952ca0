"""The words of a request that we understand, and what each asks of an object."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from cpor.perception.colours import COLOURS, SYNONYMS
from cpor.perception.outlines import Outline


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


DETERMINERS = _words("a an my that the this your")
"""Words that begin the description of an object."""

ANYTHING = _words("item object one piece something thing")
"""Nouns that fit every object."""

_ASKING = _words(
    "am bring choose could fetch find get give go grab grasp have hello here hey hi i just let me move need "
    "now please pull put reach remove retrieve select show take thank there us"
)
_MODALS = _words("want we would you")

FILLERS = (
    DETERMINERS
    | ANYTHING
    | _ASKING
    | _MODALS
    | _words(
        "and are as at colored coloured colour color for from in is it like located looking looks lying of "
        "on shaped side to up which with"
    )
)
"""Words that say nothing about which object is meant, and are no name of a thing."""

OPENERS: Mapping[str, frozenset[str]] = {
    **dict.fromkeys(("can", "will"), _words("i we you")),
    **dict.fromkeys(("hand", "pass"), DETERMINERS | _words("it me us")),
    **dict.fromkeys(("lift", "pick"), DETERMINERS | _words("it up")),
    "robot": _ASKING | _MODALS | _words("can hand lift pass pick will"),
}
"""Words that say nothing at the start of a request, before one of these words: "can you", "hand me".
Elsewhere they are names of things: "the red can"."""

IN_PLACE = _words("on in inside from at")
"""Words before a place. Before anything else they point to another object."""

RELATING = _words(
    "above against behind below beneath beside besides between beyond by except covering holding near next "
    "not no other over than touching under underneath without"
)
"""Words that point to another object, or away from one. They are not understood: a half understood request
is worse than none."""

SURFACES = _words("table bin image picture scene")
"""What all objects are in or on, after a word of `IN_PLACE`. Elsewhere they are names of things."""

PLACES = _words("left leftmost right rightmost middle centre center upper lower front back side") | SURFACES
"""Where in the image, or in what all objects are."""

DISTANCES = _words("close closest far farthest furthest nearest")
"""Words that compare with another object where one follows: "nearest to the box"."""

COLOURED_THINGS = _words("cream lime olive orange rose")
"""Words for a colour and for a thing of that colour."""

UNCLEAR: Mapping[str, str] = {
    "top": "say upper (in the image) or highest (in the heap)",
    "bottom": "say lower (in the image) or lowest (in the heap)",
    "topmost": "say upper (in the image) or highest (in the heap)",
    "same": "say what it looks like",
    **dict.fromkeys(("all", "both", "each", "every", "them", "these", "those"), "ask for one object"),
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
        trouble: Why it cannot be understood, in sentences; None where it can.
    """

    colours: tuple[str, ...] = ()
    forms: tuple[str, ...] = ()
    extremes: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    number: int | None = None
    trouble: str | None = None


_ENDINGS = re.compile(r"['\u2019](?:s|m|d|ll|ve)\b")  # the box's, I'm, I'd; but not "don't"


@dataclass
class _Sorted:
    colours: list[str] = field(default_factory=list)
    forms: list[str] = field(default_factory=list)
    extremes: list[str] = field(default_factory=list)
    names: list[str] = field(default_factory=list)


def split_words(text: str) -> list[str]:
    """Words of a text in lower case, plurals and possessives cut to the stem we compare."""
    return [_stem(word) for word in re.findall(r"[^\W_]+", _ENDINGS.sub("", text.lower()))]


def parse_request(text: str, names: frozenset[str]) -> Request:
    """Take a request apart.

    Args:
        text: Such as "the red mug on the left".
        names: Words of the objects' names, as `split_words` gives them; they go before ours.
    """
    text = text.lower()
    words = split_words(text)
    if number := re.search(r"(?:\b(?:object|number|no|id|badge)|#)\s*\.?\s*(\d+)\W*$", text):
        polite = (FILLERS - IN_PLACE - _words("and as like of with")).union(OPENERS)
        alone = polite.issuperset(split_words(text[: number.start()]))
        trouble = None if alone else "A number and a description do not go together. Give one of them."
        return Request(number=int(number.group(1)), trouble=trouble)
    if not words:
        return Request(trouble="The request is empty. Say which object you mean.")
    kinds = _Sorted()
    opening, in_place = True, False
    for k, word in enumerate(words):
        following = words[k + 1] if k + 1 < len(words) else ""
        if opening and following in OPENERS.get(word, ()):
            continue
        opening &= word in FILLERS and word not in DETERMINERS
        if word in names:
            kinds.names.append(word)
        elif _points_elsewhere(words, k):
            return Request(trouble=f'"{word}" points to another object. Describe the one you mean by itself.')
        elif word in UNCLEAR:
            return Request(trouble=f'"{word}" is not clear: {UNCLEAR[word]}.')
        elif word in COLOURED_THINGS and _is_thing(words, k):
            return Request(
                trouble=f'"{word}" can be a colour or a thing. Say "the {word} one" for the colour.'
            )
        elif (colour := SYNONYMS.get(word, word)) in COLOURS:
            kinds.colours.append(colour)
        elif word in EXTREMES:
            kinds.extremes.append(word)
        elif word in FORMS:
            kinds.forms.append(word)
        elif word in IN_PLACE or word == "of":
            in_place = True
        elif word not in FILLERS and not (in_place and word in SURFACES):
            kinds.names.append(word)
    return Request(tuple(kinds.colours), tuple(kinds.forms), tuple(kinds.extremes), tuple(kinds.names))


def _points_elsewhere(words: list[str], k: int) -> bool:
    """Whether word `k` points to another object, or away from one."""
    word, before, rest = words[k], words[k - 1] if k else "", words[k + 1 :]
    # "a bottle of water" is one thing, "left of the water" is not where the water is.
    if word in IN_PLACE or (word == "of" and before in PLACES):
        return not _leads_to_place(rest)
    if word == "near":
        return before not in DETERMINERS  # "the near one"
    if before in DISTANCES and (word == "to" or word in DETERMINERS):
        return rest[:1] not in (["me"], ["us"], ["you"])
    return word in RELATING


def _leads_to_place(rest: list[str]) -> bool:
    """Whether a phrase names a place in the image, and nothing else."""
    places = PLACES.union(UNCLEAR)  # what is not clear is said of that word
    neutral = (FILLERS | places | DISTANCES) - ANYTHING
    return any(word in places for word in rest) and all(word in neutral for word in rest)


def _is_thing(words: list[str], k: int) -> bool:
    """Whether word `k`, a colour and a thing, is used for the thing: "the orange", not "the orange mug"."""
    if k and words[k - 1] in ("is", "looks", "coloured", "colored"):
        return False
    following = words[k + 1] if k + 1 < len(words) else "of"
    return following in FILLERS - ANYTHING - _words("and coloured colored colour color") or (
        following in RELATING
    )


def _stem(word: str) -> str:
    if word not in FILLERS and len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us")):
        return word[:-2] if word.endswith(("xes", "ches", "shes", "oes", "sses")) else word[:-1]
    return word
