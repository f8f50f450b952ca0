import json
from dataclasses import replace

import numpy as np
import pytest

from cpor.errors import InvalidSceneError, SceneFileError
from cpor.perception.mask_files import FileMasks, GivenMasks
from cpor.perception.rle import counts_from_text, decode_mask
from cpor.scene import DetectedObject, Observation, Scene

SHAPE = (60, 80)
WRITTEN_BY_PYCOCOTOOLS = "a9i0S10000000000000000000000000000000000000000000000000000000000000000000kZ2"
FRAME = Observation(np.zeros((*SHAPE, 3), np.uint8))


def rectangle(top, left, bottom, right):
    mask = np.zeros(SHAPE, dtype=bool)
    mask[top:bottom, left:right] = True
    return mask


def runs(mask):
    """Run lengths down the columns, beginning with the zeros."""
    flat = mask.T.reshape(-1)
    ends = np.flatnonzero(np.diff(flat.astype(np.int8))) + 1
    counts = np.diff([0, *ends, flat.size]).tolist()
    return [0, *counts] if flat[0] else counts


def as_text(counts):
    """COCO's text of run lengths, written from its description: differences, five bits at a time."""
    out = []
    for k, count in enumerate(counts):
        value = count - counts[k - 2] if k > 2 else count
        while True:
            low, value = value & 0x1F, value >> 5
            done = value == (-1 if low & 0x10 else 0)
            out.append(chr(low + 48 + (0 if done else 0x20)))
            if done:
                break
    return "".join(out)


def rle(mask, text=False):
    counts = runs(mask)
    return {"size": list(mask.shape), "counts": as_text(counts) if text else counts}


A, B = rectangle(5, 5, 30, 40), rectangle(20, 30, 50, 70)


def write(path, content):
    path.write_text(json.dumps(content))
    return FileMasks(path)


@pytest.mark.parametrize("text", [False, True])
def test_run_lengths_come_back_as_the_mask(rng, text):
    for density in (0.0, 0.02, 0.5, 0.98, 1.0):
        mask = rng.random(SHAPE) < density
        assert np.array_equal(decode_mask(rle(mask, text), SHAPE, "here"), mask)


def test_text_as_pycocotools_writes_it():
    # Written by pycocotools 2.0.11 for a 60 x 80 image with rows 5 to 30 and columns 5 to 40 set.
    assert counts_from_text(WRITTEN_BY_PYCOCOTOOLS, "here") == runs(A)
    assert as_text(runs(A)) == WRITTEN_BY_PYCOCOTOOLS


def test_polygons_fill_the_pixels_whose_centre_they_hold():
    square = decode_mask([[5, 5, 40, 5, 40, 30, 5, 30]], SHAPE, "here")
    assert np.array_equal(square, A)
    triangle = decode_mask([[0.0, 0.0, 10.0, 0.0, 0.0, 10.0]], SHAPE, "here")
    y, x = np.indices(SHAPE) + 0.5
    assert np.array_equal(triangle, (x + y < 10.0))
    two = decode_mask([[5, 5, 40, 5, 40, 30, 5, 30], [30, 20, 70, 20, 70, 50, 30, 50]], SHAPE, "here")
    assert np.array_equal(two, A | B)
    outside = decode_mask([[-10, -10, 200, -10, 200, 200, -10, 200]], SHAPE, "here")
    assert outside.all()


def test_results_with_scores_exclude_each_other_by_score(tmp_path):
    entries = [{"segmentation": rle(A), "score": 0.6}, {"segmentation": rle(B, text=True), "score": 0.9}]
    scene = write(tmp_path / "results.json", entries).segment(FRAME)
    assert scene.ids == (1, 2) and [o.score for o in scene.objects] == [0.6, 0.9]
    assert np.array_equal(scene.visible_ids == 2, B) and np.array_equal(scene.visible_ids == 1, A & ~B)
    assert all(o.amodal is None for o in scene.objects), "what is hidden is not known"


def test_without_scores_the_smaller_lies_in_front(tmp_path):
    small = rectangle(10, 10, 15, 15)
    entries = [{"segmentation": rle(small)}, {"segmentation": rle(A)}]
    scene = write(tmp_path / "sam.json", entries).segment(FRAME)
    assert (scene.visible_ids == 1).sum() == small.sum()


def test_visible_and_amodal_masks_as_uoais_has_them(tmp_path):
    content = {
        "images": [{"id": 4}],
        "annotations": [
            {"id": 7, "image_id": 4, "category_id": 2, "visible_mask": rle(A & ~B), "segmentation": rle(A),
             "occluded_rate": 0.2},
            {"id": 9, "image_id": 4, "category_id": 3, "visible_mask": rle(B), "segmentation": rle(B),
             "occluded_rate": 0.0},
        ],
        "categories": [{"id": 2, "name": "mug"}, {"id": 3, "name": "box"}],
    }  # fmt: skip
    scene = write(tmp_path / "uoais.json", content).segment(FRAME)
    assert scene.ids == (7, 9) and [o.name for o in scene.objects] == ["mug", "box"]
    assert np.array_equal(scene.objects[0].amodal.to_mask(SHAPE), A)
    assert [o.occluded for o in scene.objects] == [True, False]


def test_masks_of_several_images_are_told_apart(tmp_path):
    entries = [{"image_id": 1, "segmentation": rle(A)}, {"image_id": 2, "segmentation": rle(B)}]
    file = write(tmp_path / "many.json", entries)
    with pytest.raises(SceneFileError, match="several images; choose an image_id: 1, 2"):
        file.segment(FRAME)
    assert np.array_equal(replace(file, image_id=2).segment(FRAME).visible_ids > 0, B)
    with pytest.raises(SceneFileError, match="no masks of image 3"):
        replace(file, image_id=3).segment(FRAME)


def test_rows_of_true_and_false_as_sam_gives_them(tmp_path):
    entries = [{"segmentation": A.tolist(), "predicted_iou": 1.02}]
    scene = write(tmp_path / "sam.json", entries).segment(FRAME)
    assert np.array_equal(scene.visible_ids > 0, A) and scene.objects[0].score == 1.0


@pytest.mark.parametrize("soft", [np.float32, np.uint8, bool])
def test_stacks_of_masks_as_uoais_has_them(tmp_path, soft):
    masks = {"pred_visible_masks": np.stack([A & ~B, B]), "pred_masks": np.stack([A, B])[:, None]}
    arrays = {
        key: (value * 0.9 if soft is np.float32 else value).astype(soft) for key, value in masks.items()
    }
    np.savez(tmp_path / "m.npz", **arrays, scores=np.array([0.5, 0.7]), pred_occlusions=np.array([1, 0]))
    scene = FileMasks(tmp_path / "m.npz").segment(FRAME)
    assert np.array_equal(scene.visible_ids == 1, A & ~B)
    assert np.array_equal(scene.objects[0].amodal.to_mask(SHAPE), A)
    assert [o.occluded for o in scene.objects] == [True, False]


def test_a_plain_stack_is_what_shows(tmp_path):
    np.savez(tmp_path / "m.npz", masks=np.stack([A, B]), ids=np.array([300, 4]))
    scene = FileMasks(tmp_path / "m.npz").segment(FRAME)
    assert scene.ids == (4, 300) and scene.objects[0].amodal is None


def test_no_masks_are_an_empty_scene(tmp_path):
    assert write(tmp_path / "none.json", []).segment(FRAME).objects == ()
    np.savez(tmp_path / "none.npz", masks=np.zeros((0, *SHAPE), bool))
    assert FileMasks(tmp_path / "none.npz").segment(FRAME).objects == ()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "not valid JSON"),
        ({"masks": []}, "holds no list of masks"),
        ([{"segmentation": {"size": [10, 10], "counts": [100]}}], r"size \[10, 10\], the image \[60, 80\]"),
        ([{"segmentation": {"size": [60, 80], "counts": [100, 3]}}], "do not add up"),
        ([{"segmentation": {"size": [60, 80], "counts": [5000, -200]}}], "do not add up"),
        ([{"segmentation": {"size": [60, 80], "counts": "\x7f\x7f"}}], "no character of COCO"),
        ([{"segmentation": {"size": [60, 80], "counts": "o"}}], "in the middle of a number"),
        ([{"segmentation": [[1, 2, 3]]}], "polygon"),
        ([{"segmentation": [[1, 2, 3, 4]]}], "at least three"),
        ([{"segmentation": [["a", "b"]]}], "polygon must be numbers"),
        ([{"segmentation": [[True, False]]}], "1 rows, 2 columns"),
        ([{"score": 0.4}], "neither run lengths"),
        ([{"segmentation": {"size": [60, 80], "counts": [4800]}, "score": "high"}], "'high' is no number"),
    ],
)  # fmt: skip
def test_a_damaged_file_says_where_and_why(tmp_path, content, message):
    path = tmp_path / "bad.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    with pytest.raises(SceneFileError, match=message) as raised:
        FileMasks(path).segment(FRAME)
    assert "bad.json" in str(raised.value)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"other": np.zeros(3)}, "no visible masks.*has: other"),
        ({"masks": np.zeros((2, 5, 5), bool)}, r"must be \(n, 60, 80\)"),
        ({"masks": np.zeros((2, *SHAPE), bool), "scores": np.zeros(3)}, "3 entries for 2 masks"),
        ({"visible": np.zeros((2, *SHAPE), bool), "amodal": np.zeros((1, *SHAPE), bool)}, "2 visible and 1"),
        ({"masks": np.array([None])}, "pickled"),
    ],
)
def test_a_damaged_stack_says_why(tmp_path, arrays, message):
    np.savez(tmp_path / "bad.npz", **arrays)
    with pytest.raises(SceneFileError, match=message):
        FileMasks(tmp_path / "bad.npz").segment(FRAME)


def test_files_that_are_not_there_or_of_another_kind(tmp_path):
    for name in ("absent.json", "absent.npz"):
        with pytest.raises(SceneFileError, match="cannot be read"):
            FileMasks(tmp_path / name).segment(FRAME)
    (tmp_path / "broken.npz").write_bytes(b"PK no")
    with pytest.raises(SceneFileError, match="damaged"):
        FileMasks(tmp_path / "broken.npz").segment(FRAME)
    with pytest.raises(SceneFileError, match=r"no \.json, \.npz, \.png or folder"):
        FileMasks(tmp_path / "masks.pkl").segment(FRAME)


def test_given_masks_come_with_the_new_frame():
    scene = Scene(FRAME, (DetectedObject(1),), A.astype(np.int32))
    brighter = Observation(np.full((*SHAPE, 3), 200, np.uint8))
    assert GivenMasks(scene).segment(brighter).observation is brighter
    with pytest.raises(InvalidSceneError, match="given masks are"):
        GivenMasks(scene).segment(Observation(np.zeros((5, 5, 3), np.uint8)))
    with pytest.raises(InvalidSceneError, match="without masks"):
        GivenMasks(Scene(FRAME)).segment(FRAME)
