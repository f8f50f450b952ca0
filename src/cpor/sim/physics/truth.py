"""Ground truth of a simulated scene: what hides, blocks or supports what, and how deep a target lies.

Three kinds of truth, never mixed: occlusion (what a picture shows, and what UNOBench labels), sweep (what
is met on the way straight up) and lift (what rises along). Any of them may hold a cycle; it is kept.
"""

from collections.abc import Iterable

import numpy as np

from cpor.errors import InvalidSettingError, list_labels
from cpor.scene import BlockedBy, TrueRelations
from cpor.sim.camera.views import Views
from cpor.sim.dataset.manifest import Tier
from cpor.sim.physics.lift import lift_relations
from cpor.sim.physics.sweep import sweep_relations

__all__ = [
    "HIDDEN_SHARE",
    "has_cycle",
    "lift_relations",
    "longest_path",
    "occlusion_relations",
    "sweep_relations",
    "tier_of",
    "union",
]

HIDDEN_SHARE = 0.05
"""j occludes i when it hides more than this share of i's pixels (UNOBench)."""


def occlusion_relations(views: Views) -> TrueRelations:
    """Which object is seen in front of more than 5% of which other one's pixels.

    Objects outside of the image are not labelled.
    """
    pairs, labelled = [], []
    for i, crop in views.amodal.items():
        rows, cols = crop.pixels.shape
        window = views.visible_ids[crop.top : crop.top + rows, crop.left : crop.left + cols]
        # What is seen where i would be seen alone is i itself or in front of it.
        counts = np.bincount(window[crop.pixels])
        total = int(counts.sum())
        if total == 0:
            continue
        labelled.append(i)
        in_front = np.flatnonzero(counts > HIDDEN_SHARE * total)
        pairs += [BlockedBy(i, int(j)) for j in in_front if j not in (0, i)]
    known = frozenset(labelled)
    return TrueRelations(known, frozenset(pair for pair in pairs if pair.blocker in known))


def has_cycle(relations: TrueRelations) -> bool:
    """Whether some objects obstruct each other in a circle, so that none of them can go first."""
    left = set(relations.objects)
    while left:
        blocked = {pair.blocked for pair in relations.pairs if left.issuperset(pair)}
        if blocked == left:
            return True
        left = blocked
    return False


def longest_path(target: int, relations: TrueRelations) -> int:
    """Objects on the longest chain of blockers that ends in the target, the target included.

    A chain visits no object twice, so a cycle has a finite length too.
    """
    if target not in relations.objects:
        known = list_labels(sorted(relations.objects))
        raise InvalidSettingError(f"object {target} is not labelled; the truth knows: {known}")
    blockers: dict[int, list[int]] = {}
    for pair in relations.pairs:
        blockers.setdefault(pair.blocked, []).append(pair.blocker)

    def longest_from(here: int, visited: frozenset[int]) -> int:
        onwards = (j for j in blockers.get(here, ()) if j not in visited)
        return 1 + max((longest_from(j, visited | {j}) for j in onwards), default=0)

    return longest_from(target, frozenset((target,)))


def tier_of(target: int, relations: TrueRelations) -> Tier:
    """How deep the target is buried."""
    length = longest_path(target, relations)
    return "easy" if length == 1 else "medium" if length == 2 else "hard"


def union(truths: Iterable[TrueRelations]) -> frozenset[BlockedBy]:
    """The relations that hold in any of these truths."""
    return frozenset(pair for truth in truths for pair in truth.pairs)
