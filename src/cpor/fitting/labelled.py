"""Labelled scenes as fitting sees them, and their split into disjoint parts."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Shaped

from cpor.errors import CporError, InvalidSceneError, list_labels
from cpor.model import PARTS
from cpor.pipeline import PairBeliefs, Pipeline
from cpor.risk import one_case_per_image
from cpor.scene import BlockedBy, Scene, SemanticScores
from cpor.truth import TruthKind, truth_of

SHARES = (0.3, 0.2, 0.2, 0.3)
"""How the images are dealt out to PARTS; the promise needs the most, since it counts errors."""

FEWEST_IMAGES = 20
"""Fewer labelled images than this cannot fill four parts."""


class FittingError(CporError, ValueError):
    """Labelled scenes that a model cannot be fitted to."""


@dataclass(frozen=True, eq=False)
class LabelledScene:
    """One labelled scene with what the stages fitted so far say of it; its pictures are not kept.

    Attributes:
        name: What the scene is called in the model file.
        image: Fingerprint of the picture: scenes of one picture are never on both sides of a split.
        semantic: The semantic scores it came with.
        beliefs: What the stages say of each pair.
        truth: The true relations.
    """

    name: str
    image: str
    semantic: SemanticScores | None
    beliefs: PairBeliefs
    truth: frozenset[BlockedBy]

    @classmethod
    def read(
        cls, name: str, scene: Scene, pipeline: Pipeline, kind: TruthKind = "occlusion"
    ) -> "LabelledScene":
        """Check that the scene has what fitting needs, and run the pipeline's pair stages on it."""
        try:
            truth = truth_of(scene, kind)
        except InvalidSceneError as problem:
            raise FittingError(f"{name}: {problem}") from None
        if scene.visible_ids is None:
            raise FittingError(f"{name} has no instances.png; fitting needs scenes with masks")
        if unlabelled := set(scene.ids) - truth.objects:
            raise FittingError(
                f"the true relations of {name} do not list the objects {list_labels(sorted(unlabelled))}, so "
                "nothing is known of them; label them, or leave the scene out"
            )
        picture = hashlib.sha256(scene.observation.rgb.tobytes())
        if scene.observation.depth is not None:
            picture.update(scene.observation.depth.tobytes())
        beliefs = pipeline.believe(scene)
        return cls(name, picture.hexdigest(), pipeline.score(scene), beliefs, truth.pairs)

    def believed_by(self, pipeline: Pipeline) -> "LabelledScene":
        """The same scene as seen by other stages; what was measured is not measured again."""
        return replace(self, beliefs=pipeline.combine(self.beliefs.geometry, self.semantic))

    @property
    def label(self) -> Bool[np.ndarray, "n n"]:
        """Whether each relation is true. Shape (n, n)."""
        place = {label: k for k, label in enumerate(self.beliefs.ids)}
        label = np.zeros((len(place), len(place)), np.bool_)
        for blocked, blocker in self.truth:
            if blocked in place and blocker in place:  # the truth may know objects that nobody saw
                label[place[blocked], place[blocker]] = True
        return label


Of = Callable[[LabelledScene], Shaped[np.ndarray, "n n"]]
"""An (n, n) array of a scene."""


def gather(part: Sequence[LabelledScene], value: Of, where: Of) -> Shaped[np.ndarray, " pairs"]:
    """The values of all chosen pairs of all scenes, one after another. Shape (pairs,)."""
    return np.concatenate([value(each)[where(each)] for each in part])


def images(part: Sequence[LabelledScene], where: Of) -> Shaped[np.ndarray, " pairs"]:
    """The picture each chosen pair belongs to. Shape (pairs,)."""
    return np.concatenate([np.full(int(where(each).sum()), each.image) for each in part])


def split(scenes: Sequence[LabelledScene], rng: np.random.Generator) -> dict[str, list[LabelledScene]]:
    """Deal the pictures out to PARTS at random; the promise keeps one scene a picture, as its test asks."""
    pictures = list(dict.fromkeys(each.image for each in scenes))
    if len(pictures) < FEWEST_IMAGES:
        raise FittingError(
            f"{len(pictures)} labelled images are too few for four disjoint parts; give {FEWEST_IMAGES} "
            "or more"
        )
    order = rng.permutation(len(pictures))
    ends = np.floor(np.cumsum(SHARES)[:-1] * len(pictures)).astype(int)
    part_of = {
        pictures[k]: part for part, dealt in zip(PARTS, np.split(order, ends), strict=True) for k in dealt
    }
    parts: dict[str, list[LabelledScene]] = {part: [] for part in PARTS}
    for each in scenes:
        parts[part_of[each.image]].append(each)
    kept = one_case_per_image(np.array([each.image for each in parts["promise"]]), rng)
    parts["promise"] = [parts["promise"][k] for k in sorted(kept.tolist())]
    return parts
