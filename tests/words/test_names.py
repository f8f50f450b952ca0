from dataclasses import replace

import numpy as np
from words.test_grounding import box, disk, make_scene

from cpor.io.scene_folder import read_scene_folder, write_scene_folder
from cpor.perception.segmenter import list_objects
from cpor.viz.words import namer
from cpor.words.appearance import Appearance
from cpor.words.colours import COLOURS
from cpor.words.description import describe
from cpor.words.names import name_objects
from cpor.words.outlines import Outline
from cpor.words.shapes import SHAPES

ROW = [(box(100, 60 + 130 * k, 60, 40), "red") for k in range(5)]


def called(scene):
    return {o.id: o.called for o in scene.objects}


def test_like_things_are_told_apart_by_place_size_and_row():
    two = called(name_objects(make_scene([ROW[0], ROW[4]])))
    shape = two[1].removeprefix("red ").removesuffix(" (left)")
    assert two == {1: f"red {shape} (left)", 2: f"red {shape} (right)"}
    behind = called(name_objects(make_scene([(box(400, 60, 60, 40), "red"), ROW[0]])))
    assert [name.split(" (")[1] for name in behind.values()] == ["front)", "back)"]
    near = called(name_objects(make_scene([(box(100, 60, 40, 30), "blue"), (box(100, 95, 60, 38), "blue")])))
    assert len(set(near.values())) == 2 and all(name.startswith("blue") for name in near.values())
    marks = [name.split(" (")[1] for name in called(name_objects(make_scene(ROW))).values()]
    assert marks == [f"{n} from left)" for n in ("1st", "2nd", "3rd", "4th", "5th")]


def test_a_name_that_somebody_gave_wins_on_every_surface(tmp_path):
    parts = [(disk(100, 100, 45), "white"), (disk(100, 400, 45), "red"), (disk(300, 300, 45), "red")]
    scene = name_objects(make_scene(parts, names={1: "Bo", 2: "Bo"}))
    names = called(scene)
    assert (names[1], names[2]) == ("Bo (left)", "Bo (right)") and names[3].startswith("red ")
    assert [each["name"] for each in list_objects(scene)] == list(names.values())
    assert namer(scene)(3) == f"the {names[3]}"
    write_scene_folder(scene, tmp_path / "scene")
    assert called(read_scene_folder(tmp_path / "scene")) == names
    renamed = replace(scene, objects=(replace(scene.objects[0], name="Cy"), *scene.objects[1:]))
    assert renamed.objects[0].title == "Cy" and called(name_objects(renamed))[1] == "Cy"


def test_names_stay_with_things_in_later_looks():
    first = name_objects(make_scene(ROW[:3]))
    left = make_scene([ROW[1], ROW[2], ROW[4]])  # the first is gone, a new one came
    names = called(first)
    again = name_objects(left, {1: names[2], 2: names[3]})
    later = called(again)
    assert (later[1], later[2]) == (names[2], names[3]) and len(set(later.values())) == 3
    assert called(name_objects(again)) == later, "looked at again: the same"


def test_what_is_said_of_colours_and_shapes():
    outline = Outline(0.5, 0.5, 1.0, 1.0, 1.0, 1.0, None, None, -0.5)

    def look(p=0.9, **shares):
        shapes = dict.fromkeys(SHAPES, 0.0) | {"cup": p, "bowl": 1.0 - p}
        return Appearance(dict.fromkeys(COLOURS, 0.0) | shares, False, shapes, outline)

    assert look(red=0.8, grey=0.2).said_colours == ("red",)
    assert look(orange=0.25, red=0.2, black=0.35, grey=0.1).said_colours == ("orange", "black")
    assert look(white=0.5, red=0.4).said_colours == ("white", "red")
    assert look(white=0.45, grey=0.5).said_colours == ("white",)
    assert look(green=0.2, red=0.2, blue=0.2, black=0.3).said_colours == ()
    assert look().said_shape == "cup" and look(0.25).said_shape == "bowl"
    torn = replace(look(), shapes=dict.fromkeys(SHAPES, 1.0 / len(SHAPES)))
    assert torn.said_shape == "thing" and replace(look(), shapes=None).said_shape == "thing"


def test_a_noun_is_said_where_the_classifier_is_sure_of_it():
    scene = make_scene(ROW[:3])
    said = {k: np.full(1000, 1e-4) for k in (1, 2, 3)}
    said[1][954] = 0.9  # a banana
    said[2][954] = 0.4
    said[3][0:100] = 0.009  # one of many classes: no narrow noun
    describe(scene).said = said
    names = called(name_objects(scene))
    assert names[1] == "red banana" and "banana" not in names[2] + names[3]
