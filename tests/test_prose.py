"""Plain English, as far as a machine can check it: a ratchet, so that the counts only go down."""

import re
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "cpor"

BEGINS_WITH_OF = re.compile(r"""(["']|^\s+\w+: )Of [^=]""")
PEOPLE = re.compile(r"\b(who|whom|whoever|nobody|somebody)\b", re.IGNORECASE)
A_PERSON = re.compile(
    r"\b(person|people|those|account) who\b|\bwho (wants|made|stopped|begin)", re.IGNORECASE
)
"""Lines that mean a person."""

MOST_PEOPLE = {
    "cli": 2,
    "corrections": 1,
    "decision": 1,
    "fitting": 1,
    "model": 2,
    "promise": 1,
    "robot": 3,
    "semantics": 3,
    "viz": 2,
    "words": 1,
}
"""Lines of each room that still speak of who, nobody or somebody; lower a count when you rewrite one."""


def lines(pattern):
    for path in sorted(SOURCE.rglob("*.py")):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if pattern.search(line):
                yield path.relative_to(SOURCE), number, line.strip()


def test_no_docstring_begins_with_of():
    assert [f"{path}:{number} {line}" for path, number, line in lines(BEGINS_WITH_OF)] == []


def room(path):
    return path.parts[0].removesuffix(".py")


ROOMS = sorted({room(path.relative_to(SOURCE)) for path in SOURCE.rglob("*.py")})


@pytest.mark.parametrize("name", ROOMS)
def test_people_are_named_only_where_people_are_meant(name):
    found = [
        f"{path}:{number} {line}"
        for path, number, line in lines(PEOPLE)
        if room(path) == name and not A_PERSON.search(line)
    ]
    most = MOST_PEOPLE.get(name, 0)
    assert len(found) <= most, "say what acts, or `a person`:\n" + "\n".join(found)
