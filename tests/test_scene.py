import copy
import dataclasses
import pickle
import subprocess
import sys

import numpy as np
import pytest
from jaxtyping import TypeCheckError

from cpor.errors import InvalidSceneError
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

# Where shapes and types are checked while testing, that check speaks before ours does.
REFUSED = (InvalidSceneError, TypeCheckError)


def make_observation(depth=None, camera=None):
    return Observation(np.full((6, 8, 3), 7, dtype=np.uint8), depth, camera or Camera())


def make_scene(**changes):
    ids = np.zeros((6, 8), dtype=np.int32)
    ids[1:3, 1:4] = 4
    ids[2:5, 5:7] = 9
    scene = Scene(
        make_observation(np.full((6, 8), 0.5, dtype=np.float32)),
        (DetectedObject(9, name="mug", score=0.75), DetectedObject(4, MaskCrop.from_mask(ids == 4))),
        ids,
        true_occlusion=TrueRelations(frozenset({4, 9}), frozenset({BlockedBy(4, 9)})),
        points={4: PixelPoint(2, 1)},
        semantic_scores=SemanticScores({BlockedBy(4, 9): 0.5, BlockedBy(9, 4): None}, "test"),
    )
    return dataclasses.replace(scene, **changes)


def test_objects_come_by_ascending_id():
    assert make_scene().ids == (4, 9)


def test_arrays_cannot_be_written_and_do_not_follow_their_source():
    ids = np.zeros((6, 8), dtype=np.int32)
    ids[0, 0] = 4
    scene = make_scene(visible_ids=ids)
    ids[0, 0] = 9
    assert scene.visible_ids[0, 0] == 4
    for array in (scene.visible_ids, scene.observation.rgb, scene.observation.depth):
        with pytest.raises(ValueError, match="read-only"):
            array[0, 0] = 1
    with pytest.raises(ValueError, match="read-only"):
        scene.objects[0].amodal.pixels[0, 0] = False


def test_scenes_compare_by_value():
    assert make_scene() == make_scene()
    assert make_scene() == pickle.loads(pickle.dumps(make_scene()))
    assert make_scene() == copy.deepcopy(make_scene())
    assert make_scene() != make_scene(request="the mug")
    assert make_scene() != make_scene(observation=make_observation())
    assert make_scene() != "a scene"


def test_nan_depth_equals_itself():
    depth = np.full((6, 8), np.nan, dtype=np.float32)
    assert make_observation(depth) == make_observation(depth)


def test_depth_that_cannot_be_measured_is_no_reading():
    depth = np.full((6, 8), 0.7, dtype=np.float32)
    depth[0, :4] = 0.0, -1.0, np.inf, np.nan
    seen = make_observation(depth).depth
    assert np.isnan(seen[0, :4]).all()
    assert np.isnan(seen).sum() == 4


@pytest.mark.parametrize("box", [(0, 6, 0, 8), (2, 5, 3, 4), (5, 6, 7, 8)])
def test_a_mask_survives_cropping(box):
    mask = np.zeros((6, 8), dtype=bool)
    mask[box[0] : box[1], box[2] : box[3]] = True
    crop = MaskCrop.from_mask(mask)
    assert crop.pixels.shape == (box[1] - box[0], box[3] - box[2])
    assert np.array_equal(crop.to_mask((6, 8)), mask)


def test_an_empty_mask_has_no_pixels():
    crop = MaskCrop.from_mask(np.zeros((6, 8), dtype=bool))
    assert crop.pixels.size == 0
    assert not crop.to_mask((6, 8)).any()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"visible_ids": np.full((6, 8), 3, dtype=np.int32)}, "unknown object 3; the scene has: 4, 9"),
        ({"visible_ids": np.zeros((6, 7), dtype=np.int32)}, "visible_ids must be int32"),
        ({"visible_ids": np.zeros((6, 8))}, "visible_ids must be int32"),
        ({"visible_ids": np.full((6, 8), -1, dtype=np.int32)}, "not 0 to 65535"),
        ({"points": {3: PixelPoint(1, 1)}}, "unknown object 3"),
        ({"points": {4: PixelPoint(8, 1)}}, "outside of the 8 x 6 image"),
        ({"points": {4: PixelPoint(float("nan"), 1)}}, "outside of the 8 x 6 image"),
        ({"semantic_scores": SemanticScores({BlockedBy(4, 1): None})}, "unknown object 1"),
        ({"objects": (DetectedObject(4), DetectedObject(4))}, "object id 4 is not unique"),
        ({"objects": (DetectedObject(0),)}, "object id 0 is not unique or not within 1 to 65535"),
        ({"objects": (DetectedObject(4), DetectedObject(9, score=1.5))}, "object 9 has the score 1.5"),
        (
            {"objects": (DetectedObject(4, MaskCrop(4, 0, np.ones((3, 1), dtype=bool))), DetectedObject(9))},
            "amodal mask of object 4 reaches outside",
        ),
    ],
)
def test_a_scene_that_contradicts_itself_is_refused(changes, message):
    with pytest.raises(REFUSED, match=f"{message}|Type-check error"):
        make_scene(**changes)


@pytest.mark.parametrize(
    ("rgb", "depth", "message"),
    [
        (np.zeros((6, 8), dtype=np.uint8), None, "rgb must be uint8"),
        (np.zeros((6, 8, 3)), None, "rgb must be uint8"),
        (np.zeros((0, 8, 3), dtype=np.uint8), None, "rgb must be uint8"),
        (np.zeros((6, 8, 3), dtype=np.uint8), np.ones((6, 8)), "depth must be float32 .* got float64"),
        (np.zeros((6, 8, 3), dtype=np.uint8), np.ones((6, 7), dtype=np.float32), "depth must be float32"),
    ],
)
def test_a_frame_of_wrong_type_or_size_is_refused(rgb, depth, message):
    with pytest.raises(REFUSED, match=f"{message}|Type-check error"):
        Observation(rgb, depth)


def test_relations_are_checked():
    with pytest.raises(InvalidSceneError, match="not a pair of the objects 1, 2"):
        TrueRelations(frozenset({1, 2}), frozenset({BlockedBy(1, 3)}))
    with pytest.raises(InvalidSceneError, match="cannot obstruct itself"):
        SemanticScores({BlockedBy(1, 1): 0.5})
    with pytest.raises(InvalidSceneError, match="must lie in"):
        SemanticScores({BlockedBy(1, 2): float("nan")})


def test_camera_poses_must_be_rigid():
    pose = np.eye(4)
    pose[:3, 3] = 0.1, -0.2, 0.9
    assert Camera(Intrinsics(600, 600, 320, 240), pose) == Camera(Intrinsics(600, 600, 320, 240), pose.copy())
    for bad in (np.diag([1.0, 1, -1, 1]), 2 * np.eye(4), np.eye(3), np.full((4, 4), np.nan)):
        with pytest.raises(REFUSED, match=r"T_world_camera|Type-check error"):
            Camera(None, bad)
    with pytest.raises(InvalidSceneError, match="fx and fy above 0"):
        Camera(Intrinsics(0, 600, 320, 240))
    with pytest.raises(InvalidSceneError, match="depth_unit_m is 0"):
        Camera(depth_unit_m=0.0)


def test_importing_scenes_does_not_load_the_compiler():
    code = "import sys, cpor.scene, cpor.evidence; sys.exit('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_truth_may_know_objects_that_nobody_saw():
    hidden = TrueRelations(frozenset({4, 5}), frozenset({BlockedBy(5, 4)}))
    scene = Scene(Observation(np.zeros((6, 8, 3), np.uint8)), (DetectedObject(4),), true_occlusion=hidden)
    assert scene.ids == (4,)
