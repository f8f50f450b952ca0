"""Fit what the paper fits: eq. cal-loss on half of the scenes, eq. fusion-loss on the other half."""

from collections.abc import Iterable

import numpy as np

from cpor.errors import FittingError
from cpor.evidence.source import SEMANTIC
from cpor.fitting.labelled import LabelledScene, group_copies, pair_columns
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

    pairs = pair_columns(first)
    scored = pairs.where(~np.isnan(pairs.score[SEMANTIC]))
    calibration = None
    if scored.label.size:
        sizes = [np.count_nonzero(~np.isnan(each.beliefs.scores[SEMANTIC].score)) for each in first]
        calibration = LogisticCalibrator.fit(
            scored.score[SEMANTIC],
            scored.label,
            sees="scene",
            n_candidates=np.repeat(sizes, sizes).astype(np.float64),
            penalty=PENALTY,
        )
    fitted = Pipeline(
        measure=paper_evidence,
        calibrate={} if calibration is None else {SEMANTIC: calibration},
        least_reliability=0.0,
        guard=None,
    )
    pairs = pair_columns([each.believed_by(fitted) for each in second])
    pairs = pairs.where(pairs.sourced)
    folds = min(N_FOLDS, np.unique(pairs.image).size)
    penalty = GatedFusion.penalty_curve(pairs.label, pairs.image, pairs.p, pairs.gate, n_folds=folds).best
    scorers = {each.semantic.scorer for each in read if each.semantic is not None}
    return PaperFit(
        scorer=scorers.pop() if len(scorers) == 1 else None,
        calibration=calibration,
        fusion=GatedFusion.fit(pairs.label, pairs.p, pairs.gate, penalty=penalty),
        n_scenes=len(read),
        n_pairs=int(pairs.label.size),
    )
