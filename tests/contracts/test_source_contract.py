"""One suite for every source of belief: scores of ordered pairs, or no answer, always the same."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from cpor.errors import InvalidSettingError
from cpor.evidence.source import PairScores, SourceError, load_sources, score_with, sources_of_model
from cpor.testing import check_source, example_scene

EXAMPLE = Path(__file__).parents[2] / "examples" / "05_own_source.py"


def depth_step():
    spec = importlib.util.spec_from_file_location("own_source", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.DepthStep()


class Says:
    """Says the same number of every pair, or what it is given."""

    name = "says"

    def __init__(self, score=0.3, **more):
        self.value, self.more = score, more

    def score(self, scene):
        n = len(scene.ids)
        full = self.value if isinstance(self.value, np.ndarray) else np.full((n, n), self.value)
        return PairScores(full, **{name: np.full((n, n), value) for name, value in self.more.items()})


@pytest.mark.parametrize("make", [depth_step, Says, lambda: Says(np.nan, asked=True)])
def test_it_keeps_the_rules(make):
    check_source(make)


def test_the_example_sees_which_box_lies_on_top():
    scores = score_with(depth_step(), example_scene())
    # Red and green share a border, green and blue too; green is above red, blue above green.
    assert scores.score[0, 1] == 1.0 and scores.score[1, 0] == 0.0
    assert scores.score[1, 2] == 1.0 and scores.score[2, 1] == 0.0
    assert np.isnan(scores.score[0, 2]) and np.isnan(np.diagonal(scores.score)).all()
    assert (scores.asked == ~np.isnan(scores.score)).all() and (scores.reliability == 1.0).all()


class Fickle(Says):
    def score(self, scene):
        self.value = self.value / 2.0
        return super().score(scene)


class Painter(Says):
    def score(self, scene):
        scene.points[1] = (0.0, 0.0)
        return super().score(scene)


class Nameless(Says):
    name = ""


class Impostor(Says):
    name = "geometry"


class Bare(Says):
    def score(self, scene):
        return np.zeros((len(scene.ids),) * 2)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Says(1.5), r"outside of \[0, 1\]"),
        (lambda: Says(0.5, reliability=2.0), "a reliability outside"),
        (lambda: Says(np.zeros((2, 2))), r"has shape \(2, 2\); give \(3, 3\)"),
        (Bare, "gave a ndarray"),
        (Fickle, "the same scene twice"),
        (Painter, "must not change the scene"),
        (Nameless, "no source of belief"),
        (Impostor, "'geometry' of a source is in use"),
        (object, "a name and a method score"),
    ],
)
def test_a_source_that_breaks_a_rule_is_found_out(make, said):
    with pytest.raises(AssertionError, match=said):
        check_source(make)


def test_a_scored_pair_is_asked_and_no_object_obstructs_itself():
    scores = score_with(Says(0.4, asked=False), example_scene())
    assert scores.asked.sum() == 6 and np.isnan(np.diagonal(scores.score)).all()
    with pytest.raises(SourceError, match="reliability"):
        score_with(Says(0.4, reliability=np.nan), example_scene())


def test_sources_are_loaded_by_name_object_or_module():
    (source,) = load_sources([f"{__name__}:Says"])
    assert source.name == "says"
    with pytest.raises(InvalidSettingError, match="unknown source 'shadow'; installed are: none"):
        load_sources(["shadow"])
    with pytest.raises(InvalidSettingError, match="'says' of a source is in use"):
        load_sources([Says(), Says()])


def test_a_model_names_its_sources_and_imports_nothing_by_itself():
    says = Says()
    assert sources_of_model(["semantic", "geometry", "says"], [says]) == (says,)
    assert sources_of_model(["semantic", "geometry"], []) == ()
    with pytest.raises(InvalidSettingError, match="fitted with the source 'says', which is not installed"):
        sources_of_model(["says"], [])
    with pytest.raises(InvalidSettingError, match="not installed"):
        sources_of_model([f"{__name__}:Says"], [])  # no file makes us import a module
    with pytest.raises(InvalidSettingError, match="not fitted with the source 'says'"):
        sources_of_model(["geometry"], [says])
