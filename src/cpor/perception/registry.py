"""Segmenters by name: entry points of the group `cpor.segmenters`, ours and those of other packages.

An entry point names a callable that makes a segmenter; its parameters are the segmenter's options.
"""

import inspect
from importlib.metadata import EntryPoint, entry_points

from cpor.errors import InvalidSettingError, list_labels
from cpor.perception.segmenter import Segmenter

GROUP = "cpor.segmenters"

DEFAULT = "embedded"
"""The one that needs nothing but the package."""


def list_segmenters() -> dict[str, EntryPoint]:
    """Every segmenter that is installed, by name; nothing is loaded."""
    return {each.name: each for each in sorted(entry_points(group=GROUP), key=lambda each: each.name)}


def make_segmenter(name: str = DEFAULT, **options: object) -> Segmenter:
    """The segmenter of a name.

    Args:
        name: As `list_segmenters` has it.
        **options: Its parameters, such as `path` of the segmenter `file`.

    Raises:
        InvalidSettingError: No such segmenter, or other options than it takes.
    """
    known = list_segmenters()
    if name not in known:
        raise InvalidSettingError(
            f"unknown segmenter {name!r}; installed are: {list_labels(known) or 'none'}"
        )
    try:
        make = known[name].load()
    except (ImportError, AttributeError) as error:
        raise InvalidSettingError(f"the segmenter {name!r} cannot be loaded: {error}") from error
    try:
        inspect.signature(make).bind(**options)
    except TypeError as error:
        raise InvalidSettingError(
            f"the segmenter {name!r} takes {inspect.signature(make)}: {error}"
        ) from error
    segmenter = make(**options)
    if not isinstance(segmenter, Segmenter):
        raise InvalidSettingError(f"the segmenter {name!r} has no method `segment`; see docs/perception.md")
    return segmenter
