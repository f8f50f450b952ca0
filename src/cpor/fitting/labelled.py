"""Labelled scenes as fitting sees them, and their split into disjoint parts."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Shaped

from cpor.errors import CporError
from cpor.model import PARTS
from cpor.pipeline import PairBeliefs, Pipeline
from cpor.scene import BlockedBy, Scene

SHARES = (0.3, 0.2, 0.2, 0.3)
"""How the scenes are dealt out to PARTS; the promise needs the most, since it counts errors."""

FEWEST_SCENES = 20
"""Fewer labelled scenes than this cannot fill four parts."""


class FittingError(CporError, ValueError):
    """Labelled scenes that a model cannot be fitted to."""


@dataclass(frozen=True, eq=False)
class LabelledScene:
    """One labelled scene with what the stages fitted so far say of it.

    Attributes:
        name: What the scene is called in the model file.
        scene: The scene.
        beliefs: What the stages say of each pair.
        truth: The true relations.
    """

    name: str
    scene: Scene
    beliefs: PairBeliefs
    truth: frozenset[BlockedBy]

    @classmethod
    def read(cls, name: str, scene: Scene, pipeline: Pipeline) -> "LabelledScene":
        """Check that the scene has what fitting needs, and run the pipeline's pair stages on it."""
        if scene.true_occlusion is None:
            raise FittingError(
                f"{name} has no relations.json; fitting needs scenes with known true relations"
            )
        if scene.visible_ids is None:
            raise FittingError(f"{name} has no instances.png; fitting needs scenes with masks")
        return cls(name, scene, pipeline.believe(scene), scene.true_occlusion.pairs)

    def believed_by(self, pipeline: Pipeline) -> "LabelledScene":
        """The same scene as seen by other stages; what was measured is not measured again."""
        measured = replace(pipeline, measure=lambda scene: self.beliefs.geometry)
        return replace(self, beliefs=measured.believe(self.scene))

    @property
    def label(self) -> Bool[np.ndarray, "n n"]:
        """Whether each relation is true. Shape (n, n)."""
        place = {label: k for k, label in enumerate(self.beliefs.ids)}
        label = np.zeros((len(place), len(place)), np.bool_)
        for blocked, blocker in self.truth:
            label[place[blocked], place[blocker]] = True
        return label


Of = Callable[[LabelledScene], Shaped[np.ndarray, "n n"]]
"""An (n, n) array of a scene."""


def gather(part: Sequence[LabelledScene], value: Of, where: Of) -> Shaped[np.ndarray, " pairs"]:
    """The values of all chosen pairs of all scenes, one after another. Shape (pairs,)."""
    return np.concatenate([value(each)[where(each)] for each in part])


def images(part: Sequence[LabelledScene], where: Of) -> Shaped[np.ndarray, " pairs"]:
    """The scene each chosen pair belongs to. Shape (pairs,)."""
    return np.concatenate([np.full(int(where(each).sum()), each.name) for each in part])


def split(scenes: Sequence[LabelledScene], rng: np.random.Generator) -> dict[str, list[LabelledScene]]:
    """Deal the scenes out to PARTS at random."""
    if len(scenes) < FEWEST_SCENES:
        raise FittingError(
            f"{len(scenes)} labelled scenes are too few for four disjoint parts; give {FEWEST_SCENES} or more"
        )
    order = rng.permutation(len(scenes))
    ends = np.floor(np.cumsum(SHARES)[:-1] * len(scenes)).astype(int)
    return {part: [scenes[k] for k in rows] for part, rows in zip(PARTS, np.split(order, ends), strict=True)}
