"""Metrics against numbers computed by hand, and against scikit-learn."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jaxtyping import TypeCheckError
from sklearn.metrics import brier_score_loss, log_loss, roc_auc_score

from cpor.errors import CporError
from cpor.learn.reliability import ece, reliability_bins, summarise_reliability
from cpor.learn.scoring import auroc, brier, nll

P = np.array([0.05, 0.15, 0.15, 0.92])
LABEL = np.array([0, 0, 1, 1])


def test_ece_by_hand():
    # bins [0, .1): |.05 - 0| 1/4, [.1, .2): |.15 - .5| 2/4, [.9, 1]: |.92 - 1| 1/4
    assert ece(P, LABEL) == pytest.approx(0.0125 + 0.175 + 0.02)
    assert ece(P, LABEL, n_bins=1) == pytest.approx(abs(1.27 / 4 - 0.5))


def test_the_last_bin_holds_one_and_empty_bins_hold_nothing():
    bins = reliability_bins(np.array([0.0, 1.0]), np.array([0, 1]))
    assert bins.count.tolist() == [1, 0, 0, 0, 0, 0, 0, 0, 0, 1]
    assert np.isnan(bins.rate[1:9]).all()
    assert bins.p_mean[9] == 1.0


def test_brier_and_nll_by_hand():
    assert brier(P, LABEL) == pytest.approx((0.0025 + 0.0225 + 0.7225 + 0.0064) / 4)
    assert nll(P, LABEL) == pytest.approx(-np.log([0.95, 0.85, 0.15, 0.92]).mean())
    assert nll(np.array([0.0]), np.array([1])) == pytest.approx(-np.log(1e-9))


def test_auroc_by_hand_with_ties():
    # positives .15, .92; negatives .05, .15: 1 + 1/2 + 1 + 1 of 4
    assert auroc(P, LABEL) == pytest.approx(3.5 / 4)


@given(
    st.lists(st.tuples(st.sampled_from([0.0, 0.1, 0.3, 0.7, 1.0]), st.booleans()), min_size=2).filter(
        lambda rows: len({label for _, label in rows}) == 2
    )
)
def test_equal_to_scikit_learn(rows):
    p, label = np.array([p for p, _ in rows]), np.array([label for _, label in rows])
    assert auroc(p, label) == pytest.approx(roc_auc_score(label, p))
    assert brier(p, label) == pytest.approx(brier_score_loss(label, p))
    clipped = np.clip(p, 1e-9, 1 - 1e-9)
    assert nll(p, label) == pytest.approx(log_loss(label, clipped))


@pytest.mark.parametrize("metric", [ece, brier, nll, auroc, reliability_bins])
@pytest.mark.parametrize(
    ("p", "label", "says"),
    [
        ([], [], "empty"),
        ([0.2, np.nan], [0, 1], "no answer"),
        ([0.2, 0.3], [0, 2], "labels are 0 or 1"),
    ],
)
def test_refuses_what_it_cannot_measure(metric, p, label, says):
    with pytest.raises(CporError, match=says):
        metric(np.array(p, dtype=float), np.array(label))


@pytest.mark.parametrize("metric", [ece, brier, nll, auroc, reliability_bins])
def test_refuses_lengths_that_differ(metric):
    with pytest.raises((CporError, TypeCheckError)):  # the shape checker, where it is on, speaks first
        metric(np.array([0.2, 0.3]), np.array([0]))


def test_probabilities_lie_between_0_and_1():
    with pytest.raises(CporError, match=r"must lie in \[0, 1\]"):
        ece(np.array([1.2]), np.array([1]))
    with pytest.raises(CporError, match="positives with negatives"):
        auroc(np.array([0.2, 0.3]), np.array([1, 1]))


def test_summary_counts_the_unanswered_apart():
    summary = summarise_reliability(np.append(P, np.nan), np.append(LABEL, 1))
    assert (summary.n, summary.n_unanswered, summary.positive_rate) == (4, 1, 0.5)
    assert summary.ece == ece(P, LABEL)
    assert summarise_reliability(np.array([0.5]), np.array([1])).auroc is None
