"""Fits to the authors' released VLM scores against reference values, which the paper does not print."""

import numpy as np
import pytest
from sklearn.isotonic import IsotonicRegression

from cpor.learn.isotonic import IsotonicCalibrator
from cpor.learn.logistic import LogisticCalibrator
from cpor.learn.reliability import ece
from cpor.learn.scoring import brier, nll

PAPER_PENALTY = 1.0
"""lambda_cal of the paper for the VLM source."""


def test_scene_platt(vlm_pairs, evidence):
    fitted = LogisticCalibrator.fit(
        vlm_pairs.score, vlm_pairs.label, sees="scene", n_candidates=vlm_pairs.n_candidates, penalty=1.0
    )
    reference = {
        "mu_phi": 1.57988,
        "sigma_phi": 0.44408,
        "alpha_0": -0.30788,
        "alpha_n": 0.05107,
        "c_0": -0.61925,
        "c_n": 0.04537,
        "objective": 0.568809,
    }
    values = (*fitted.mean, *fitted.scale, *fitted.theta, fitted.objective)
    found = dict(zip(reference, values, strict=True))
    worst = max(abs(found[name] - reference[name]) for name in reference)
    point = "eq. calibration on the released scores, largest difference from reference parameters"
    evidence("paper", point, "", worst)
    assert found == pytest.approx(reference, abs=1e-5)


def test_figures_before_and_after(vlm_pairs, evidence):
    score, label = vlm_pairs.score, vlm_pairs.label
    fitted = LogisticCalibrator.fit(
        score, label, sees="scene", n_candidates=vlm_pairs.n_candidates, penalty=PAPER_PENALTY
    )
    p = fitted.apply(score, n_candidates=vlm_pairs.n_candidates)
    after = [round(figure(p, label), 4) for figure in (nll, brier, ece)]
    evidence("paper", "NLL, Brier and ECE of the released scores after calibration", "", after)
    assert [nll(score, label), nll(p, label)] == pytest.approx([0.6741, 0.5665], abs=1e-4)
    assert [brier(score, label), brier(p, label)] == pytest.approx([0.2216, 0.1916], abs=1e-4)
    assert [ece(score, label), ece(p, label)] == pytest.approx([0.1604, 0.0286], abs=1e-4)


def test_platt(vlm_pairs):
    fitted = LogisticCalibrator.fit(vlm_pairs.score, vlm_pairs.label)
    assert (fitted.slope, fitted.bias) == pytest.approx((0.71812, -0.58848), abs=1e-5)


def test_penalty_chosen_beside_the_papers(vlm_pairs, evidence):
    """A comment in the paper's source says that its folds chose 1.0; others mostly choose 0.1 or 0.01."""
    for number, rng in enumerate((None, np.random.default_rng(0), np.random.default_rng(1))):
        curve = LogisticCalibrator.penalty_curve(
            vlm_pairs.score,
            vlm_pairs.label,
            vlm_pairs.image,
            n_candidates=vlm_pairs.n_candidates,
            rng=rng,
        )
        at_paper = curve.nll[curve.penalty.index(1.0)]
        shown = f"{curve.best:g} (NLL {min(curve.nll):.4f}; at 1: {at_paper:.4f})"
        folds = "folds in order" if rng is None else f"random folds {number}"
        evidence("paper", f"penalty by cross-validation over images, {folds}", "1", shown)
        assert curve.nll_folds.shape == (7, 5)
        assert curve.best in (0.001, 0.01, 0.1, 1.0)
        assert at_paper - min(curve.nll) < 0.005


def test_isotonic_equals_scikit_learn(vlm_pairs, evidence):
    fitted = IsotonicCalibrator.fit(vlm_pairs.score, vlm_pairs.label)
    theirs = IsotonicRegression(out_of_bounds="clip").fit(vlm_pairs.score, vlm_pairs.label)
    grid = np.concatenate([vlm_pairs.score, np.linspace(0.0, 1.0, 1001)])
    worst = float(np.abs(fitted.apply(grid) - theirs.predict(grid)).max())
    evidence("calibrated", "isotonic = scikit-learn, worst difference (we clip to 1e-9)", "< 2e-9", worst)
    assert worst < 2e-9


def test_isotonic_equals_scikit_learn_on_fused_scores(synthetic_rows):
    score = np.array([float(row["edge_confidence"]) for row in synthetic_rows])
    label = np.array([int(row["label"]) for row in synthetic_rows])
    theirs = IsotonicRegression(out_of_bounds="clip").fit(score, label)
    assert np.abs(IsotonicCalibrator.fit(score, label).apply(score) - theirs.predict(score)).max() < 2e-9


def test_fused_scores_as_they_stand(synthetic_rows):
    score = np.array([float(row["edge_confidence"]) for row in synthetic_rows])
    label = np.array([int(row["label"]) for row in synthetic_rows])
    assert score.size == 6467
    found = (label.mean(), ece(score, label), nll(score, label), brier(score, label))
    assert found == pytest.approx((0.2709, 0.1393, 0.5184, 0.1680), abs=1e-4)
