"""Every segmenter keeps the same promises."""

import json

import numpy as np
import pytest
from support.networks import write_colour_segmenter

from cpor.errors import CporError
from cpor.perception.depth_segmenter import DepthSegmenter
from cpor.perception.mask_files import FileMasks, GivenMasks
from cpor.perception.onnx_segmenter import OnnxSegmenter
from cpor.perception.segmenter import make_segmenter
from cpor.plugins import SEGMENTERS, list_plugins
from cpor.scene import MaskCrop
from cpor.testing import check_segmenter, example_frame, example_scene

SHAPE = (240, 320)


@pytest.fixture(params=["onnx", "given", "json", "npz", "depth"])
def make(request, tmp_path):
    """Makes a segmenter that finds the three boxes of `example_frame`."""
    scene = example_scene()
    masks = np.stack([scene.visible_ids == k for k in scene.ids])
    if request.param == "onnx":
        return lambda: OnnxSegmenter(write_colour_segmenter(tmp_path / "segmenter.onnx"))
    if request.param == "given":
        return lambda: GivenMasks(scene)
    if request.param == "depth":
        return lambda: DepthSegmenter()
    if request.param == "npz":
        np.savez(tmp_path / "m.npz", visible=masks, amodal=masks)
        return lambda: FileMasks(tmp_path / "m.npz")
    polygons = [
        [c.left, c.top, c.left + w, c.top, c.left + w, c.top + h, c.left, c.top + h]
        for c in (MaskCrop.from_mask(mask) for mask in masks[::-1])  # a later one covers an earlier one
        for h, w in [c.pixels.shape]
    ]
    content = {
        "images": [{"id": 1, "height": 240, "width": 320}],
        "annotations": [{"image_id": 1, "segmentation": [each]} for each in polygons],
    }
    (tmp_path / "m.json").write_text(json.dumps(content))
    return lambda: FileMasks(tmp_path / "m.json")


def test_it_keeps_the_rules(make):
    check_segmenter(make)


def test_it_finds_what_is_there(make):
    scene, truth = make().segment(example_frame()), example_scene()
    assert len(scene.objects) == 3
    for mask in (truth.visible_ids == k for k in truth.ids):
        best = max(
            (mask & (scene.visible_ids == k)).sum() / (mask | (scene.visible_ids == k)).sum()
            for k in scene.ids
        )
        assert best > 0.85


@pytest.mark.parametrize("shape", [(240, 320), (32, 32), (1080, 1920)], ids=str)
@pytest.mark.parametrize("with_depth", [True, False])
def test_any_frame_gives_a_scene_or_a_plain_error(make, shape, with_depth):
    segmenter, observation = make(), example_frame(shape, with_depth)
    of_another_size = isinstance(segmenter, GivenMasks | FileMasks) and shape != SHAPE
    if of_another_size or (isinstance(segmenter, DepthSegmenter) and not with_depth):
        with pytest.raises(CporError, match=r"depth|mask|visible|amodal"):
            segmenter.segment(observation)
        return
    assert 1 <= len(segmenter.segment(observation).objects) <= 3


def test_ours_are_registered_like_anybody_elses(tmp_path):
    assert {"depth", "embedded", "file", "given"} <= set(list_plugins(SEGMENTERS))
    assert isinstance(make_segmenter("depth"), DepthSegmenter)
    assert make_segmenter("file", path=tmp_path / "m.npz") == FileMasks(tmp_path / "m.npz")
    assert make_segmenter() == OnnxSegmenter()


PLUGIN = """
from dataclasses import dataclass
from cpor.scene import Scene

@dataclass
class Blind:
    note: str = ""
    def segment(self, observation):
        return Scene(observation)

def useless():
    return object()

ready = Blind("made")
"""


def test_another_package_brings_its_own(tmp_path, monkeypatch):
    (tmp_path / "blindfold.py").write_text(PLUGIN)
    info = tmp_path / "blindfold-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: blindfold\nVersion: 1.0\n")
    points = ["blind = blindfold:Blind", "useless = blindfold:useless", "gone = blindfold:Gone"]
    (info / "entry_points.txt").write_text("\n".join(["[cpor.segmenters]", *points]) + "\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert make_segmenter("blind", note="x").segment(example_frame()).objects == ()
    assert make_segmenter("blindfold:Blind", note="x").note == "x"
    assert make_segmenter("blindfold:ready").note == "made"
    for name, options, message in [
        ("blindfold:ready", {"note": "x"}, "takes no options"),
        ("blindfold:Gone", {}, "cannot be loaded"),
        ("blind", {"eyes": 2}, "takes"),
        ("useless", {}, "no method `segment`"),
        ("gone", {}, "cannot be loaded"),
        ("nobody", {}, "unknown segmenter 'nobody'; installed are:.*blind"),
    ]:
        with pytest.raises(CporError, match=message):
            make_segmenter(name, **options)
