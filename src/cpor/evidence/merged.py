r"""Masks that hold two objects: a second segmenter finds both inside, and one of them obstructs the other.

With M a given mask, V_k the visible masks of a second look and p its geometry, M is doubted if for some k, l

    |V_k n M| >= 0.7 |V_k|,   |V_k n M| >= 0.2 |M|,   the same for l,   max(p_kl, p_lk) > 0.9 or no answer

One object that the second segmenter cut into pieces passes: its pieces do not obstruct each other.
"""

import numpy as np
from jaxtyping import Bool

from cpor.evidence.geometry import GeometricEvidence
from cpor.perception.segmenter import shared_pixels
from cpor.scene import Scene

INSIDE = 0.7
"""Share of a found object that must lie inside the given mask."""

SHARE = 0.2
"""Share of the given mask that each of the two must take. Chosen on osd_learn: 0.1 doubts 5 of 106 sound
masks and 0.2 none."""

SURE = 0.9
"""Probability that one obstructs the other."""


def find_merged(scene: Scene, second: Scene, geometry: GeometricEvidence) -> Bool[np.ndarray, " n"]:
    """Which masks of a scene hold two objects, by a second look at the frame and its geometry. Shape (n,)."""
    merged = np.zeros(len(scene.objects), np.bool_)
    if scene.visible_ids is None or second.visible_ids is None or not geometry.ids:
        return merged
    shared = shared_pixels(scene, second)
    here, there = shared.sum(axis=1), shared.sum(axis=0)
    obstructs = ~(geometry.p_geometry <= SURE)
    np.fill_diagonal(obstructs, False)
    found = np.array(geometry.ids)
    for k, label in enumerate(scene.ids):
        taken = shared[label, found]
        parts = (taken > 0) & (taken >= INSIDE * there[found]) & (taken >= SHARE * here[label])
        merged[k] = obstructs[np.ix_(parts, parts)].any()
    return merged
