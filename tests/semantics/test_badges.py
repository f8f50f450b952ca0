import numpy as np
import pytest
from support.data import DATA
from support.layered import draw_layered_scene

from cpor.io.scene_folder import read_scene_folder
from cpor.scene import DetectedObject, MaskCrop, Observation, PixelPoint, Scene
from cpor.semantics.badges import draw_marks, place_badges
from cpor.semantics.matching import NumberedMarks, match_point, number_objects


def overlaps(badges):
    every = list(badges.values())
    return [
        (a.number, b.number)
        for k, a in enumerate(every)
        for b in every[:k]
        if np.hypot(a.x - b.x, a.y - b.y) < a.radius + b.radius
    ]


def hidden_share(scene, badges, label):
    """Share of an object's visible pixels under the badges of others."""
    rows, cols = np.nonzero(scene.visible_ids == label)
    under = np.zeros(len(rows), bool)
    for other, badge in badges.items():
        if other != label:
            under |= np.hypot(rows - badge.y, cols - badge.x) <= badge.radius
    return under.mean()


@pytest.mark.parametrize("seed", range(8))
def test_badges_do_not_overlap_and_stay_inside(seed):
    scene = draw_layered_scene(np.random.default_rng(seed), n_objects=14)
    badges = place_badges(scene, number_objects(scene))
    shown = set(np.unique(scene.visible_ids)) - {0}
    assert set(badges) == shown
    assert not overlaps(badges)
    height, width = scene.observation.shape
    for badge in badges.values():
        assert (
            badge.radius <= badge.x <= width - badge.radius
            and badge.radius <= badge.y <= height - badge.radius
        )


@pytest.mark.parametrize("seed", range(8))
def test_badges_hide_little_of_other_objects(seed):
    scene = draw_layered_scene(np.random.default_rng(seed), n_objects=10, strength=0.0)
    badges = place_badges(scene, number_objects(scene))
    assert max(hidden_share(scene, badges, label) for label in badges) < 0.35


def test_a_large_object_carries_its_badge_and_a_small_one_has_it_beside():
    visible = np.zeros((400, 400), np.int32)
    visible[50:300, 50:300] = 1
    visible[340:346, 340:346] = 2
    scene = Scene(
        Observation(np.zeros((400, 400, 3), np.uint8)), (DetectedObject(1), DetectedObject(2)), visible
    )
    badges = place_badges(scene, number_objects(scene))
    large, small = badges[1], badges[2]
    assert not large.beside and visible[round(large.y), round(large.x)] == 1
    assert small.beside and np.hypot(small.x - 343, small.y - 343) > small.radius
    assert visible[round(small.anchor_y), round(small.anchor_x)] == 2


def test_badges_of_points_do_not_overlap_and_leave_the_points_to_be_seen():
    points = {1: PixelPoint(200.0, 150.0), 2: PixelPoint(206.0, 152.0), 3: PixelPoint(3.0, 2.0)}
    scene = Scene(
        Observation(np.zeros((400, 500, 3), np.uint8)),
        tuple(DetectedObject(label) for label in points),
        points=points,
    )
    badges = place_badges(scene, number_objects(scene))
    assert set(badges) == {1, 2, 3} and not overlaps(badges)
    for label, (x, y) in points.items():
        assert badges[label].beside
        assert (badges[label].anchor_x, badges[label].anchor_y) == pytest.approx((x, y), abs=2.0)
        assert all(np.hypot(each.x - x, each.y - y) > each.radius for each in badges.values())


def test_an_object_thinner_than_the_grid_still_gets_a_badge():
    visible = np.zeros((640, 640), np.int32)
    visible[101, 201:203] = 5
    scene = Scene(Observation(np.zeros((640, 640, 3), np.uint8)), (DetectedObject(5),), visible)
    badge = place_badges(scene, number_objects(scene))[5]
    assert visible[round(badge.anchor_y), round(badge.anchor_x)] == 5


def test_small_pictures_are_enlarged_and_points_in_replies_scaled_back():
    scene = draw_layered_scene(np.random.default_rng(3), (90, 120), 3, 0.0)
    picture, marks = draw_marks(scene)
    assert picture.rgb.shape == (360, 480, 3)
    label = int(scene.visible_ids.max())
    row, column = np.argwhere(scene.visible_ids == label)[0]
    assert marks.object_of([float(column) * 4 + 1, float(row) * 4 + 1]) == label


def test_the_picture_is_the_photograph_away_from_badges():
    scene = draw_layered_scene(np.random.default_rng(3), (400, 500), 4, 0.0)
    picture, _ = draw_marks(scene)
    untouched = (picture.rgb == scene.observation.rgb).all(axis=2).mean()
    assert untouched > 0.9
    assert not np.array_equal(picture.rgb, scene.observation.rgb)


def test_long_ids_become_short_numbers():
    ids = (7, 4000, 65000)
    scene = Scene(Observation(np.zeros((50, 50, 3), np.uint8)), tuple(DetectedObject(k) for k in ids))
    assert number_objects(scene) == {7: 1, 4000: 2, 65000: 3}
    marks = NumberedMarks(scene, number_objects(scene))
    assert marks.object_of(2) == 4000
    assert marks.object_of(4000) is None


def matching_scene():
    """Object 1 shows left, object 2 reaches hidden below it, object 3 shows far right."""
    visible = np.zeros((100, 500), np.int32)
    visible[20:60, 20:60] = 1
    visible[20:60, 60:80] = 2
    visible[20:60, 440:480] = 3
    hidden = np.zeros_like(visible, bool)
    hidden[20:90, 40:80] = True
    objects = (DetectedObject(1), DetectedObject(2, MaskCrop.from_mask(hidden)), DetectedObject(3))
    return Scene(Observation(np.zeros((100, 500, 3), np.uint8)), objects, visible)


@pytest.mark.parametrize(
    ("x", "y", "meant"),
    [
        (50, 30, 1),  # inside the visible mask of 1, although the amodal mask of 2 holds it too
        (70, 30, 2),
        (50, 85, 2),  # inside an amodal mask only
        (150, 40, 2),  # nearest centroid, 80 px away
        (250, 40, None),  # 180 px from 2, 210 px from 3
        (400, 40, 3),
        (-30, 40, None),  # outside of the image
    ],
)
def test_a_point_means_visible_then_amodal_then_nearest_within_120_px(x, y, meant):
    assert match_point(matching_scene(), PixelPoint(x, y)) == meant


def test_gemini_points_are_rows_first_in_thousandths():
    scene = matching_scene()
    marks = NumberedMarks(scene, number_objects(scene), points="thousandths")
    assert marks.object_of([400, 920]) == 3  # y 40 px, x 460 px


@pytest.mark.parametrize("answer", ["#2", "badge 2", "Object 2", " 2 ", 2, 2.0])
def test_a_badge_is_recognised_however_it_is_written(answer):
    scene = matching_scene()
    assert NumberedMarks(scene, number_objects(scene)).object_of(answer) == 2


@pytest.mark.parametrize(
    "answer", [True, None, 2.5, "two", "2 or 3", 9, -2, [1], [1, 2, 3], ["a", 1], {}, "99999999999"]
)
def test_what_names_no_object_means_none(answer):
    scene = matching_scene()
    assert NumberedMarks(scene, number_objects(scene)).object_of(answer) is None


def test_badges_are_placed_well_on_a_rendered_scene():
    folder = DATA / "metagraspnet" / "sim_0"
    if not folder.is_dir():
        pytest.skip(f"{folder} is not there; it is a sample of MetaGraspNetV2")
    scene = read_scene_folder(folder)
    badges = place_badges(scene, number_objects(scene))
    assert not overlaps(badges)
    for label, badge in badges.items():
        assert scene.visible_ids[round(badge.anchor_y), round(badge.anchor_x)] == label
        assert hidden_share(scene, badges, label) < 0.02
