"""The picture of a scene: what is marked can be seen, what is not known is not hidden."""

import io
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image
from support.box_table import BoxTable, TableMasks

from cpor.apps.demo import FASTEST_S, animate, playing_speed
from cpor.decision import Defer, Grasp, Remove
from cpor.errors import InvalidSettingError
from cpor.pipeline import Pipeline
from cpor.scene import BlockedBy, MaskCrop, Observation, Scene
from cpor.viz.overlay import Marks, draw_scene, encode_picture, relations_to_draw, window_around
from cpor.viz.overlay_marks import YELLOW, thing_colour


@pytest.fixture
def scene():
    table = BoxTable()
    return TableMasks(table).segment(table.observe())


def count(picture, colour):
    return int((np.asarray(picture) == np.array(colour)).all(axis=2).sum())


def test_the_picture_is_wide_enough_to_read_and_never_smaller_than_the_photograph(scene):
    height, width = scene.observation.shape
    picture = draw_scene(scene, Marks(1), width=960)
    assert picture.width == max(960, width)
    assert draw_scene(scene, Marks(), width=960).height == picture.width * height / width
    assert picture.height > picture.width * height / width  # a legend stands below


def test_outlines_have_the_colours_of_the_badges_and_are_thick_around_target_and_choice(scene):
    plain = draw_scene(scene, Marks(names=False))
    marked = draw_scene(scene, Marks(1, Remove(3), names=False))
    grasped = draw_scene(scene, Marks(1, Grasp(1), names=False))
    one, three = thing_colour(1), thing_colour(3)
    assert all(count(plain, thing_colour(obj)) > 100 for obj in scene.ids)
    assert count(marked, one) > count(plain, one) + 100 and count(marked, three) > count(plain, three) + 100
    assert count(grasped, one) > count(plain, one) + 100 and count(grasped, three) == count(plain, three)


def test_a_hidden_part_is_hatched_in_the_colour_of_its_object_and_only_where_known(scene):
    box = MaskCrop(0, 0, np.ones((40, 60), bool))
    first, *others = scene.objects
    obj, marks = first.id, Marks(first.id, names=False)
    bare, hatched = (
        draw_scene(replace(scene, objects=(replace(first, amodal=known), *others)), marks)
        for known in (None, box)
    )
    added = count(hatched, thing_colour(obj)) - count(bare, thing_colour(obj))
    scale = hatched.width / scene.observation.shape[1]
    assert 0.1 < added / (40 * 60 * scale**2) < 0.5


def test_a_likelier_obstruction_has_a_thicker_arrow(scene):
    ink = [
        count(draw_scene(scene, Marks(None, None, {BlockedBy(1, 4): p}, names=False)), YELLOW)
        for p in (0.1, 0.3, 0.6, 0.95)
    ]
    bare = count(draw_scene(scene, Marks(names=False)), YELLOW)
    assert ink[0] == bare, "an unlikely one is left out"
    assert bare < ink[1] < ink[2] < ink[3]


def test_no_answer_is_shown_and_looks_unlike_any_probability(scene):
    def draw(p):
        return np.asarray(draw_scene(scene, Marks(None, None, {BlockedBy(1, 4): p}))).tobytes()

    assert draw(None) not in {draw(p) for p in (0.0, 0.1, 0.5, 1.0)}


def test_only_the_chain_of_the_target_has_arrows(scene):
    off_chain = {BlockedBy(4, 3): 0.9}
    assert count(draw_scene(scene, Marks(1, None, off_chain)), YELLOW) == count(
        draw_scene(scene, Marks(1)), YELLOW
    )
    assert count(draw_scene(scene, Marks(4, None, off_chain)), YELLOW) > count(
        draw_scene(scene, Marks(4)), YELLOW
    )


def test_a_missing_answer_does_not_lengthen_the_chain(scene):
    def arrows(relations):
        return count(draw_scene(scene, Marks(1, None, relations, names=False)), YELLOW)

    unknown = {BlockedBy(1, 4): None}
    assert arrows(unknown) > arrows({}), "nobody knows whether 4 lies on the target: that is shown"
    assert arrows(unknown | {BlockedBy(4, 3): 0.9}) == arrows(unknown)
    assert arrows({BlockedBy(1, 4): 0.9, BlockedBy(4, 3): None}) > arrows({BlockedBy(1, 4): 0.9})


def test_the_relations_drawn_are_those_of_the_posterior(scene):
    posterior = Pipeline().posterior(Pipeline().believe(scene), 1)
    drawn = relations_to_draw(posterior)
    assert drawn == {(r.blocked, r.blocker): r.p for r in posterior.relations()} != {}


def test_deferring_is_said_below_the_picture(scene):
    one, other = draw_scene(scene, Marks(1)), draw_scene(scene, Marks(1, Defer("near_tie")))
    height = one.height - 34
    assert np.array_equal(np.asarray(one)[:height], np.asarray(other)[:height])
    assert not np.array_equal(np.asarray(one)[height:], np.asarray(other)[height:])


def test_a_photograph_without_masks_is_shown_as_it_is():
    rgb = np.random.default_rng(0).integers(0, 255, (90, 120, 3), np.uint8)
    picture = draw_scene(Scene(Observation(rgb)), Marks(), width=120)
    assert np.array_equal(np.asarray(picture)[:90], rgb)
    assert window_around(Scene(Observation(rgb))) is None


def test_the_window_holds_every_object_and_keeps_the_shape(scene):
    left, top, right, bottom = window_around(scene)
    height, width = scene.observation.shape
    rows, columns = np.nonzero(scene.visible_ids)
    assert left <= columns.min() and columns.max() < right <= width
    assert top <= rows.min() and rows.max() < bottom <= height
    assert (right - left) / (bottom - top) == pytest.approx(width / height, rel=0.03)


def test_the_picture_survives_encoding(scene):
    picture = draw_scene(scene, Marks(1))
    again = Image.open(io.BytesIO(encode_picture(picture)))
    assert again.format == "WEBP" and again.size == picture.size


def test_an_animation_shows_every_frame_as_long_as_asked():
    frames = [np.full((20, 30, 3), 20 * k, np.uint8) for k in range(12)]
    moving = Image.open(io.BytesIO(animate(frames, 0.16)))
    assert moving.n_frames == 12 and moving.size == (30, 20)
    for k in range(12):
        moving.seek(k)
        moving.load()
        assert np.asarray(moving.convert("RGB")).mean() == pytest.approx(20 * k, abs=3)
        assert moving.info["duration"] == (160 if k < 11 else 1500)
    with pytest.raises(InvalidSettingError, match="no frames"):
        animate([])


def test_a_film_plays_faster_than_it_was_but_frames_do_not_rush_by():
    assert playing_speed(2.0) == 8.0
    assert 0.2 / playing_speed(0.2) == pytest.approx(FASTEST_S)
