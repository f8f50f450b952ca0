"""Scenes that are none get one clear error that names the culprit and the remedy."""

import pickle
from copy import deepcopy
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from cpor import CporError, ObstructionPosterior, Relation

PAIR = ("mug", "box")


@pytest.mark.parametrize(
    ("objects", "target", "p", "culprit"),
    [
        ([], "mug", {}, "empty"),
        ("mug", "mug", {}, "list of labels"),
        (None, "mug", {}, "list of labels"),
        (["mug", "mug"], "mug", {}, "'mug' is listed twice"),
        (["mug", ["box"]], "mug", {}, r"\['box'\] is not hashable"),
        (PAIR, "can", {}, "target 'can'.*mug, box"),
        (PAIR, ["mug"], {}, "target"),
        (PAIR, "mug", {("mug", "box"): 1.2}, "1.2.*\\[0, 1\\]"),
        (PAIR, "mug", {("mug", "box"): -0.1}, "-0.1"),
        (PAIR, "mug", {("mug", "box"): float("nan")}, "nan.*None"),
        (PAIR, "mug", {("mug", "box"): float("inf")}, "inf"),
        (PAIR, "mug", {("mug", "box"): "0.4"}, "'0.4'"),
        (PAIR, "mug", {("mug", "box"): True}, "True"),
        (PAIR, "mug", {("mug", "mug"): 0.4}, "cannot obstruct itself"),
        (PAIR, "mug", {("mug", "mgu"): 0.4}, "unknown object 'mgu'.*mug, box"),
        (PAIR, "mug", {("mug", "box", "can"): 0.4}, "pairs"),
        (PAIR, "mug", {"mug": 0.4}, "pairs"),
        (PAIR, "mug", np.zeros((3, 3)), r"\(3, 3\).*\(2, 2\)"),
        (PAIR, "mug", np.array([[0.0, 1.5], [0.0, 0.0]]), "'box' obstructs 'mug'.*1.5"),
        (PAIR, "mug", np.array([[0.3, 0.0], [0.0, 0.0]]), "itself"),
        (PAIR, "mug", np.array([[np.nan, 0.0], [0.0, 0.0]]), "itself"),
        (PAIR, "mug", "nonsense", "mapping or a"),
        (PAIR, "mug", np.array([[0.0, 0.5j], [0.0, 0.0]]), "mapping or a"),
        (("a", "b"), "a", {"ab": 0.5}, "pairs"),
        ((1, 2), "1", {}, "1, 2 .*different labels"),
    ],
)
def test_bad_scenes(objects, target, p, culprit):
    with pytest.raises(CporError, match=culprit):
        ObstructionPosterior(objects, target, p)


def test_relations_given_twice_must_agree():
    same = [("mug", "box", 0.4), ("mug", "box", 0.4)]
    assert list(ObstructionPosterior.from_relations(PAIR, "mug", same).relations()) == [Relation(*same[0])]
    with pytest.raises(CporError, match=r"twice.*0.4 and 0.5"):
        ObstructionPosterior.from_relations(PAIR, "mug", [("mug", "box", 0.4), ("mug", "box", 0.5)])
    with pytest.raises(CporError, match="twice"):
        ObstructionPosterior.from_relations(PAIR, "mug", [("mug", "box", 0.4), ("mug", "box", None)])


def test_mapping_and_array_describe_the_same_scene():
    mapped = ObstructionPosterior(PAIR, "mug", {("mug", "box"): 0.4, ("box", "mug"): None})
    array = ObstructionPosterior(PAIR, "mug", np.array([[0.0, 0.4], [np.nan, 0.0]]))
    assert mapped == array
    assert hash(mapped) == hash(array)
    assert list(mapped.relations()) == [("mug", "box", 0.4), ("box", "mug", None)]


def test_it_is_frozen_and_keeps_no_alias():
    given = np.array([[0.0, 0.4], [0.0, 0.0]])
    scene = ObstructionPosterior(PAIR, "mug", given)
    given[0, 1] = 0.9
    assert scene.p_obstructs[0, 1] == 0.4
    with pytest.raises(ValueError, match="read-only"):
        scene.p_obstructs[0, 1] = 0.9
    with pytest.raises(AttributeError):
        scene.target = "box"
    assert pickle.loads(pickle.dumps(scene)) == scene


def test_any_hashable_label_will_do():
    objects = ["mug", 7, (1, 2), frozenset({3})]
    scene = ObstructionPosterior(objects, (1, 2), {((1, 2), 7): 0.25})
    assert scene.index(frozenset({3})) == 3
    with pytest.raises(CporError, match="unknown object 8"):
        scene.index(8)


def test_numbers_of_any_type_will_do():
    for half in (Decimal("0.5"), Fraction(1, 2), np.float32(0.5), np.array(0.5)):
        assert ObstructionPosterior(PAIR, "mug", {("mug", "box"): half}).p_obstructs[0, 1] == 0.5


def test_copies_are_as_frozen_as_the_original():
    scene = ObstructionPosterior(PAIR, "mug", {("mug", "box"): 0.4})
    for copy in (pickle.loads(pickle.dumps(scene)), deepcopy(scene)):
        assert not copy.p_obstructs.flags.writeable


def test_equal_scenes_have_equal_hashes():
    zero, minus = (ObstructionPosterior(PAIR, "mug", np.array([[0.0, z], [0.0, 0.0]])) for z in (0.0, -0.0))
    assert zero == minus
    assert hash(zero) == hash(minus)


def test_the_target_is_spelt_as_the_objects_spell_it():
    assert repr(ObstructionPosterior([1, 2], 1.0, {}).target) == "1"
