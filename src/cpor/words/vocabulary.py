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


def read_vocabulary(data: Mapping[str, Any]) -> Vocabulary:
    """A vocabulary from the content of its file."""
    phrases: dict[tuple[str, ...], list[Meaning]] = {}
    spoken: dict[tuple[Kind, str], str] = {}
    classes: dict[str, tuple[int, ...]] = {}
    usual_colours: dict[str, tuple[str, ...]] = {}

    def add(kind: Kind, key: str, words: list[str]) -> None:
        spoken.setdefault((kind, key), words[0])
        for text in words:
            meanings = phrases.setdefault(tuple(split_words(text)), [])
            if not any(each.kind == kind for each in meanings):
                meanings.append(Meaning(kind, key))

    for key, words in data["colours"].items():
        add("colour", key, words)
    for key, words in data["patterns"].items():
        add("pattern", key, words)
    for key, entry in data["shapes"].items():
        for noun in (entry, *entry["kinds"]):
            add("shape" if noun is entry else "kind", key, noun["words"])
            for text in noun["words"]:
                said = " ".join(split_words(text))
                classes[said] = tuple(noun["classes"])
                usual_colours[said] = tuple(noun.get("colours", ()))
    grammar: tuple[tuple[Kind, str], ...] = (
        *(("form", "forms"), ("most", "most"), ("relation", "relations"), ("ordinal", "ordinals")),
        ("pronoun", "pronouns"),
    )
    for kind, section in grammar:
        for key, words in data[section].items():
            add(kind, key, words)
    lists: tuple[tuple[Kind, str], ...] = (
        *(("shade", "shades"), ("negation", "negations"), ("moved", "moved"), ("several", "several")),
        ("surface", "surfaces"),
    )
    for kind, section in lists:
        add(kind, section, data[section])
    polite = frozenset(data["asking"]) | set(data["determiners"]) | set(data["anything"])
    silent = ("determiners", "anything", "asking", "fillers", "materials")
    for word in (word for section in silent for word in data[section]):
        add("filler", word, [word])
    return Vocabulary(
        phrases={phrase: tuple(each) for phrase, each in phrases.items()},
        longest=max(map(len, phrases)),
        classes=classes,
        usual_colours=usual_colours,
        shape_words=frozenset(
            " ".join(phrase) for phrase, each in phrases.items() if any(m.kind == "shape" for m in each)
        ),
        kinds={
            kind["words"][0]: tuple(kind["classes"])
            for each in data["shapes"].values()
            for kind in each["kinds"]
        },
        like={key: {key: 1.0, **entry["like"]} for key, entry in data["shapes"].items()},
        determiners=frozenset(data["determiners"]),
        anything=frozenset(data["anything"]),
        bare=frozenset(tuple(split_words(text)) for text in data["bare"]),
        coloured_things=frozenset(data["coloured_things"]),
        openers={word: frozenset(following) for word, following in data["openers"].items()},
        polite=polite,
        numbered=frozenset(data["numbered"]),
        number_ends=tuple(data["number_ends"]),
        yes=frozenset(data["yes"]),
        no=frozenset(data["no"]),
        reply_fillers=frozenset(split_words(" ".join(data["reply_fillers"]))) | polite,
        said=dict(data["said"]),
        _spoken=spoken,
    )
