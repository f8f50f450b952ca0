"""A request taken apart: what it says of the object, of other objects beside it, and of what it is not."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from cpor.words.layout import DIRECTIONS, TWO_WAYS
from cpor.words.vocabulary import Kind, Meaning, Vocabulary, split_words, vocabulary


@dataclass(frozen=True)
class Order:
    """The n-th object, counted from where the word of `most` is; None: as they were listed before."""

    n: int
    start: str | None


@dataclass(frozen=True)
class Wish:
    """What one object is to be like; keys are those of the vocabulary.

    Attributes:
        names: Words that are no words of ours: what the object is called, perhaps.
        colours, patterns, forms: All of them hold.
        shapes: Words for its shape, each with the key of the shape before it.
        kinds: The same with words narrower than a shape: a hammer is a tool, but not every tool is a hammer.
        most: What it has the most of among those that fit otherwise.
        order: Its place in a row of those that fit otherwise.
        relations: How it lies to other objects.
        unlike: What it is not.
        moved: It was moved before.
        pronouns: Keys of words that point to what was said before, with the word.
    """

    names: tuple[str, ...] = ()
    colours: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()
    forms: tuple[str, ...] = ()
    shapes: tuple[tuple[str, str], ...] = ()
    kinds: tuple[tuple[str, str], ...] = ()
    most: tuple[str, ...] = ()
    order: Order | None = None
    relations: "tuple[LayoutWish, ...]" = ()
    unlike: "tuple[Wish, ...]" = ()
    moved: bool = False
    pronouns: tuple[tuple[str, str], ...] = ()

    @property
    def is_described(self) -> bool:
        """Whether words tell its colour or what it is."""
        return any((self.colours, self.patterns, self.shapes, self.kinds, self.names))

    @property
    def is_empty(self) -> bool:
        """Whether it says nothing."""
        return self == Wish()


@dataclass(frozen=True)
class LayoutWish:
    """How an object lies to another, or to two others where it is `between`; `words` are those of them."""

    key: str
    others: tuple[Wish, ...]
    words: str


def all_wishes(wish: Wish) -> "list[Wish]":
    """A wish and those in it."""
    others = (*wish.unlike, *(other for each in wish.relations for other in each.others))
    return [wish, *(each for other in others for each in all_wishes(other))]


@dataclass(frozen=True)
class ParsedRequest:
    """A request taken apart.

    Attributes:
        wish: What the object is to be like.
        number: An object's number, where the request gives one.
        trouble: Why it cannot be understood, in sentences; None where it can.
    """

    wish: Wish = field(default_factory=Wish)
    number: int | None = None
    trouble: str | None = None


class _NotUnderstoodError(Exception):
    """Carries the sentence that says why."""


_SINGLE: Mapping[Kind, str] = {
    "colour": "colours",
    "pattern": "patterns",
    "form": "forms",
    "most": "most",
}
"""Kinds of phrases whose keys are collected, and the field of a wish that they go to."""

_AS_PLACE = {
    **{"on": "top", "above": "top", "under": "bottom", "below": "bottom"},
    **{"back": "back", "front": "front"},
}
"""The place that a relation names where no other object follows: "the box below", "the one behind"."""


_PART_AFTER = frozenset(("with", "has"))


def parse_request(text: str, names: frozenset[str], words: Vocabulary | None = None) -> ParsedRequest:
    """Take a request apart.

    Args:
        text: Such as "the red mug on the left of the book".
        names: Words of names that a person gave to objects, as `split_words` gives them; they go first.
        words: The vocabulary; None: that of the package.
    """
    voc = words or vocabulary()
    lower = text.lower()
    before = "|".join(sorted(voc.numbered))
    if number := re.search(rf"(?:\b(?:{before})|#)\s*\.?\s*(\d+)\W*$", lower):
        alone = (voc.polite | set(voc.openers) | {"up", "out"}).issuperset(
            split_words(lower[: number.start()])
        )
        return ParsedRequest(
            number=int(number.group(1)), trouble=None if alone else voc.said["number_and_more"]
        )
    spoken = split_words(lower)
    if not spoken:
        return ParsedRequest(trouble=voc.said["empty"])
    parser = _Parser(_without_opening(spoken, voc), names, voc)
    try:
        return ParsedRequest(parser.wish(0, len(parser.words)))
    except _NotUnderstoodError as problem:
        return ParsedRequest(trouble=str(problem))


def _without_opening(words: list[str], voc: Vocabulary) -> list[str]:
    """The words after "robot, can you hand me"."""
    for k, word in enumerate(words):
        following = words[k + 1] if k + 1 < len(words) else ""
        if following in voc.openers.get(word, ()):
            continue
        if word not in voc.polite or word in voc.determiners or word in voc.anything:
            return words[k:]
    return words


class _Parser:
    """Reads the words of a request from left to right, the longest phrase first."""

    def __init__(self, words: list[str], names: frozenset[str], voc: Vocabulary) -> None:
        self.words, self.names, self.voc = words, names, voc
        self.row_start = self._cut_row_start()

    def _cut_row_start(self) -> str | None:
        """Takes "from the left" out of "the second box from the left", and says where the row starts."""
        count = len(self.words)
        kinds = {meaning.kind for k in range(count) if (meaning := self._read(k, count)[0]) is not None}
        if "ordinal" not in kinds or "from" not in self.words:
            return None
        at = self.words.index("from")
        place = self._skip_fillers(at + 1, count)
        start, length = self._read(place, count) if place < count else (None, 0)
        if start is None or start.kind != "most":
            return None
        self.words = self.words[:at] + self.words[place + length :]
        return start.key

    def wish(self, start: int, end: int) -> Wish:
        """What the words from `start` to `end` say of one object."""
        got: dict[str, list[str]] = {name: [] for name in ("names", *_SINGLE.values())}
        things: dict[str, list[tuple[str, str]]] = {"shape": [], "kind": [], "pronoun": []}
        relations: list[LayoutWish] = []
        unlike: list[Wish] = []
        order: Order | None = None
        last: Kind | None = None
        moved = False
        k = start
        while k < end:
            meaning, length = self._read(k, end)
            said = " ".join(self.words[k : k + length])
            after = k + length
            if said in self.voc.parts and _PART_AFTER.intersection(self.words[max(start, k - 4) : k]):
                pass  # "with the red lid": something of it is red
            elif meaning is None:
                got["names"].append(said)
            elif meaning.kind in _SINGLE:
                if self._is_coloured_thing(meaning, said, k, end):
                    things["kind"].append((self._thing(said), said))
                else:
                    got[_SINGLE[meaning.kind]].append(meaning.key)
            elif meaning.kind in things:
                if meaning.kind != "shape" or said not in self.voc.anything:
                    things[meaning.kind].append((meaning.key, said))
            elif meaning.kind == "several":
                raise _NotUnderstoodError(self.voc.said["one_only"].format(word=said))
            elif meaning.kind == "moved":
                moved = True
            elif meaning.kind == "ordinal":
                order, after = self._order(int(meaning.key), after, end)
            elif meaning.kind == "negation":
                stop = self._end_of_negation(after, end)
                unlike.append(self._described(said, after, stop))
                after = stop
            elif meaning.kind == "relation":
                after = self._relate(meaning, k, after, end, got["most"], relations)
            elif meaning.kind == "surface" and last != "most" and not self._is_place(k):
                got["names"].append(said)  # but "in the middle of the table", "out of the bin"
            kind = None if meaning is None else meaning.kind
            last = last if kind == "filler" else kind
            k = after
        return Wish(
            **{name: tuple(dict.fromkeys(each)) for name, each in got.items()},
            shapes=tuple(dict.fromkeys(things["shape"])),
            kinds=tuple(things["kind"]),
            order=order,
            relations=tuple(relations),
            unlike=tuple(unlike),
            moved=moved,
            pronouns=tuple(things["pronoun"]),
        )

    def _is_coloured_thing(self, meaning: Meaning, said: str, k: int, end: int) -> bool:
        """Whether the name of a colour stands for a thing of that name, as an orange."""
        return meaning.kind == "colour" and said in self.voc.coloured_things and self._is_thing(k, end)

    def _read(self, k: int, end: int) -> tuple[Meaning | None, int]:
        """The meaning of the longest phrase at a word, and how many words it has; None: no word of ours."""
        if self.words[k] in self.names:
            return None, 1
        for length in range(min(self.voc.longest, end - k), 0, -1):
            phrase = tuple(self.words[k : k + length])
            meanings = self.voc.phrases.get(phrase, ())
            if len(phrase) > 1 and self.names.intersection(phrase):
                continue
            for meaning in meanings:
                if meaning.kind == "relation" and phrase in self.voc.bare and len(meanings) > 1:
                    if not self._begins_description(k + length, end):
                        continue  # "the near one", "the nearest box"
                    return meaning, length
            others = [m for m in meanings if m.kind != "relation" or len(meanings) == 1]
            if others:
                return others[0], length
        return None, 1

    def _begins_description(self, k: int, end: int) -> bool:
        return k < end and (self.words[k] in self.voc.determiners or self.words[k] == "to")

    def _relate(
        self, meaning: Meaning, k: int, after: int, end: int, most: list[str], relations: list[LayoutWish]
    ) -> int:
        """Adds a relation, or a place where the words name one; returns where to go on."""
        phrase = tuple(self.words[k:after])
        first = self._skip_fillers(after, end)
        alone = (phrase not in self.voc.bare or meaning.key in TWO_WAYS) and phrase[-1] != "of"
        if first >= end and meaning.key in _AS_PLACE and alone:
            most.append(_AS_PLACE[meaning.key])
            return end
        following = self._read(first, end)[0] if first < end else None
        if first < end and any(
            each.kind == "surface" for each in self.voc.phrases.get((self.words[first],), ())
        ):
            if meaning.key in DIRECTIONS:
                most.append(meaning.key)
            elif meaning.key not in ("on", "near"):
                raise _NotUnderstoodError(self.voc.said["half"].format(word=" ".join(phrase)))
            return first + 1
        if phrase in self.voc.bare and following is not None and following.kind in ("most", "ordinal"):
            # "on the left", "from the left"; but "on the big box" points to a box.
            rest = first + self._read(first, end)[1]
            if rest >= end or not self._is_described(rest, end):
                return after
        words = " ".join(self.words[after:end])
        if meaning.key == "between":
            split = next((j for j in range(after, end) if self.words[j] == "and"), None)
            if split is None:
                raise _NotUnderstoodError(self.voc.said["half"].format(word=" ".join(phrase)))
            said = " ".join(phrase)
            others = self._described(said, after, split), self._described(said, split + 1, end)
            relations.append(LayoutWish(meaning.key, others, words))
            return end
        stop = self._end_of_landmark(after, end)
        other = self._described(" ".join(phrase), after, stop)
        # "The cup behind the other cup": another one than the one that is asked for.
        pointed = tuple(("another" if key == "other" else key, word) for key, word in other.pronouns)
        other = replace(other, pronouns=pointed)
        relations.append(LayoutWish(meaning.key, (other,), " ".join(self.words[after:stop])))
        return stop

    def _is_described(self, k: int, end: int) -> bool:
        """Whether from a word on something says what an object looks like."""
        meaning = self._read(k, end)[0]
        return meaning is not None and meaning.kind in ("colour", "shape", "kind", "form", "pattern")

    def _described(self, word: str, start: int, end: int) -> Wish:
        wish = self.wish(start, end)
        if wish.is_empty:
            raise _NotUnderstoodError(self.voc.said["half"].format(word=word))
        return wish

    def _order(self, n: int, after: int, end: int) -> tuple[Order, int]:
        """A row and where to go on: "second from the left", "second biggest", "second one"."""
        k = self._skip_fillers(after, end)
        meaning, length = self._read(k, end) if k < end else (None, 0)
        if meaning is not None and meaning.kind == "most":
            return Order(n, meaning.key), k + length
        return Order(n, self.row_start), after

    def _end_of_negation(self, start: int, end: int) -> int:
        """A negation reaches to the next one, to "but", or to the end."""
        return min(
            self._end_of_landmark(start, end),
            next((j for j in range(start, end) if self.words[j] == "but"), end),
        )

    def _end_of_landmark(self, start: int, end: int) -> int:
        """Another object is described up to a negation or the end."""
        for j in range(start + 1, end):
            meaning, _ = self._read(j, end)
            if meaning is not None and meaning.kind == "negation":
                return j
        return end

    def _skip_fillers(self, k: int, end: int) -> int:
        while k < end:
            meaning, length = self._read(k, end)
            bare = tuple(self.words[k : k + length]) in self.voc.bare
            if (meaning is None or meaning.kind not in ("filler", "shade")) and not bare:
                break
            k += length
        return k

    def _is_place(self, k: int) -> bool:
        """Whether a word follows "of" or "from", as in "out of the bin"."""
        before = [word for word in self.words[:k] if word not in self.voc.determiners]
        return bool(before) and before[-1] in ("of", "from")

    def _thing(self, said: str) -> str:
        """The shape of the thing that a word for a colour names too: the orange."""
        for meaning in self.voc.phrases[tuple(said.split())]:
            if meaning.kind == "kind":
                return meaning.key
        raise _NotUnderstoodError(self.voc.said["thing_or_colour"].format(word=said))

    def _is_thing(self, k: int, end: int) -> bool:
        """Whether a word for a colour and a thing is used for the thing, as in "the orange"."""
        if k and self.words[k - 1] in ("is", "not", "looks", "look", "coloured", "colored"):
            return False
        if k + 1 >= end:
            return True
        meaning, _ = self._read(k + 1, end)
        if meaning is None:
            return False
        if meaning.kind == "filler":
            return self.words[k + 1] not in self.voc.anything | {
                "and",
                "coloured",
                "colored",
                "colour",
                "color",
            }
        return meaning.kind in ("relation", "negation")
