import hashlib
import json
import pickle
import sys
import time
from types import SimpleNamespace

import numpy as np
import onnxruntime
import pytest
from support.networks import PALETTE, paint, write_colour_segmenter

from cpor.errors import InputFileError, InvalidSettingError, MissingExtraError
from cpor.perception import network_file
from cpor.perception.mask_selection import (
    Detections,
    Letterbox,
    MaskSettings,
    add_faint,
    drop_crumbs,
    select_objects,
)
from cpor.perception.onnx_segmenter import OnnxSegmenter
from cpor.scene import Observation, PixelPoint

BOXES = {"red": (0.1, 0.1, 0.5, 0.4), "green": (0.2, 0.55, 0.6, 0.9), "blue": (0.65, 0.2, 0.95, 0.7)}


@pytest.fixture(scope="module")
def segmenter(tmp_path_factory):
    return OnnxSegmenter(write_colour_segmenter(tmp_path_factory.mktemp("weights") / "segmenter.onnx"))


def iou(a, b):
    return (a & b).sum() / (a | b).sum()


def expected(shape, box):
    mask = np.zeros(shape, dtype=bool)
    rows, cols = (slice(round(a * n), round(b * n)) for a, b, n in zip(box[:2], box[2:], shape, strict=True))
    mask[rows, cols] = True
    return mask


@pytest.mark.parametrize(
    "shape", [(480, 640), (2160, 3840), (3840, 2160), (120, 160), (100, 300), (32, 32), (481, 333)], ids=str
)
@pytest.mark.parametrize("with_depth", [True, False])
def test_frames_of_any_size_give_masks_of_that_size(segmenter, shape, with_depth):
    depth = np.full(shape, 0.8, np.float32) if with_depth else None
    scene = segmenter.segment(Observation(paint(shape, **BOXES), depth))
    assert scene.visible_ids.shape == shape and len(scene.objects) == 3
    for o, box in zip(scene.objects, BOXES.values(), strict=True):
        shown, true = scene.visible_ids == o.id, expected(shape, box)
        # 4 input pixels are one cell, so the border is right to about two of them.
        assert iou(shown, true) > (0.9 if min(shape) > 100 else 0.75)
        cell = 4.0 * max(shape[0] / 120, shape[1] / 160)
        off = np.subtract(*(np.argwhere(mask).mean(axis=0) for mask in (shown, true)))
        assert abs(off).max() < 0.25 * cell, "masks come back where they were"
        assert not (shown & ~o.amodal.to_mask(shape)).any(), "the amodal mask holds the visible one"
        assert o.amodal.to_mask(shape).sum() > shown.sum(), "this network sees more than shows"


def test_ids_follow_the_scores_and_flags_come_through(segmenter):
    scene = segmenter.segment(Observation(paint(**BOXES)))
    assert scene.ids == (1, 2, 3)
    assert [round(o.score, 2) for o in scene.objects] == [0.95, 0.94, 0.93]
    assert [o.occluded for o in scene.objects] == [True, False, True]


@pytest.mark.parametrize("value", [0, 255])
@pytest.mark.parametrize("shape", [(480, 640), (32, 32), (1, 1)], ids=str)
def test_an_empty_black_or_blown_out_frame_gives_an_empty_scene(segmenter, value, shape):
    scene = segmenter.segment(Observation(np.full((*shape, 3), value, np.uint8)))
    assert scene.objects == () and scene.visible_ids.shape == shape and not scene.visible_ids.any()


def test_depth_without_any_reading_is_like_no_depth(segmenter):
    rgb = paint(**BOXES)
    nothing = segmenter.segment(Observation(rgb, np.full(rgb.shape[:2], np.nan, np.float32)))
    none = segmenter.segment(Observation(rgb))
    assert nothing.objects == none.objects and np.array_equal(nothing.visible_ids, none.visible_ids)


def test_duplicates_go(tmp_path):
    doubled = OnnxSegmenter(write_colour_segmenter(tmp_path / "twice.onnx", repeat=3))
    assert len(doubled.segment(Observation(paint(**BOXES))).objects) == 3


def test_crumbs_go_but_an_object_under_another_keeps_both_parts(segmenter):
    rgb = paint(red=(0.3, 0.1, 0.5, 0.9), blue=(0.1, 0.4, 0.9, 0.55))
    rgb[10:16, 10:16] = PALETTE["red"]
    scene = segmenter.segment(Observation(rgb))
    red = next(o.id for o in scene.objects if scene.visible_ids[190, 100] == o.id)
    assert scene.visible_ids[190, 500] == red, "the part beyond the blue bar"
    assert scene.visible_ids[12, 12] == 0, "the crumb"


def test_thresholds_of_the_file_hold_unless_others_are_given(tmp_path):
    notes = {"height": 120, "width": 160, "version": "2", "score_threshold": 0.945, "mask_threshold": 0.5}
    path = write_colour_segmenter(tmp_path / "s.onnx", notes=notes)
    frame = Observation(paint(**BOXES), np.full((480, 640), 0.8, np.float32))
    assert len(OnnxSegmenter(path).segment(frame).objects) == 1
    assert len(OnnxSegmenter(path, score_threshold=0.2).segment(frame).objects) == 3
    assert OnnxSegmenter(path).notes.version == "2"
    with pytest.raises(InvalidSettingError, match=r"score_threshold is 1\.5"):
        OnnxSegmenter(path, score_threshold=1.5)


def test_nothing_is_read_before_it_is_needed(tmp_path):
    missing = OnnxSegmenter(tmp_path / "absent.onnx")
    with pytest.raises(InputFileError, match=r"absent\.onnx cannot be read"):
        missing.segment(Observation(paint(**BOXES)))


def test_a_used_segmenter_travels_to_another_process(segmenter):
    frame = Observation(paint(**BOXES))
    here = segmenter.segment(frame)
    assert pickle.loads(pickle.dumps(segmenter)).segment(frame) == here


def write_checksums(path):
    sums = {path.name: hashlib.sha256(path.read_bytes()).hexdigest()}
    (path.parent / "checksums.json").write_text(json.dumps(sums))


def test_damaged_weights_are_named(tmp_path):
    path = write_colour_segmenter(tmp_path / "segmenter.onnx")
    write_checksums(path)
    assert len(OnnxSegmenter(path).segment(Observation(paint(**BOXES))).objects) == 3
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(InputFileError, match=r"segmenter\.onnx is damaged.*checksums\.json"):
        OnnxSegmenter(path).segment(Observation(paint(**BOXES)))


def test_a_packaged_network_must_be_listed(tmp_path, monkeypatch):
    path = write_colour_segmenter(tmp_path / "segmenter.onnx")
    monkeypatch.setattr(network_file, "PACKAGED", tmp_path)
    with pytest.raises(InputFileError, match=r"does not list segmenter\.onnx"):
        network_file.read_network(path)
    write_checksums(path)
    assert network_file.read_network(path) == path.read_bytes()


@pytest.mark.parametrize("content", [b"", b"no network at all", b"\x08\x09" * 40])
def test_a_file_that_is_no_network_is_named(tmp_path, content):
    path = tmp_path / "other.onnx"
    path.write_bytes(content)
    with pytest.raises(InputFileError, match=r"other\.onnx"):
        OnnxSegmenter(path).segment(Observation(paint(**BOXES)))


def test_a_network_of_another_kind_is_named(tmp_path):
    from support.networks import write_area_scorer

    with pytest.raises(InputFileError, match="has no input 'rgb'; it has: crops"):
        OnnxSegmenter(write_area_scorer(tmp_path / "scorer.onnx")).segment(Observation(paint(**BOXES)))
    silent = write_colour_segmenter(tmp_path / "silent.onnx", notes={"version": "1"})
    with pytest.raises(InputFileError, match=r"silent\.onnx does not say the size"):
        OnnxSegmenter(silent).segment(Observation(paint(**BOXES)))


@pytest.mark.parametrize(
    ("device", "installed", "asked", "warns"),
    [
        ("cpu", ["CUDAExecutionProvider"], [], False),
        ("cuda", ["CUDAExecutionProvider"], ["CUDAExecutionProvider"], True),  # which then does not load
        ("cuda", [], [], True),
        ("auto", [], [], False),
        ("auto", ["TensorrtExecutionProvider", "CUDAExecutionProvider"], ["CUDAExecutionProvider"], False),
        ("openvino", ["OpenVINOExecutionProvider"], ["OpenVINOExecutionProvider"], True),
    ],
)
def test_a_device_that_cannot_be_used_gives_way_to_the_cpu(
    tmp_path, monkeypatch, caplog, device, installed, asked, warns
):
    opened, session = [], onnxruntime.InferenceSession

    def open_here(content, options, providers):
        opened.append(providers)
        return session(content, options, providers=["CPUExecutionProvider"])

    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: [*installed, "CPUExecutionProvider"])
    monkeypatch.setattr(onnxruntime, "InferenceSession", open_here)
    path = write_colour_segmenter(tmp_path / "s.onnx")
    segmenter = OnnxSegmenter(path, device=device)
    assert len(segmenter.segment(Observation(paint(**BOXES))).objects) == 3
    assert opened == [[*asked, "CPUExecutionProvider"]]
    assert (f"cannot use {device} here; s.onnx runs on the CPU" in caplog.text) == warns
    assert segmenter.fingerprint == OnnxSegmenter(path).fingerprint, "the same masks"


def test_masks_of_another_device_have_another_fingerprint(tmp_path):
    path = write_colour_segmenter(tmp_path / "s.onnx")
    other = OnnxSegmenter(path, device="cuda")
    here = other._session
    other.__dict__["_session"] = SimpleNamespace(
        get_providers=lambda: ["CUDAExecutionProvider"], get_modelmeta=here.get_modelmeta
    )
    assert other.fingerprint != OnnxSegmenter(path).fingerprint
    with pytest.raises(InvalidSettingError, match="cpu, cuda"):
        OnnxSegmenter(path, device="gpu")


def test_a_missing_extra_comes_with_its_remedy(tmp_path, monkeypatch):
    path = write_colour_segmenter(tmp_path / "segmenter.onnx")
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'cpor-grasp\[perception\]'"):
        OnnxSegmenter(path).segment(Observation(paint(**BOXES)))


def disks(rng, n, shape=(120, 160)):
    """Overlapping soft disks as a network gives them, the later ones in front."""
    y, x = np.indices(shape)
    visible = np.zeros((n, *shape), np.float32)
    amodal = np.zeros_like(visible)
    for k in range(n):
        r, c = rng.uniform(0.1, 0.9, 2) * shape
        soft = 1.0 / (1.0 + np.exp((np.hypot(y - r, x - c) - rng.uniform(8, 18)) * 1.5))
        amodal[k] = visible[k] = soft
        visible[:k] *= 1.0 - soft
    scores = rng.uniform(0.6, 1.0, n).astype(np.float32)
    return Detections(scores, visible, amodal, rng.random(n).astype(np.float32))


def test_every_pixel_goes_to_the_likeliest_detection(rng):
    found = disks(rng, 12)
    frame = Letterbox.fit((480, 640), (480, 640))
    observation = Observation(np.zeros((480, 640, 3), np.uint8))
    scene = select_objects(found, observation, frame, MaskSettings(least_area=0.0, least_fragment=0.0))
    assert 6 <= len(scene.objects) <= 12
    score = {o.id: o.score for o in scene.objects}
    place = {k: int(np.flatnonzero(np.isclose(found.scores, s))[0]) for k, s in score.items()}
    for cell in rng.integers(0, (120, 160), (300, 2)):
        # Where a cell and its neighbours agree, so must the pixels of it.
        r, c = np.clip(cell, 1, (118, 158))
        near = found.visible[list(place.values()), r - 1 : r + 2, c - 1 : c + 2]
        winners = np.where(near.max(axis=0) >= 0.5, near.argmax(axis=0), -1)
        if (winners == winners[0, 0]).all():
            want = 0 if winners[0, 0] < 0 else list(place)[winners[0, 0]]
            assert (scene.visible_ids[4 * r : 4 * r + 4, 4 * c : 4 * c + 4] == want).all()


def test_a_detection_that_keeps_too_little_gives_its_pixels_back():
    visible = np.zeros((3, 30, 40), np.float32)
    visible[0, 5:25, 5:20] = 0.9
    visible[1, 5:25, 15:35] = 0.8
    visible[2, 5:25, 10:30] = 0.7  # the others have three quarters of it
    found = Detections(np.array([0.9, 0.8, 0.7], np.float32), visible, visible, np.zeros(3, np.float32))
    observation = Observation(np.zeros((30, 40, 3), np.uint8))
    frame = Letterbox.fit((30, 40), (30, 40))
    scene = select_objects(found, observation, frame, MaskSettings(same_iou=0.9, least_kept=0.3))
    assert scene.ids == (1, 2) and (scene.visible_ids == 1).sum() == 300


def test_scores_that_are_no_numbers_drop_out():
    visible = np.full((2, 30, 40), 0.9, np.float32)
    found = Detections(np.array([np.nan, 0.8], np.float32), visible, visible, np.zeros(2, np.float32))
    observation = Observation(np.zeros((30, 40, 3), np.uint8))
    scene = select_objects(found, observation, Letterbox.fit((30, 40), (30, 40)), MaskSettings())
    assert [round(o.score, 3) for o in scene.objects] == [0.8]


@pytest.mark.parametrize("k", [0, 1])
def test_a_network_may_find_next_to_nothing(k):
    masks = np.full((k, 30, 40), 0.9, np.float32)
    found = Detections(np.full(k, 0.3, np.float32), masks, masks, np.zeros(k, np.float32))
    frame = Letterbox.fit((30, 40), (30, 40))
    scene = select_objects(found, Observation(np.zeros((30, 40, 3), np.uint8)), frame, MaskSettings())
    assert scene.ids == () and not scene.visible_ids.any()
    pointed = add_faint(scene, found, frame, MaskSettings(), PixelPoint(20.0, 15.0))
    assert pointed is None if k == 0 else pointed.ids == (1,)


def test_crumbs_are_told_by_size_and_share():
    mask = np.zeros((20, 20), dtype=bool)
    mask[:10, :10] = True
    mask[15:19, 15:19] = True
    mask[0, 19] = True
    assert drop_crumbs(mask, 4, 0.1).sum() == 116
    assert drop_crumbs(mask, 4, 0.2).sum() == 100
    assert drop_crumbs(mask, 0, 0.0).sum() == 117
    assert not drop_crumbs(mask, 200, 0.0).any()


def test_post_processing_is_quick(rng, evidence):
    found = disks(rng, 48)
    frame = Letterbox.fit((480, 640), (480, 640))
    observation = Observation(np.zeros((480, 640, 3), np.uint8))
    settings = MaskSettings(most_objects=20)
    spent = []
    for _ in range(5):
        start = time.process_time()
        scene = select_objects(found, observation, frame, settings)
        spent.append(1e3 * (time.process_time() - start))
    assert len(scene.objects) >= 15
    note = f"{sorted(spent)[2]:.1f} ms of processor time, {len(scene.objects)} objects of 48 detections"
    evidence("fast", "masks from network output at 640x480", "< 40 ms", note)
