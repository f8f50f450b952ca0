"""Objects asked for by a point or by their id."""

from dataclasses import replace

import numpy as np
import pytest
from words.test_grounding import SHAPE, forms

from cpor.errors import InvalidSceneError, InvalidSettingError
from cpor.scene import DetectedObject, MaskCrop, Observation, PixelPoint, Scene
from cpor.words.grounding import (
    Found,
    NotFound,
    ground,
    ground_id,
    ground_point,
    object_centres,
    parse_point,
)


def point_scene():
    ids = np.zeros(SHAPE, np.int32)
    ids[100:150, 100:200] = 1
    ids[100:150, 200:260] = 2
    whole = np.zeros(SHAPE, dtype=bool)
    whole[100:200, 100:200] = True
    hidden = np.zeros(SHAPE, dtype=bool)
    hidden[120:180, 150:260] = True
    objects = (
        DetectedObject(1, MaskCrop.from_mask(whole)),
        DetectedObject(2, MaskCrop.from_mask(hidden)),
        DetectedObject(3),
    )
    return Scene(Observation(np.zeros((*SHAPE, 3), np.uint8)), objects, ids)


def test_a_name_that_was_given_means_its_object_although_no_word_of_it_describes():
    scene = point_scene()
    named = replace(
        scene, objects=(scene.objects[0], replace(scene.objects[1], name="the odd thing"), scene.objects[2])
    )
    for words in ("the odd thing", "odd thing"):
        assert ground(named, words=words) == Found(2)


def test_points_mean_what_shows_there_and_never_the_nearest():
    scene = point_scene()
    assert ground_point(scene, PixelPoint(210, 130)).id == 2, "visible wins over amodal"
    assert ground_point(scene, PixelPoint(98, 120)).id == 1, "just beside it"
    hidden = ground_point(scene, PixelPoint(110, 180))
    assert isinstance(hidden, NotFound), "whatever shows where object 1 is hidden, object 1 it is not"
    assert isinstance(ground_point(scene, PixelPoint(200, 152)), NotFound), "just beside two"
    near = ground_point(scene, PixelPoint(300, 60))
    assert isinstance(near, NotFound) and near.ranked[0].id == 2 and "Nearest to it: 2, 1" in near.reason
    with pytest.raises(InvalidSettingError, match="640 x 480"):
        ground_point(scene, PixelPoint(640, 0))


def test_centres_are_of_what_shows():
    centres = object_centres(point_scene())
    assert centres == {1: PixelPoint(149.5, 124.5), 2: PixelPoint(229.5, 124.5)}


def test_ids_must_be_there():
    assert ground_id(point_scene(), 3) == Found(3)
    with pytest.raises(InvalidSceneError, match="unknown object 9; the scene has: 1, 2, 3"):
        ground_id(point_scene(), 9)


def test_an_object_is_asked_for_in_exactly_one_way():
    scene = point_scene()
    assert ground(scene, target=3).id == 3
    assert ground(scene, point=parse_point("210, 130")).id == 2
    assert ground(forms(), words="the long one").id == 3
    asked = Scene(forms().observation, forms().objects, forms().visible_ids, request="the biggest")
    assert ground(asked).id == 4
    with pytest.raises(InvalidSettingError, match="one way only"):
        ground(scene, target=3, words="red")
    assert ground(scene) == NotFound("Nobody said which object is asked for.")


@pytest.mark.parametrize("text", ["", "5", "1,2,3", "a,b", "nan,1", "1;2"])
def test_points_are_two_numbers(text):
    with pytest.raises(InvalidSettingError, match="is not X,Y"):
        parse_point(text)
