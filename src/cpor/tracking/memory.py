"""What was learnt in one look and still holds in the next: ids, names, semantic scores, failed attempts.

An object is *the same* when it is recognised, and keeps its id; it is *unchanged* when, on top of that, it
lies where it lay and looks as it looked when something was last learnt about it. Scores of pairs of unchanged
objects are kept, so that a costly scorer is not asked twice. Only raw scores are kept: what a calibrator that
sees the target says (`p_on_chain`) holds for that target in that scene alone and is computed anew.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from cpor.pipeline import PairBeliefs
from cpor.scene import BlockedBy, MaskCrop, PixelPoint, Scene, SemanticScores
from cpor.tracking.identity import SURE, Identities, identify
from cpor.tracking.looks import (
    SAME_PIXELS,
    SHOWN,
    ObjectLook,
    are_near,
    find_in,
    is_unchanged,
    look_at,
    look_at_spot,
    same_pose,
)
from cpor.tracking.pair_filter import PairFilter


def add_still_there(
    known: Mapping[int, ObjectLook], before: Scene, seen: Scene
) -> tuple[Scene, dict[int, int]]:
    """The next look with the objects that are still there, though they were not found; and which they are.

    A network names a thing in one frame and is not sure enough in the next. Its place, depth and colours say
    that it is there, so it counts with the mask it had: what was known does not become free by omission.

    Returns:
        The look, and the known object that each new id of it is.
    """
    if seen.visible_ids is None or not same_pose(before.observation.camera, seen.observation.camera):
        return seen, {}
    objects, ids = list(seen.objects), seen.visible_ids.copy()
    as_before = {o.id: o for o in before.objects}
    added: dict[int, int] = {}
    for k, look in known.items():
        found = find_in(look, seen)
        if found.on.get(0, 0) < max(SHOWN * len(look.pixels), 1) or found.recoloured[0] > SAME_PIXELS:
            continue
        label = max((o.id for o in objects), default=0) + 1
        rows, cols = look.mask.pixels.shape
        place = ids[look.mask.top : look.mask.top + rows, look.mask.left : look.mask.left + cols]
        place[look.mask.pixels & (place == 0)] = label
        objects.append(replace(as_before[k], id=label))
        added[label] = k
    if not added:
        return seen, {}
    return replace(seen, objects=tuple(objects), visible_ids=np.asarray(ids, np.int32)), added


def give_numbers(
    found: Iterable[int], matches: Identities, known: frozenset[int], trusts: bool
) -> dict[int, int]:
    """The id of each object of a look, by the segmenter's number."""
    found = tuple(found)
    numbers = {k: matches.same[k].known for k in found if k in matches.same}
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
    """The scene by other ids; what was recorded of the maker of its masks is about the old ones."""
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


NEAR = 0.05
"""Two objects whose boxes are nearer than this share of the image's width may be in each other's way when
grasped: 3 to 4 cm in a picture of a bin."""


@dataclass(frozen=True, eq=False)
class Known:
    """What is known of one object.

    Attributes:
        last: How it looked when it was last seen.
        since: How it looked when it last changed; slow drift is measured against this one.
        sure: How it looked when it was last sure to be itself.
        p_same: Probability that it is the object that got this id.
        failures: Attempts on it that changed nothing, neither it nor what lies near it.
        taken: Whether the robot says that it took it away, or it turned out to be a piece of another thing;
            then only the very same thing in the very same place is recognised as it.
        spot: How the spot looked at which a person pointed to mean it, while it lies there; else None.
    """

    last: ObjectLook
    since: ObjectLook
    sure: ObjectLook
    p_same: float = 1.0
    failures: int = 0
    taken: bool = False
    spot: ObjectLook | None = None


def _bring_up_to_date(
    before: Mapping[int, Known],
    looks: Mapping[int, ObjectLook],
    matches: Identities,
    numbers: Mapping[int, int],
) -> tuple[dict[int, Known], set[int]]:
    """What is known of each object of a look, and those that did not change."""
    known: dict[int, Known] = {}
    unchanged: set[int] = set()
    for k, look in looks.items():
        match, here = matches.same.get(k), numbers[k]
        if match is None:
            known[here] = Known(look, look, look)
            continue
        old = replace(before[here], spot=None) if here in matches.left else before[here]
        shows = is_unchanged(old.sure, look)
        if old.p_same < SURE:  # what is in doubt has to show its colours, too
            shows &= float(np.linalg.norm(old.sure.colour - look.colour)) <= SAME_PIXELS
        p = match.p if shows else min(old.p_same, match.p)
        old = replace(old, last=look, p_same=p, taken=False, sure=look if p >= SURE else old.sure)
        if is_unchanged(old.since, look) and match.p >= SURE:
            unchanged.add(here)
        else:
            old = replace(old, since=look, failures=0)
        known[here] = old
    return known, unchanged


def _near_to_changes(
    known: Mapping[int, Known], unchanged: set[int], gone: Iterable[MaskCrop], near: int
) -> set[int]:
    """The unchanged objects within so many pixels of one that changed, or of a place that one left."""
    changed = [known[k].last.mask for k in known if k not in unchanged]
    changed += gone
    return {k for k in unchanged if any(are_near(known[k].last.mask, mask, near) for mask in changed)}


@dataclass(frozen=True, eq=False)
class Memory:
    """What is known after a look; an id stays with a thing as long as it is known.

    Attributes:
        known: What is known of each object of the last look.
        lost: What is known of those that were seen before, and not in the last look.
        new: Objects that were not known before the last look.
        scores: Semantic scores that still hold. A pair without an answer is not among them: it is asked
            again.
        scorer: The name of the scorer that gave them.
        unchanged: The objects that did not change since the frame before.
        near: Those of them near to something that changed, came or went.
        pairs: What the looks so far say of each pair that did not change.
        events: What is to be said of matches, in sentences.
        frame: The last look, by these ids; None before the first.
        made_here: What of the last look the segmenter made: its masks, unless one is from an earlier look.
        names: What each object was called, by id; it stays.
        numbers: The id of each object of the last look, by the number it had before.
    """

    known: Mapping[int, Known] = field(default_factory=dict)
    lost: Mapping[int, Known] = field(default_factory=dict)
    new: frozenset[int] = frozenset()
    scores: Mapping[BlockedBy, float] = field(default_factory=dict)
    scorer: str | None = None
    unchanged: frozenset[int] = frozenset()
    near: frozenset[int] = frozenset()
    pairs: PairFilter = field(default_factory=PairFilter)
    events: tuple[str, ...] = ()
    frame: Scene | None = None
    made_here: frozenset[str] = frozenset({"masks"})
    names: Mapping[int, str] = field(default_factory=dict)
    numbers: Mapping[int, int] = field(default_factory=dict)

    def carry_to(self, seen: Scene, ids_are_kept: bool = False) -> "Memory":
        """What still holds in the next look."""
        before = {**self.lost, **self.known}
        still: dict[int, int] = {}
        if self.frame is not None and not ids_are_kept:
            there = {k: each.last for k, each in self.known.items() if not each.taken}
            seen, still = add_still_there(there, self.frame, seen)
        looks = look_at(seen)
        taken = frozenset(k for k, known in before.items() if known.taken)
        last = {k: known.last for k, known in before.items()}
        spots = {k: known.spot for k, known in before.items() if known.spot is not None}
        matches = identify(last, looks, seen, self.frame, taken, ids_are_kept, spots)
        numbers = give_numbers(looks, matches, frozenset(before), self.frame is None or ids_are_kept)
        scene = renumber(seen, numbers)
        known, unchanged = _bring_up_to_date(before, looks, matches, numbers)
        gone = [each.last.mask for k, each in self.known.items() if k not in unchanged]
        near = round(NEAR * scene.observation.shape[1])
        moved = _near_to_changes(known, unchanged, gone, near)
        for k in moved:
            known[k] = replace(known[k], failures=0)  # there may be room for the fingers now
        kept = {pair: score for pair, score in self.scores.items() if unchanged.issuperset(pair)}
        lost = {k: o for k, o in before.items() if k not in known}
        as_before = (f"object {numbers[k]} was not found by itself: it shows as before" for k in still)
        return Memory(
            known,
            lost | {k: replace(lost[k], taken=True) for k in lost.keys() & matches.joined},
            frozenset(known) - frozenset(before),
            kept,
            self.scorer,
            frozenset(unchanged),
            frozenset(moved),
            self.pairs.predict(frozenset(unchanged), frozenset(moved)),
            (*matches.events, *as_before),
            scene,
            frozenset() if still else frozenset({"masks"}),
            self.names,
            numbers,
        )

    @property
    def shown(self) -> list[int]:
        """The objects that show in the last look; all of them where it has no masks."""
        masked = self.frame is not None and self.frame.visible_ids is not None
        return [k for k, known in self.known.items() if known.last.area or not masked]

    @property
    def p_same(self) -> dict[int, float]:
        """Probability that each object that was known before is the same; in doubt below `SURE`."""
        return {k: each.p_same for k, each in self.known.items() if k not in self.new}

    def rename(self, obj: int, known_as: int) -> "Memory":
        """With an object of the last look, new in it, as one that is known, since a person says so."""
        assert self.frame is not None and obj in self.new
        numbers = {k: known_as if k == obj else k for k in self.known}
        return replace(
            self,
            known={numbers[k]: each for k, each in self.known.items()},
            lost={k: each for k, each in self.lost.items() if k != known_as},
            new=self.new - {obj},
            frame=renumber(self.frame, numbers),
            numbers=numbers,
        )

    def trust(self, obj: int, place: PixelPoint | None = None) -> "Memory":
        """With an object of the last look that is itself, since a person says so or points at it there."""
        known = self.known[obj]
        spot = None if place is None or self.frame is None else look_at_spot(self.frame.observation, place)
        told = replace(known, p_same=1.0, sure=known.last, spot=spot)
        return replace(self, known={**self.known, obj: told})

    def doubt(self, obj: int) -> "Memory":
        """With an object that may be another one by now, since something changed unseen."""
        return replace(self, known={**self.known, obj: replace(self.known[obj], p_same=0.5)})

    def learn(self, beliefs: PairBeliefs, scores: SemanticScores | None = None) -> "Memory":
        """With what is believed of the pairs of this look, and the semantic scores that are to be kept."""
        answered = {pair: s for pair, s in (scores.scores if scores else {}).items() if s is not None}
        scorer = scores.scorer if scores else None
        return replace(self, pairs=self.pairs.after(beliefs), scores=answered, scorer=scorer)

    def add(self, scene: Scene) -> "Memory":
        """With the objects that a closer look at the last frame shows besides; they get free ids."""
        free = max((*self.known, *self.lost, 0)) + 1
        new = [k for k in scene.ids if k not in self.known]
        numbers = {k: k for k in scene.ids} | {k: free + n for n, k in enumerate(new)}
        scene = renumber(scene, numbers)
        looks = look_at(scene)
        added = {numbers[k]: Known(*(looks[numbers[k]],) * 3) for k in new}
        told = replace(self, known={**self.known, **added}, new=self.new | added.keys(), numbers=numbers)
        return replace(told, frame=scene, made_here=frozenset())

    def failed(self, obj: int) -> "Memory":
        """With one more attempt on an object that changed nothing."""
        known = self.known[obj]
        return replace(self, known={**self.known, obj: replace(known, failures=known.failures + 1)})

    def taken(self, obj: int) -> "Memory":
        """With an object that the robot says it took away."""
        return replace(self, known={**self.known, obj: replace(self.known[obj], taken=True)})
