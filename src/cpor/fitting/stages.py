"""One function a stage: fit it on its part, and see how it does on a part it was not fitted to."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float, Shaped

from cpor.decision import Defer
from cpor.errors import FittingError
from cpor.evidence.source import SEMANTIC
from cpor.fitting.forced import ForcedDecision, fit_rate, outcomes
from cpor.fitting.labelled import LabelledScene, pair_columns
from cpor.infer.decide import decide_many
from cpor.learn.band import BeliefBand
from cpor.learn.coverage import CandidateCoverage, CoverageCase
from cpor.learn.cross_validation import N_FOLDS
from cpor.learn.gated import GatedFusion, Guard, learn_most_disagreement
from cpor.learn.logistic import BASE_PENALTY, Calibrator, LogisticCalibrator, cross_fit_on_chain
from cpor.learn.reliability import ReliabilitySummary, summarise_reliability
from cpor.learn.unseen import UnseenCalibrator
from cpor.pipeline import Pipeline, add_unseen, pair_features
from cpor.truth import on_chain

CHAIN_PENALTIES = (0.001, 0.01, 0.1, 1.0)
"""Penalties tried for conditioning on the chain; with none at all a separable condition has no best fit."""

MU_QUANTILE = 0.99
"""Scenes that contradict themselves more than this share of the labelled ones are not acted on."""

FEWEST_FOR_MU = 100
"""Fewer scenes than this say nothing of a 99th percentile; then the pipeline's own limit stands."""


@dataclass(frozen=True, eq=False)
class ReliabilityData:
    """Probabilities and outcomes on scenes that the stage in question was not fitted to.

    Attributes:
        name: Name of the stage.
        p: Shape (n,).
        label: Shape (n,).
    """

    name: str
    p: Float[np.ndarray, " n"]
    label: Bool[np.ndarray, " n"]

    @property
    def summary(self) -> ReliabilitySummary:
        """The usual figures."""
        return summarise_reliability(self.p, self.label)


@contextmanager
def _naming(stage: str) -> Iterator[None]:
    """Say in which part of the fit the data did not suffice."""
    try:
        yield
    except FittingError as problem:
        raise FittingError(f"{stage}: {problem}") from None


def _folds(group: Shaped[np.ndarray, " n"]) -> int:
    return min(N_FOLDS, np.unique(group).size)


def fit_calibration(
    raw: Pipeline, parts: Mapping[str, list[LabelledScene]]
) -> tuple[Pipeline, list[ReliabilityData]]:
    """A calibrator for each source that has scores, and how they do on the part fusion is fitted to.

    Semantic scores get the paper's calibrator, which sees the size of the scene; others plain Platt
    scaling.
    """
    pairs = pair_columns(parts["calibration"])
    calibrate: dict[str, Calibrator] = {}
    for name, scores in pairs.score.items():
        answered = pairs.where(~np.isnan(scores))
        score, label = answered.score[name], answered.label
        if not score.size:
            continue
        with _naming(f"calibration part, {name} scores"):
            if name != SEMANTIC:
                calibrate[name] = LogisticCalibrator.fit(score, label, base_penalty=BASE_PENALTY)
                continue
            counts, group = answered.n_asked[name], answered.image
            penalty = LogisticCalibrator.penalty_curve(
                score, label, group, n_candidates=counts, n_folds=_folds(group)
            ).best
            calibrate[name] = LogisticCalibrator.fit(
                score, label, sees="scene", n_candidates=counts, penalty=penalty, base_penalty=BASE_PENALTY
            )
    fitted = replace(raw, calibrate=calibrate)
    later = pair_columns([each.believed_by(fitted) for each in parts["fusion"]])
    reliability = []
    for name, scores in later.score.items():
        answered = later.where(~np.isnan(scores))
        if answered.label.size:
            label = answered.label
            reliability.append(ReliabilityData(f"{name}, raw", answered.score[name], label))
            reliability.append(ReliabilityData(f"{name}, calibrated", answered.p[name], label))
    return fitted, reliability


def fit_unseen(
    fitted: Pipeline, parts: Mapping[str, list[LabelledScene]]
) -> tuple[Pipeline, list[ReliabilityData]]:
    """Learn from dropped masks how likely an unseen blocker is; the strict rule where they are too few."""
    part, other = (
        [dropped for each in parts[name] for dropped in each.dropped] for name in ("calibration", "fusion")
    )
    with suppress(FittingError):
        unseen = UnseenCalibrator.fit(part)
        p = np.concatenate([unseen.apply(cues) for cues, _ in other])
        label = np.concatenate([label for _, label in other])
        answered = ~np.isnan(p)
        reliability = ReliabilityData("unseen blocker", p[answered], label[answered])
        return replace(fitted, calibrate_unseen=unseen), [reliability]
    return fitted, []


def fit_coverage(fitted: Pipeline, parts: Mapping[str, list[LabelledScene]], alpha: float) -> Pipeline:
    """Candidates by nearness, from one scene a picture of the first two parts."""
    pictures = {each.image: each for name in ("calibration", "fusion") for each in parts[name]}
    cases = []
    for each in pictures.values():
        beliefs = each.believed_by(fitted).beliefs
        assert beliefs.geometry.nearness is not None
        cases.append(CoverageCase(beliefs.geometry.nearness, each.label & each.known, beliefs.p_fused != 0.0))
    with _naming("coverage of candidates"):
        return replace(fitted, coverage=CandidateCoverage.fit(cases, alpha))


def fit_band(fitted: Pipeline, part: Sequence[LabelledScene], delta: float) -> BeliefBand | None:
    """How far the fused probabilities may be off, from scenes they were not fitted to; None: too few."""
    pairs = pair_columns([each.believed_by(fitted) for each in part])
    pairs = pairs.where(pairs.known & (pairs.fused > 0.0))  # neither absent nor without answer
    with suppress(FittingError):
        return BeliefBand.fit(pairs.fused, pairs.label, pairs.image, delta)
    return None


def fit_fusion(
    fitted: Pipeline, parts: Mapping[str, list[LabelledScene]]
) -> tuple[Pipeline, list[ReliabilityData]]:
    """Fusion of the calibrated sources, and how it does on the selection part."""
    pairs = pair_columns([each.believed_by(fitted) for each in parts["fusion"]])
    pairs = pairs.where(pairs.sourced)
    label, group, p, gate = pairs.label, pairs.image, pairs.p, pairs.gate
    with _naming("fusion part"):
        penalty = GatedFusion.penalty_curve(label, group, p, gate, n_folds=_folds(group)).best
        fusion = GatedFusion.fit(label, p, gate, penalty=penalty)
    most = learn_most_disagreement(p)
    fitted = replace(fitted, fuse=fusion, guard=Guard() if most is None else Guard(most))
    later = pair_columns([each.believed_by(fitted) for each in parts["selection"]])
    later = later.where(later.sourced)
    return fitted, [ReliabilityData("fused", later.fused, later.label)]


def fit_selection(
    fitted: Pipeline, part: Sequence[LabelledScene], targets: Mapping[str, int], condition: bool
) -> tuple[Pipeline, list[ForcedDecision]]:
    """Conditioning and success rates; also the forced decision for each scene."""
    part = [each.believed_by(fitted) for each in part]
    if condition:
        features, labels = [], []
        for each in part:
            seen = pair_features(each.beliefs, targets[each.name])
            true = on_chain(targets[each.name], each.truth)
            features.append(seen)
            labels.append(np.array([p in true for p in zip(seen.blocked, seen.blocker, strict=True)], bool))
        score, label = np.concatenate([f.score for f in features]), np.concatenate(labels)
        pictures = [each.image for each in part]
        group = np.repeat(pictures, [len(f) for f in features])
        with _naming("selection part, target's chain"):
            folds = _folds(np.array(pictures))
            curve = LogisticCalibrator.penalty_curve(
                score, label, group, graph=features, grid=CHAIN_PENALTIES, n_folds=_folds(group)
            )
            chain = LogisticCalibrator.fit(score, label, sees="graph", graph=features, penalty=curve.best)
            # Scenes it was fitted to would flatter it: judge actions by fits that have not seen the picture.
            chained = cross_fit_on_chain(features, labels, pictures, penalty=curve.best, n_folds=folds)
        fitted = replace(fitted, condition=chain)
        posteriors = [
            add_unseen(each.posterior(scene.beliefs.ids), scene.beliefs.p_unseen)
            for each, scene in zip(chained, part, strict=True)
        ]
    else:
        posteriors = [fitted.posterior(each.beliefs, targets[each.name]) for each in part]
    forced = decide_many(posteriors, tau=0.0)
    mu = [decision.mu_target for decision in forced if decision.mu_target is not None]
    if len(mu) >= FEWEST_FOR_MU:
        fitted = replace(fitted, most_mu=float(np.quantile(mu, MU_QUANTILE)))
    cases = [
        ForcedDecision(each, targets[each.name], fitted.settle(decision))
        for each, decision in zip(part, forced, strict=True)
    ]
    return replace(fitted, rate=fit_rate(cases)), cases


def action_reliability(fitted: Pipeline, cases: Sequence[ForcedDecision]) -> list[ReliabilityData]:
    """How the score of the chosen action, and its success rate, match what came of it."""
    acted = [case for case in cases if not isinstance(case.decision.action, Defer)]
    if not acted:
        return []
    score, wrong = outcomes(acted)
    found = [ReliabilityData("chosen action, score", score, ~wrong)]
    if fitted.rate is not None:
        rates = np.array([fitted.success_rate(case.decision) for case in acted], np.float64)
        found.append(ReliabilityData("chosen action, success rate", rates, ~wrong))
    return found
