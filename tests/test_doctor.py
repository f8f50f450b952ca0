"""`cpor doctor`: what is wrong, the fix to type, a picture; and nothing to say of what is in order."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from support.broken_forms import HELD
from support.input_forms import Shot, in_folder, picture
from typer.testing import CliRunner

from cpor.apps.doctor import examine, examine_installation
from cpor.cli.app import app
from cpor.io.frame_files import read_input
from cpor.io.scene_folder import read_scene_folder, write_scene_folder
from cpor.scene import BlockedBy, SemanticScores, Sources
from cpor.system import System

SCENE = Path(__file__).parents[1] / "examples" / "scenes" / "sim" / "scene_00007"


def doctor(*arguments, code=0):
    ran = CliRunner().invoke(app, ["doctor", *map(str, arguments), "--frames-only"])
    assert ran.exception is None or isinstance(ran.exception, SystemExit), ran.exception
    assert ran.exit_code == code, ran.output
    return ran.output


@pytest.fixture(scope="module")
def shot():
    seen = read_input(SCENE)[0].observation
    mm = np.rint(np.nan_to_num(seen.depth) * 1000).astype(np.uint16)
    return Shot(np.array(seen.rgb), mm, tuple(seen.camera.intrinsics))


@pytest.fixture
def folder(tmp_path, shot):
    """A frame in order, with a camera.json that says its unit."""
    in_folder("rgb.png", "depth.png", ("camera.json", lambda _: '{"depth_unit_m": 0.001}'))(tmp_path, shot)
    return tmp_path


def test_of_a_frame_in_order_there_is_nothing_to_say(folder):
    assert "nothing is wrong" in doctor(folder)
    assert "nothing is wrong" in doctor(folder / "rgb.png", folder / "depth.png")


@pytest.mark.parametrize("unit", ["0.01", "0.0001", "1.0"])
def test_a_wrong_unit_is_named_with_the_right_one(folder, unit):
    (folder / "camera.json").write_text(f'{{"depth_unit_m": {unit}}}')
    said = doctor(folder, code=1)
    assert 'Fix: "depth_unit_m": 0.001 in camera.json, or: --depth-unit-m 0.001' in said


FAULTS = {
    "depth_coverage": ("depth.png", lambda shot: np.zeros_like(shot.mm), "Record depth again"),
    "depth_variation": ("depth.png", lambda shot: np.full_like(shot.mm, 700), "same everywhere"),
    "depth_fits_picture": (
        "depth.png",
        lambda shot: np.roll(shot.mm, 24, axis=1),
        'rs.align(rs.stream.color)), or write into camera.json: fx, fy, cx, cy, "depth_camera"',
    ),
    "exposure": ("rgb.png", lambda shot: shot.rgb // 64, "exposure"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_faults_are_named_with_their_remedy(folder, shot, name, tmp_path):
    file, change, fix = FAULTS[name]
    picture(folder / file, change(shot))
    said = json.loads(doctor(folder, "--json", "--out", tmp_path / "out", code=1))
    findings = {each["name"]: each for each in said["examined"][0]["findings"]}
    assert findings[name]["state"] == "fail" and fix in findings[name]["fix"]
    assert json.loads((tmp_path / "out" / "doctor.json").read_text()) == said
    with Image.open(tmp_path / "out" / f"{folder.name}.png") as shown:
        assert shown.width == 1280


@pytest.mark.parametrize("form", [form for form in HELD if form != "depth turned upside down"])
def test_frames_that_must_not_be_acted_on_fail_a_check(tmp_path, shot, form):
    """Depth upside down is doubted only: of a table seen from above it fits nearly as well."""
    assert "✗" in doctor(*HELD[form](tmp_path, shot), code=1)


def test_a_stale_frame_of_a_folder_and_a_summary(tmp_path, shot):
    in_folder("color_{}.png", "depth_{}.png", count=3)(tmp_path, shot)
    rng = np.random.default_rng(0)
    noisy = (shot.rgb + rng.integers(0, 3, shot.rgb.shape)).clip(0, 255).astype(np.uint8)
    picture(tmp_path / "color_2.png", noisy)
    picture(tmp_path / "depth_2.png", shot.mm + (shot.mm > 0))
    said = doctor(tmp_path, code=1)
    assert "frame 1: 1 finding" in said and "fresh: The picture and depth equal the frame before" in said
    assert "3 inputs: 2 in order, 0 in doubt, 1 failed." in said


def test_what_cannot_be_read_is_said_and_the_others_go_on(tmp_path, shot):
    for name in ("a", "b"):
        in_folder("rgb.png", "depth.png")(tmp_path / name, shot)
    (tmp_path / "a" / "depth.png").write_bytes(b"")
    said = doctor(tmp_path, code=1)
    assert "✗ a: " in said and "save depth as 16-bit PNG" in said and "✓ b: nothing is wrong" in said
    assert "there is no file or folder" in doctor(tmp_path / "absent", code=1)


def test_masks_of_another_frame_are_to_be_made_anew(tmp_path, shot):
    """Without a network: the masks are given."""
    scene = read_scene_folder(SCENE)
    ids = np.roll(scene.visible_ids, (60, 90), (0, 1))
    bare = tuple(replace(o, amodal=None) for o in scene.objects)
    write_scene_folder(replace(scene, visible_ids=ids, objects=bare, sources=None), tmp_path / "moved")
    found = examine(System(segmenter="given", scorer="none"), tmp_path / "moved")
    fixes = {check.name: fix for check, fix in found.findings}
    assert (
        fixes["masks_fit_picture"].startswith("cpor perceive")
        and "--ignore-given-masks" in fixes["masks_fit_picture"]
    )
    assert "masks_source" in {check.name for check, _ in found.hints}


def test_masks_and_scores_of_another_picture_are_to_be_made_anew(tmp_path):
    scene = read_scene_folder(SCENE)
    a, b = scene.ids[:2]
    scores = SemanticScores({BlockedBy(a, b): 0.5}, "somebody")
    wrong = Sources("0" * 64, "1" * 64, "somebody", "2" * 64, "somebody")
    write_scene_folder(replace(scene, semantic_scores=scores, sources=wrong), tmp_path / "scene")
    found = examine(System(segmenter="given"), tmp_path / "scene")
    fixes = {check.name: fix for check, fix in found.findings}
    assert fixes["masks_source"].startswith("cpor perceive")
    assert fixes["scores_source"] == f"cpor score {tmp_path / 'scene'} --scorer embedded"


def test_the_installation_is_described():
    parts = {part.name: part for part in examine_installation()}
    assert (
        parts["weights segmenter.onnx"].state == "ok"
        and "checksum right" in parts["weights segmenter.onnx"].says
    )
    assert parts["cores"].says and parts["model embedded"].state == "ok"
    missing = [part for part in parts.values() if part.state == "missing"]
    assert all(part.fix.startswith("pip install") for part in missing)
    said = CliRunner().invoke(app, ["doctor"])
    assert said.exit_code == 0 and "Python" in said.output
