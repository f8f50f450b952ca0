"""From what a model wrote to a score a pair: salvaged where that is safe, else no answer.

A pair the reply does not settle gets no answer, never 0. Nothing is guessed: an entry counts only if it is
a whole JSON object that names two objects of the scene and a number from 0 to 100. Where yes and no are
asked for, the score comes from the log-probabilities of the first token.
"""

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from cpor.scene import BlockedBy
from cpor.semantics.matching import NumberedMarks

_NUMBER = re.compile(r"\s*(\d{1,3}(?:\.\d+)?)\s*(?:%\s*)?", re.ASCII)
_THOUGHT = re.compile(r"\A.*</think>|<think>.*\Z", re.DOTALL | re.IGNORECASE)
_OPENING = re.compile(r'\{[ \t\r\n]*"')
_DEEPEST = 20
_MOST_SCANNED = 2**25  # characters read in vain: eight times the longest reply, 1,000 times one of 30,000
_MOST_ENTRIES = 10_000

YES = frozenset({"yes", "y"})
NO = frozenset({"no", "n"})


def read_relations(
    text: str, marks: NumberedMarks, pairs: Sequence[BlockedBy]
) -> tuple[dict[BlockedBy, float | None], tuple[str, ...]]:
    """Score of every pair asked about, None where the reply does not settle it; and what was wrong.

    Args:
        text: The reply, with prose or code fences around the JSON, or cut off, as it may be.
        marks: What numbers and points in it mean.
        pairs: What was asked.
    """
    problems: list[str] = []
    asked = set(pairs)
    given: dict[BlockedBy, set[float]] = {}
    entries = objects_with(text, ("blocked", "blocker"))
    if not entries:
        problems.append("the reply is empty" if not text.strip() else "the reply holds no relation")
    for entry in entries:
        pair = _pair(entry, marks, problems)
        value = _probability(entry.get("probability"))
        if pair is None:
            continue
        if pair not in asked:
            problems.append(f"{_say(pair)} was not asked about")
        elif value is not None and 0.0 < value < 1.0:
            # Asked for whole numbers: 0.9 beside 30 is a slip for 90 as likely as less than one in a hundred.
            problems.append(f"{_say(pair)}: {value:g} may be a fraction or a per cent")
            given.setdefault(pair, set()).add(math.nan)
        elif value is None:
            problems.append(f"{_say(pair)}: {entry.get('probability')!r:.40} is no number from 0 to 100")
            given.setdefault(pair, set()).add(math.nan)
        else:
            given.setdefault(pair, set()).add(value)
    top = max((v for values in given.values() for v in values if not math.isnan(v)), default=0.0)
    if 0.0 < top <= 1.0:
        # 1 may mean one in a hundred or certain; to take it for the former would say "free".
        problems.append("no number is above 1: from 0 to 1 or from 0 to 100 cannot be told")
        given = {}
    scores: dict[BlockedBy, float | None] = {}
    for pair in pairs:
        values = given.get(pair, set())
        if len(values) > 1:
            problems.append(f"{_say(pair)} is given twice with different numbers")
        value = next(iter(values)) if len(values) == 1 else math.nan
        scores[pair] = None if math.isnan(value) else value / 100.0
    missing = sum(score is None for score in scores.values())
    if missing and entries:
        problems.append(f"{missing} of {len(scores)} pairs have no answer")
    return scores, tuple(dict.fromkeys(problems))


def _pair(entry: dict[str, Any], marks: NumberedMarks, problems: list[str]) -> BlockedBy | None:
    blocked, blocker = marks.object_of(entry.get("blocked")), marks.object_of(entry.get("blocker"))
    for role, found in (("blocked", blocked), ("blocker", blocker)):
        if found is None:
            problems.append(f"{role} {entry.get(role)!r:.40} is no object of the scene")
    if blocked is None or blocker is None:
        return None
    if blocked == blocker:
        problems.append(f"object {blocked} is said to obstruct itself")
        return None
    return BlockedBy(blocked, blocker)


def _probability(value: object) -> float | None:
    if isinstance(value, str) and (match := _NUMBER.fullmatch(value)):
        value = float(match[1])
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    return float(value) if 0.0 <= value <= 100.0 else None


def list_schema(name: str, /, **fields: str) -> Mapping[str, Any]:
    """JSON schema of a reply that holds one list: its name, the fields of its entries and their types."""
    entry = {
        "type": "object",
        "properties": {field: {"type": kind} for field, kind in fields.items()},
        "required": list(fields),
        "additionalProperties": False,
    }
    return {
        "type": "object",
        "properties": {name: {"type": "array", "items": entry}},
        "required": [name],
        "additionalProperties": False,
    }


def objects_with(text: str, fields: tuple[str, ...]) -> list[dict[str, Any]]:
    """Every whole JSON object in a reply that has one of some fields, wherever it stands.

    The work is bounded whatever the text. A reply that takes more holds nothing: half of it might leave out
    what contradicts the rest.
    """
    text = _THOUGHT.sub("", text)  # what is weighed while thinking is no answer
    entries: list[dict[str, Any]] = []
    at, left = 0, _MOST_SCANNED
    while start := _OPENING.search(text, at):
        try:
            found, at = _DECODER.raw_decode(text, start.start())
        except RecursionError:
            return []  # no answer is nested so deep
        except ValueError:  # not JSONDecodeError: a number of too many digits is none
            at = start.start() + 1  # prose, or a list that was cut off: look at what is inside
            left -= len(text)  # it may have been read to its end
            if left < 0:
                return []
            continue
        entries += _inside(found, fields)
        if len(entries) > _MOST_ENTRIES:
            return []
    return entries


def _no_two(fields: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object; a field given twice with different values has none."""
    found: dict[str, Any] = {}
    for name, value in fields:
        found[name] = value if name not in found or found[name] == value else None
    return found


_DECODER = json.JSONDecoder(object_pairs_hook=_no_two)


def _inside(value: Any, fields: tuple[str, ...], depth: int = 0) -> Iterator[dict[str, Any]]:
    if depth > _DEEPEST:
        return
    if isinstance(value, dict):
        if any(field in value for field in fields):
            yield value
            return
        value = list(value.values())
    if isinstance(value, list):
        for each in value:
            yield from _inside(each, fields, depth + 1)


def _say(pair: BlockedBy) -> str:
    return f"that {pair.blocker} obstructs {pair.blocked}"


def p_yes(first_token: Mapping[str, float], least_mass: float = 0.01) -> float | None:
    """P(yes) / (P(yes) + P(no)), where spellings of a word count together.

    Providers list the likeliest tokens only. A word that is not listed counts with the least probability
    that is, which it cannot exceed; so a score is never 0 or 1 for want of a longer list.

    Args:
        first_token: Log-probability by token.
        least_mass: Least probability that yes and no have together; below it the model was about to say
            something else.

    Returns:
        In [0, 1]; None where the model would have said neither.
    """
    usable = {token: value for token, value in first_token.items() if value <= 1e-6 and value > -math.inf}
    yes = _mass(usable, YES)
    no = _mass(usable, NO)
    if (yes == 0.0 and no == 0.0) or yes + no < least_mass:
        return None
    if yes == 0.0 or no == 0.0:
        least = min(math.exp(value) for value in usable.values())
        missing = min(least, max(1.0 - sum(math.exp(value) for value in usable.values()), 0.0))
        yes, no = (yes or missing), (no or missing)
    return min(max(yes / (yes + no), 0.0), 1.0)


def is_yes_or_no(token: str) -> bool:
    """Whether a token counts for yes or for no."""
    return _word(token) in YES | NO


def _mass(first_token: Mapping[str, float], words: frozenset[str]) -> float:
    return math.fsum(math.exp(value) for token, value in first_token.items() if _word(token) in words)


def _word(token: str) -> str:
    # Tokenisers mark a leading space in their own ways.
    return token.replace("\u2581", " ").replace("\u0120", " ").strip(" \t\r\n\"'.,:*").lower()
