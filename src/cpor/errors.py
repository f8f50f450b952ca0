"""Errors of ours: each message names the culprit, where it is, and what to do about it."""

import re
from collections.abc import Hashable, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

ChoiceT = TypeVar("ChoiceT", bound=str)


class CporError(Exception):
    """Base of every error this package raises on purpose; the CLI prints it and exits with 2."""


class InvalidSceneError(CporError, ValueError):
    """Objects, target or relation probabilities that do not describe a scene."""


class InvalidSettingError(CporError, ValueError):
    """A setting outside its range, or two settings that exclude each other."""


class SceneFileError(CporError, ValueError):
    """A file that cannot be read as a scene."""


class InputFileError(CporError, ValueError):
    """A file or folder that does not hold what it should, or cannot be read or written."""


class FittingError(CporError, ValueError):
    """Scores, labels or outcomes that nothing can be fitted to or measured from."""


class MissingExtraError(CporError):
    """The part of the package asked for is not installed."""


@contextmanager
def needing(extra: str, what: str) -> Iterator[None]:
    """Name the extra to install where an import inside fails."""
    try:
        yield
    except ImportError:
        get = f"get it with: pip install 'cpor-grasp[{extra}]'"
        raise MissingExtraError(f"{what}, which is not installed; {get}") from None


class TooLargeError(CporError):
    """An exact answer was demanded of a scene that needs more work than the limit allows."""


class CameraError(CporError):
    """A camera gave no frame, or one that cannot be used."""


class RobotError(CporError):
    """A robot cannot be reached, or was asked for what it must not do."""


class SimulationError(CporError):
    """A simulated scene that cannot be made as asked."""


def list_labels(labels: Iterable[Hashable], most: int = 12) -> str:
    """Labels for an error message: `mug, box, can` or, past `most`, `mug, box, … (40 in all)`."""
    names = [str(label) for label in labels]
    if len(names) <= most:
        return ", ".join(names)
    return f"{', '.join(names[:most])}, … ({len(names)} in all)"


def say_count(number: int, what: str) -> str:
    """A number of things: `1 action`, `3 actions`."""
    return f"{number} {what}{'' if number == 1 else 's'}"


def say_version(name: str) -> str:
    """A name with its version in words: `embedded (version 5)` for `embedded 5`."""
    return re.sub(r" (\d+)$", r" (version \1)", name)


def one_of(what: str, name: str, known: Iterable[ChoiceT]) -> ChoiceT:
    """The choice that a person named.

    Args:
        what: What is chosen, for the message: `mode`, `--missing`.
        name: As it was given.
        known: All choices.

    Raises:
        InvalidSettingError: There is no such choice; the message lists the known ones.
    """
    choices = tuple(known)
    for choice in choices:
        if name == choice:
            return choice
    raise InvalidSettingError(f"unknown {what} {name!r}; choose one of: {list_labels(choices)}")


def say_known(label: object, known: Iterable[Hashable]) -> str:
    """`the scene has: mug, box`, with a hint where a label differs from a known one in its type only."""
    labels = list(known)
    if not labels:
        return "the scene has no objects"
    if any(str(each) == str(label) for each in labels):
        shown = list_labels([repr(each) for each in labels])
        return f"the scene has: {shown} (a number and the text of it are different labels)"
    return f"the scene has: {list_labels(labels)}"
