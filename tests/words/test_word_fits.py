"""How well words fit what hides, what is lit, and what lies on what."""

from dataclasses import replace

import numpy as np
import pytest
from words.test_grounding import SHAPE, box, make_scene, tell_shapes

from cpor.scene import MaskCrop, Scene
from cpor.words.appearance import Appearance
from cpor.words.colours import COLOURS
from cpor.words.grounding import AmbiguousRequest, Exchange, Found, NotFound
from cpor.words.grounding_answers import LEAST_FIT, PERHAPS
from cpor.words.layout import Layout
from cpor.words.outlines import Outline, measure_outlines
from cpor.words.request_words import parse_request
from cpor.words.shapes import SHAPES
from cpor.words.word_answer import RequestReader


def look(**shares):
    outline = Outline(0.5, 0.5, 1.0, 1.0, 1.0, 1.0, None, None, -0.5)
    return Appearance(dict.fromkeys(COLOURS, 0.0) | shares, False, None, outline)


def test_a_shade_of_a_colour_is_not_another_colour():
    orange = look(orange=0.41, brown=0.3, yellow=0.2)
    assert orange.fits_colour("orange") > 0.8 and orange.fits_colour("brown") < LEAST_FIT
    assert look(yellow=0.6, green=0.16).fits_colour("green") < PERHAPS
    assert look(blue=0.5, white=0.45).fits_colour("white", 2) == 1.0


def test_a_clear_colour_among_the_first_of_a_printed_box_fits():
    printed = look(beige=0.19, green=0.18, yellow=0.16, grey=0.16, brown=0.14)
    assert printed.said_colours == ("yellow",) and printed.fits_colour("green") > LEAST_FIT
    assert printed.fits_colour("grey") < LEAST_FIT, "what is dull may be shadow"


def test_colours_that_light_changes_nearly_fit_and_hues_hardly():
    grey = look(grey=0.7, white=0.1)
    assert grey.fits_colour("white") < PERHAPS < grey.nearly_fits_colour("white") < LEAST_FIT
    assert PERHAPS < look(orange=0.7).nearly_fits_colour("red") < grey.nearly_fits_colour("white")
    assert grey.nearly_fits_colour("red") == 0.0


@pytest.mark.parametrize(
    ("words", "shapes", "says"),
    [
        ("the white cup", ("cup", "tool", "can"), "perhaps 1."),  # the only cup, in the shade
        ("the white one", ("cup", "tool", "can"), "perhaps 1."),
        ("the orange tool", ("cup", "tool", "can"), "perhaps 2."),
        ("the blue plate", ("cup", "tool", None), "perhaps 3."),  # of a shape that we do not know
        ("the plate", ("cup", "tool", None), "perhaps 3."),
        ("the blue plate", ("cup", "tool", "thing"), "perhaps 3."),  # of that colour, whatever it is
        ("the plate", ("cup", "tool", "thing"), 'No object fits "the plate". I see'),
        ("the one right of the white cup", ("cup", "tool", "can"), "perhaps 2."),
        ("the one right of the green cup", ("cup", "tool", "can"), 'no object fits "the green cup"'),
    ],
)
def test_what_nearly_fits_is_asked_about_and_never_taken(words, shapes, says):
    parts = [(box(200, c, 60, 60), p) for c, p in ((100, "dark"), (300, "red"), (500, "blue"))]
    told = answer(make_scene(parts, depth=np.full(SHAPE, 0.8, np.float32)), words, shapes)
    assert says in (told.reason if isinstance(told, NotFound) else told.question)


def answer(scene, words, shapes):
    """What a request means where the objects probably have these shapes; None: nobody knows."""
    reader = RequestReader(scene, words, dict.fromkeys(scene.ids, frozenset()), Exchange())
    even = dict.fromkeys(SHAPES, 1.0 / len(SHAPES))
    told = [even if w is None else dict.fromkeys(SHAPES, 0.0) | {w: 0.95, "bag": 0.05} for w in shapes]
    tell_shapes(reader, dict(zip(scene.ids, told, strict=True)))
    return reader.answer(parse_request(words, frozenset()).wish)


def hiding(scene, obj, whole):
    """The scene in which most of an object hides under others."""
    objects = [replace(o, amodal=MaskCrop.from_mask(whole)) if o.id == obj else o for o in scene.objects]
    return Scene(scene.observation, tuple(objects), scene.visible_ids)


@pytest.mark.parametrize(
    ("words", "shapes", "meant"),
    [
        ("the cup", ("cup", "tool", "cup"), 1),
        ("the cup", ("tool", "tool", "cup"), 3),
        ("the blue one", ("tool", "tool", "cup"), 3),
        ("the second cup from the left", ("cup", "cup", "cup"), 2),
    ],
)
def test_the_shape_of_what_hardly_shows_counts_where_no_other_has_it(words, shapes, meant):
    parts = [(box(200, c, 60, 60), p) for c, p in ((100, "red"), (300, "green"), (220, "blue"))]
    scene = make_scene(parts, depth=np.full(SHAPE, 0.8, np.float32))
    told = answer(hiding(scene, 3, box(300, 220, 260, 200)), words, shapes)
    first = told.id if isinstance(told, Found) else told.candidates[0].id
    assert first == meant, told
    assert isinstance(told, Found) or words != "the blue one"
    if words == "the cup" and meant == 1:
        half = answer(hiding(scene, 3, box(220, 220, 100, 72)), words, shapes)
        assert isinstance(half, AmbiguousRequest) and {each.id for each in half.candidates} == {1, 3}


def test_a_box_lies_on_another_whose_front_is_nearer():
    upper, whole = box(200, 300, 80, 120), box(240, 300, 200, 160)
    depth = np.full(SHAPE, 1.0, np.float32)
    depth[whole] = np.linspace(0.9, 0.7, SHAPE[0])[:, None].repeat(SHAPE[1], 1)[whole]
    depth[upper] -= 0.01
    scene = hiding(make_scene([(whole, "yellow"), (upper, "white")], depth=depth), 1, whole)
    medians = [np.median(depth[scene.visible_ids == k]) for k in (1, 2)]
    assert medians[1] > medians[0] + 0.004, "as wholes, the upper one is farther away"
    layout = Layout(scene, measure_outlines(scene))
    assert layout.fit("on", 2, (1,)) == layout.fit("under", 1, (2,)) == 1.0
    assert layout.fit("on", 1, (2,)) == 0.0


def test_an_object_that_is_there_is_not_said_to_be_missing():
    scene = make_scene([(box(200, 100, 60, 60), "white"), (box(200, 500, 60, 60), "red")])
    there = answer(scene, "the one under the white cup", ("cup", "tool"))
    said = there.reason if isinstance(there, NotFound) else there.question
    assert said.startswith('No object fits "the one under the white cup"')
    gone = answer(scene, "the one under the green cup", ("cup", "tool"))
    assert isinstance(gone, NotFound) and "the green cup" in gone.reason
