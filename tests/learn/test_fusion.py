"""eq. fusion and fusion-loss at hand-computed points; absent sources; another base rate."""

import json
import math

import numpy as np
import pytest
from jaxtyping import TypeCheckError
from scipy.optimize import check_grad
from scipy.special import expit, logit

from cpor.errors import FittingError, InputFileError, InvalidSettingError
from cpor.learn.gated import GatedFusion, NaiveFusion, fusion_loss
from cpor.learn.prior import shift_for_decoding, shift_prior

NAN = np.nan
BETA = {"semantic": 0.8, "geometry": 0.4}
FUSION = GatedFusion(gamma=-0.5, beta=BETA, prior=0.3, penalty=0.01, objective=0.0)


def fuse(fusion, semantic=None, geometry=None, reliability=None):
    """The paper's case: semantic scores, and geometry gated by its reliability."""
    given = {"semantic": semantic, "geometry": geometry}
    p = {name: np.array(values) for name, values in given.items() if values is not None}
    return fusion.apply(p, None if reliability is None else {"geometry": np.array(reliability)})


def test_fusion_by_hand():
    # logit .3 = -.847298; h_vlm = logit .7 + .847298 = 1.694596; h_cv = logit .2 + .847298 = -.538997
    # g = -.5 + .8 * 1.694596 + .4 * .5 * -.538997 = .747877, p = .678716
    p = fuse(FUSION, [0.7], [0.2], [0.5])
    assert p[0] == pytest.approx(0.678716, abs=1e-6)


def test_an_absent_source_adds_nothing():
    p = fuse(FUSION, [0.7, NAN, NAN, NAN], [NAN, 0.2, NAN, 0.2], [NAN, 0.5, 0.9, 0.0])
    # -.5 + .8 * 1.694596 and -.5 + .4 * .5 * -.538997; no source: no answer; r = 0: it says nothing
    assert p[:2] == pytest.approx(expit([0.855677, -0.607799]), abs=1e-6)
    assert np.isnan(p[2:]).all()


def test_a_source_that_is_absent_everywhere():
    alone = fuse(FUSION, [0.2, 0.7, NAN])
    beside = fuse(FUSION, [0.2, 0.7, NAN], [NAN] * 3, [NAN] * 3)
    assert np.array_equal(alone, beside, equal_nan=True)
    geometry = fuse(FUSION, None, [0.9], [1.0])
    assert geometry[0] == pytest.approx(expit(-0.5 + 0.4 * (math.log(9) + 0.847298)), abs=1e-6)


def test_a_source_without_weight_is_no_answer():
    """The base rate of .38 would pass for one, and a target below an unread blocker for free."""
    fusion = FUSION.model_copy(update={"beta": {"semantic": 0.0, "geometry": 0.4}})
    p = fuse(fusion, [0.99, 0.99], [NAN, 0.2], [NAN, 1.0])
    assert np.isnan(p[0]) and p[1] == pytest.approx(expit(-0.5 + 0.4 * -0.538997), abs=1e-6)


def test_naive_fusion_by_hand():
    p = fuse(NaiveFusion(), [0.7, 0.7, NAN, NAN], [0.2, NAN, 0.2, NAN], [0.1] * 4)
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
    return label, {"semantic": p["vlm"], "geometry": p["cv"]}, {"geometry": reliability}


def test_recovers_bayes_where_its_assumptions_hold(pairs):
    # Each source's centred log-odds are its log-likelihood ratio, so both weights are 1.
    label, p, gate = pairs
    fitted = GatedFusion.fit(label, p, gate, penalty=0.0)
    assert tuple(fitted.beta.values()) == pytest.approx((1.0, 1.0), abs=0.06)
    assert fitted.gamma == pytest.approx(logit(0.25), abs=0.06)


def test_a_source_that_misleads_falls_to_weight_0(pairs):
    label, p, gate = pairs
    fitted = GatedFusion.fit(label, p | {"geometry": 1.0 - p["geometry"]}, gate, penalty=0.0)
    assert fitted.beta["geometry"] == 0.0
    assert fitted.beta["semantic"] > 0.5


@pytest.mark.parametrize("penalty", [0.0, 0.001])
def test_a_source_that_never_answered_gets_no_weight(penalty):
    label, p = np.array([0, 1, 0, 1, 1, 0]), np.array([0.2, 0.7, 0.6, 0.9, 0.4, 0.1])
    fusion = GatedFusion.fit(label, {"semantic": np.full(6, NAN), "geometry": p}, penalty=penalty)
    alone = GatedFusion.fit(label, {"geometry": p}, penalty=penalty)
    assert fusion.beta["semantic"] == 0.0
    assert fusion.beta["geometry"] == pytest.approx(alone.beta["geometry"], abs=1e-6)


def test_the_intercept_is_not_drawn_to_0(pairs):
    label, p, gate = pairs
    fitted = GatedFusion.fit(label, p, gate, penalty=1e6)
    assert tuple(fitted.beta.values()) == pytest.approx((0.0, 0.0), abs=1e-5)
    answered = ~(np.isnan(p["semantic"]) & np.isnan(p["geometry"]))
    assert fitted.prior == label[answered].mean()
    assert expit(fitted.gamma) == pytest.approx(fitted.prior, abs=1e-4)


def test_penalty_by_cross_validation(pairs):
    label, p, gate = pairs
    few, few_gates = ({name: values[:400] for name, values in each.items()} for each in (p, gate))
    curve = GatedFusion.penalty_curve(label[:400], np.arange(400) // 4, few, few_gates)
    assert len(curve.nll) == 7
    assert curve.best <= 0.1
    assert curve.nll[-1] > min(curve.nll) + 0.05


def test_another_base_rate(pairs):
    label, p, gate = pairs
    fitted = GatedFusion.fit(label, p, gate, penalty=0.0)
    fused = fitted.apply(p, gate)
    moved = fitted.apply(p, gate, prior=0.1)
    expected = shift_prior(fused, fitted_prior=fitted.prior, deployed_prior=0.1)
    assert np.allclose(moved, expected, atol=1e-8, equal_nan=True)
    # Thin the true relations out to the new share: the moved probabilities are right there.
    keep = ~np.isnan(fused) & (~label | (np.random.default_rng(2).random(label.size) < 1 / 3))
    assert moved[keep].mean() == pytest.approx(label[keep].mean(), abs=0.01)
    assert fused[keep].mean() > label[keep].mean() + 0.03


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
    assert fusion.load(tmp_path / "fusion.json") == fusion == fusion.from_json(fusion.to_json())
    with pytest.raises(InputFileError, match=f"known kinds: {fusion.kind}"):
        fusion.from_json(json.dumps(json.loads(fusion.to_json()) | {"kind": "fuse"}))
    with pytest.raises(InputFileError, match="newer release"):
        fusion.from_json(json.dumps(json.loads(fusion.to_json()) | {"version": 7}))


def test_refuses_what_teaches_nothing():
    label = np.array([0, 1, 1])
    with pytest.raises(FittingError, match="at least one source"):
        GatedFusion.fit(label, {}, penalty=0.1)
    with pytest.raises(FittingError, match="no labelled pair has a source"):
        GatedFusion.fit(label, {"semantic": np.full(3, NAN)}, penalty=0.1)
    with pytest.raises(FittingError, match="all 2 labels are 1"):
        GatedFusion.fit(label, {"semantic": np.array([NAN, 0.2, 0.4])}, penalty=0.1)
    with pytest.raises(FittingError, match="pair 1 has a probability by geometry but no reliability"):
        fuse(FUSION, None, [NAN, 0.2], [NAN, NAN])
    with pytest.raises((FittingError, TypeCheckError)):  # the shape checker may speak first
        fuse(FUSION, np.zeros(3), np.zeros(2), np.ones(2))
    with pytest.raises(FittingError, match="no weight for the source 'shadow'"):
        FUSION.apply({"shadow": np.array([0.2])})


def test_a_third_source_by_hand():
    # logit .3 = -.847298; h = 1.694596, -.538997 and logit .9 + .847298 = 3.044522
    # g = -.5 + .8 * 1.694596 + .4 * .5 * -.538997 + .25 * .6 * 3.044522 = 1.204555
    fusion = FUSION.model_copy(update={"beta": {**BETA, "shadow": 0.25}})
    p = {"semantic": np.array([0.7]), "geometry": np.array([0.2]), "shadow": np.array([0.9])}
    gate = {"geometry": np.array([0.5]), "shadow": np.array([0.6])}
    assert fusion.apply(p, gate)[0] == pytest.approx(expit(1.204555), abs=1e-6)
    del p["shadow"]  # without an answer of the third source it is the paper's case
    assert fusion.apply(p, gate)[0] == pytest.approx(0.678716, abs=1e-6)


@pytest.mark.parametrize("count", [1, 3, 5])
def test_weights_of_any_number_of_sources_are_learnt(count):
    # Sources that are independent given the truth each get the weight 1, and the fused log-odds are Bayes'.
    rng = np.random.default_rng(count)
    n, prior = 20_000, 0.3
    label = rng.random(n) < prior
    p = {
        f"cue {k}": expit(logit(prior) + 2.0 * rng.normal(np.where(label, 1, -1), 1.0)) for k in range(count)
    }
    fitted = GatedFusion.fit(label, p, penalty=0.0)
    assert list(fitted.beta.values()) == pytest.approx([1.0] * count, abs=0.1)
    bayes = sum(logit(each) - logit(prior) for each in p.values()) + logit(prior)
    assert np.median(np.abs(logit(fitted.apply(p)) - bayes)) < 0.25 * count
