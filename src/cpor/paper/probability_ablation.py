"""The paper's pipeline stage by stage, and its reliability (Table prob-ablation).

On a log with raw scores and geometry, half of the images are fitted to (half of these for calibrators, half
for fusion), the other half is measured, and the other way round. Tables prob-ablation, cpor-ablation (panel
A) and cross-vlm come from here.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Shaped

from cpor.errors import InvalidSettingError, list_labels
from cpor.evidence.source import GEOMETRY, SEMANTIC
from cpor.fitting.score_log import calibrate_log, read_score_log
from cpor.learn.bootstrap import Interval, bootstrap_mean
from cpor.learn.gated import GatedFusion, NaiveFusion
from cpor.learn.isotonic import IsotonicCalibrator
from cpor.learn.logistic import Calibrator, LogisticCalibrator
from cpor.learn.reliability import ReliabilitySummary, summarise_reliability
from cpor.learn.scoring import ZETA
from cpor.paper.cases import NO_SHIFT, SolvedCases, score_cases, solve_cases
from cpor.paper.evaluate import Missing, evaluate
from cpor.paper.table import Figures, Table, paper_rows
from cpor.paper.unobench import SOURCE_COLUMNS, FusedScores, UnobenchCase

METHODS = ("temperature", "platt", "isotonic", "adaptive-platt")
PENALTY = 1.0
"""lambda_cal of the paper's semantic calibrator."""

FUSED = "adaptive-platt + fusion"
"""The stage whose probabilities the paper decides from."""

Stages = Mapping[str, Float[np.ndarray, " n"]]


class FittedStages(NamedTuple):
    """Calibrators by method, and the fusion fitted on top of each."""

    calibrators: Mapping[str, Calibrator]
    fusions: Mapping[str, GatedFusion]


def folds_of(cases: tuple[UnobenchCase, ...], log: FusedScores) -> Bool[np.ndarray, "2 n"]:
    """Two bits of each row by its image: which half of the images, and which half of that. Shape (2, n)."""
    distinct, rank = np.unique([case.image_id for case in cases], return_inverse=True)
    if len(distinct) < 4:
        raise InvalidSettingError(
            f"the truth has {len(distinct)} images; cross-fitting calibrators and fusion needs at least 4"
        )
    place = rank[log.case]
    return np.array([place % 2 == 0, place // 2 % 2 == 0])


def fit_stages(
    log: FusedScores, calibrate: Bool[np.ndarray, " n"], fuse: Bool[np.ndarray, " n"]
) -> FittedStages:
    """Fit every calibrator on some rows and a fusion for each on others."""
    score, count, geometry, gate = _columns(log)
    label = log.label
    fitted: dict[str, Calibrator] = {
        "temperature": LogisticCalibrator.fit(score[calibrate], label[calibrate], with_bias=False),
        "platt": LogisticCalibrator.fit(score[calibrate], label[calibrate]),
        "isotonic": IsotonicCalibrator.fit(score[calibrate], label[calibrate]),
        "adaptive-platt": LogisticCalibrator.fit(
            score[calibrate],
            label[calibrate],
            sees="scene",
            n_candidates=count[calibrate],
            penalty=PENALTY,
        ),
    }
    fusions = {
        name: GatedFusion.fit(
            label[fuse],
            {SEMANTIC: each.apply(score[fuse], n_candidates=count[fuse]), GEOMETRY: geometry[fuse]},
            {GEOMETRY: gate[fuse]},
            penalty=0.0,
        )
        for name, each in fitted.items()
    }
    return FittedStages(fitted, fusions)


def apply_stages(
    fitted: FittedStages, log: FusedScores, rows: Bool[np.ndarray, " n"], prior: float | None = None
) -> Stages:
    """Probabilities of some rows at every stage.

    Args:
        fitted: The stages.
        log: As in `fit_stages`.
        rows: Which rows. Shape (n,).
        prior: Base rate of this log's candidate pool; None: that of the fit.
    """
    score, count, geometry, gate = (column[rows] for column in _columns(log))
    stages = {"raw": score}
    for name, each in fitted.calibrators.items():
        p = stages[name] = each.apply(score, n_candidates=count)
        fusion = fitted.fusions[name]
        both = {SEMANTIC: p, GEOMETRY: geometry}
        stages[f"{name} + fusion"] = fusion.apply(both, {GEOMETRY: gate}, prior)
    stages["adaptive-platt + naive fusion"] = NaiveFusion().apply(
        {SEMANTIC: stages["adaptive-platt"], GEOMETRY: geometry}
    )
    return stages


def cross_fit(
    cases: tuple[UnobenchCase, ...], reference: FusedScores, log: FusedScores | None = None
) -> Stages:
    """Probabilities at every stage, each from stages fitted to the other half of the images.

    Args:
        cases: The truth.
        reference: The log that calibrators and weights are fitted to.
        log: Another scorer's log of the same cases: nothing is fitted to it, and only the base rate of its
            candidate pool enters. None: the reference itself.
    """
    half, quarter = folds_of(cases, reference)
    target = reference if log is None else log
    side = half if log is None else folds_of(cases, target)[0]
    found: dict[str, Float[np.ndarray, " n"]] = {}
    for fold in (True, False):
        fit = half != fold
        stages = fit_stages(reference, fit & quarter, fit & ~quarter)
        rows = side == fold
        # The pool's base rate comes from the images that nothing is measured on.
        prior = None if log is None else float(target.label[~rows].mean())
        for name, p in apply_stages(stages, target, rows, prior).items():
            found.setdefault(name, np.full(len(target), np.nan))[rows] = p
    return found


def at_stage(log: FusedScores, p: Float[np.ndarray, " n"]) -> FusedScores:
    """The log with other probabilities."""
    return replace(log, p=p)


def _columns(log: FusedScores) -> tuple[Float[np.ndarray, " n"], ...]:
    if not log.sources:
        raise InvalidSettingError(
            "the log has fused scores alone. The stages before fusion need the columns "
            f"{list_labels(SOURCE_COLUMNS)}"
        )
    return tuple(log.sources[name] for name in SOURCE_COLUMNS)


FIGURES = ("ece", "brier", "nll", "auroc")
NEEDS_GEOMETRY = "Needs raw scores and geometry of every pair, which a score log of one source does not have."
ORIGIN = (
    "The paper's figures come from the authors' raw scores of the test set, which were not released. A "
    "difference tells how the data differ as much as how the methods do."
)
TITLE = "Reliability by stage"
SEED = 0
"""Random seed of the bootstrap: the same files give the same intervals."""


def calibrator_table(fit_file: str | Path, test_file: str | Path) -> Table:
    """Fit each calibrator to one score log and measure it on another.

    Args:
        fit_file: CSV with image, prob_edge, N_cand, label.
        test_file: The same columns, other images.
    """
    fit, test = read_score_log(fit_file), read_score_log(test_file)
    stages = {"raw": test.score}
    for method in METHODS:
        stages[method] = calibrate_log(fit, method).calibrator.apply(
            test.score, n_candidates=test.n_candidates
        )
    shared = np.intersect1d(fit.image, test.image).size
    answered = int((~np.isnan(test.score)).sum())
    notes = [
        f"Fitted to {len(fit)} pairs, measured on {answered} others; {len(test) - answered} had no answer.",
        ORIGIN,
    ]
    if shared:
        notes.append(f"{shared} images are in both logs: the figures are better than they should be.")
    return _table(stages, test.label, test.image, {}, notes)


class MeasuredStages(NamedTuple):
    """The pipeline of a log with raw scores and geometry, cross-fitted by image.

    Attributes:
        table: Table prob-ablation.
        earlier: The rows before fusion of Table cpor-ablation, panel A.
        fused: The log with the fused probabilities that the paper decides from.
    """

    table: Table
    earlier: Mapping[str, Figures]
    fused: FusedScores


def measure_stages(
    cases: tuple[UnobenchCase, ...], log: FusedScores, shift: float = NO_SHIFT, missing: Missing = "wrong"
) -> MeasuredStages:
    """Fit, apply and solve every stage."""
    stages = cross_fit(cases, log)
    image = np.array([case.image_id for case in cases])[log.case]
    solved = {
        name: solve_cases(
            score_cases(cases, at_stage(log, stages[name]), NO_SHIFT if name == "raw" else shift)
        )
        for name in ("raw", "adaptive-platt", FUSED)
    }
    earlier = {
        "raw": _decode(cases, solved["raw"], "map", missing),
        "adaptive-platt + PM": _decode(cases, solved["adaptive-platt"], "no_dag", missing),
    }
    objects = {
        "objects, raw": object_reliability(solved["raw"], "no_dag"),
        "objects, adaptive-platt + PM": object_reliability(solved["adaptive-platt"], "no_dag"),
        "objects, adaptive-platt + fusion + PM": object_reliability(solved[FUSED], "no_dag"),
        "objects, adaptive-platt + fusion + DAG + PM": object_reliability(solved[FUSED], "dag"),
    }
    notes = (
        f"{len(log)} pairs of {np.unique(image).size} images, cross-fitted by image in two halves.",
        "Object rows: over every object in a candidate relation and the target. `objects, raw`: marginals of "
        "the raw scores.",
    )
    table = _table(stages, log.label, image, objects, notes)
    return MeasuredStages(table, earlier, at_stage(log, stages[FUSED]))


def _decode(cases: tuple[UnobenchCase, ...], solved: SolvedCases, model: str, missing: Missing) -> Figures:
    """Objects by the marginals of a model, relations and paths by the likeliest graph."""
    found = evaluate(cases, solved.decode(model), missing).overall
    return {name: getattr(found, name) for name in ("relation_f1", "object_f1", "mp_ned")}


def object_reliability(solved: SolvedCases, model: str) -> ReliabilitySummary:
    """Reliability of object marginals under a model of `SolvedCases.models`."""
    return summarise_reliability(np.concatenate(solved.models[model]), np.concatenate(solved.labels()))


def _table(
    stages: Stages,
    label: Bool[np.ndarray, " n"],
    image: Shaped[np.ndarray, " n"],
    objects: Mapping[str, ReliabilitySummary],
    notes: "tuple[str, ...] | list[str]",
) -> Table:
    rng = np.random.default_rng(SEED)
    found = {name: summarise_reliability(p, label) for name, p in stages.items()}
    ours: dict[str, Figures] = {
        name: {f: getattr(each, f) for f in FIGURES} for name, each in (found | dict(objects)).items()
    }
    ci = {name: _intervals(p, label, image, rng) for name, p in stages.items()}
    rows = paper_rows("prob-ablation", ours, dict.fromkeys(ours, ORIGIN), NEEDS_GEOMETRY)
    return Table(
        "prob-ablation", TITLE, [row._replace(ci=ci.get(row.name, {})) for row in rows], tuple(notes)
    )


def _intervals(
    p: Float[np.ndarray, " n"],
    label: Bool[np.ndarray, " n"],
    image: Shaped[np.ndarray, " n"],
    rng: np.random.Generator,
) -> dict[str, Interval]:
    """Intervals of Brier score and NLL, images resampled. The ECE has none: it is no mean over pairs."""
    answered = ~np.isnan(p)
    values, truth, group = p[answered], label[answered], image[answered]
    clipped = np.clip(values, ZETA, 1.0 - ZETA)
    losses = {
        "brier": (values - truth) ** 2,
        "nll": -np.where(truth, np.log(clipped), np.log1p(-clipped)),
    }
    return {name: bootstrap_mean(loss, group, rng) for name, loss in losses.items()}
