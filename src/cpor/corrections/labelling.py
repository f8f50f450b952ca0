"""From what was seen and corrected to a labelled scene: a person's masks, and the relations accepted."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from cpor.corrections.mask_edits import CorrectionError
from cpor.pipeline import PairBeliefs
from cpor.scene import BlockedBy, Scene, TrueRelations
from cpor.sources import describe_sources

BY_HAND = "a person"
"""Maker of masks that a person corrected, or accepted as they were; nothing that was tested has this name."""

HOLDS = 0.5
"""A relation that no person spoke of is accepted as true from this probability."""


def label_scene(
    scene: Scene, beliefs: PairBeliefs, relations: Mapping[tuple[int, int], float | None] | None = None
) -> Scene:
    """The scene with relations as truth: what was said of them, else what is believed and was accepted.

    Args:
        scene: As it was corrected.
        beliefs: Beliefs about this scene.
        relations: What a person said, by `(blocked, blocker)`.

    Raises:
        CorrectionError: Nothing is known of a pair: then it must not pass for one that does not obstruct.
    """
    said = dict(relations or {})
    pairs, unknown = [], []
    for i, j in np.argwhere(np.isnan(beliefs.p_fused) | (beliefs.p_fused > 0.0)).tolist():
        pair = BlockedBy(beliefs.ids[i], beliefs.ids[j])
        p = said.pop(pair, float(beliefs.p_fused[i, j]))
        if p is None or np.isnan(p):
            unknown.append(pair)
        elif p >= HOLDS:
            pairs.append(pair)
    for (blocked, blocker), p in said.items():
        if p is None:
            unknown.append(BlockedBy(blocked, blocker))
        elif p >= HOLDS:
            pairs.append(BlockedBy(blocked, blocker))
    if unknown:
        blocked, blocker = unknown[0]
        raise CorrectionError(
            f"nobody said whether object {blocker} obstructs object {blocked} ({len(unknown)} such pairs); "
            "say so first"
        )
    labelled = replace(
        scene,
        true_occlusion=TrueRelations(frozenset(scene.ids), frozenset(pairs)),
        true_sweep=None,
        true_lift=None,
        semantic_scores=None,
    )
    return replace(labelled, sources=describe_sources(labelled, BY_HAND, None))
