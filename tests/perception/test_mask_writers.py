"""Masks written for other programs are read back as they were."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from cpor.cli.app import app
from cpor.errors import SceneFileError
from cpor.io.images import encode_png
from cpor.io.scene_folder import write_scene_folder
from cpor.perception.mask_files import FileMasks, write_bop, write_coco
from cpor.perception.rle import decode_mask, encode_mask
from cpor.testing import example_scene


def test_run_lengths_are_read_back(rng):
    for shape in ((1, 1), (7, 5), (48, 64)):
        for share in (0.0, 0.02, 0.5, 1.0):
            mask = rng.random(shape) < share
            assert np.array_equal(decode_mask(encode_mask(mask), shape, "here"), mask)
    # A long run after short ones: a difference of more than five bits, and a negative one.
    mask = np.zeros((300, 300), bool)
    mask[0, 0] = mask[250:, 3] = mask[2:4, 5] = True
    assert np.array_equal(decode_mask(encode_mask(mask), (300, 300), "here"), mask)


def test_each_form_is_read_back(tmp_path):
    scene = example_scene()
    write_scene_folder(scene, tmp_path / "scene")
    options = ["--coco", str(tmp_path / "masks.json"), "--bop", str(tmp_path / "bop")]
    ran = CliRunner().invoke(
        app, ["perceive", str(tmp_path / "scene"), "--out", str(tmp_path / "out"), *options]
    )
    assert ran.exit_code == 0, ran.output
    for path in (tmp_path / "masks.json", tmp_path / "bop", tmp_path / "scene" / "instances.png"):
        read = FileMasks(path).segment(scene.observation)
        assert read.ids == scene.ids and np.array_equal(read.visible_ids, scene.visible_ids)
        if path.suffix != ".png":
            assert [o.amodal for o in read.objects] == [o.amodal for o in scene.objects]
    coco = json.loads((tmp_path / "masks.json").read_text())
    first = coco["annotations"][0]
    assert first["area"] == int((scene.visible_ids == first["id"]).sum())
    listed = coco["images"][0]
    assert (listed["height"], listed["width"]) == scene.observation.shape


def test_what_cannot_be_read_is_said(tmp_path):
    scene = example_scene()
    write_bop(scene, tmp_path / "bop", 3)
    write_bop(scene, tmp_path / "bop", 4)
    with pytest.raises(SceneFileError, match="2 such images"):
        FileMasks(tmp_path / "bop").segment(scene.observation)
    assert FileMasks(tmp_path / "bop", 4).segment(scene.observation).ids == scene.ids
    (tmp_path / "small.png").write_bytes(encode_png(np.zeros((4, 4), np.uint8)))
    with pytest.raises(SceneFileError, match="4 x 4"):
        FileMasks(tmp_path / "small.png").segment(scene.observation)
    bare = type(scene)(scene.observation)
    with pytest.raises(ValueError, match="no masks"):
        write_coco(bare, tmp_path / "x.json")
