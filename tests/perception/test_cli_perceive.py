import json

import numpy as np
import pytest
import typer
from PIL import Image
from support.networks import paint, write_colour_segmenter
from typer.testing import CliRunner

from cpor.cli import perceive as cli_perceive
from cpor.errors import CporError
from cpor.io.scene_folder import read_scene_folder, write_scene_folder
from cpor.perception.segmenter import list_objects
from cpor.scene import DetectedObject, MaskCrop, Observation, Scene

SHAPE = (240, 320)
BOXES = {"red": (0.1, 0.1, 0.5, 0.4), "green": (0.2, 0.55, 0.6, 0.9), "blue": (0.65, 0.2, 0.95, 0.7)}


@pytest.fixture
def call():
    app = typer.Typer()
    cli_perceive.add_to(app)

    def run(*args):
        result = CliRunner().invoke(app, [str(arg) for arg in args])
        if isinstance(result.exception, CporError):
            raise result.exception
        assert result.exception is None or result.exit_code == 1, result.exception
        return result

    return run


@pytest.fixture
def weights(tmp_path):
    return write_colour_segmenter(tmp_path / "mine.onnx")


def frame():
    rgb = paint(SHAPE, **BOXES)
    return Observation(rgb, np.where((rgb == 120).all(axis=-1), 0.8, 0.75).astype(np.float32))


@pytest.fixture
def folder(tmp_path):
    """A scene folder whose only given mask is the red box."""
    ids = (paint(SHAPE, **BOXES)[..., 0] == 200).astype(np.int32)
    scene = Scene(frame(), (DetectedObject(1, MaskCrop.from_mask(ids == 1)),), ids, request="the red box")
    write_scene_folder(scene, tmp_path / "scenes" / "one")
    return tmp_path / "scenes" / "one"


def test_a_folder_is_segmented_and_written(call, folder, weights, tmp_path):
    out = tmp_path / "out"
    said = json.loads(call("perceive", folder, "--out", out, "--weights", weights, "--json").stdout)
    assert said["segmenter"] == "embedded tiny" and len(said["objects"]) == 3
    stages = ["read", "check", "segment", "check_masks", "ask_names", "name", "overlay", "write"]
    assert list(said["times_ms"]) == stages
    assert {"instances.png", "amodal.npz", "overlay.png", "perception.json", "rgb.png"} <= {
        p.name for p in out.iterdir()
    }
    scene = read_scene_folder(out)
    assert scene.ids == (1, 2, 3) and scene.request == "the red box"
    assert [o.occluded for o in scene.objects] == [True, False, True], "flags survive the file"
    assert list_objects(scene) == said["objects"]
    for each in said["objects"]:
        x, y = each["point"]
        assert scene.visible_ids[y, x] == each["id"]
        left, top, right, bottom = each["box"]
        rows, cols = np.nonzero(scene.visible_ids == each["id"])
        assert (left, top, right, bottom) == (cols.min(), rows.min(), cols.max() + 1, rows.max() + 1)
        assert 0.0 < each["hidden_share"] < 0.9


def test_given_masks_are_used_unless_they_are_to_be_ignored(call, folder, tmp_path):
    given = json.loads(call("perceive", folder, "--out", tmp_path / "a", "--json").stdout)
    assert given["segmenter"] == "given" and len(given["objects"]) == 1
    own = call(
        "perceive", folder, "--out", tmp_path / "b", "--ignore-given-masks", "--segmenter", "depth", "--json"
    )
    assert json.loads(own.stdout)["segmenter"] == "depth" and len(json.loads(own.stdout)["objects"]) == 3


def test_image_files_with_and_without_depth(call, weights, tmp_path):
    Image.fromarray(frame().rgb).save(tmp_path / "rgb.png")
    Image.fromarray(frame().rgb).save(tmp_path / "rgb.jpg", quality=95)
    Image.fromarray((frame().depth * 1000).astype(np.uint16)).save(tmp_path / "depth.png")
    for k, files in enumerate([("rgb.png", "depth.png"), ("rgb.jpg",)]):
        paths = [tmp_path / name for name in files]
        said = json.loads(
            call("perceive", *paths, "--out", tmp_path / f"o{k}", "--weights", weights, "--json").stdout
        )
        assert len(said["objects"]) == 3 and said["image"]["has_depth"] == (len(files) == 2)
    depth = read_scene_folder(tmp_path / "o0").observation.depth
    assert np.nanmax(depth) == pytest.approx(0.8)


def test_masks_of_another_program(call, folder, tmp_path):
    np.savez(tmp_path / "sam.npz", masks=(frame().rgb[..., 2] == 200)[None], scores=np.array([0.7]))
    said = call("perceive", folder, "--out", tmp_path / "o", "--masks", tmp_path / "sam.npz")
    assert "1 objects" in said.stdout and "found by file" in said.stdout


def test_what_is_there_is_replaced_only_when_asked(call, folder, tmp_path):
    call("perceive", folder, "--out", tmp_path / "o")
    with pytest.raises(CporError, match="already exists"):
        call("perceive", folder, "--out", tmp_path / "o")
    call("perceive", folder, "--out", tmp_path / "o", "--overwrite")
    (tmp_path / "o" / "diary.txt").write_text("mine")
    with pytest.raises(CporError, match=r"diary\.txt"):
        call("perceive", folder, "--out", tmp_path / "o", "--overwrite")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--segmenter", "eyes"], "unknown segmenter 'eyes'; installed are:"),
        (["--segmenter", "depth", "--weights", "w.onnx"], "takes --weights"),
        (["--segmenter", "depth", "--masks", "m.npz"], "reads --masks"),
        (["--weights", "absent.onnx"], r"absent\.onnx cannot be read"),
        (["--masks", "absent.npz"], r"absent\.npz cannot be read"),
    ],
)
def test_wrong_options_say_what_to_do(call, folder, tmp_path, options, message):
    with pytest.raises(CporError, match=message):
        call("perceive", folder, "--out", tmp_path / "o", *options)
    assert not (tmp_path / "o").exists()


def test_wrong_files_say_what_to_do(call, tmp_path):
    (tmp_path / "broken.png").write_bytes(b"no image")
    for args, message in [
        ([tmp_path / "absent"], "there is no file or folder .*absent"),
        ([tmp_path / "broken.png"], r"broken\.png is not a PNG, JPEG, WebP or TIFF image"),
        ([tmp_path / "a", tmp_path / "b", tmp_path / "c"], "at most one depth image"),
    ]:
        with pytest.raises(CporError, match=message):
            call("perceive", *args, "--out", tmp_path / "o")
    Image.fromarray(frame().rgb).save(tmp_path / "rgb.png")
    Image.fromarray(np.full((10, 10), 800, np.uint16)).save(tmp_path / "depth.png")
    with pytest.raises(CporError, match="register depth"):
        call("perceive", tmp_path / "rgb.png", tmp_path / "depth.png", "--out", tmp_path / "o")


def test_a_gallery_shows_every_scene_and_says_what_failed(call, folder, tmp_path):
    no_depth = Scene(Observation(frame().rgb))
    write_scene_folder(no_depth, folder.parent / "two <b>")
    page = tmp_path / "page.html"
    said = call("gallery", folder.parent, "--out", page, "--segmenter", "depth")
    assert said.exit_code == 1 and "2 scenes, 1 failed" in said.stdout
    text = page.read_text()
    assert text.count("data:image/webp;base64,") == 1 and "needs depth" in text
    assert "two &lt;b&gt;" in text and "<b>two <b>" not in text
    assert "http" not in text.replace("http-equiv", ""), "nothing is loaded from elsewhere"
    shown = call("gallery", folder.parent, "--out", page, "--segmenter", "depth", "--ignore-given-masks")
    assert shown.exit_code == 1


def test_hidden_parts_are_hatched():
    from cpor.viz.overlay import Marks, draw_scene

    ids = np.zeros(SHAPE, np.int32)
    ids[50:150, 50:150] = 1
    ids[50:150, 150:250] = 2
    whole = np.zeros(SHAPE, dtype=bool)
    whole[50:150, 50:220] = True
    hidden = DetectedObject(1, MaskCrop.from_mask(whole))
    frame = Observation(np.full((*SHAPE, 3), 90, np.uint8))
    flat = Scene(frame, (DetectedObject(1, MaskCrop.from_mask(ids == 1)), DetectedObject(2)), ids)
    with_hidden = Scene(frame, (hidden, DetectedObject(2)), ids)
    a, b = (
        np.asarray(draw_scene(scene, Marks(all_hidden=True))).astype(int) for scene in (flat, with_hidden)
    )
    scale = a.shape[1] // SHAPE[1]
    a, b = (picture[: SHAPE[0] * scale] for picture in (a, b))  # without the legend
    changed = abs(a - b).max(axis=-1)
    rows, cols = np.nonzero(changed > 30)
    assert rows.size > 200 and cols.min() // scale >= 148 and cols.max() // scale <= 221
