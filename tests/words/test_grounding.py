from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from cpor.errors import InvalidSceneError
from cpor.scene import DetectedObject, MaskCrop, Observation, Scene
from cpor.words.grounding import (
    AmbiguousRequest,
    Exchange,
    Found,
    NotFound,
    ground_words,
)
from cpor.words.names import name_objects
from cpor.words.request_words import parse_request
from cpor.words.shapes import SHAPES
from cpor.words.word_answer import RequestReader

SHAPE = (480, 640)
PAINTS = {
    "red": (176, 32, 38),
    "green": (44, 132, 62),
    "blue": (36, 78, 168),
    "yellow": (226, 192, 48),
    "orange": (228, 116, 34),
    "purple": (104, 58, 142),
    "pink": (226, 132, 168),
    "brown": (104, 66, 38),
    "black": (26, 26, 28),
    "white": (236, 236, 232),
    "grey": (124, 126, 126),
}
DARK_GREY = (92, 94, 94)


def disk(r, c, radius):
    y, x = np.indices(SHAPE)
    return np.hypot(y - r, x - c) <= radius


def box(r, c, high, wide):
    y, x = np.indices(SHAPE)
    return (abs(y - r) <= high / 2) & (abs(x - c) <= wide / 2)


def lit(rgb, light=(1.0, 1.0, 1.0)):
    """The photograph under another light; channels scale in linear light, as they do in a camera."""
    linear = (rgb / 255.0) ** 2.2 * np.array(light)
    return np.rint(255.0 * np.clip(linear, 0.0, 1.0) ** (1 / 2.2)).astype(np.uint8)


def make_scene(parts, light=(1.0, 1.0, 1.0), names=None, depth=None):
    """Objects of (mask, colour) on a grey table, with shading and noise; ids from 1."""
    rng = np.random.default_rng(3)
    rgb = np.full((*SHAPE, 3), 150.0)
    ids = np.zeros(SHAPE, np.int32)
    for k, (mask, colour) in enumerate(parts, start=1):
        shade = np.linspace(0.75, 1.1, SHAPE[1])[None, :, None]
        rgb = np.where(mask[..., None], np.array(PAINTS.get(colour, DARK_GREY)) * shade, rgb)
        ids[mask] = k
    rgb = np.clip(rgb + rng.normal(0, 4, rgb.shape), 0, 255)
    objects = [
        DetectedObject(k, MaskCrop.from_mask(ids == k), (names or {}).get(k))
        for k in range(1, len(parts) + 1)
        if (ids == k).any()
    ]
    return Scene(Observation(lit(rgb, light), depth), tuple(objects), ids)


@cache
def palette_scene(light=(1.0, 1.0, 1.0)):
    places = [(90 + 150 * (k // 4), 90 + 150 * (k % 4)) for k in range(len(PAINTS))]
    return make_scene([(disk(r, c, 50), name) for (r, c), name in zip(places, PAINTS, strict=True)], light)


@pytest.mark.parametrize("colour", PAINTS)
@pytest.mark.parametrize(
    "light",
    [(1.0, 1.0, 1.0), (1.0, 0.88, 0.7), (0.8, 0.92, 1.0), (0.35, 0.35, 0.35)],
    ids=["white", "warm", "cold", "dim"],
)
def test_each_colour_is_found_in_each_light(colour, light):
    found = ground_words(palette_scene(light), f"the {colour} one")
    assert isinstance(found, Found) and found.id == list(PAINTS).index(colour) + 1, found
    assert found.ranked[0].id == found.id and found.margin > 0.15


@cache
def forms():
    return make_scene(
        [
            (disk(100, 100, 45), "grey"),
            (box(100, 300, 80, 90), "grey"),
            (box(100, 520, 24, 200), "dark grey"),  # in the brightest light, where plain grey may be white
            (disk(350, 320, 90), "red"),
            (box(350, 120, 40, 40), "red"),
        ]
    )


@pytest.mark.parametrize(
    ("words", "obj"),
    [
        ("the round grey thing", 1),
        ("the square grey box", 2),
        ("the long one", 3),
        ("Give me the small red object, please!", 5),
        ("the biggest", 4),
        ("the red one on the left", 5),
        ("rightmost object", 3),
        ("the gray box in the middle", 2),
        ("object 3", 3),
        ("badge 2", 2),
        ("Please hand me object no. 3", 3),
        ("Robot, can you pick up the long one for me?", 3),
        ("the red one on the left side of the table", 5),
        ("I'd like the long one, thanks", 3),
        ("the object in the middle of the picture", 4),
        ("the one nearest to the red box", 4),
        ("the one nearest the red box", 4),
        ("the second grey one from the left", 2),
        ("the red one, not the round one", 5),
        ("the round one except the grey one", 4),
        ("the one between the round grey one and the long one", 2),
        ("the crimson one on the left-hand side", 5),
        ("that one on the left, the red one", 5),
    ],
)
def test_words_for_form_size_and_place(words, obj):
    found = ground_words(forms(), words)
    assert isinstance(found, Found) and found.id == obj, found


@pytest.mark.parametrize(
    ("words", "obj"), [("red ball", 4), ("the ball that is red", 4), ("left of the red ball", 5)]
)
def test_a_drawn_disk_may_be_a_ball(words, obj):
    """Nothing but its outline says so: it is taken, or asked about first."""
    found = ground_words(forms(), words)
    assert not isinstance(found, NotFound), found
    assert (found.id if isinstance(found, Found) else found.candidates[0].id) == obj


@pytest.mark.parametrize(
    ("words", "ids"),
    [
        ("the red thing", {4, 5}),
        ("the grey one", {1, 2, 3}),
        ("the round one", {1, 4}),
        ("the grey box", {2, 3}),
        ("the object", {1, 2, 3, 4, 5}),
        ("the red one nearest to me", {4, 5}),
        ("the near red one", {4, 5}),
        ("not the red one", {1, 2, 3}),
        ("the top one", {1, 2, 3}),
        ("the grey one that is not round and not on the left", {2, 3}),
        ("the one on top", {1, 2, 3}),
        ("the one not on the left", {2, 3, 4, 5}),
        ("the one behind", {1, 2, 3}),
    ],
)
def test_what_fits_several_is_asked_back(words, ids):
    asked = ground_words(forms(), words)
    assert isinstance(asked, AmbiguousRequest) and {each.id for each in asked.candidates} == ids
    assert "Which one do you mean?" in asked.question and all(str(k) in asked.question for k in ids)


def test_one_of_a_row_that_others_are_close_to_is_asked_about():
    asked = ground_words(forms(), "the third one from the right")
    assert isinstance(asked, AmbiguousRequest) and asked.candidates[0].id in (2, 4)


def test_a_word_that_is_not_known_is_asked_back_with_what_fits_the_others():
    scene = palette_scene()
    asked = ground_words(scene, "the red gizmo")
    assert isinstance(asked, AmbiguousRequest) and asked.candidates[0].id == 1
    assert asked.question == 'I do not know the word "gizmo". Which object do you mean?'
    asked = ground_words(scene, "the gizmo sprocket")
    assert isinstance(asked, AmbiguousRequest) and len(asked.candidates) == len(PAINTS)
    assert asked.question == 'I do not know the words "gizmo", "sprocket". Which object do you mean?'
    leftmost = ground_words(forms(), "the red gizmo on the left")
    assert [each.id for each in leftmost.candidates] == [5, 4], "a place orders the candidates, no more"
    none = ground_words(forms(), "the purple gizmo")
    assert isinstance(none, NotFound)
    assert none.reason.startswith('I do not know the word "gizmo". No object fits the other words.')


def test_a_word_narrower_than_what_can_be_seen_is_asked_about():
    asked = ground_words(forms(), "the red kiwi")  # a fruit is round here, but which fruit nobody can tell
    assert isinstance(asked, AmbiguousRequest) and asked.candidates[0].id == 4
    assert 'I cannot tell "kiwi" from another fruit' in asked.question


def tell_shapes(reader, shapes):
    """Let a reader take these for the shapes of the objects."""
    looks = reader.described.looks
    reader.described.looks = {k: replace(look, shapes=shapes[k]) for k, look in looks.items()}


@pytest.mark.parametrize(
    ("words", "cups", "says"),
    [
        ("the cup", (0.9, 0.02, 0.02), 1),
        ("the cup", (0.5, 0.02, 0.02), 1),  # it is the only one that may be a cup
        ("the cup", (0.3, 0.02, 0.02), "perhaps 1"),
        ("the cup", (0.9, 0.6, 0.02), "fits 1, 2."),
        ("the cup", (0.02, 0.02, 0.02), "No object fits"),
        ("the second cup from the left", (0.95, 0.95, 0.03), 2),
        ("the second cup from the left", (0.6, 0.95, 0.95), "perhaps 2."),
        ("the red one, not the cup", (0.95, 0.03, 0.03), 2),
    ],
)
def test_shapes_count_as_much_as_they_are_likely(words, cups, says):
    parts = [(box(200, c, 60, 60), p) for c, p in ((100, "red"), (300, "red"), (500, "blue"))]
    scene = make_scene(parts, depth=np.full(SHAPE, 0.8, np.float32))
    reader = RequestReader(scene, words, dict.fromkeys(scene.ids, frozenset()), Exchange())
    told = [dict.fromkeys(SHAPES, 0.0) | {"cup": p, "tool": 1.0 - p} for p in cups]
    tell_shapes(reader, dict(zip(scene.ids, told, strict=True)))
    answer = reader.answer(parse_request(words, frozenset()).wish)
    if isinstance(says, int):
        assert isinstance(answer, Found) and answer.id == says, answer
    else:
        assert says in (answer.reason if isinstance(answer, NotFound) else answer.question)


def test_words_point_to_what_was_said_and_done_before():
    scene, before = forms(), Exchange(last=4, candidates=(5, 4), moved=(1, 3))
    assert ground_words(scene, "take it", before).id == 4
    assert ground_words(scene, "that one", before).id == 4
    assert ground_words(scene, "the other one", before).id == 5
    assert ground_words(scene, "the first one", before).id == 5
    assert ground_words(scene, "the one that was moved", before).id == 3
    assert ground_words(scene, "the grey one that was moved", Exchange(moved=(3, 1))).id == 1
    grey = ground_words(scene, "the other grey one", Exchange(last=1))
    assert {each.id for each in grey.candidates} == {2, 3}


def test_the_name_that_is_shown_finds_its_object():
    scene = name_objects(forms())
    names = {o.id: o.called for o in scene.objects}
    assert len(set(names.values())) == 5 and all(names.values())
    for obj, name in names.items():
        found = ground_words(scene, f"the {name}")
        assert found.id == obj if isinstance(found, Found) else obj in {each.id for each in found.candidates}
    asked = ground_words(scene, "the red one")
    assert all(names[k] in asked.question for k in (4, 5))
    none = ground_words(scene, "the turquoise one")
    assert all(name in none.reason for name in names.values())


def test_a_name_that_some_objects_have_does_not_speak_for_those_without():
    parts = [(disk(100, 100, 45), "red"), (disk(100, 300, 45), "blue")]
    scene = make_scene(parts, names={1: "the mug"})
    asked = ground_words(scene, "the blue gizmo")
    assert isinstance(asked, AmbiguousRequest) and [each.id for each in asked.candidates] == [2]
    assert ground_words(scene, "the mug").id == 1


def test_nothing_is_found_rather_than_the_nearest_guess():
    assert isinstance(ground_words(forms(), "the turquoise one"), NotFound)
    absent = ground_words(forms(), "the red ball on the upper left of the blue box")
    assert not isinstance(absent, Found), "no box is blue"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("the one on the blue box", "No object fits"),
        ("the third red one from the left", "only 2 fit"),
        ("", "empty"),
        ("?!", "empty"),
        ("object 77", "Unknown object 77"),
        ("the other one", "other"),
        ("it", "nothing was"),
        ("the first one", "number 1"),
        ("the one that was moved", "moved nothing"),
        ("the one left of", "left of"),
        ("the red one under the table", "under"),
        ("the one between the red ball", "between"),
        ("the one on object 3", "number"),
        ("anything but object 3", "number"),
        ("every red one", "one object"),
        ("the gold", "the gold one"),
        ("the silver on the left", "the silver one"),
    ],
)
def test_what_is_only_half_understood_is_not_acted_on(words, says):
    answer = ground_words(forms(), words)
    assert isinstance(answer, NotFound) and says in answer.reason


def test_names_go_before_colours_and_forms():
    parts = [(disk(100, 100, 45), "white"), (disk(100, 300, 45), "red"), (disk(300, 300, 45), "red")]
    scene = make_scene(parts, names={1: "Red mug", 2: "cracker box", 3: "tomato can"})
    assert ground_words(scene, "the red mug").id == 1
    assert ground_words(scene, "the boxes").id == 2
    assert ground_words(scene, "a can of tomatoes").id == 3
    assert ground_words(scene, "Can you hand me the cracker box?").id == 2
    absent = ground_words(scene, "the banana")
    assert isinstance(absent, NotFound) and 'No object is called "banana".' in absent.reason
    assert "cracker box" in absent.reason


def test_flat_and_high_need_depth():
    parts = [(box(120, 150, 120, 120), "grey"), (box(120, 420, 120, 120), "grey")]
    depth = np.full(SHAPE, 0.8, np.float32)
    depth[parts[0][0]] = 0.79
    depth[parts[1][0]] = 0.70
    with_depth = make_scene(parts, depth=depth)
    assert ground_words(with_depth, "the flat one").id == 1
    assert ground_words(with_depth, "the highest one").id == 2
    without = ground_words(make_scene(parts), "the flat one")
    assert isinstance(without, AmbiguousRequest) and {each.id for each in without.candidates} == {1, 2}
    assert without.question.startswith(
        'I cannot judge the word "flat" in this scene, because it has no depth. Which'
    )
    both = ground_words(make_scene(parts), "the highest gizmo")
    assert isinstance(both, AmbiguousRequest) and '"gizmo"' in both.question and '"highest"' in both.question


def test_sizes_are_compared_in_metres_where_depth_tells():
    parts = [(box(120, 150, 120, 120), "grey"), (box(120, 420, 100, 100), "grey")]
    depth = np.full(SHAPE, 0.9, np.float32)
    depth[parts[0][0]] = 0.5  # near the camera, so it only looks larger
    assert ground_words(make_scene(parts), "the bigger one").ranked[0].id == 1
    assert ground_words(make_scene(parts, depth=depth), "the bigger one").id == 2


def test_a_ball_is_not_a_plate():
    depth = np.full(SHAPE, 0.8)
    y, x = np.indices(SHAPE)
    ball, plate = disk(150, 150, 60), disk(150, 450, 60)
    depth -= np.where(ball, 0.09 * np.sqrt(np.clip(1 - np.hypot(y - 150, x - 150) ** 2 / 3600, 0, 1)), 0.0)
    depth[plate] = 0.78
    scene = make_scene([(ball, "grey"), (plate, "grey")], depth=depth.astype(np.float32))
    assert ground_words(scene, "the spherical one").id == 1


def test_empty_scenes_and_scenes_without_masks():
    frame = Observation(np.zeros((20, 20, 3), np.uint8))
    assert isinstance(ground_words(Scene(frame, (), np.zeros((20, 20), np.int32)), "red"), NotFound)
    with pytest.raises(InvalidSceneError, match="no masks"):
        ground_words(Scene(frame), "red")
