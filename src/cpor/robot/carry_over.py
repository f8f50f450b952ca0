"""What was learnt in one cycle and still holds in the next: who is who, semantic scores, failed attempts.

An object is *the same* when it is recognised; it is *unchanged* when, on top of that, it lies where it lay
and looks as it looked when something was last learnt about it. Scores of pairs of unchanged objects are
kept, so a costly scorer is not asked twice. Only raw scores are: what a calibrator that sees the target
said (`p_on_chain`) holds for that target in that scene alone and is computed anew in every cycle.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from cpor.robot.looks import (
    CanHaveMoved,
    Look,
    are_near,
    came_to_light,
    contradicted,
    is_unchanged,
    look_at,
    recognise,
)
from cpor.scene import BlockedBy, Scene, SemanticScores
from cpor.semantics.scorer import RelationScorer

NEAR = 0.05
"""Two objects whose boxes are nearer than this share of the image's width may be in each other's way when
grasped: 3 to 4 cm in a picture of a bin."""


@dataclass(frozen=True, eq=False)
class Known:
    """What is known of one object.

    Attributes:
        last: How it looked in the last frame.
        since: How it looked when it last changed; slow drift is told against this one.
        failures: Attempts on it that changed nothing, neither it nor what lies near it.
        taken: Whether the robot says that it took it away; then only the very same thing in the very same
            place is recognised as it.
    """

    last: Look
    since: Look
    failures: int = 0
    taken: bool = False


@dataclass(frozen=True, eq=False)
class Memory:
    """What the loop knows after a frame; ids are those of that frame.

    Attributes:
        known: What is known of each object.
        scores: Semantic scores that came as numbers. A pair without answer is not remembered: it is
            asked again.
        scorer: Who said so.
        same_as: For each recognised object its id in the frame before.
        unchanged: The objects that did not change since the frame before.
        carried: The pairs whose scores were kept from the frame before, as this one brings none of its own.
        doubted: Ids of a segmenter that says to keep them, under which another object is shown than before.
        frame: That frame; None before the first.
    """

    known: Mapping[int, Known] = field(default_factory=dict)
    scores: Mapping[BlockedBy, float] = field(default_factory=dict)
    scorer: str | None = None
    same_as: Mapping[int, int] = field(default_factory=dict)
    unchanged: frozenset[int] = frozenset()
    carried: frozenset[BlockedBy] = frozenset()
    doubted: frozenset[int] = frozenset()
    frame: Scene | None = None

    def carry_to(self, scene: Scene, ids_are_kept: bool = False) -> "Memory":
        """What still holds in the next frame.

        Args:
            scene: The next frame.
            ids_are_kept: Whether the segmenter gives an object the same id in every frame. Otherwise
                objects are recognised by their masks, names and colours.
        """
        looks = look_at(scene)
        old = {
            k: known.last
            for k, known in self.known.items()
            if not known.taken or any(is_unchanged(known.since, look) for look in looks.values())
        }
        can_have_moved = self.can_have_moved(scene, looks)
        doubted = contradicted(old, looks) if ids_are_kept else frozenset()
        if ids_are_kept:
            same_as = {k: k for k in looks if k in old and k not in doubted}
        else:
            same_as = recognise(old, looks, can_have_moved)
        known, unchanged = {}, set()
        for k, look in looks.items():
            before = self.known.get(same_as[k]) if k in same_as else None
            if before is not None and is_unchanged(before.since, look):
                unchanged.add(k)
                known[k] = replace(before, last=look, taken=False)
            else:
                known[k] = Known(look, look)
        new_id = {before: k for k, before in same_as.items() if k in unchanged}
        changed = [known[k].last.mask for k in looks if k not in unchanged]
        changed += [gone.last.mask for k, gone in self.known.items() if k not in new_id]
        near = round(NEAR * scene.observation.shape[1])
        for k in unchanged:
            if known[k].failures and any(are_near(known[k].last.mask, mask, near) for mask in changed):
                known[k] = replace(known[k], failures=0)  # there may be room for the fingers now
        scores = {
            BlockedBy(new_id[pair.blocked], new_id[pair.blocker]): score
            for pair, score in self.scores.items()
            if pair.blocked in new_id and pair.blocker in new_id
        }
        own = scene.semantic_scores.scores if scene.semantic_scores else {}
        carried = frozenset(pair for pair in scores if own.get(pair) is None)
        return Memory(known, scores, self.scorer, same_as, frozenset(unchanged), carried, doubted, scene)

    def can_have_moved(self, scene: Scene, looks: Mapping[int, Look]) -> CanHaveMoved:
        """Who can have moved since this memory's frame to where which object of the next frame is."""

        def can(old: int, new: int) -> bool:
            return self.frame is None or not came_to_light(self.frame, old, scene, looks[new].mask)

        return can

    def learn(self, semantic: SemanticScores | None) -> "Memory":
        """With the semantic scores of this frame."""
        if semantic is None:
            return self
        answered = {pair: score for pair, score in semantic.scores.items() if score is not None}
        return replace(self, scores=answered, scorer=semantic.scorer or self.scorer)

    def failed(self, obj: int) -> "Memory":
        """With one more attempt on an object that changed nothing."""
        known = self.known[obj]
        return replace(self, known={**self.known, obj: replace(known, failures=known.failures + 1)})

    def taken(self, obj: int) -> "Memory":
        """With an object that the robot says it took away."""
        return replace(self, known={**self.known, obj: replace(self.known[obj], taken=True)})

    def add_to(self, scene: Scene) -> Scene:
        """The scene with the remembered scores where it has none of its own."""
        if not self.scores:
            return scene
        own = scene.semantic_scores
        scores: dict[BlockedBy, float | None] = dict(self.scores)
        for pair, score in (own.scores if own else {}).items():
            if score is not None or pair not in scores:
                scores[pair] = score
        scorer = own.scorer if own and own.scorer else self.scorer
        return replace(scene, semantic_scores=SemanticScores(scores, scorer))


@dataclass(frozen=True)
class AskOnlyNew:
    """A semantic stage for `Pipeline(score=...)` that asks only about pairs without a score.

    Attributes:
        scorer: Asked once a scene, or not at all where each of its own pairs has a score.
    """

    scorer: RelationScorer

    def __call__(self, scene: Scene) -> SemanticScores:
        """The scores of all pairs that matter, old and new."""
        given = scene.semantic_scores
        known = {p: s for p, s in (given.scores if given else {}).items() if s is not None}
        wanted = frozenset(self.scorer.pairs(scene))
        missing = sorted(wanted.difference(known))
        # Kept pairs that matter no more are no answer anybody needs.
        scores: dict[BlockedBy, float | None] = {pair: known[pair] for pair in sorted(wanted & set(known))}
        scorer = given.scorer if given else None
        if missing:
            said = self.scorer.score(scene, missing)
            scores |= {pair: said.scores[pair] for pair in missing}
            scorer = said.scorer
        return SemanticScores(scores, scorer)
