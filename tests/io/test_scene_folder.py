import dataclasses
import io
import json
import os
import struct
import zipfile
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from support.data import DATA

from cpor.errors import SceneFileError
from cpor.io.scene_folder import read_scene_folder, write_scene_folder
from cpor.scene import (
    BlockedBy,
    Camera,
    DetectedObject,
    Intrinsics,
    MaskCrop,
    Observation,
    PixelPoint,
    Scene,
    SemanticScores,
    TrueRelations,
)

SAMPLES = sorted(p.parent for kind in ("metagraspnet", "real_rgbd") for p in (DATA / kind).glob("*/rgb.png"))
needs_samples = pytest.mark.skipif(
    not SAMPLES, reason=f"no sample scenes in {DATA}; set CPOR_DATA to the data folder"
)


WORKSPACE = (PixelPoint(0, 0), PixelPoint(15.5, 0), PixelPoint(8, 11))


def make_scene():
    """A scene with everything a folder can hold."""
    rng = np.random.default_rng(0)
    shape = (12, 16)
    ids = np.zeros(shape, dtype=np.int32)
    ids[2:6, 2:9] = 1
    ids[4:10, 6:12] = 300
    amodal = np.zeros(shape, dtype=bool)
    amodal[2:6, 2:9] = True
    depth = (rng.integers(500, 900, shape) * 0.001).astype(np.float32)
    depth[0, :3] = np.nan
    pose = np.eye(4)
    pose[:3, 3] = 0.1, 0.2, 1.0
    relations = TrueRelations(frozenset({1, 300}), frozenset({BlockedBy(1, 300)}))
    return Scene(
        Observation(
            rng.integers(0, 256, (*shape, 3)).astype(np.uint8),
            depth,
            Camera(Intrinsics(600.5, 601, 8, 6), pose, workspace=WORKSPACE),
        ),
        (
            DetectedObject(1, MaskCrop.from_mask(amodal), "Tasse mit Ärger", 0.5),
            DetectedObject(7),
            DetectedObject(300, MaskCrop.from_mask(ids == 300)),
        ),
        ids,
        true_occlusion=relations,
        true_sweep=TrueRelations(frozenset({1}), frozenset()),
        true_lift=relations,
        request="take the cup",
        points={300: PixelPoint(7.5, 5), 1: PixelPoint(3, 3)},
        semantic_scores=SemanticScores({BlockedBy(300, 1): None, BlockedBy(1, 300): 0.25}, "test-scorer"),
    )


@pytest.fixture
def folder(tmp_path):
    write_scene_folder(make_scene(), tmp_path / "scene")
    return tmp_path / "scene"


def contents(folder):
    return {p.name: p.read_bytes() for p in folder.iterdir()}


def save_png(path, pixels):
    Image.fromarray(pixels).save(path)


def test_a_round_trip_gives_the_same_scene_and_the_same_bytes(folder, tmp_path):
    scene = read_scene_folder(folder)
    assert scene == make_scene()
    write_scene_folder(scene, tmp_path / "again")
    assert contents(tmp_path / "again") == contents(folder)


def test_what_is_absent_stays_absent(tmp_path):
    scene = Scene(Observation(np.zeros((4, 5, 3), dtype=np.uint8)))
    write_scene_folder(scene, tmp_path / "bare")
    assert sorted(contents(tmp_path / "bare")) == ["camera.json", "rgb.png"]
    assert read_scene_folder(tmp_path / "bare") == scene
    (tmp_path / "bare" / "camera.json").unlink()
    assert read_scene_folder(tmp_path / "bare") == scene


@needs_samples
@pytest.mark.parametrize("sample", SAMPLES, ids=lambda p: p.name)
def test_samples_load(sample, tmp_path):
    scene = read_scene_folder(sample)
    assert scene.observation.rgb.any()
    if scene.observation.depth is not None:
        assert 0.3 < np.nanmedian(scene.observation.depth) < 2.0
    if (sample / "relations.json").exists():
        listed = json.loads((sample / "relations.json").read_text())
        assert scene.ids == tuple(listed["objects"])
        assert len(scene.true_occlusion.pairs) == len(listed["relations"])
    if sample.name == "freegrasp_hard1":
        assert scene.request == "take the red car"
        assert scene.points[1] == PixelPoint(574, 316)
    write_scene_folder(scene, tmp_path / "copy")
    assert read_scene_folder(tmp_path / "copy") == scene


def test_depth_is_in_metres_and_gaps_are_no_reading(folder):
    steps = np.full((12, 16), 700, dtype=np.uint16)
    steps[0, :5] = 0, 49, 50, 20_001, 65535
    save_png(folder / "depth.png", steps)
    depth = read_scene_folder(folder).observation.depth
    assert depth.dtype == np.float32
    assert depth[5, 5] == np.float32(0.7)
    assert np.isnan(depth[0, :5]).tolist() == [True, True, False, True, True]


def test_an_unmasked_object_is_listed(folder):
    (folder / "objects.json").unlink()
    (folder / "points.json").write_text('{"9": [1, 2]}')
    assert read_scene_folder(folder).ids == (1, 9, 300)


def test_missing_scores_stay_missing(folder):
    scores = read_scene_folder(folder).semantic_scores.scores
    assert scores[BlockedBy(300, 1)] is None
    assert scores[BlockedBy(1, 300)] == 0.25


def test_masks_saved_by_numpy_load(folder):
    masks = np.zeros((2, 12, 16), dtype=bool)
    masks[0, 2:6, 2:9] = masks[1, 4:10, 6:12] = True
    np.savez_compressed(folder / "amodal.npz", ids=np.array([1, 300], dtype=np.uint16), masks=masks)
    assert read_scene_folder(folder) == make_scene()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("camera.json", "{", "not JSON"),
        ("camera.json", "[1]", "camera.json: content"),
        ("camera.json", '{"depth_unit_m": NaN}', "NaN is not a JSON number"),
        ("camera.json", '{"depth_unit_m": 0}', "depth_unit_m: Input should be greater than 0"),
        ("camera.json", '{"depth_unit_m": "1 mm"}', "depth_unit_m: Input should be a valid number"),
        ("camera.json", "{}", "depth.png has no unit; give depth_unit_m"),
        (
            "camera.json",
            '{"depth_unit_m": 0.001, "width": 640, "height": 480}',
            "640 x 480 pixels, rgb.png 16 x",
        ),
        ("camera.json", '{"depth_unit_m": 0.001, "fx": 600}', "only some of fx, fy, cx, cy"),
        ("camera.json", '{"depth_unit_m": 0.001, "workspace": [[0, 0], [9, 0]]}', "workspace"),
        ("camera.json", '{"depth_unit_m": 0.001, "workspace": [[0, 0], [9, 0], [9]]}', "workspace"),
        (
            "camera.json",
            '{"depth_unit_m": 0.001, "workspace": [[0, 0], [9, 0], [0, 0]]}',
            "3 different corners",
        ),
        ("camera.json", '{"depth_unit_m": 0.001, "fx": 0, "fy": 1, "cx": 1, "cy": 1}', "fx and fy above 0"),
        ("camera.json", '{"depth_unit_m": 0.001, "T_world_camera": [[1, 0], [0, 1]]}', "T_world_camera"),
        ("camera.json", '{"depth_unit_m": 0.001, "T_world_camera": [[1, 0], [0]]}', "T_world_camera"),
        ("relations.json", '{"objects": [1, 300]}', "relations: Field required"),
        (
            "relations.json",
            '{"objects": [1, "mug"], "relations": []}',
            "objects.1: Input should be a valid int",
        ),
        (
            "relations.json",
            '{"objects": [1, 300], "relations": [{"blocked": 1, "blocker": 99}]}',
            "unknown object 99; known here: 1, 300",
        ),
        (
            "relations_lift.json",
            '{"objects": [1, 300], "relations": [{"blocked": 1, "blocker": 1}]}',
            "relations_lift.json: object 1 cannot obstruct itself",
        ),
        (
            "scores.json",
            '{"scorer": "x", "relations": [{"blocked": 1, "blocker": 99, "score": 0.5}]}',
            "scores.json: unknown object 99",
        ),
        (
            "scores.json",
            '{"scorer": "x", "relations": [{"blocked": 1, "blocker": 300, "score": 1.5}]}',
            "relations.0.score: Input should be less than or equal to 1, got 1.5",
        ),
        (
            "scores.json",
            '{"scorer": "x", "relations": [{"blocked": 1, "blocker": 300, "score": NaN}]}',
            "write null where there was no answer",
        ),
        (
            "scores.json",
            '{"relations": [{"blocked": 1, "blocker": 300}]}',
            "relations.0.score: Field required",
        ),
        (
            "scores.json",
            '{"relations": [{"blocked": 1, "blocker": 300, "score": 0.1}, '
            '{"blocked": 1, "blocker": 300, "score": null}]}',
            "has two scores, 0.1 and None",
        ),
        ("scores.json", "[" * 100_000, "nested too deeply"),
        ("points.json", '{"1": [3, 3], "1": [4, 4]}', '"1" is given twice'),
        ("points.json", '{"1": [30, 3]}', "object 1 is at x 30.0, y 3.0, outside"),
        ("points.json", '{"mug": [3, 3]}', "points.json: mug"),
        ("objects.json", '{"objects": [{"id": 0}]}', "objects.0.id"),
        ("request.txt", b"\xff\xfe\x00", "not UTF-8"),
        ("rgb.png", b"", "not a PNG"),
        ("rgb.png", b"GIF89a" + bytes(60), "not a PNG"),
        ("amodal.npz", b"PK not a zip", "damaged"),
    ],
)
def test_what_is_wrong_is_said(folder, name, content, message):
    (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(SceneFileError) as error:
        read_scene_folder(folder)
    assert message in str(error.value)
    assert name in str(error.value)


@pytest.mark.parametrize(
    ("name", "pixels", "message"),
    [
        ("depth.png", np.ones((12, 16), dtype=np.uint8), "depth needs 16 bits a pixel"),
        ("depth.png", np.ones((12, 17), dtype=np.uint16), "17 x 12 pixels, rgb.png 16 x 12"),
        ("instances.png", np.ones((12, 16, 3), dtype=np.uint8), "save ids as 8- or 16-bit grey"),
        ("instances.png", np.ones((11, 16), dtype=np.uint8), "16 x 11 pixels, rgb.png 16 x 12"),
        ("rgb.png", np.ones((12, 16), dtype=np.uint16), "save it with 8 bits per channel"),
    ],
)
def test_images_of_wrong_kind_or_size(folder, name, pixels, message):
    save_png(folder / name, pixels)
    with pytest.raises(SceneFileError, match=message):
        read_scene_folder(folder)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"ids": [1], "masks": np.ones((1, 12, 15), dtype=bool)}, "they must be bool"),
        ({"ids": [1], "masks": np.ones((1, 12, 16), dtype=np.uint8)}, "masks are uint8"),
        ({"ids": [1, 300], "masks": np.ones((1, 12, 16), dtype=bool)}, "they must be bool"),
        ({"ids": [1, 1], "masks": np.ones((2, 12, 16), dtype=bool)}, "2 different numbers"),
        ({"ids": [0], "masks": np.ones((1, 12, 16), dtype=bool)}, "1 different numbers from 1"),
        ({"ids": [1.5], "masks": np.ones((1, 12, 16), dtype=bool)}, "whole numbers"),
        ({"ids": [[1]], "masks": np.ones((1, 12, 16), dtype=bool)}, "whole numbers"),
        ({"ids": 1, "masks": np.ones((1, 12, 16), dtype=bool)}, "ids"),
        ({"masks": np.ones((1, 12, 16), dtype=bool)}, "it needs ids and masks"),
        (
            {"ids": [1], "masks": np.array([object()], dtype=object)},
            "pickled objects, which are never loaded",
        ),
        ({"ids": np.array([None]), "masks": np.ones((1, 12, 16), dtype=bool)}, "pickled objects"),
        ({"ids": [1, 2], "masks": np.asfortranarray(np.ones((2, 12, 16), dtype=bool))}, "ascontiguousarray"),
    ],
)
def test_mask_files_of_wrong_kind(folder, arrays, message):
    np.savez_compressed(folder / "amodal.npz", **arrays)
    with pytest.raises(SceneFileError, match=message):
        read_scene_folder(folder)


def test_bombs_are_refused_before_they_unfold(folder):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", 60_000, 60_000, 8, 2, 0, 0, 0)
    bomb = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", b"") + chunk(b"IEND", b"")
    original = (folder / "rgb.png").read_bytes()
    (folder / "rgb.png").write_bytes(bomb)
    with pytest.raises(SceneFileError, match="60000 x 60000 pixels"):
        read_scene_folder(folder)
    (folder / "rgb.png").write_bytes(original)

    npy = io.BytesIO()
    np.lib.format.write_array_header_1_0(npy, {"descr": "<i8", "fortran_order": False, "shape": (10**15,)})
    with zipfile.ZipFile(folder / "amodal.npz", "w") as archive:
        archive.writestr("ids.npy", npy.getvalue())
        archive.writestr("masks.npy", npy.getvalue())
    with pytest.raises(SceneFileError, match="at most 65,535 are read"):
        read_scene_folder(folder)


@pytest.mark.parametrize("name", ["rgb.png", "depth.png", "instances.png", "amodal.npz", "scores.json"])
def test_damaged_files_give_a_scene_or_a_plain_error(folder, name):
    """Random damage: never an exception of another kind."""
    rng = np.random.default_rng(4)
    whole = (folder / name).read_bytes()
    refused = 0
    for _ in range(60):
        data = bytearray(whole)
        for at in rng.integers(0, len(data), rng.integers(1, 6)):
            data[at] = rng.integers(256)
        (folder / name).write_bytes(
            bytes(data[: rng.integers(1, len(data) + 1)] if rng.random() < 0.5 else data)
        )
        try:
            assert isinstance(read_scene_folder(folder), Scene)
        except SceneFileError:
            refused += 1
    assert refused > 0


def test_folders_that_are_not_there(tmp_path):
    with pytest.raises(SceneFileError, match="there is no folder"):
        read_scene_folder(tmp_path / "nothing")
    with pytest.raises(SceneFileError, match=r"has no rgb\.png"):
        read_scene_folder(tmp_path)
    (tmp_path / "rgb.png").mkdir()
    with pytest.raises(SceneFileError, match="cannot be read"):
        read_scene_folder(tmp_path)


def test_nothing_is_overwritten_unasked(folder):
    before = contents(folder)
    bare = Scene(Observation(np.zeros((4, 5, 3), dtype=np.uint8)))
    with pytest.raises(SceneFileError, match="already exists"):
        write_scene_folder(bare, folder)
    (folder / "notes.txt").write_text("mine")
    with pytest.raises(SceneFileError, match=r"holds other files \(notes\.txt\)"):
        write_scene_folder(bare, folder, overwrite=True)
    (folder / "notes.txt").unlink()
    assert contents(folder) == before
    write_scene_folder(bare, folder, overwrite=True)
    assert read_scene_folder(folder) == bare
    assert [p.name for p in folder.parent.iterdir()] == ["scene"]


def test_a_write_that_fails_leaves_no_trace(folder, monkeypatch):
    before = contents(folder)
    rename = os.rename

    def fail(source, goal):
        if Path(source).name == "new":
            raise OSError(28, "No space left on device")
        rename(source, goal)

    monkeypatch.setattr(os, "rename", fail)
    with pytest.raises(SceneFileError, match="cannot be written: No space left"):
        write_scene_folder(make_scene(), folder, overwrite=True)
    assert contents(folder) == before
    assert [p.name for p in folder.parent.iterdir()] == ["scene"]


def test_depth_too_deep_for_its_unit_is_refused(tmp_path):
    depth = np.full((12, 16), 6.6, dtype=np.float32)
    camera = Camera(depth_unit_m=0.0001)
    scene = dataclasses.replace(
        make_scene(), observation=Observation(np.zeros((12, 16, 3), np.uint8), depth, camera)
    )
    with pytest.raises(SceneFileError, match="coarser depth_unit_m"):
        write_scene_folder(scene, tmp_path / "scene")
    assert not (tmp_path / "scene").exists()
