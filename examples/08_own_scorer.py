"""A relation scorer of one's own: the share of the blocked object's box that the blocker's box covers.

Any class with a `name` and a `score` works, for instance one that asks your own model. Where it fails it
gives None: no answer is not "free to grasp". On the command line: `--scorer MODULE:BoxOverlap`.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

import cpor
from cpor.scene import BlockedBy
from cpor.semantics.scorer import RelationScorer, ScoredPairs

SCENE = Path(__file__).parent / "scenes" / "sim" / "scene_00007"


class BoxOverlap(RelationScorer):
    """Judges a pair by its boxes alone."""

    name = "box-overlap"

    def score(self, scene: cpor.Scene, pairs: Sequence[BlockedBy]) -> ScoredPairs:
        """One number for each pair, or None."""
        boxes = {}
        for obj in scene.ids:
            rows, columns = np.nonzero(scene.visible_ids == obj)
            if len(rows):
                boxes[obj] = rows.min(), columns.min(), rows.max() + 1, columns.max() + 1
        covered = {pair: _covered(boxes.get(pair.blocked), boxes.get(pair.blocker)) for pair in pairs}
        return ScoredPairs(covered, self.name)


def _covered(blocked: tuple[int, ...] | None, blocker: tuple[int, ...] | None) -> float | None:
    if blocked is None or blocker is None:
        return None
    top, left = np.maximum(blocked[:2], blocker[:2])
    bottom, right = np.minimum(blocked[2:], blocker[2:])
    area = (blocked[2] - blocked[0]) * (blocked[3] - blocked[1])
    return float(max(bottom - top, 0) * max(right - left, 0) / area)


def main() -> None:
    """Decide with it, uncalibrated: `cpor fit` learns how far it can be trusted."""
    system = cpor.System(scorer=BoxOverlap(), model="none")
    view = system.look(SCENE)
    answer = system.decide(view, view.seen.ids[0])
    print(answer.action, {obj: round(p, 2) for obj, p in answer.scores.items()})
    print(*answer.notes, sep="\n")


if __name__ == "__main__":
    main()
