"""A source of belief of one's own: the depth step along the border that two objects share.

Try it without a model, as here, or let `cpor fit` learn how far it can be trusted beside the others:

    cpor fit LABELLED_SCENES --source own_source:DepthStep
    cpor decide SCENE --model model.json --source own_source:DepthStep --target 3
"""

from pathlib import Path

import numpy as np

import cpor
from cpor.evidence.source import PairScores

SCENE = Path(__file__).parent / "scenes" / "sim" / "scene_00007"


class DepthStep:
    """The object that is nearer to the camera along a shared border is in the way of the other one."""

    name = "depth-step"
    fingerprint = "depth-step 1"  # change it with the numbers: a promise holds for what was tested

    def score(self, scene: cpor.Scene) -> PairScores:
        """Share of the border along which the blocker is more than 5 mm nearer. NaN: no common border."""
        ids, z = scene.visible_ids, scene.observation.depth
        border, nearer = np.zeros((2, len(scene.ids), len(scene.ids)))
        if ids is None or z is None:
            return PairScores(np.full(border.shape, np.nan))
        index = np.zeros(max(scene.ids, default=0) + 1, int)
        index[list(scene.ids)] = range(len(scene.ids))
        for one, other in ((np.s_[:, 1:], np.s_[:, :-1]), (np.s_[1:], np.s_[:-1])):
            for here, there in ((one, other), (other, one)):
                meet = (ids[here] > 0) & (ids[there] > 0) & (ids[here] != ids[there])
                meet &= np.isfinite(z[here] + z[there])
                pair = index[ids[here][meet]], index[ids[there][meet]]
                np.add.at(border, pair, 1.0)
                np.add.at(nearer, pair, z[here][meet] - z[there][meet] > 0.005)
        return PairScores(np.where(border > 0, nearer / np.maximum(border, 1.0), np.nan))


def main() -> None:
    """What each source says of the pairs of one scene, and the decision from all of them."""
    system = cpor.System(scorer="none", model="none", sources=[DepthStep()])
    view = system.look(SCENE)
    answer = system.decide(view, view.scene.ids[0])
    for pair in system.believe(view).beliefs.list_pairs():
        said = {name: each.p and round(each.p, 2) for name, each in pair.sources.items()}
        print(f"{pair.blocker} obstructs {pair.blocked}: {said}, fused {pair.p and round(pair.p, 2)}")
    print(answer.action)


if __name__ == "__main__":
    main()
