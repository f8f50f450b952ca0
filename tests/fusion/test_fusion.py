"""eq. fusion and fusion-loss at hand-computed points; absent sources; another base rate."""

import json
import math

import numpy as np
import pytest
from jaxtyping import TypeCheckError
from scipy.optimize import check_grad
from scipy.special import expit, logit

from cpor.calibration import CalibrationInputError, ModelFileError
from cpor.errors import InvalidSettingError
from cpor.fusion import (
    GatedFusion,
    NaiveFusion,
    fusion_from_json,
    load_fusion,
    shift_for_decoding,
    shift_prior,
)
from cpor.fusion.gated import fusion_loss

NAN = np.nan
FUSION = GatedFusion(gamma=-0.5, beta_vlm=0.8, beta_cv=0.4, prior=0.3, penalty=0.01, objective=0.0)


def test_fusion_by_hand():
    # logit .3 = -.847298; h_vlm = logit .7 + .847298 = 1.694596; h_cv = logit .2 + .847298 = -.538997
    # g = -.5 + .8 * 1.694596 + .4 * .5 * -.538997 = .747877, p = .678716
    p = FUSION.apply(p_vlm=np.array([0.7]), p_cv=np.array([0.2]), reliability=np.array([0.5]))
    assert p[0] == pytest.approx(0.678716, abs=1e-6)


def test_an_absent_source_adds_nothing():
    p = FUSION.apply(
        p_vlm=np.array([0.7, NAN, NAN, NAN]),
        p_cv=np.array([NAN, 0.2, NAN, 0.2]),
        reliability=np.array([NAN, 0.5, 0.9, 0.0]),
    )
    # -.5 + .8 * 1.694596 and -.5 + .4 * .5 * -.538997; no source: no answer; r = 0: it says nothing
    assert p[:2] == pytest.approx(expit([0.855677, -0.607799]), abs=1e-6)
    assert np.isnan(p[2:]).all()


def test_a_source_that_is_absent_everywhere():
    p_vlm = np.array([0.2, 0.7, NAN])
    alone = FUSION.apply(p_vlm=p_vlm)
    beside = FUSION.apply(p_vlm=p_vlm, p_cv=np.full(3, NAN), reliability=np.full(3, NAN))
    assert np.array_equal(alone, beside, equal_nan=True)
    geometry = FUSION.apply(p_cv=np.array([0.9]), reliability=np.array([1.0]))
    assert geometry[0] == pytest.approx(expit(-0.5 + 0.4 * (math.log(9) + 0.847298)), abs=1e-6)


def test_naive_fusion_by_hand():
    p = NaiveFusion().apply(p_vlm=np.array([0.7, 0.7, NAN, NAN]), p_cv=np.array([0.2, NAN, 0.2, NAN]))
    # odds 7/3 * 1/4 = 7/12
    assert p[:3] == pytest.approx([7 / 19, 0.7, 0.2])
    assert np.isnan(p[3])


def test_loss_by_hand():
    theta = np.array([-0.2, 0.5, 0.3])
    evidence, label = np.array([[1.0, -2.0], [0.0, 1.5]]), np.array([True, False])
    # log-odds -.3 and .25
    nll = (math.log1p(math.exp(0.3)) + math.log1p(math.exp(0.25))) / 2
    loss, _ = fusion_loss(theta, evidence, label, penalty=0.2)
    assert loss == pytest.approx(nll + 0.1 * (0.25 + 0.09))


def test_gradient():
    rng = np.random.default_rng(0)
    evidence, label = rng.normal(size=(50, 2)), rng.random(50) < 0.4
    for _ in range(10):
        error = check_grad(
            lambda t: fusion_loss(t, evidence, label, 0.3)[0],
            lambda t: fusion_loss(t, evidence, label, 0.3)[1],
            rng.normal(scale=2.0, size=3),
        )
        assert error < 1e-6


@pytest.fixture(scope="module")
def pairs():
    """Two sources that are independent given the truth, each absent for a fifth of the pairs."""
    rng = np.random.default_rng(1)
    n, prior = 20_000, 0.25
    label = rng.random(n) < prior
    strength = {"vlm": 1.0, "cv": 0.7}
    p = {
        name: expit(logit(prior) + strong * rng.normal(np.where(label, 1, -1) * strong, 1.0) * 2)
        for name, strong in strength.items()
    }
    for values in p.values():
        values[rng.random(n) < 0.2] = NAN
    reliability = np.ones(n)
    return label, {"p_vlm": p["vlm"], "p_cv": p["cv"], "reliability": reliability}


def test_recovers_bayes_where_its_assumptions_hold(pairs):
    # Each source's centred log-odds are its log-likelihood ratio, so both weights are 1.
    label, sources = pairs
    fitted = GatedFusion.fit(label, **sources, penalty=0.0)
    assert (fitted.beta_vlm, fitted.beta_cv) == pytest.approx((1.0, 1.0), abs=0.06)
    assert fitted.gamma == pytest.approx(logit(0.25), abs=0.06)


def test_a_source_that_misleads_falls_to_weight_0(pairs):
    label, sources = pairs
    fitted = GatedFusion.fit(label, **(sources | {"p_cv": 1.0 - sources["p_cv"]}), penalty=0.0)
    assert fitted.beta_cv == 0.0
    assert fitted.beta_vlm > 0.5


def test_the_intercept_is_not_drawn_to_0(pairs):
    label, sources = pairs
    fitted = GatedFusion.fit(label, **sources, penalty=1e6)
    assert (fitted.beta_vlm, fitted.beta_cv) == pytest.approx((0.0, 0.0), abs=1e-5)
    answered = ~(np.isnan(sources["p_vlm"]) & np.isnan(sources["p_cv"]))
    assert fitted.prior == label[answered].mean()
    assert expit(fitted.gamma) == pytest.approx(fitted.prior, abs=1e-4)


def test_penalty_by_cross_validation(pairs):
    label, sources = pairs
    few = {name: values[:400] for name, values in sources.items()}
    curve = GatedFusion.penalty_curve(label[:400], np.arange(400) // 4, **few)
    assert len(curve.nll) == 7
    assert curve.best <= 0.1
    assert curve.nll[-1] > min(curve.nll) + 0.05


def test_another_base_rate(pairs):
    label, sources = pairs
    fitted = GatedFusion.fit(label, **sources, penalty=0.0)
    p = fitted.apply(**sources)
    moved = fitted.apply(**sources, prior=0.1)
    expected = shift_prior(p, fitted_prior=fitted.prior, deployed_prior=0.1)
    assert np.allclose(moved, expected, atol=1e-8, equal_nan=True)
    # Thin the true relations out to the new share: the moved probabilities are right there.
    keep = ~np.isnan(p) & (~label | (np.random.default_rng(2).random(label.size) < 1 / 3))
    assert moved[keep].mean() == pytest.approx(label[keep].mean(), abs=0.01)
    assert p[keep].mean() > label[keep].mean() + 0.03


def test_shifts_by_hand():
    # odds 1 * (1/9) / (1/4) = 4/9
    assert shift_prior(np.array([0.5]), fitted_prior=0.2, deployed_prior=0.1)[0] == pytest.approx(4 / 13)
    # odds 1 / (9/91): p = 91/100; and p = rate becomes even odds
    assert shift_for_decoding(np.array([0.5, 0.09]), 0.09) == pytest.approx([0.91, 0.5])
    assert shift_for_decoding(np.array([0.0, 1.0]), 0.09).tolist() == [0.0, 1.0]
    assert np.isnan(shift_for_decoding(np.array([NAN]), 0.09))[0]
    with pytest.raises(InvalidSettingError, match="strictly between 0 and 1"):
        shift_for_decoding(np.array([0.5]), 0.0)


@pytest.mark.parametrize("fusion", [FUSION, NaiveFusion()])
def test_round_trip(fusion, tmp_path):
    fusion.save(tmp_path / "fusion.json")
    assert load_fusion(tmp_path / "fusion.json") == fusion == fusion_from_json(fusion.to_json())
    with pytest.raises(ModelFileError, match="known kinds: gated-fusion, naive-fusion"):
        fusion_from_json(json.dumps(json.loads(fusion.to_json()) | {"kind": "fuse"}))
    with pytest.raises(ModelFileError, match="newer release"):
        fusion_from_json(json.dumps(json.loads(fusion.to_json()) | {"version": 7}))


def test_refuses_what_teaches_nothing():
    label = np.array([0, 1, 1])
    with pytest.raises(CalibrationInputError, match="at least one source"):
        GatedFusion.fit(label, penalty=0.1)
    with pytest.raises(CalibrationInputError, match="no labelled pair has a source"):
        GatedFusion.fit(label, p_vlm=np.full(3, NAN), penalty=0.1)
    with pytest.raises(CalibrationInputError, match="all 2 labels are 1"):
        GatedFusion.fit(label, p_vlm=np.array([NAN, 0.2, 0.4]), penalty=0.1)
    with pytest.raises(CalibrationInputError, match="needs reliability"):
        GatedFusion.fit(label, p_cv=np.array([0.1, 0.2, 0.4]), penalty=0.1)
    with pytest.raises(CalibrationInputError, match="pair 1 has a geometric confidence but no reliability"):
        FUSION.apply(p_cv=np.array([NAN, 0.2]), reliability=np.array([NAN, NAN]))
    with pytest.raises((CalibrationInputError, TypeCheckError)):  # the shape checker may speak first
        FUSION.apply(p_vlm=np.zeros(3), p_cv=np.zeros(2), reliability=np.ones(2))
