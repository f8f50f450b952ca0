"""Plug-ins: segmenters, scorers, sources of belief, robots, cameras; a short name, or `module:attribute`.

Ours are registered the same way, in pyproject.toml. docs/extending.md says how to write one.
"""

import importlib
import inspect
import os
import sys
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points

from cpor.errors import InvalidSettingError, list_labels


@dataclass(frozen=True)
class PluginGroup:
    """A group of entry points.

    Attributes:
        name: The group's name in pyproject.toml.
        noun: What its members are called in messages.
        methods: What each of them can do.
    """

    name: str
    noun: str
    methods: tuple[str, ...]


SEGMENTERS = PluginGroup("cpor.segmenters", "segmenter", ("segment",))
SCORERS = PluginGroup("cpor.scorers", "scorer", ("pairs", "score"))
SOURCES = PluginGroup("cpor.sources", "source", ("score",))
CAMERAS = PluginGroup("cpor.cameras", "camera", ("frame", "now"))
ROBOTS = PluginGroup("cpor.robots", "robot", ("observe", "grasp", "remove", "home", "stop", "status"))


def list_plugins(group: PluginGroup) -> dict[str, EntryPoint]:
    """The installed plug-ins of a group by name; nothing is loaded."""
    return {each.name: each for each in sorted(entry_points(group=group.name), key=lambda each: each.name)}


def load_plugin(group: PluginGroup, name: str) -> object:
    """What a name stands for: a class or function that makes the thing, or the thing itself.

    Raises:
        InvalidSettingError: There is no such plug-in, or it cannot be imported.
    """
    known = list_plugins(group)
    module, _, attribute = name.partition(":")
    if name not in known and not (module and attribute):
        raise InvalidSettingError(
            f"unknown {group.noun} {name!r}; installed are: {list_labels(known) or 'none'}; or give your own "
            "as module:attribute"
        )
    try:
        if name in known:
            return known[name].load()
        if os.getcwd() not in sys.path:
            sys.path.append(os.getcwd())  # the command `cpor` does not look where it is called from
        return getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise InvalidSettingError(
            f"the {group.noun} {name!r} cannot be loaded: {error}; it is read from {module}.py in the folder "
            "you call from, or from an installed package"
        ) from error


def make_plugin(group: PluginGroup, name: str, **options: object) -> object:
    """The thing a name stands for, made with its options.

    Raises:
        InvalidSettingError: There is no such plug-in, it takes other options, or it lacks a method.
    """
    made = load_plugin(group, name)
    if callable(made) and not is_ready(group, made):
        try:
            inspect.signature(made).bind(**options)
        except (TypeError, ValueError) as error:  # the latter from a type of Python's own
            raise InvalidSettingError(f"the {group.noun} {name!r} takes other options: {error}") from error
        made = made(**options)
    elif options:
        raise InvalidSettingError(
            f"the {group.noun} {name!r} is a ready object and takes no options; drop them"
        )
    if lacking := missing_methods(group, made):
        raise InvalidSettingError(
            f"the {group.noun} {name!r} has no method `{lacking[0]}`; see docs/extending.md"
        )
    return made


def is_ready(group: PluginGroup, loaded: object) -> bool:
    """Whether what was loaded is the thing itself, not what makes it."""
    return not isinstance(loaded, type) and not missing_methods(group, loaded)


def missing_methods(group: PluginGroup, made: object) -> list[str]:
    """The methods of the group that an object does not have."""
    return [each for each in group.methods if not callable(getattr(made, each, None))]
