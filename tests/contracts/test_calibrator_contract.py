"""One suite for every calibrator: fit, apply, save, load, and what each of them promises."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from jaxtyping import TypeCheckError

from cpor.errors import CporError
from cpor.learn.action import ActionCalibrator
from cpor.learn.graph_features import graph_features
from cpor.learn.isotonic import IsotonicCalibrator
from cpor.learn.logistic import LogisticCalibrator
from cpor.learn.versioned import VersionedModel

TARGET = 0

CALIBRATORS = {
    "action": ActionCalibrator,
    "isotonic": IsotonicCalibrator,
    "temperature": LogisticCalibrator,
    "platt": LogisticCalibrator,
    "scene": LogisticCalibrator,
    "graph": LogisticCalibrator,
}
SETTINGS = {"temperature": {"with_bias": False}, "scene": {"sees": "scene", "penalty": 1.0}}
SETTINGS["graph"] = {"sees": "graph", "penalty": 0.001}

of_single_pairs = pytest.mark.parametrize("kind", sorted(set(CALIBRATORS) - {"graph"}), indirect=True)
"""Those that look at each pair by itself; a pair without answer is still an edge of the graph."""


@dataclass
class Data:
    """Scored pairs of one scene or many, with everything that some calibrator looks at."""

    score: np.ndarray
    label: np.ndarray
    n_candidates: np.ndarray
    is_target: np.ndarray
    graphs: list[Any] = field(default_factory=list)

    def seen(self, kind):
        """What a caller passes beside the score."""
        return {"is_target": self.is_target} if kind == "action" else {"n_candidates": self.n_candidates}

    def fit(self, kind):
        """The calibrator of a kind, fitted to these pairs."""
        given = SETTINGS.get(kind, {}) | ({"graph": self.graphs} if kind == "graph" else {})
        return CALIBRATORS[kind].fit(self.score, self.label, **self.seen(kind), **given)

    def apply(self, fitted, kind):
        """Probabilities of these pairs, which are one scene's for the graph."""
        if kind == "graph":
            return fitted.on_chain(self.graphs[0]).p_on_chain(TARGET)
        return fitted.apply(self.score, **self.seen(kind))


def draw_data(seed, n_scenes, score=None):
    rng = np.random.default_rng(seed)
    scores, labels, counts, graphs = [], [], [], []
    for _ in range(n_scenes):
        if score is None:
            pairs = {(int(i), int(j)) for i, j in rng.integers(0, 5, size=(7, 2)) if i != j}
            own = rng.random(len(pairs))
            own[rng.random(own.size) < 0.1] = np.nan
        else:
            own = score
            pairs = {(k, k + 1) for k in range(own.size)}
        scores.append(own)
        labels.append(rng.random(own.size) < 0.1 + 0.6 * np.nan_to_num(own))
        counts.append(np.full(own.size, own.size))
        graphs.append(graph_features([i for i, _ in pairs], [j for _, j in pairs], TARGET, own))
    total = np.concatenate(scores)
    return Data(total, np.concatenate(labels), np.concatenate(counts), rng.random(total.size) < 0.5, graphs)


@pytest.fixture(scope="module", params=sorted(CALIBRATORS))
def kind(request):
    return request.param


@pytest.fixture(scope="module")
def fitted(kind):
    return draw_data(0, 60).fit(kind)


EXTREMES = np.array([0.0, 1e-12, 0.3, np.nan, 0.5, 0.97, 1.0, np.nan])


def test_is_a_calibrator(fitted, kind):
    assert isinstance(fitted, VersionedModel)
    assert fitted.kind == kind or fitted.kind == "logistic"
    assert fitted.version == 1
    assert fitted.monotone == (kind != "graph")


@pytest.mark.parametrize("score", [None, EXTREMES])
def test_probabilities_and_no_answer(fitted, kind, score):
    data = draw_data(1, 1, score)
    before = data.score.copy()
    p = data.apply(fitted, kind)
    assert p.shape == data.score.shape
    assert p.dtype == np.float64
    assert np.array_equal(np.isnan(p), np.isnan(data.score))
    assert ((p > 0.0) & (p < 1.0))[~np.isnan(p)].all()
    assert np.array_equal(data.score, before, equal_nan=True)


def test_nothing_in_nothing_out(fitted, kind):
    data = draw_data(1, 1, np.empty(0))
    assert data.apply(fitted, kind).shape == (0,)


def test_round_trip_to_the_last_bit(fitted, kind, tmp_path):
    data = draw_data(2, 1)
    p = data.apply(fitted, kind)
    fitted.save(tmp_path / "calibrator.json")
    for again in (
        type(fitted).from_json(fitted.to_json()),
        type(fitted).load(tmp_path / "calibrator.json"),
    ):
        assert type(again) is type(fitted)
        assert again == fitted
        assert data.apply(again, kind).tobytes() == p.tobytes()


def test_same_data_same_fit(fitted, kind):
    again = draw_data(0, 60).fit(kind)
    assert again.to_json() == fitted.to_json()


@of_single_pairs
def test_pairs_without_answer_teach_nothing(fitted, kind):
    data = draw_data(0, 60)
    answered = ~np.isnan(data.score)
    seen = {name: value[answered] for name, value in data.seen(kind).items() if isinstance(value, np.ndarray)}
    again = CALIBRATORS[kind].fit(
        data.score[answered], data.label[answered], **seen, **SETTINGS.get(kind, {})
    )
    assert again.apply(EXTREMES[:3], **{k: v[:3] for k, v in seen.items()}) == pytest.approx(
        fitted.apply(EXTREMES[:3], **{k: v[:3] for k, v in seen.items()})
    )


@of_single_pairs
def test_monotone_where_promised(fitted, kind):
    score = np.linspace(0.0, 1.0, 501)
    for role in (True, False):
        same = Data(score, score, np.full(score.size, 4), np.full(score.size, role))
        assert (np.diff(fitted.apply(score, **same.seen(kind))) >= 0.0).all()


@pytest.mark.parametrize(
    ("rows", "says"),
    [("none", "nothing to fit"), ("unanswered", "nothing to fit"), ("zeros", "all .* labels are 0")],
)
def test_refuses_data_that_teach_nothing(kind, rows, says):
    data = draw_data(3, 0 if rows == "none" else 20) if rows != "none" else draw_data(3, 1, np.empty(0))
    if rows == "unanswered":
        data = draw_data(3, 1, np.full(6, np.nan))
    if rows == "zeros":
        data.label[:] = False
    with pytest.raises(CporError, match=says):
        data.fit(kind)


@pytest.mark.parametrize("bad", [-0.1, 1.1, np.inf])
def test_refuses_scores_that_are_none(fitted, kind, bad):
    data = draw_data(4, 1)
    data.score[0] = bad
    graph = data.graphs[0]
    if kind == "graph":  # its scores come with the graph
        with pytest.raises(CporError, match=r"must lie in \[0, 1\]"):
            graph_features(graph.blocked, graph.blocker, TARGET, data.score)
    else:
        with pytest.raises(CporError, match=r"must lie in \[0, 1\]"):
            data.apply(fitted, kind)


def test_refuses_labels_that_do_not_fit(kind):
    data = draw_data(5, 30)
    data.label = data.label[:-1]
    with pytest.raises((CporError, TypeCheckError)):  # the shape checker, where it is on, speaks first
        data.fit(kind)
    data = draw_data(5, 30)
    data.label = data.label + 1
    with pytest.raises(CporError, match="labels are 0 or 1"):
        data.fit(kind)
