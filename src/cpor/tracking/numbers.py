"""Ids that stay with their things: what is recognised keeps its own, what is new gets a free one."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np

from cpor.scene import BlockedBy, Scene, SemanticScores
from cpor.tracking.identity import Identities


def give_numbers(
    found: Iterable[int], who: Identities, known: frozenset[int], trusts: bool
) -> dict[int, int]:
    """The id of each object of a look, by the segmenter's number.

    Args:
        found: The segmenter's numbers.
        who: Who is who.
        known: Ids given so far; none is ever given to another thing.
        trusts: Whether a new object has the segmenter's number where that is free.
    """
    found = tuple(found)
    numbers = {k: who.same[k].known for k in found if k in who.same}
    free = max((*known, *found, 0)) + 1
    for k in found:
        if k in numbers:
            continue
        if trusts and k not in known and k not in numbers.values():
            numbers[k] = k
        else:
            numbers[k] = free
            free += 1
    return numbers


def renumber(scene: Scene, numbers: Mapping[int, int]) -> Scene:
    """The scene by other ids; what was recorded of who made its masks is about the old ones."""
    if all(k == new for k, new in numbers.items()):
        return scene
    ids = scene.visible_ids
    if ids is not None:
        table = np.zeros(max((0, *numbers)) + 1, np.int32)
        table[list(numbers)] = list(numbers.values())
        ids = table[ids]
    semantic = scene.semantic_scores
    if semantic is not None:
        said = {BlockedBy(numbers[i], numbers[j]): score for (i, j), score in semantic.scores.items()}
        semantic = SemanticScores(said, semantic.scorer)
    return replace(
        scene,
        objects=tuple(replace(obj, id=numbers[obj.id]) for obj in scene.objects),
        visible_ids=ids,
        true_occlusion=None,
        true_sweep=None,
        true_lift=None,
        points={numbers[k]: point for k, point in scene.points.items()},
        semantic_scores=semantic,
        sources=None,
    )
