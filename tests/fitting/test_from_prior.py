"""A model of one's own lab: it starts from another, moves as far as the scenes ask for, and tests apart."""

import math
from dataclasses import replace

import numpy as np
import pytest
from support.labelled import draw_labelled_scene

from cpor.apps.label_queue import order_by_value
from cpor.errors import FittingError
from cpor.fitting import FitSettings, fit_model
from cpor.fitting.from_prior import fit_from_prior, least_supported
from cpor.fitting.labelled import LabelledScene
from cpor.fitting.moved_stages import WEIGHTS, choose_weight, move
from cpor.pipeline import Pipeline


def drawn_scenes(seed: int, n: int, noise: float = 1.0):
    rng = np.random.default_rng(seed)
    return [(f"scene_{seed}_{k:03d}", draw_labelled_scene(rng, noise)) for k in range(n)]


@pytest.fixture(scope="module")
def prior():
    return fit_model(drawn_scenes(1, 40)).model


@pytest.fixture(scope="module")
def lab(prior):
    """A lab where semantic scores mean the opposite of what they meant to the prior model."""
    raw = Pipeline(measure=prior.pipeline().measure)
    read = []
    for name, scene in drawn_scenes(2, 24):
        scores = scene.semantic_scores
        turned = {pair: None if s is None else 1.0 - s for pair, s in scores.scores.items()}
        scene = replace(scene, semantic_scores=replace(scores, scores=turned))
        read.append(LabelledScene.read(name, scene, raw))
    return read


def loss(pipeline, scenes) -> float:
    p, label = [], []
    for each in scenes:
        beliefs = each.believed_by(pipeline).beliefs
        there = ~np.isnan(beliefs.p_fused) & (beliefs.p_fused > 0.0)
        p.append(beliefs.p_fused[there])
        label.append(each.label[there])
    p, label = np.clip(np.concatenate(p), 1e-6, 1 - 1e-6), np.concatenate(label)
    return -float(np.mean(np.where(label, np.log(p), np.log1p(-p))))


def test_numbers_move_as_far_as_the_weight_lets_them(prior, lab):
    start = prior.pipeline()
    losses = [loss(move(start, lab, weight), lab) for weight in WEIGHTS]
    assert losses == sorted(losses) and losses[0] < losses[-1] - 0.01
    assert move(start, lab, math.inf) is start
    assert choose_weight(prior, lab) < math.inf


def test_labels_that_geometry_gets_right_do_not_make_it_surer(prior, lab):
    flawless = [
        replace(
            each, truth=frozenset((each.beliefs.ids[i], each.beliefs.ids[j]) for i, j in np.argwhere(likely))
        )
        for each in lab
        for likely in [np.nan_to_num(each.beliefs.geometry.p_geometry) > 0.5]
    ]
    start, moved = prior.pipeline(), move(prior.pipeline(), flawless, 0.3)
    assert moved != start
    assert moved.calibrate["geometry"].slope <= start.calibrate["geometry"].slope
    assert moved.fuse.beta["geometry"] <= start.fuse.beta["geometry"]


def test_the_report_compares_and_tests_on_what_nothing_was_fitted_to(prior, lab):
    report = fit_from_prior(lab, prior, FitSettings(alpha=0.3, seed=3))
    parts = report.model.parts
    assert not set(parts["fit"]) & set(parts["promise"])
    assert (report.n_fit, report.n_held_out) == (10, 14) == tuple(map(len, parts.values()))
    assert report.own.nll < report.prior.nll
    assert report.model.promise.n == 14 and report.model.tested_with is None
    random = set(parts["fit"][:6])
    again = fit_from_prior(lab, prior, FitSettings(alpha=0.3), drawn=random)
    assert set(again.model.parts["promise"]) == random
    with pytest.raises(FittingError, match="label 8 or more"):
        fit_from_prior(lab[:5], prior, FitSettings())


def test_of_what_nobody_labelled_nothing_is_learnt_and_nobody_asks_for_it(prior, lab):
    turned = [replace(each, unlabelled=frozenset(each.beliefs.ids[:1])) for each in lab]
    # Whatever is said to be on the first object of each scene, the fit is the same.
    said = [replace(each, truth=each.truth | {(each.beliefs.ids[0], each.beliefs.ids[1])}) for each in turned]
    moved, same = (move(prior.pipeline(), part, 3.0) for part in (turned, said))
    assert moved.fuse == same.fuse and moved.calibrate == same.calibrate != prior.pipeline().calibrate
    model = fit_from_prior(turned, prior, FitSettings(alpha=0.3)).model
    first = {each.name: each.beliefs.ids[0] for each in turned}
    assert model.targets and all(target != first[name] for name, target in model.targets.items())


def test_the_supported_rate_is_the_exact_bound():
    score, wrong = np.full(22, 0.9), np.zeros(22, bool)
    assert least_supported(score, wrong, 0.5, 0.1) == pytest.approx(1.0 - 0.1 ** (1 / 22))
    assert least_supported(score, wrong, 0.95, 0.1) is None
    assert least_supported(score, ~wrong, 0.5, 0.1) == 1.0


def test_the_order_begins_with_what_is_unsure(lab):
    beliefs = [each.beliefs for each in lab[:6]]
    sure = replace(beliefs[0], p_fused=np.where(beliefs[0].p_fused > 0, 0.999, 0.0))
    order = order_by_value([sure, *beliefs[1:]])
    assert sorted(order) == list(range(6)) and order[-1] == 0
