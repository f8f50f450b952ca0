"""From fused scores to actions on the released log: what graph and action level add."""

from types import SimpleNamespace

import numpy as np
import pytest

from cpor.infer.decide import decide_many
from cpor.learn.action import ActionCalibrator
from cpor.learn.cross_validation import cross_fit
from cpor.learn.logistic import LogisticCalibrator, cross_fit_on_chain
from cpor.learn.reliability import ece
from cpor.learn.scoring import auroc


@pytest.fixture(scope="module")
def on_chain(synthetic_cases):
    """Probabilities for every case from a fit that has not seen its image."""
    return cross_fit_on_chain(
        [case.graph for case in synthetic_cases],
        [case.label for case in synthetic_cases],
        [case.image for case in synthetic_cases],
        rng=np.random.default_rng(0),
    )


@pytest.fixture(scope="module")
def pool(synthetic_cases, on_chain):
    """Every object in a candidate relation plus the target: n 7530."""
    posteriors = [each.posterior(case.objects) for case, each in zip(synthetic_cases, on_chain, strict=True)]
    decisions = decide_many(posteriors, tau=0.0)
    rows = [
        (decision.scores[o], o in case.top_objects, case.image, o == case.target, number)
        for number, (case, decision) in enumerate(zip(synthetic_cases, decisions, strict=True))
        for o in case.objects
    ]
    score, label, image, is_target, case = (np.array(column) for column in zip(*rows, strict=True))
    return SimpleNamespace(score=score, label=label, image=image, is_target=is_target, case=case)


@pytest.fixture(scope="module")
def rate(pool):
    """Success rates from an action-level fit that has not seen the image."""

    def predict(fitted, held_out):
        fit = ActionCalibrator.fit(
            pool.score[fitted],
            pool.label[fitted],
            is_target=pool.is_target[fitted],
            group=pool.image[fitted],
        )
        return fit.apply(pool.score[held_out], is_target=pool.is_target[held_out])

    return cross_fit(predict, pool.image, rng=np.random.default_rng(0))


def test_relations(synthetic_cases, on_chain, evidence):
    p = np.concatenate([each.p_on_chain(each.target) for each in on_chain])
    label = np.concatenate([case.label for case in synthetic_cases])
    chain = np.concatenate([case.graph.blocked_on_chain for case in synthetic_cases])
    score = np.concatenate([case.graph.score for case in synthetic_cases])
    assert p.size == 6381
    evidence(
        "calibrated", "relation AUROC, graph-conditioned, cross-fitted by image", "> 0.90", auroc(p, label)
    )
    evidence("calibrated", "relation ECE, the same", "< 0.02", ece(p, label))
    within = f"{auroc(score[chain], label[chain]):.4f} -> {auroc(p[chain], label[chain]):.4f}"
    evidence("calibrated", "relation AUROC within on-chain pairs", "reported", within)
    assert auroc(p, label) > 0.90
    assert ece(p, label) < 0.02
    assert auroc(p[chain], label[chain]) > auroc(score[chain], label[chain]) + 0.04


@pytest.mark.slow
def test_penalty_of_the_graph_calibrator(synthetic_cases):
    graph = [case.graph for case in synthetic_cases]
    curve = LogisticCalibrator.penalty_curve(
        np.concatenate([each.score for each in graph]),
        np.concatenate([case.label for case in synthetic_cases]),
        np.concatenate([np.full(len(case.graph), case.image) for case in synthetic_cases]),
        graph=graph,
        grid=(0.0, 0.001, 0.01, 0.1),
        rng=np.random.default_rng(0),
    )
    assert curve.best < 0.01
    assert curve.nll[1] - min(curve.nll) < 0.001  # the default, 0.001, gives nothing away


def test_objects(pool, evidence):
    assert pool.score.size == 7530
    figures = f"{ece(pool.score, pool.label):.4f} (AUROC {auroc(pool.score, pool.label):.4f})"
    evidence("calibrated", "object ECE, pool of 7,530", "< 0.0824", figures)
    assert ece(pool.score, pool.label) < 0.0824


def test_objects_at_the_action_level(pool, rate, evidence):
    before, after = auroc(pool.score, pool.label), auroc(rate, pool.label)
    evidence("calibrated", "object ECE with the action level", "< 0.03", f"{ece(rate, pool.label):.4f}")
    evidence("calibrated", "object AUROC, the same", f">= {before:.4f} (as without)", f"{after:.4f}")
    assert ece(rate, pool.label) < 0.03
    assert after >= before


def test_the_chosen_action(pool, rate, evidence):
    last = np.lexsort((pool.score, pool.case))
    chosen = last[np.flatnonzero(np.append(np.diff(pool.case[last]) > 0, True))]
    score, success, right = pool.score[chosen], rate[chosen], pool.label[chosen]
    figures = f"{ece(score, right):.4f} -> {ece(success, right):.4f} (right {right.mean():.1%})"
    evidence("calibrated", "ECE of the chosen action, score -> success rate", "reported", figures)
    assert ece(success, right) < 0.05 < ece(score, right)
    assert auroc(success, right) > auroc(score, right)
