"""Every segmenter keeps the same promises."""

import json

import numpy as np
import pytest
from support.networks import paint, write_colour_segmenter

from cpor.errors import CporError
from cpor.perception.depth_segmenter import DepthSegmenter
from cpor.perception.mask_files import FileMasks, GivenMasks
from cpor.perception.onnx_segmenter import OnnxSegmenter
from cpor.perception.registry import GROUP, list_segmenters, make_segmenter
from cpor.perception.segmenter import Segmenter
from cpor.scene import DetectedObject, MaskCrop, Observation, Scene

SHAPE = (240, 320)
BOXES = {"red": (0.1, 0.1, 0.5, 0.4), "green": (0.2, 0.55, 0.6, 0.9), "blue": (0.65, 0.2, 0.95, 0.7)}


def frame(shape=SHAPE, with_depth=True):
    """Three boxes of plain colours, 5 cm high."""
    rgb = paint(shape, **BOXES)
    depth = np.where((rgb == 120).all(axis=-1), 0.8, 0.75).astype(np.float32)
    return Observation(rgb, depth if with_depth else None)


def given(shape=SHAPE):
    ids = np.zeros(shape, np.int32)
    for k, (top, left, bottom, right) in enumerate(BOXES.values(), start=1):
        rows = slice(round(top * shape[0]), round(bottom * shape[0]))
        ids[rows, round(left * shape[1]) : round(right * shape[1])] = k
    objects = tuple(DetectedObject(k, MaskCrop.from_mask(ids == k)) for k in (1, 2, 3))
    return Scene(frame(shape), objects, ids)


@pytest.fixture(params=["onnx", "given", "json", "npz", "depth"])
def segmenter(request, tmp_path):
    scene = given()
    masks = np.stack([scene.visible_ids == k for k in scene.ids])
    if request.param == "onnx":
        return OnnxSegmenter(write_colour_segmenter(tmp_path / "segmenter.onnx"))
    if request.param == "given":
        return GivenMasks(scene)
    if request.param == "depth":
        return DepthSegmenter()
    if request.param == "npz":
        np.savez(tmp_path / "m.npz", visible=masks, amodal=masks)
        return FileMasks(tmp_path / "m.npz")
    polygons = [
        [left * 320, top * 240, right * 320, top * 240, right * 320, bottom * 240, left * 320, bottom * 240]
        for top, left, bottom, right in BOXES.values()
    ]
    content = {
        "images": [{"id": 1, "height": 240, "width": 320}],
        "annotations": [{"image_id": 1, "segmentation": [each]} for each in polygons],
    }
    (tmp_path / "m.json").write_text(json.dumps(content))
    return FileMasks(tmp_path / "m.json")


def test_it_is_a_segmenter(segmenter):
    assert isinstance(segmenter, Segmenter)


def test_it_finds_what_is_there(segmenter):
    scene = segmenter.segment(frame())
    assert len(scene.objects) == 3
    for mask in (given().visible_ids == k for k in (1, 2, 3)):
        best = max(
            (mask & (scene.visible_ids == k)).sum() / (mask | (scene.visible_ids == k)).sum()
            for k in scene.ids
        )
        assert best > 0.85


def test_the_scene_is_of_the_frame_it_was_given(segmenter):
    observation = frame()
    scene = segmenter.segment(observation)
    assert scene.observation is observation and scene.visible_ids.shape == observation.shape
    assert set(np.unique(scene.visible_ids)) - {0} <= set(scene.ids)


def test_amodal_masks_hold_the_visible_ones(segmenter):
    scene = segmenter.segment(frame())
    for o in scene.objects:
        if o.amodal is not None:
            assert not ((scene.visible_ids == o.id) & ~o.amodal.to_mask(SHAPE)).any()


def test_the_same_frame_gives_the_same_scene(segmenter):
    assert segmenter.segment(frame()) == segmenter.segment(frame())


@pytest.mark.parametrize("shape", [(240, 320), (32, 32), (1080, 1920)], ids=str)
@pytest.mark.parametrize("with_depth", [True, False])
def test_any_frame_gives_a_scene_or_a_plain_error(segmenter, shape, with_depth):
    observation = frame(shape, with_depth)
    of_another_size = isinstance(segmenter, GivenMasks | FileMasks) and shape != SHAPE
    if of_another_size or (isinstance(segmenter, DepthSegmenter) and not with_depth):
        with pytest.raises(CporError, match=r"depth|mask|visible|amodal"):
            segmenter.segment(observation)
        return
    scene = segmenter.segment(observation)
    assert scene.visible_ids.shape == shape and 1 <= len(scene.objects) <= 3


@pytest.mark.parametrize("value", [0, 255])
def test_a_photograph_without_content_is_no_reason_to_fail(segmenter, value):
    rgb = np.full((*SHAPE, 3), value, np.uint8)
    scene = segmenter.segment(Observation(rgb, np.full(SHAPE, 0.8, np.float32)))
    assert isinstance(scene, Scene)


def test_ours_are_registered_like_anybody_elses(tmp_path):
    assert {"depth", "embedded", "file", "given"} <= set(list_segmenters())
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
"""


def test_another_package_brings_its_own(tmp_path, monkeypatch):
    (tmp_path / "blindfold.py").write_text(PLUGIN)
    info = tmp_path / "blindfold-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: blindfold\nVersion: 1.0\n")
    points = ["blind = blindfold:Blind", "useless = blindfold:useless", "gone = blindfold:Gone"]
    (info / "entry_points.txt").write_text("\n".join([f"[{GROUP}]", *points]) + "\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert make_segmenter("blind", note="x").segment(frame()).objects == ()
    for name, options, message in [
        ("blind", {"eyes": 2}, "takes"),
        ("useless", {}, "no method `segment`"),
        ("gone", {}, "cannot be loaded"),
        ("nobody", {}, "unknown segmenter 'nobody'; installed are:.*blind"),
    ]:
        with pytest.raises(CporError, match=message):
            make_segmenter(name, **options)
