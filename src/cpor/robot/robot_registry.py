"""Robots by name; an entry point of `cpor.robots` is a callable whose parameters are its options."""

from typing import cast

from cpor.plugins import ROBOTS, make_plugin
from cpor.robot.protocol import Robot


def make_robot(name: str, **options: object) -> Robot:
    """The robot of a name, or of `module:attribute`.

    Args:
        name: `simulated`, `ur`, another installed one, or `module:attribute`.
        **options: Its parameters, such as `seed` of the simulated one.

    Raises:
        InvalidSettingError: No such robot, or other options than it takes.
    """
    return cast(Robot, make_plugin(ROBOTS, name, **options))
