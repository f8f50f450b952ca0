"""Segmenters by name; an entry point of `cpor.segmenters` is a callable whose parameters are its options."""

from importlib.metadata import EntryPoint
from typing import cast

from cpor.perception.segmenter import Segmenter
from cpor.plugins import SEGMENTERS, list_plugins, make_plugin

DEFAULT = "embedded"
"""The one that needs nothing but the package."""


def list_segmenters() -> dict[str, EntryPoint]:
    """Every segmenter that is installed, by name; nothing is loaded."""
    return list_plugins(SEGMENTERS)


def make_segmenter(name: str = DEFAULT, **options: object) -> Segmenter:
    """The segmenter of a name, or of `module:attribute`.

    Args:
        name: As `list_segmenters` has it, or `module:attribute`.
        **options: Its parameters, such as `path` of the segmenter `file`.

    Raises:
        InvalidSettingError: No such segmenter, or other options than it takes.
    """
    return cast(Segmenter, make_plugin(SEGMENTERS, name, **options))
