"""Fit what the paper fits: eq. cal-loss on half of the scenes, eq. fusion-loss on the other half."""

from collections.abc import Iterable

import numpy as np

from cpor.errors import FittingError
from cpor.evidence.source import GEOMETRY, SEMANTIC
from cpor.fitting.labelled import LabelledScene, gather, group_copies, images
from cpor.learn.cross_validation import N_FOLDS
from cpor.learn.gated import GatedFusion
from cpor.learn.logistic import LogisticCalibrator
from cpor.paper_model import PaperFit, paper_evidence
from cpor.pipeline import Pipeline
from cpor.scene import Scene
from cpor.truth import TruthKind

PENALTY = 1.0
"""lambda_cal; the paper does not give lambda_fus, which cross-validation over images chooses."""


def fit_paper(scenes: Iterable[tuple[str, Scene]], truth: TruthKind = "occlusion", seed: int = 0) -> PaperFit:
    """Fit the semantic calibrator and the fusion to labelled scenes.

    Args:
        scenes: Names and scenes with masks, true relations and, where there are any, semantic scores.
        truth: Which true relations; the paper's are by occlusion.
        seed: Random seed of the split by image.
    """
    raw = Pipeline(measure=paper_evidence, least_reliability=0.0, guard=None)
    read = group_copies([LabelledScene.read(name, scene, raw, truth) for name, scene in scenes])
    pictures = np.unique([each.image for each in read])
    if len(pictures) < 4:
        raise FittingError(
            f"{len(pictures)} labelled images are too few to fit calibration and fusion; label more"
        )
    chosen = set(np.random.default_rng(seed).permutation(pictures)[: len(pictures) // 2].tolist())
    first, second = ([each for each in read if (each.image in chosen) is side] for side in (True, False))

    def scored(each: LabelledScene) -> np.ndarray:
        return np.asarray(~np.isnan(each.beliefs.scores[SEMANTIC].score))

    calibration = None
    if any(scored(each).any() for each in first):
        calibration = LogisticCalibrator.fit(
            gather(first, lambda each: each.beliefs.scores[SEMANTIC].score, scored),
            gather(first, lambda each: each.label, scored),
            sees="scene",
            n_candidates=gather(
                first, lambda each: np.full(each.label.shape, float(scored(each).sum())), scored
            ),
            penalty=PENALTY,
        )
    fitted = Pipeline(
        measure=paper_evidence,
        calibrate={} if calibration is None else {SEMANTIC: calibration},
        least_reliability=0.0,
        guard=None,
    )
    part = [each.believed_by(fitted) for each in second]

    def sourced(each: LabelledScene) -> np.ndarray:
        return np.asarray(~np.all([np.isnan(p) for p in each.beliefs.p.values()], axis=0))

    label, group = gather(part, lambda each: each.label, sourced), images(part, sourced)
    p = {
        SEMANTIC: gather(part, lambda each: each.beliefs.p[SEMANTIC], sourced),
        GEOMETRY: gather(part, lambda each: each.beliefs.p[GEOMETRY], sourced),
    }
    gate = {GEOMETRY: gather(part, lambda each: each.beliefs.scores[GEOMETRY].reliability, sourced)}
    folds = min(N_FOLDS, np.unique(group).size)
    penalty = GatedFusion.penalty_curve(label, group, p, gate, n_folds=folds).best
    scorers = {each.semantic.scorer for each in read if each.semantic is not None}
    return PaperFit(
        scorer=scorers.pop() if len(scorers) == 1 else None,
        calibration=calibration,
        fusion=GatedFusion.fit(label, p, gate, penalty=penalty),
        n_scenes=len(read),
        n_pairs=int(label.size),
    )
