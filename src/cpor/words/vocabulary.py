"""The words that people use for objects, from one file that can be translated: `vocabulary.json`.

The first word of each list is the one we say ourselves.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeAlias

FILE = Path(__file__).with_name("vocabulary.json")

Kind: TypeAlias = Literal[
    "colour", "shade", "pattern", "shape", "kind", "form", "most", "relation", "ordinal", "negation",
    "moved", "pronoun", "several", "surface", "filler",
]  # fmt: skip
"""What a phrase of a request does."""


@dataclass(frozen=True)
class Meaning:
    """What a phrase means.

    Attributes:
        kind: What it does.
        key: Which of them, as `vocabulary.json` names it.
    """

    kind: Kind
    key: str


@dataclass(frozen=True)
class Vocabulary:
    """The file, as the parser and the judge look things up.

    Attributes:
        phrases: Meanings of each phrase, as a tuple of words; some phrases have two.
        longest: Words of the longest phrase.
        like: For each shape word, how much objects of other shapes fit it too.
        classes: ImageNet classes of each noun, by its words; empty where the classifier knows none.
        usual_colours: Colours that a thing of a noun mostly has, by its words, where it has any.
        shape_words: Words for a shape, such as "box"; other nouns are narrower.
        kinds: ImageNet classes of each kind of a shape, by the noun that we say, such as "banana".
        determiners, anything, bare, coloured_things: Words that the grammar asks for; see the file.
        parts: Words for parts of a thing, as in "with the red lid": the colour is that of the thing.
        openers: Words that say nothing at the start of a request, before one of these words.
        polite: Words that say nothing about which object is meant.
        numbered: Words before the number of an object.
        number_ends: What follows 1, 2, 3, and every number from there on, in a row.
        yes, no: Words that begin the answer to a question; `reply_fillers` say nothing after them.
        said: Sentences, by name.
    """

    phrases: Mapping[tuple[str, ...], tuple[Meaning, ...]]
    longest: int
    like: Mapping[str, Mapping[str, float]]
    classes: Mapping[str, tuple[int, ...]]
    usual_colours: Mapping[str, tuple[str, ...]]
    shape_words: frozenset[str]
    kinds: Mapping[str, tuple[int, ...]]
    determiners: frozenset[str]
    anything: frozenset[str]
    bare: frozenset[tuple[str, ...]]
    coloured_things: frozenset[str]
    parts: frozenset[str]
    openers: Mapping[str, frozenset[str]]
    polite: frozenset[str]
    numbered: frozenset[str]
    number_ends: tuple[str, ...]
    yes: frozenset[str]
    no: frozenset[str]
    reply_fillers: frozenset[str]
    said: Mapping[str, str]
    _spoken: Mapping[tuple[Kind, str], str]

    def say(self, kind: Kind, key: str) -> str:
        """The word that we say for a meaning."""
        return self._spoken[kind, key]

    def keys_of(self, words: frozenset[str], kind: Kind) -> set[str]:
        """What words of a name mean, of one kind."""
        meanings = (each for word in words for each in self.phrases.get((word,), ()))
        return {each.key for each in meanings if each.kind == kind}


_ENDINGS = re.compile(r"['\u2019](?:s|m|d|ll|ve)\b")  # the box's, I'm, I'd; but not "don't"


def split_words(text: str) -> list[str]:
    """Words of a text in lower case, plurals and possessives cut to the stem we compare."""
    return [_stem(word) for word in re.findall(r"[^\W_]+", _ENDINGS.sub("", text.lower()))]


def _stem(word: str) -> str:
    kept = ("ss", "us", "is", "has", "was", "besides")
    if len(word) > 3 and word.endswith("s") and not word.endswith(kept):
        return word[:-2] if word.endswith(("xes", "ches", "shes", "oes", "sses")) else word[:-1]
    return word


@cache
def vocabulary() -> Vocabulary:
    """The vocabulary of the package."""
    return read_vocabulary(json.loads(FILE.read_text(encoding="utf-8")))


_SECTIONS: Mapping[str, Kind] = {
    **{"colours": "colour", "patterns": "pattern", "shapes": "shape", "forms": "form", "most": "most"},
    **{"relations": "relation", "ordinals": "ordinal", "pronouns": "pronoun"},
}
"""Sections of the file with words by keys."""

_LISTS: Mapping[str, Kind] = {
    **{"shades": "shade", "negations": "negation", "moved": "moved"},
    **{"several": "several", "surfaces": "surface"},
}
"""Sections that are one list of words."""

_SILENT = ("determiners", "anything", "asking", "fillers", "materials")
"""Sections of words that say nothing about an object."""

_SETS = ("determiners", "anything", "coloured_things", "numbered", "parts", "yes", "no")


def read_vocabulary(data: Mapping[str, Any]) -> Vocabulary:
    """A vocabulary from the content of its file."""
    shapes = data["shapes"]
    nouns = [
        (noun, words)
        for each in shapes.values()
        for noun in (each, *each["kinds"])
        for words in noun["words"]
    ]
    phrases, spoken = _read_phrases(data)
    polite = frozenset((*data["asking"], *data["determiners"], *data["anything"]))
    return Vocabulary(
        **{name: frozenset(data[name]) for name in _SETS},
        phrases=phrases,
        longest=max(map(len, phrases)),
        classes={" ".join(split_words(text)): tuple(noun["classes"]) for noun, text in nouns},
        usual_colours={" ".join(split_words(text)): tuple(noun.get("colours", ())) for noun, text in nouns},
        shape_words=frozenset(
            " ".join(split_words(text)) for each in shapes.values() for text in each["words"]
        ),
        kinds={
            kind["words"][0]: tuple(kind["classes"]) for each in shapes.values() for kind in each["kinds"]
        },
        like={key: {key: 1.0, **entry["like"]} for key, entry in shapes.items()},
        bare=frozenset(tuple(split_words(text)) for text in data["bare"]),
        openers={word: frozenset(following) for word, following in data["openers"].items()},
        polite=polite,
        number_ends=tuple(data["number_ends"]),
        reply_fillers=frozenset(split_words(" ".join(data["reply_fillers"]))) | polite,
        said=dict(data["said"]),
        _spoken=spoken,
    )


def _read_phrases(
    data: Mapping[str, Any],
) -> tuple[dict[tuple[str, ...], tuple[Meaning, ...]], dict[tuple[Kind, str], str]]:
    """Meanings of each phrase, the first that the file gives first, and the word that we say for each."""
    entries: list[tuple[Kind, str, list[str]]] = []
    for section, kind in _SECTIONS.items():
        for key, entry in data[section].items():
            if kind == "shape":
                entries.append((kind, key, entry["words"]))
                entries += [("kind", key, each["words"]) for each in entry["kinds"]]
            else:
                entries.append((kind, key, entry))
    entries += [(kind, name, data[name]) for name, kind in _LISTS.items()]
    entries += [("filler", word, [word]) for name in _SILENT for word in data[name]]
    phrases: dict[tuple[str, ...], tuple[Meaning, ...]] = {}
    spoken: dict[tuple[Kind, str], str] = {}
    for kind, key, words in entries:
        spoken.setdefault((kind, key), words[0])
        for text in words:
            phrase = tuple(split_words(text))
            meanings = phrases.get(phrase, ())
            if all(each.kind != kind for each in meanings):
                phrases[phrase] = (*meanings, Meaning(kind, key))
    return phrases, spoken
