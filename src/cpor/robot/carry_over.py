"""What was learnt in one cycle and still holds in the next: who is who, semantic scores, failed attempts.

An object is *the same* when it is recognised; it is *unchanged* when, on top of that, it lies where it lay
and looks as it looked when something was last learnt about it. Scores of pairs of unchanged objects are
kept, so a costly scorer is not asked twice. Only raw scores are: what a calibrator that sees the target
said (`p_on_chain`) holds for that target in that scene alone and is computed anew in every cycle.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np
from jaxtyping import Float
from scipy.optimize import linear_sum_assignment

from cpor.evidence import PairState, geometric_evidence
from cpor.scene import BlockedBy, MaskCrop, Scene, SemanticScores

UNCHANGED_IOU = 0.9
"""Least overlap of an object's visible masks for it to count as unchanged."""

UNCHANGED_DEPTH_M = 0.005
"""Most change of its median depth for it to count as unchanged: above the noise of a median. [m]"""

NEAR = 0.05
"""Two objects whose boxes are nearer than this share of the image's width may be in each other's way when
grasped: 3 to 4 cm in a picture of a bin."""

SAME_PLACE = 0.6
"""Least share of the smaller of two masks that the other covers for an object to be recognised by its place:
it was nudged, or something was taken off it or fell on it."""

SAME_DEPTH_M = 0.03
"""Most change of the median depth of an object recognised by its place: what comes to light under a thing
that has gone lies deeper. [m]"""

SAME_COLOUR = 40.0
"""Most distance of mean colours by which a moved object is recognised, of 255 a channel."""

SAME_AREA = 0.5
"""Least ratio of visible areas of a moved object."""

CAME_TO_LIGHT = 0.2
"""An object may have been hidden all along where more of its pixels than this share showed something else
before; a moved one lies where nothing lay, or on top. The rest is noise of the depth."""

CanHaveMoved: TypeAlias = Callable[[int, int], bool]
"""Whether an old object can have moved to where a new one is, by their ids."""

PairScorer: TypeAlias = Callable[[Scene, frozenset[BlockedBy]], SemanticScores]
"""Asks a semantic source about the given pairs of a scene."""


@dataclass(frozen=True, eq=False)
class Look:
    """How an object looked in one frame.

    Attributes:
        mask: Its visible mask; empty where it was not seen.
        depth: Median of its depth readings, NaN without any. [m]
        colour: Mean colour, of 255 a channel. Shape (3,).
        name: What it was called.
    """

    mask: MaskCrop
    depth: float
    colour: Float[np.ndarray, " 3"]
    name: str | None

    @property
    def area(self) -> int:
        """Visible pixels."""
        return int(self.mask.pixels.sum())


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
        carried: The pairs whose scores were kept from the frame before.
        frame: That frame; None before the first.
    """

    known: Mapping[int, Known] = field(default_factory=dict)
    scores: Mapping[BlockedBy, float] = field(default_factory=dict)
    scorer: str | None = None
    same_as: Mapping[int, int] = field(default_factory=dict)
    unchanged: frozenset[int] = frozenset()
    carried: frozenset[BlockedBy] = frozenset()
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
        same_as = {k: k for k in looks if k in old} if ids_are_kept else recognise(old, looks, can_have_moved)
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
            if known[k].failures and any(_are_near(known[k].last.mask, mask, near) for mask in changed):
                known[k] = replace(known[k], failures=0)  # there may be room for the fingers now
        scores = {
            BlockedBy(new_id[pair.blocked], new_id[pair.blocker]): score
            for pair, score in self.scores.items()
            if pair.blocked in new_id and pair.blocker in new_id
        }
        return Memory(known, scores, self.scorer, same_as, frozenset(unchanged), frozenset(scores), scene)

    def can_have_moved(self, scene: Scene, looks: Mapping[int, Look]) -> CanHaveMoved:
        """Who can have moved since this memory's frame to where which object of the next frame is."""

        def can(old: int, new: int) -> bool:
            return self.frame is None or not _came_to_light(self.frame, old, scene, looks[new].mask)

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
        ask: The source; called once a scene, or not at all where every pair has a score.
        pairs: The pairs of a scene that matter; those that touch, by default.
    """

    ask: PairScorer
    pairs: Callable[[Scene], Iterable[BlockedBy]] = field(default_factory=lambda: touching_pairs)

    def __call__(self, scene: Scene) -> SemanticScores:
        """The scores of all pairs that matter, old and new."""
        given = scene.semantic_scores
        known = {p: s for p, s in (given.scores if given else {}).items() if s is not None}
        wanted = frozenset(self.pairs(scene))
        missing = wanted.difference(known)
        # Kept pairs that matter no more are no answer anybody needs.
        scores: dict[BlockedBy, float | None] = {pair: known[pair] for pair in sorted(wanted & set(known))}
        scorer = given.scorer if given else None
        if missing:
            said = self.ask(scene, missing)
            scores |= {pair: said.scores.get(pair) for pair in sorted(missing)}
            scorer = said.scorer or scorer
        return SemanticScores(scores, scorer)


def touching_pairs(scene: Scene) -> frozenset[BlockedBy]:
    """The pairs of which geometry does not know that they do not obstruct."""
    geometry = geometric_evidence(scene)
    rows, columns = np.nonzero(geometry.state != PairState.NO_CONTACT)
    return frozenset(BlockedBy(geometry.ids[i], geometry.ids[j]) for i, j in zip(rows, columns, strict=True))


def look_at(scene: Scene) -> dict[int, Look]:
    """How each object of a scene looks."""
    seen, ids = scene.observation, scene.visible_ids
    looks = {}
    for obj in scene.objects:
        mask = MaskCrop.from_mask(ids == obj.id if ids is not None else np.zeros(seen.shape, np.bool_))
        rows, cols = mask.pixels.shape
        here = np.s_[mask.top : mask.top + rows, mask.left : mask.left + cols]
        depth, colour = np.nan, np.full(3, np.nan)
        if mask.pixels.size:
            colour = seen.rgb[here][mask.pixels].mean(axis=0)
            readings = seen.depth[here][mask.pixels] if seen.depth is not None else np.array([np.nan])
            readings = readings[~np.isnan(readings)]
            depth = float(np.median(readings)) if readings.size else np.nan
        looks[obj.id] = Look(mask, depth, colour, obj.name)
    return looks


def is_unchanged(before: Look, now: Look) -> bool:
    """Whether an object lies where it lay and shows what it showed; never without a mask in both frames."""
    if overlap(before.mask, now.mask) <= UNCHANGED_IOU:
        return False
    if np.isnan(before.depth) and np.isnan(now.depth):
        return True  # a frame without depth, or a thing that never reads: the mask has to do
    return bool(abs(before.depth - now.depth) < UNCHANGED_DEPTH_M)  # NaN on one side is a change


def recognise(
    old: Mapping[int, Look], new: Mapping[int, Look], can_have_moved: CanHaveMoved = lambda old, new: True
) -> dict[int, int]:
    """The old id of each object that is recognised; in doubt an object is new.

    First by place, all together; of the rest, by a name that is unique in both frames, then by colour and
    size where only one old and one new object fit each other and the one can have moved there.
    """
    same: dict[int, int] = {}
    olds, news = list(old), list(new)
    if olds and news:
        place = np.array([[_same_place(old[i], new[k]) for k in news] for i in olds])
        rows, columns = linear_sum_assignment(place, maximize=True)
        same = {news[c]: olds[r] for r, c in zip(rows, columns, strict=True) if place[r, c] > 0.0}
    named_old = Counter(look.name for look in old.values())
    named_new = Counter(look.name for look in new.values())
    for alike in (_same_name, _same_colour):
        left_old = [i for i in olds if i not in same.values()]
        left_new = [k for k in news if k not in same]
        fits = [(i, k) for i in left_old for k in left_new if alike(old[i], new[k])]
        if alike is _same_name:
            fits = [(i, k) for i, k in fits if named_old[old[i].name] == named_new[new[k].name] == 1]
        for i, k in fits:
            alone = sum(i == other for other, _ in fits) == sum(k == other for _, other in fits) == 1
            if alone and (alike is _same_name or can_have_moved(i, k)):
                same[k] = i
    return same


def overlap(a: MaskCrop, b: MaskCrop) -> float:
    """Intersection over union of two masks; 0 where either is empty."""
    both = _common(a, b)
    return both / (np.count_nonzero(a.pixels) + np.count_nonzero(b.pixels) - both) if both else 0.0


def covered(a: MaskCrop, b: MaskCrop) -> float:
    """Share of the smaller of two masks that the other covers."""
    smaller = min(np.count_nonzero(a.pixels), np.count_nonzero(b.pixels))
    return _common(a, b) / max(int(smaller), 1)


def _common(a: MaskCrop, b: MaskCrop) -> int:
    """Pixels that two masks share."""
    top, left = max(a.top, b.top), max(a.left, b.left)
    bottom = min(a.top + a.pixels.shape[0], b.top + b.pixels.shape[0])
    right = min(a.left + a.pixels.shape[1], b.left + b.pixels.shape[1])
    if bottom <= top or right <= left:
        return 0
    return int(
        np.count_nonzero(
            a.pixels[top - a.top : bottom - a.top, left - a.left : right - a.left]
            & b.pixels[top - b.top : bottom - b.top, left - b.left : right - b.left]
        )
    )


def _are_near(a: MaskCrop, b: MaskCrop, gap: int) -> bool:
    """Whether the boxes of two masks are at most `gap` pixels apart; never where either is empty."""
    if not a.pixels.size or not b.pixels.size:
        return False
    return bool(
        a.top - gap <= b.top + b.pixels.shape[0]
        and b.top - gap <= a.top + a.pixels.shape[0]
        and a.left - gap <= b.left + b.pixels.shape[1]
        and b.left - gap <= a.left + a.pixels.shape[1]
    )


def _came_to_light(before: Scene, old: int, scene: Scene, mask: MaskCrop) -> bool:
    """Whether what now shows in the mask may have been hidden there before, and so need not be `old`."""
    if before.observation.shape != scene.observation.shape:
        return True
    rows, cols = mask.pixels.shape
    here = np.s_[mask.top : mask.top + rows, mask.left : mask.left + cols]
    ids = before.visible_ids[here][mask.pixels] if before.visible_ids is not None else np.zeros(0, np.int32)
    if not ids.size:
        return True
    deeper = np.full(ids.shape, np.nan)
    if before.observation.depth is not None and scene.observation.depth is not None:
        deeper = (scene.observation.depth[here] - before.observation.depth[here])[mask.pixels]
    own = ids == old
    # Deeper than what was seen there, or where another object was and not on top of it. NaN compares false.
    uncovered = deeper > np.where(own, SAME_DEPTH_M, UNCHANGED_DEPTH_M)
    uncovered |= (ids != 0) & ~own & ~(deeper < -UNCHANGED_DEPTH_M)
    return bool(uncovered.mean() > CAME_TO_LIGHT)


def _names_clash(a: Look, b: Look) -> bool:
    return a.name is not None and b.name is not None and a.name != b.name


def _same_place(a: Look, b: Look) -> float:
    """How well two looks fit by place, above 0 where they can be of one object.

    The share of the smaller mask counts, since an object that is uncovered grows manifold; of several that
    fit, the most alike in shape, depth and colour is meant. No reading contradicts nothing.
    """
    share = covered(a.mask, b.mask)
    deeper = abs(a.depth - b.depth)
    if share < SAME_PLACE or _names_clash(a, b) or _colours_clash(a, b) or deeper >= SAME_DEPTH_M:
        return 0.0
    unlike = np.nan_to_num(deeper / SAME_DEPTH_M) + np.linalg.norm(a.colour - b.colour) / (2.0 * SAME_COLOUR)
    return float(2.0 + share + overlap(a.mask, b.mask) - unlike)


def _colours_clash(a: Look, b: Look) -> bool:
    # A part that was hidden can bring out another colour, but not turn a red mug into a blue one.
    return bool(np.linalg.norm(a.colour - b.colour) >= 2.0 * SAME_COLOUR)


def _same_name(a: Look, b: Look) -> bool:
    return a.name is not None and a.name == b.name and not _colours_clash(a, b)


def _same_colour(a: Look, b: Look) -> bool:
    if _names_clash(a, b) or not a.area or not b.area:
        return False
    ratio = min(a.area, b.area) / max(a.area, b.area)
    return ratio >= SAME_AREA and float(np.linalg.norm(a.colour - b.colour)) < SAME_COLOUR
