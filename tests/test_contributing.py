"""CONTRIBUTING and the page on architecture name what is there."""

import importlib
import re
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from benchmarks.rooms import PICTURE, read_rooms
from cpor import plugins
from cpor.io import camera_files
from cpor.semantics.scorer_registry import load_scorer

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


def code_after(heading):
    return re.search(rf"\*\*{heading}\*\*.*?```python\n(.*?)```", GUIDE, re.DOTALL)[1]


def test_the_camera_format_of_the_guide_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(camera_files, "READERS", [*camera_files.READERS])
    exec(compile(code_after("A camera's files"), "guide", "exec"), vars(camera_files))
    assert camera_files.known_camera(tmp_path).by == ()
    (tmp_path / "vendor.txt").write_text("600 601 320 240 0.25")
    known = camera_files.known_camera(tmp_path)
    assert (known.camera.intrinsics.fy, known.unit_m, known.by) == (601.0, 0.00025, ("vendor.txt",))


def test_the_model_of_the_guide_is_a_scorer(tmp_path):
    pytest.importorskip("openai", reason="needs the extra vlm")
    (tmp_path / "mine.toml").write_text(re.search(r"```toml\n(.*?)```", GUIDE, re.DOTALL)[1])
    scorer = load_scorer(str(tmp_path / "mine.toml"))
    assert scorer.name == "mine" and scorer.config.model == "qwen3-vl"


@pytest.mark.slow
def test_the_command_of_the_guide_runs():
    pytest.importorskip("onnxruntime", reason="needs the extra perception")
    module, app = {}, typer.Typer()
    exec(compile(code_after("A command"), "guide", "exec"), module)
    module["add_to"](app)
    ran = CliRunner().invoke(app, [str(ROOT / "examples" / "scenes" / "sim" / "scene_00002")])
    assert ran.exit_code == 0 and int(ran.stdout) > 3
