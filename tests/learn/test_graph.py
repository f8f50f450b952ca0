"""What the candidate graph says, by hand; and that on-chain probabilities stay with their target."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cpor.errors import FittingError
from cpor.learn.graph_features import CONDITIONS, condition_matrix, graph_features
from cpor.learn.logistic import CHAIN_PENALTY, LogisticCalibrator, OnChainProbabilities, cross_fit_on_chain

# target a <- b, c; b <- d, a; d has no answer about c; e <- f lies apart
BLOCKED = ["a", "a", "b", "b", "d", "e"]
BLOCKER = ["b", "c", "d", "a", "c", "f"]
SCORE = np.array([0.9, 0.6, 0.7, 0.2, np.nan, 0.8])


@pytest.fixture
def features():
    return graph_features(BLOCKED, BLOCKER, "a", SCORE)


def test_features_by_hand(features):
    assert features.blocked_distance.tolist() == [0, 0, 1, 1, 2, np.inf]
    assert features.blocker_distance.tolist() == [1, 1, 2, 0, 1, np.inf]
    assert features.blocked_on_chain.tolist() == [True] * 5 + [False]
    assert features.has_reciprocal.tolist() == [True, False, False, True, False, False]
    assert features.score_reciprocal[[0, 3]].tolist() == [0.2, 0.9]
    assert np.isnan(features.score_reciprocal[[1, 2, 4, 5]]).all()
    assert features.rank[[0, 1, 2, 3, 5]].tolist() == [0, 1, 0, 1, 0]
    assert np.isnan(features.rank[4])
    assert features.n_rivals.tolist() == [1, 1, 1, 1, 0, 0]


def test_conditions_by_hand(features):
    row = dict(zip(CONDITIONS, condition_matrix(features)[3], strict=True))
    assert row == pytest.approx(
        {
            "log_candidates": np.log(7),
            "blocked_is_target": 0,
            "blocked_on_chain": 1,
            "blocked_distance": 1,
            "blocker_is_target": 1,
            "blocker_on_chain": 1,
            "has_reciprocal": 1,
            "logit_reciprocal": np.log(9),
            "rank": 1,
            "n_rivals": 1,
        }
    )


def test_an_opposite_pair_without_answer_is_unknown_not_absent():
    features = graph_features(["a", "b"], ["b", "a"], "a", np.array([0.5, np.nan]))
    columns = [CONDITIONS.index("has_reciprocal"), CONDITIONS.index("logit_reciprocal")]
    assert np.isnan(condition_matrix(features)[0, columns]).all()
    absent = graph_features(["a"], ["b"], "a", np.array([0.5]))
    assert condition_matrix(absent)[0, columns].tolist() == [0, 0]


def test_equal_rivals_share_their_rank():
    features = graph_features(["a"] * 3, ["b", "c", "d"], "a", np.array([0.5, 0.5, 0.9]))
    assert features.rank.tolist() == [1.5, 1.5, 0]


def test_a_scene_without_pairs():
    features = graph_features([], [], "a", np.empty(0))
    assert condition_matrix(features).shape == (0, len(CONDITIONS))


@given(st.permutations(range(6)), st.permutations("uvwxyz"))
def test_order_and_names_do_not_matter(order, names):
    rename = dict(zip("abcdef", names, strict=True))
    shuffled = graph_features(
        [rename[BLOCKED[k]] for k in order],
        [rename[BLOCKER[k]] for k in order],
        rename["a"],
        SCORE[list(order)],
    )
    plain = condition_matrix(graph_features(BLOCKED, BLOCKER, "a", SCORE))
    assert np.array_equal(condition_matrix(shuffled), plain[list(order)], equal_nan=True)


@pytest.mark.parametrize(
    ("blocked", "blocker", "score", "says"),
    [
        (["a", "a"], ["b", "b"], [0.1, 0.2], "given twice"),
        (["a"], ["a"], [0.1], "cannot obstruct itself"),
        (["a"], ["b"], [0.1, 0.2], "make no pairs"),
        (["a"], ["b"], [1.1], "must lie in"),
    ],
)
def test_refuses_what_is_no_scene(blocked, blocker, score, says):
    with pytest.raises(FittingError, match=says):
        graph_features(blocked, blocker, "a", np.array(score))


@pytest.fixture(scope="module")
def scenes():
    """Scenes in which only relations on the target's chain count as true, whatever their score."""
    rng = np.random.default_rng(5)
    graphs, labels = [], []
    for _ in range(150):
        pairs = {(int(i), int(j)) for i, j in rng.integers(0, 6, size=(8, 2)) if i != j}
        score = rng.uniform(0.05, 0.95, len(pairs))
        graph = graph_features([i for i, _ in pairs], [j for _, j in pairs], 0, score)
        rate = np.where(graph.blocked_on_chain, score, 0.03)
        graphs.append(graph)
        labels.append(rng.random(len(pairs)) < rate)
    return graphs, labels


def test_learns_that_only_the_chain_counts(scenes):
    graphs, labels = scenes
    probabilities = cross_fit_on_chain(graphs, labels, list(range(150)))
    p = np.concatenate([each.p_on_chain(0) for each in probabilities])
    chain = np.concatenate([graph.blocked_on_chain for graph in graphs])
    score = np.concatenate([graph.score for graph in graphs])
    assert p[~chain].mean() < 0.08
    assert np.abs(p[chain] - score[chain]).mean() < 0.1


def test_probabilities_stay_with_their_target(scenes):
    graphs, labels = scenes
    score, label = np.concatenate([graph.score for graph in graphs]), np.concatenate(labels)
    fitted = LogisticCalibrator.fit(score, label, sees="graph", graph=graphs, penalty=CHAIN_PENALTY)
    features = graph_features(BLOCKED, BLOCKER, "a", SCORE)
    found = fitted.on_chain(features)
    assert isinstance(found, OnChainProbabilities)
    assert np.isnan(found.p_on_chain("a")).tolist() == np.isnan(SCORE).tolist()
    with pytest.raises(FittingError, match="chain of 'a'; for 'b'"):
        found.p_on_chain("b")
    with pytest.raises(TypeError):
        np.asarray(found, dtype=float)
    with pytest.raises(ValueError, match="read-only"):
        found.p_on_chain("a")[0] = 1.0
    posterior = found.posterior(["a", "b", "c", "d", "e", "f", "g"])
    assert posterior.target == "a"
    assert posterior.has_unanswered
    assert {(r.blocked, r.blocker) for r in posterior.relations()} == set(zip(BLOCKED, BLOCKER, strict=True))


def test_says_when_graph_and_scores_do_not_belong_together(scenes):
    graphs, labels = scenes
    score, label = np.concatenate([graph.score for graph in graphs]), np.concatenate(labels)
    with pytest.raises(FittingError, match="needs `graph`"):
        LogisticCalibrator.fit(score, label, sees="graph")
    with pytest.raises(FittingError, match="other scores"):
        LogisticCalibrator.fit(score, label, sees="graph", graph=graphs[::-1])


def test_conditions_are_standardised_over_those_that_are_known(scenes):
    graphs, labels = scenes
    score, label = np.concatenate([graph.score for graph in graphs]), np.concatenate(labels)
    lost = score.copy()
    lost[::7] = np.nan  # also the reciprocal scores of their opposite pairs are not known then
    blank = [
        graph_features(graph.blocked, graph.blocker, 0, part)
        for graph, part in zip(graphs, np.split(lost, np.cumsum([len(g) for g in graphs])[:-1]), strict=True)
    ]
    fitted = LogisticCalibrator.fit(lost, label, sees="graph", graph=blank, penalty=CHAIN_PENALTY)
    condition = np.concatenate([condition_matrix(each) for each in blank])[~np.isnan(lost)]
    assert np.isnan(condition).any()
    assert fitted.mean == pytest.approx(np.nanmean(condition, axis=0))
    assert fitted.scale == pytest.approx(np.nanstd(condition, axis=0))
    assert not fitted.monotone


def test_each_form_is_asked_in_its_own_way(scenes):
    graphs, _ = scenes
    plain = LogisticCalibrator(theta=(0.0, 0.0))
    k = len(CONDITIONS)
    chain = LogisticCalibrator(sees="graph", theta=(0.0,) * (2 * k + 2), mean=(0.0,) * k, scale=(1.0,) * k)
    with pytest.raises(FittingError, match="use `apply`"):
        plain.on_chain(graphs[0])
    with pytest.raises(FittingError, match="use `on_chain`"):
        chain.apply(graphs[0].score)
