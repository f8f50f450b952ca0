"""CONTRIBUTING and the page on architecture name what is there."""

import importlib
import re
from pathlib import Path

import pytest

from benchmarks.rooms import PICTURE, read_rooms
from cpor import plugins

ROOT = Path(__file__).parents[1]
GUIDE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "path", sorted(set(re.findall(r"`((?:src|tests|docs|examples|benchmarks)/[^`*]+)`", GUIDE)))
)
def test_files_that_the_guide_names_are_there(path):
    assert (ROOT / path).exists()


@pytest.mark.parametrize("name", sorted(set(re.findall(r"`(cpor(?:\.\w+)+)`", GUIDE + ARCHITECTURE))))
def test_modules_and_functions_that_are_named_are_there(name):
    if name in {each.name for each in vars(plugins).values() if isinstance(each, plugins.PluginGroup)}:
        return
    module, attribute = name, None
    try:
        importlib.import_module(module)
    except ModuleNotFoundError:
        module, _, attribute = name.rpartition(".")
        assert hasattr(importlib.import_module(module), attribute)


def test_the_picture_shows_the_rooms_as_they_are():
    shown = set(re.findall(r'text-anchor="end"[^>]*>(\w+)<', PICTURE.read_text(encoding="utf-8")))
    assert shown == set(read_rooms()[0]), "python benchmarks/rooms.py draws it anew"


def test_the_architecture_lists_every_room():
    listed = set(re.findall(r"`(\w+)`", ARCHITECTURE.split("## Rooms")[1].split("## The path")[0]))
    assert set(read_rooms()[0]) - listed == set()
