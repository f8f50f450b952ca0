"""What things are, by an ImageNet classifier: in photographs, and never where it knows nothing."""

from dataclasses import replace

import numpy as np
import pytest
from support.data import DATA
from words.test_grounding import box, forms, make_scene

from cpor.system import System
from cpor.words.appearance import Appearance
from cpor.words.colours import COLOURS
from cpor.words.description import describe
from cpor.words.grounding import AmbiguousRequest, Exchange, Found, NotFound, ground_words
from cpor.words.names import name_objects
from cpor.words.nouns import PICTURE_SIZE, object_crops
from cpor.words.outlines import nth_chance
from cpor.words.request_words import parse_request
from cpor.words.shapes import SHAPES
from cpor.words.vocabulary import vocabulary
from cpor.words.word_judge import WordJudge
from cpor.words.word_weights import mix_weights


def test_an_object_is_cut_out_of_the_photograph_and_lies_on_grey():
    scene = make_scene([(box(200, 100, 60, 40), "red"), (box(200, 20, 40, 40), "blue")])
    shown, crops = object_crops(scene)
    assert shown == [1, 2] and crops.shape == (2, 3, PICTURE_SIZE, PICTURE_SIZE)
    assert (crops[:, :, 0, 0] == 128).all(), "nothing of the neighbours"
    middle = crops[0, :, PICTURE_SIZE // 2, PICTURE_SIZE // 2]
    assert middle[0] > 2 * middle[2], "red"


def test_odds_of_a_noun_grow_with_what_is_said_of_its_classes_and_of_its_shape():
    scene = make_scene([(box(200, 100, 60, 40), "yellow"), (box(200, 20, 40, 40), "blue")])
    look = Appearance(
        {key: float(key == "grey") for key in COLOURS}, False, None, describe(scene).looks[1].outline
    )

    def p(words, lift, fruit):
        shapes = {word: fruit if word == "fruit" else (1.0 - fruit) / (len(SHAPES) - 1) for word in SHAPES}
        told = np.full(1000, 0.1) + (np.arange(1000) == 954) * lift
        described = describe(scene)
        described.looks = {k: replace(look, shapes=shapes) for k in (1, 2)}
        described.classes = {1: told, 2: np.full(1000, 0.1)}
        judge = WordJudge(scene, "", {1: frozenset(), 2: frozenset()}, Exchange(), mix_weights(0.0))
        return judge.odds(parse_request(words, frozenset()).wish)[1]

    assert 0.0 < p("the banana", 0.0, 0.5) < p("the banana", 50.0, 0.5)
    assert p("the fruit", 5.0, 0.9) > p("the fruit", 5.0, 0.01)


def test_every_class_of_the_vocabulary_exists():
    classes = [k for each in vocabulary().classes.values() for k in each]
    assert classes and min(classes) >= 0 and max(classes) < 1000
    assert sum(map(bool, vocabulary().classes.values())) > 300


@pytest.mark.parametrize("seed", range(5))
def test_the_place_in_a_row_agrees_with_counting_all_sets_of_members(seed):
    rng = np.random.default_rng(seed)
    fit = {k: float(p) for k, p in enumerate(rng.random(5))}
    values = {k: float(k) for k in fit}  # far apart: the order is certain
    for n in (1, 2, 3):
        for obj in fit:
            p = 0.0
            for members in range(32):
                inside = [k for k in fit if members >> k & 1]
                before = [k for k in inside if k != obj and values[k] > values[obj]]
                share = np.prod([fit[k] if k in inside else 1.0 - fit[k] for k in fit])
                p += share * (len(before) == n - 1)
            assert nth_chance(n, obj, values, 1e-3, fit) == pytest.approx(p, abs=1e-9)


def test_a_view_is_described_once_for_names_and_requests(monkeypatch):
    from cpor.words import description

    calls = []
    looks = description.describe_objects
    monkeypatch.setattr(description, "describe_objects", lambda scene: calls.append(1) or looks(scene))
    monkeypatch.setattr(description, "_kept", {})
    scene = name_objects(forms())
    ground_words(scene, "the red ball")
    ground_words(scene, "the blue one on the left")
    assert len(calls) == 1


@pytest.fixture(scope="module")
def table():
    folder = DATA / "raw_frames" / "vlgrasp_3000"
    if not folder.is_dir():
        pytest.skip("raw_frames/vlgrasp_3000 is not there")
    return System().look(folder / "0003000_color.png", folder / "0003000_depth.png")


def test_things_on_a_photograph_are_found_by_what_they_are(table):
    answer = System().decide(table, "the banana")
    assert answer.target is not None
    assert table.scene.visible_ids[270, 450] == answer.target
    assert answer.meant.p > 0.8 and answer.promise is None
    said = any("with probability" in note and "the banana" in note for note in answer.notes)
    assert said == (answer.meant.p < 0.97), "what is nearly certain needs no note"
    assert answer.p_success is None or answer.p_success < answer.meant.p


TWO = [(box(200, 100, 60, 60), "red"), (box(200, 300, 60, 60), "red"), (box(200, 500, 60, 60), "blue")]


@pytest.mark.parametrize(
    ("reply", "meant"),
    [("the left one", 1), ("the one on the right", 2), ("2", 2), ("object 1", 1), ("no, the blue one", 3)],
)
def test_a_reply_to_a_question_is_understood(reply, meant):
    scene = make_scene(TWO)
    asked = ground_words(scene, "the red one")
    assert isinstance(asked, AmbiguousRequest) and {each.id for each in asked.candidates} == {1, 2}
    found = ground_words(scene, reply, Exchange().after(asked))
    assert isinstance(found, Found) and found.id == meant


def test_yes_takes_the_only_candidate_and_no_takes_none():
    scene = make_scene(TWO)
    single = Exchange(candidates=(3,), asking=True)
    for reply in ("yes", "Yes, please.", "ok, that one"):
        assert ground_words(scene, reply, single) == Found(3)
    for reply in ("no", "none of them", "No, thank you"):
        assert isinstance(ground_words(scene, reply, single), NotFound)
    several = Exchange(candidates=(1, 2), asking=True)
    assert not isinstance(ground_words(scene, "yes", several), Found), "none in particular"
    assert not isinstance(ground_words(scene, "yes", Exchange(candidates=(3,))), Found), "no open question"
