"""Reliability by stage (Table prob-ablation): calibrators, fusion, marginals, acyclicity."""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Shaped

from cpor.fitting.fit_score_log import calibrate_log
from cpor.io.score_log import read_score_log
from cpor.learn.bootstrap import Interval, bootstrap_mean
from cpor.learn.reliability import ReliabilitySummary, summarise_reliability
from cpor.learn.scoring import ZETA
from cpor.paper.cases import NO_SHIFT, SolvedCases, score_cases, solve_cases
from cpor.paper.decoding import assemble_paper, map_graph
from cpor.paper.evaluate import Missing, evaluate
from cpor.paper.fitted_stages import FUSED, METHODS, Stages, at_stage, cross_fit
from cpor.paper.table import Figures, Table, paper_rows
from cpor.paper.unobench import FusedScores, UnobenchCase

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
    """Fit, apply and solve every stage.

    Args:
        cases: The truth.
        log: With its sources.
        shift: Decoding shift of all stages but the raw one.
        missing: What cases without candidate relation count as.
    """
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
    marginals = solved.marginals(solved.models[model])
    predictions = {
        case.index: assemble_paper(q, map_graph(scene), case.target)
        for case, scene, q in zip(solved.cases, solved.scenes, marginals, strict=True)
    }
    found = evaluate(cases, predictions, missing).overall
    return {name: getattr(found, name) for name in ("relation_f1", "object_f1", "mp_ned")}


def object_reliability(solved: SolvedCases, model: str) -> ReliabilitySummary:
    """Reliability of object marginals under a model of `SolvedCases.models`."""
    named = solved.marginals(solved.models[model])
    label = [o in case.top_objects for case, q in zip(solved.cases, named, strict=True) for o in q]
    return summarise_reliability(np.concatenate(solved.models[model]), np.array(label))


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
