"""How an object looks in a frame, and which object of the next frame it is."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from jaxtyping import Float
from scipy.optimize import linear_sum_assignment

from cpor.scene import MaskCrop, Scene

UNCHANGED_IOU = 0.9
"""Least overlap of an object's visible masks for it to count as unchanged."""

UNCHANGED_DEPTH_M = 0.005
"""Most change of its median depth for it to count as unchanged: above the noise of a median. [m]"""

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


def contradicted(old: Mapping[int, Look], new: Mapping[int, Look]) -> frozenset[int]:
    """Of a segmenter that says to keep ids: those under which another object is shown than before.

    It is another one where its name changed; where it lies and looks exactly as a different object did; or
    where its colour changed, unless only more or less of it shows in the same place.
    """
    wrong = set()
    for k in new.keys() & old.keys():
        then, now = old[k], new[k]
        if not then.area or not now.area:
            continue
        stays = covered(then.mask, now.mask) >= SAME_PLACE
        as_much = min(then.area, now.area) >= SAME_AREA * max(then.area, now.area)
        recoloured = _colours_clash(then, now) and (as_much or not stays)
        is_other = not is_unchanged(then, now) and any(
            is_unchanged(other, now) and not _colours_clash(other, now) for j, other in old.items() if j != k
        )
        if recoloured or is_other or _names_clash(then, now):
            wrong.add(k)
    return frozenset(wrong)


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


def are_near(a: MaskCrop, b: MaskCrop, gap: int) -> bool:
    """Whether the boxes of two masks are at most `gap` pixels apart; never where either is empty."""
    if not a.pixels.size or not b.pixels.size:
        return False
    return bool(
        a.top - gap <= b.top + b.pixels.shape[0]
        and b.top - gap <= a.top + a.pixels.shape[0]
        and a.left - gap <= b.left + b.pixels.shape[1]
        and b.left - gap <= a.left + a.pixels.shape[1]
    )


def came_to_light(before: Scene, old: int, scene: Scene, mask: MaskCrop) -> bool:
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
