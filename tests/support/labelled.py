"""Labelled scenes with semantic scores, for the pipeline and fitting tests."""

from dataclasses import replace

import numpy as np

from cpor.evidence import geometric_evidence
from cpor.scene import BlockedBy, MaskCrop, Observation, Scene, SemanticScores
from support.layered import TABLE_DEPTH, draw_layered_scene

MARGIN = 12


def with_margin(scene: Scene) -> Scene:
    """The same scene with bare table around it, so that the image border cuts nothing."""
    seen = scene.observation
    frame = Observation(
        np.pad(seen.rgb, ((MARGIN, MARGIN), (MARGIN, MARGIN), (0, 0))),
        np.pad(seen.depth, MARGIN, constant_values=TABLE_DEPTH),
        seen.camera,
    )
    objects = tuple(
        replace(
            each, amodal=MaskCrop(each.amodal.top + MARGIN, each.amodal.left + MARGIN, each.amodal.pixels)
        )
        for each in scene.objects
    )
    visible = np.pad(scene.visible_ids, MARGIN)
    return replace(scene, observation=frame, objects=objects, visible_ids=visible, points={})


def draw_labelled_scene(rng: np.random.Generator, noise: float = 1.0, lost: float = 0.1) -> Scene:
    """A layered scene whose candidate pairs carry overconfident, noisy semantic scores; some are lost."""
    scene = with_margin(draw_layered_scene(rng, (180, 240), int(rng.integers(3, 8))))
    touching = geometric_evidence(scene).state != 0
    ids = scene.ids
    scores = {}
    for i, j in np.argwhere(touching):
        pair = BlockedBy(ids[i], ids[j])
        sign = 1.0 if pair in scene.true_occlusion.pairs else -1.0
        logit = 2.0 * (sign + noise * rng.standard_normal()) + 0.8
        scores[pair] = None if rng.random() < lost else float(1.0 / (1.0 + np.exp(-logit)))
    return replace(scene, semantic_scores=SemanticScores(scores, "noisy"))
