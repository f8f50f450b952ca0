"""Labelled scenes as fitting sees them, and their split into disjoint parts."""

from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

from cpor.errors import FittingError, InvalidSceneError, list_labels
from cpor.evidence import UnseenEvidence
from cpor.gate.setup import setup_figures
from cpor.model import PARTS
from cpor.pipeline import PairBeliefs, Pipeline
from cpor.scene import BlockedBy, Scene, SemanticScores, Sources
from cpor.sources import digest_frame, gradient_signs, near_copies, verified_sources
from cpor.truth import TruthKind, truth_of

SHARES = (0.3, 0.2, 0.2, 0.3)
"""How the images are dealt out to PARTS; the promise needs the most, since it counts errors."""

FEWEST_IMAGES = 20
"""Fewer labelled images than this cannot fill four parts."""

DROP_RATE = 0.1
"""Share of the masks to drop, about what our segmenter misses (recall 0.905 at IoU 0.5 on the test split).

It leaves fewer objects than that without any mask, 4.3 % of 1,301 in 120 scenes: the rest are found badly.
"""

DROPS_PER_SCENE = 3
"""How often each labelled scene is looked at with masks dropped."""


@dataclass(frozen=True, eq=False)
class LabelledScene:
    """One labelled scene with what the stages fitted so far say of it; its pictures are not kept.

    Attributes:
        name: What the scene is called in the model file.
        image: Which picture it shows, near-copies counted as one: never on both sides of a split.
        semantic: The semantic scores it came with.
        beliefs: What the stages say of each pair.
        truth: The true relations.
        look: Coarse signs of the picture's gradients, by which near-copies are told.
        sources: What made masks and scores for this very frame; None where that is not recorded.
        dropped: Evidence of unseen blockers with masks dropped, and whether there is one before each object.
        setup: Figures of the camera's set-up, by name.
        unlabelled: Objects that no label is about, such as masks on what a person took for background: no one
            asks for them, and nobody knows what obstructs them.
    """

    name: str
    image: str
    semantic: SemanticScores | None
    beliefs: PairBeliefs
    truth: frozenset[BlockedBy]
    look: Bool[np.ndarray, " bits"]
    sources: Sources | None = None
    dropped: tuple[tuple[UnseenEvidence, Bool[np.ndarray, " _"]], ...] = ()
    setup: tuple[tuple[str, float], ...] = ()
    unlabelled: frozenset[int] = frozenset()

    @classmethod
    def read(
        cls,
        name: str,
        scene: Scene,
        pipeline: Pipeline,
        kind: TruthKind = "occlusion",
        unlabelled: frozenset[int] = frozenset(),
    ) -> "LabelledScene":
        """Check that the scene has what fitting needs, and run the pipeline's pair stages on it."""
        try:
            truth = truth_of(scene, kind)
        except InvalidSceneError as problem:
            raise FittingError(f"{name}: {problem}") from None
        if scene.visible_ids is None:
            raise FittingError(f"{name} has no instances.png; fitting needs scenes with masks")
        if missing := set(scene.ids) - truth.objects:
            raise FittingError(
                f"the true relations of {name} do not list the objects {list_labels(sorted(missing))}, so "
                "nothing is known of them; label them, or leave the scene out"
            )
        look = gradient_signs(scene)
        # The picture itself seeds the draw: the same scene is dropped from alike, in whatever order it comes.
        rng = np.random.default_rng(int(digest_frame(scene.observation)[:16], 16))
        dropped = []
        for _ in range(DROPS_PER_SCENE):
            seen = drop_objects(scene, [label for label in scene.ids if rng.random() < DROP_RATE])
            if seen.ids:
                obstructed = is_obstructed_unseen(seen.ids, truth.pairs)
                dropped.append((pipeline.measure(seen).unseen, obstructed))
        return cls(
            name,
            name,
            scene.semantic_scores,
            pipeline.believe(scene),
            truth.pairs,
            look,
            verified_sources(scene),
            tuple(dropped),
            tuple(setup_figures(scene).items()),
            unlabelled,
        )

    def believed_by(self, pipeline: Pipeline) -> "LabelledScene":
        """The same scene as seen by other stages; what was measured is not measured again."""
        names = {each.name for each in pipeline.sources}
        others = {name: each for name, each in self.beliefs.scores.items() if name in names}
        return replace(self, beliefs=pipeline.combine(self.beliefs.geometry, self.semantic, others))

    @property
    def targets(self) -> tuple[int, ...]:
        """Objects that can be asked for."""
        return tuple(each for each in self.beliefs.ids if each not in self.unlabelled)

    @property
    def known(self) -> Bool[np.ndarray, "n n"]:
        """Whether the labels say if a relation is true. Shape (n, n)."""
        blocked = np.isin(self.beliefs.ids, self.targets)
        return np.repeat(blocked[:, None], blocked.size, axis=1)

    @property
    def label(self) -> Bool[np.ndarray, "n n"]:
        """Whether each relation is true. Shape (n, n)."""
        place = {label: k for k, label in enumerate(self.beliefs.ids)}
        label = np.zeros((len(place), len(place)), np.bool_)
        for blocked, blocker in self.truth:
            if blocked in place and blocker in place:  # the truth may list objects that were not seen
                label[place[blocked], place[blocker]] = True
        return label


def group_copies(scenes: Sequence[LabelledScene]) -> list[LabelledScene]:
    """The same scenes; those that show one picture, slightly changed or not, count as one image."""
    groups = near_copies([each.look for each in scenes])
    return [replace(each, image=scenes[k].name) for each, k in zip(scenes, groups, strict=True)]


def drop_objects(scene: Scene, labels: Collection[int]) -> Scene:
    """The scene as if these objects had no mask: their pixels are background."""
    gone = frozenset(labels)
    assert scene.visible_ids is not None  # fitting needs masks
    visible = np.where(np.isin(scene.visible_ids, list(gone)), 0, scene.visible_ids).astype(np.int32)
    scores = scene.semantic_scores
    if scores is not None:
        scores = replace(scores, scores={k: v for k, v in scores.scores.items() if gone.isdisjoint(k)})
    return replace(
        scene,
        objects=tuple(each for each in scene.objects if each.id not in gone),
        visible_ids=visible,
        points={k: point for k, point in scene.points.items() if k not in gone},
        semantic_scores=scores,
    )


def is_obstructed_unseen(ids: Sequence[int], truth: Set[BlockedBy]) -> Bool[np.ndarray, " n"]:
    """Whether something that is not among the objects truly obstructs each of them. Shape (n,)."""
    blocked = {pair.blocked for pair in truth if pair.blocker not in ids}
    return np.array([label in blocked for label in ids], np.bool_)


class PairColumns(NamedTuple):
    """All ordered pairs of some scenes, one after another. Shape (pairs,) each.

    Attributes:
        image: The picture each pair belongs to.
        label: Whether the relation is true.
        known: Whether the labels say so.
        fused: One probability a pair.
        score, p, gate: What each source says, by its name: raw score, probability, and reliability.
        n_asked: Pairs of its scene that each source was asked about.
    """

    image: Shaped[np.ndarray, " pairs"]
    label: Bool[np.ndarray, " pairs"]
    known: Bool[np.ndarray, " pairs"]
    fused: Float[np.ndarray, " pairs"]
    score: Mapping[str, Float[np.ndarray, " pairs"]]
    p: Mapping[str, Float[np.ndarray, " pairs"]]
    gate: Mapping[str, Float[np.ndarray, " pairs"]]
    n_asked: Mapping[str, Float[np.ndarray, " pairs"]]

    @property
    def sourced(self) -> Bool[np.ndarray, " pairs"]:
        """Whether any source has a probability."""
        return np.asarray(~np.all([np.isnan(each) for each in self.p.values()], axis=0))

    def where(self, chosen: Bool[np.ndarray, " pairs"]) -> "PairColumns":
        """The chosen pairs alone."""

        def pick(column: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
            return {name: each[chosen] for name, each in column.items()}

        return PairColumns(
            self.image[chosen],
            self.label[chosen],
            self.known[chosen],
            self.fused[chosen],
            pick(self.score),
            pick(self.p),
            pick(self.gate),
            pick(self.n_asked),
        )


def pair_columns(part: Sequence[LabelledScene]) -> PairColumns:
    """The pairs of some scenes, as they are believed now."""
    beliefs = [each.beliefs for each in part]
    names = list(beliefs[0].scores)

    def joined(arrays: Iterable[np.ndarray]) -> np.ndarray:
        return np.concatenate([each.ravel() for each in arrays])

    return PairColumns(
        joined(np.full(each.label.size, each.image) for each in part),
        joined(each.label for each in part),
        joined(each.known for each in part),
        joined(each.p_fused for each in beliefs),
        {name: joined(each.scores[name].score for each in beliefs) for name in names},
        {name: joined(each.p[name] for each in beliefs) for name in names},
        {name: joined(each.scores[name].reliability for each in beliefs) for name in names},
        {name: joined(_counted(each.scores[name].asked) for each in beliefs) for name in names},
    )


def _counted(asked: Bool[np.ndarray, "n n"]) -> Float[np.ndarray, "n n"]:
    return np.full(asked.shape, float(asked.sum()))


def split(
    scenes: Sequence[LabelledScene], rng: np.random.Generator, untouched: Collection[str] = ()
) -> dict[str, list[LabelledScene]]:
    """Deal the pictures out to PARTS at random; the promise keeps one scene a picture, as its test asks.

    Args:
        scenes: Labelled ones.
        rng: Random numbers.
        untouched: Names of scenes for the promise; where there are any, all others go to the other parts.
    """
    kept_apart = {each.image for each in scenes if each.name in untouched}
    pictures = list(dict.fromkeys(each.image for each in scenes if each.image not in kept_apart))
    if len(pictures) < FEWEST_IMAGES:
        raise FittingError(
            f"{len(pictures)} labelled images are too few for four disjoint parts; give {FEWEST_IMAGES} "
            "or more"
        )
    order = rng.permutation(len(pictures))
    whole = sum(SHARES[:-1]) if kept_apart else 1.0
    ends = np.floor(np.cumsum(SHARES)[:-1] / whole * len(pictures)).astype(int)
    if kept_apart:
        ends[-1] = len(pictures)
    part_of = {
        pictures[k]: part for part, dealt in zip(PARTS, np.split(order, ends), strict=True) for k in dealt
    }
    part_of |= dict.fromkeys(kept_apart, "promise")
    parts: dict[str, list[LabelledScene]] = {part: [] for part in PARTS}
    for each in scenes:
        parts[part_of[each.image]].append(each)
    kept = one_case_per_image(np.array([each.image for each in parts["promise"]]), rng)
    parts["promise"] = [parts["promise"][k] for k in sorted(kept.tolist())]
    return parts


def one_case_per_image(image: Shaped[np.ndarray, " n"], rng: np.random.Generator) -> Int[np.ndarray, " m"]:
    """Positions of one case of each image, drawn at random, increasing. Shape (number of images,)."""
    images = np.asarray(image)
    shuffled = rng.permutation(images.size)
    _, first = np.unique(images[shuffled], return_index=True)
    return np.sort(shuffled[first])
