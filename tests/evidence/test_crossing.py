"""A line across an outline is something that no mask shows; what ends at the outline is not."""

import numpy as np
import pytest
from scipy import ndimage

from cpor.evidence import geometric_evidence
from cpor.evidence.crossing import crossed_objects
from cpor.scene import Camera, DetectedObject, Intrinsics, MaskCrop, Observation, Scene

SHAPE = (160, 220)


def table(rng):
    """Two things of one colour each on a table, softly textured, and their ids."""
    ids = np.zeros(SHAPE, np.int32)
    ids[40:110, 50:120], ids[60:130, 150:190] = 1, 2
    rgb = np.array([[120, 110, 100], [60, 90, 160], [170, 80, 70]], float)[ids]
    rgb += ndimage.gaussian_filter(rng.normal(0, 30, SHAPE), 3)[..., None] + rng.normal(0, 2, (*SHAPE, 3))
    return np.clip(rgb, 0, 255).astype(np.uint8), ids


def draw_line(rgb, angle, through, length, width=6, colour=(25, 25, 30)):
    """The picture with a straight bar."""
    y, x = np.indices(SHAPE)
    u = (x - through[0]) * np.cos(angle) + (y - through[1]) * np.sin(angle)
    v = (y - through[1]) * np.cos(angle) - (x - through[0]) * np.sin(angle)
    on = (np.abs(v) < width / 2) & (np.abs(u) < length / 2)
    return np.where(on[..., None], np.array(colour, np.uint8), rgb)


@pytest.mark.parametrize("angle", np.deg2rad([3.0, 25.0, 47.0, 80.0, 118.0, 160.0]))
@pytest.mark.parametrize("colour", [(25, 25, 30), (235, 235, 225)])
def test_a_rod_over_an_object_is_found_and_its_neighbour_is_left_alone(angle, colour):
    rgb, ids = table(np.random.default_rng(3))
    assert not crossed_objects(rgb, ids, (1, 2)).any()
    assert crossed_objects(draw_line(rgb, angle, (85, 75), 130, colour=colour), ids, (1,)).tolist() == [True]
    beside = draw_line(rgb, np.pi / 2, (25, 75), 130, colour=colour)
    assert not crossed_objects(beside, ids, (1, 2)).any()


@pytest.mark.parametrize("angle", np.deg2rad([10.0, 40.0, 90.0]))
def test_what_ends_at_the_outline_is_printed_on_the_object_or_on_the_table(angle):
    rgb, ids = table(np.random.default_rng(4))
    lined = draw_line(rgb, angle, (85, 75), 300)
    printed = np.where((ids == 1)[..., None], lined, rgb)
    under = np.where((ids == 0)[..., None], lined, rgb)
    for picture in (printed, under):
        assert not crossed_objects(picture, ids, (1, 2)).any()


def cover_with_film(rgb, angle, through, haze=0.12, colour=(250, 250, 250)):
    """The picture under a cover with one straight edge that lets through 1 - haze."""
    y, x = np.indices(SHAPE)
    under = (y - through[1]) * np.cos(angle) - (x - through[0]) * np.sin(angle) > 0
    a = haze * under[..., None]
    return np.rint((1 - a) * rgb + a * np.array(colour)).astype(np.uint8)


ANGLES = np.deg2rad([4.0, 33.0, 61.0, 140.0])


@pytest.mark.parametrize("haze", [0.07, 0.12, 0.2])
@pytest.mark.parametrize("angle", ANGLES)
def test_the_faint_edge_of_a_film_over_an_object_and_its_background_is_found(angle, haze):
    rgb, ids = table(np.random.default_rng(7))
    assert not crossed_objects(rgb, ids, (1,)).any()
    assert crossed_objects(cover_with_film(rgb, angle, (85, 75), haze), ids, (1,)).tolist() == [True]


@pytest.mark.parametrize("angle", ANGLES)
def test_an_opaque_sheet_is_found_although_its_colour_is_not_white(angle):
    rgb, ids = table(np.random.default_rng(8))
    for colour in ((30, 90, 50), (210, 200, 60)):
        sheet = cover_with_film(rgb, angle, (85, 75), 1.0, colour)
        assert crossed_objects(sheet, ids, (1,)).tolist() == [True]


@pytest.mark.parametrize("angle", np.deg2rad([10.0, 40.0]))
def test_a_line_is_no_cover_where_it_ends_at_the_outline_or_where_it_is_the_edge_of_shade(angle):
    rgb, ids = table(np.random.default_rng(7))
    film = cover_with_film(rgb, angle, (85, 75))
    assert not crossed_objects(np.where((ids == 0)[..., None], film, rgb), ids, (1, 2)).any()
    assert not crossed_objects(np.where((ids == 1)[..., None], film, rgb), ids, (1, 2)).any()
    shade = cover_with_film(rgb, angle, (85, 75), 0.2, (0, 0, 0))
    assert not crossed_objects(shade, ids, (1, 2)).any()


@pytest.mark.parametrize("angle", np.deg2rad([25.0, 118.0]))
def test_holes_without_a_colour_are_no_cover(angle):
    """A camera that maps colours onto depth leaves them beside every near surface."""
    rgb, ids = table(np.random.default_rng(3))
    assert not crossed_objects(draw_line(rgb, angle, (85, 75), 130, colour=(0, 0, 0)), ids, (1, 2)).any()
    assert crossed_objects(draw_line(rgb, angle, (85, 75), 130, colour=(2, 0, 0)), ids, (1,)).all()


def test_nothing_is_said_of_a_crossed_object():
    rng = np.random.default_rng(5)
    rgb, ids = table(rng)
    depth = np.where(ids > 0, 0.56, 0.6).astype(np.float32) + rng.normal(0, 3e-4, SHAPE).astype(np.float32)
    objects = tuple(DetectedObject(k, amodal=MaskCrop(0, 0, ids == k)) for k in (1, 2))
    camera = Camera(Intrinsics(300.0, 300.0, 110.0, 80.0))

    def unseen(picture):
        return geometric_evidence(Scene(Observation(picture, depth, camera), objects, ids)).unseen

    assert unseen(rgb).strict_p().tolist() == [0.0, 0.0]
    rod = unseen(draw_line(rgb, 0.5, (85, 75), 130))
    assert rod.crossed.tolist() == [True, False] and np.isnan(rod.strict_p()).tolist() == [True, False]


def test_pictures_too_small_or_without_masks_have_no_crossing():
    rgb = np.zeros((6, 6, 3), np.uint8)
    assert not crossed_objects(rgb, np.ones((6, 6), np.int32), (1,)).any()
    assert not crossed_objects(np.zeros((*SHAPE, 3), np.uint8), None, (1,)).any()
    assert not crossed_objects(np.zeros((*SHAPE, 3), np.uint8), np.zeros(SHAPE, np.int32), ()).any()
