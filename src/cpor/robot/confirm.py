"""Whether the target is out, by positive evidence from a look after the robot said that it delivered it.

`out` needs all of it: a look that can be trusted, the gripper's own sign where it has one, the target nowhere
to be seen, the place where it lay seen to be empty, and no thing too many: the things before, less the
target, are the things after. A look in doubt proves nothing: `not_known`.
"""

from collections.abc import Mapping
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from jaxtyping import Bool, Float
from scipy import ndimage

from cpor.robot.fresh import CELL, LEAST_EDGES, SPECK, edges
from cpor.robot.protocol import Outcome, RobotStatus
from cpor.scene import Observation, Scene
from cpor.tracking.identity import SURE_ODDS, identify, relit
from cpor.tracking.looks import (
    ALIKE_DEPTH_M,
    SAME_COLOUR,
    SAME_PIXELS,
    SAME_PLACE,
    SHOWN,
    UNCHANGED_DEPTH_M,
    ObjectLook,
    alike,
    covered,
    find_in,
    is_unchanged,
    look_at,
    same_pose,
)
from cpor.tracking.memory import Memory

DeliveryState: TypeAlias = Literal["out", "not_out", "not_known"]

LEAST_DEPTH = 0.5
"""Share of the depth readings of the look before that a look must still have."""

SEEN_AGAIN = 0.6
"""Least share of alike pixels for an object, or for what is behind all objects, to be seen again."""

OTHERS_SEEN = 0.5
"""Least share of the other objects that must be seen again where they were. A grasp may topple some."""

EMPTIED = 0.5
"""Least share of the target's old pixels that must show something deeper, or another known object."""

LEAST_READ = 0.3
"""Least share of the target's old pixels about which the two looks together can say something."""

LEAST_STRANGER = 4
"""Fewer pixels than this are no thing."""

RISEN = 0.1
"""Strangers, and what rises where no moved object accounts for it, count from this share of the target's
pixels on: what fell lies on top and shows."""

SHOWED_BESIDE = 0.2
"""Least share of a thing that must have shown beside the target for it to have lain below."""

UNLIKE = 0.35
"""Most overlap of two things that surely are different ones: the mean of that of their histograms of colours
and of hues. Of 150 targets that fell back into simulated heaps the least alike one had 0.51."""

WAS_HIDDEN = 0.7
"""Least share of a thing that the target must have covered for it to have lain below, out of sight."""

SHORTER = 0.7
"""A thing of less than this length, as a share of the target's, is not the target in another pose."""

SMALLER = 0.5
"""The same for its area, where the gripper felt the target from the grasp until it let go."""

FLOOR = 99
"""Percentile of the depth that is taken for the floor."""


class Delivery(NamedTuple):
    """What is known of a target that the robot says it delivered, and why."""

    known: DeliveryState
    why: str


def confirm_delivery(
    before: Memory, target: int, scene: Scene, ids_are_kept: bool, outcome: Outcome, status: RobotStatus
) -> Delivery:
    """Whether the target is out.

    Args:
        before: What was known before the attempt, with the frame it was decided on.
        target: The target's id then.
        scene: A look after the attempt.
        ids_are_kept: Whether the segmenter says to give an object the same id in every frame.
        outcome: What the robot says of the attempt.
        status: How the robot is after it.
    """
    if told := _by_gripper(outcome, status):
        return told
    then = before.frame
    if then is None or then.visible_ids is None or scene.visible_ids is None:
        return Delivery("not_known", "there are no masks by which its place is known")
    things = _recognise(before, scene, ids_are_kept)
    if told := _where_it_lay(before.known[target].last, things.of(target), outcome):
        return told
    if why := _why_no_proof(before, target, scene, has_sign=outcome.holding is True):
        return Delivery("not_known", why)  # what lies elsewhere in such a look is no place to reach for
    if things.of(target):
        return _STILL_SEEN
    if why := _one_too_many(before, target, scene, things, felt=outcome.holding is True):
        return Delivery("not_known", why)
    others = [k for k, old in things.same.items() if old != target]
    if not _is_empty(then, target, scene, np.isin(scene.visible_ids, others)):
        return Delivery("not_known", "the place where the target lay is not seen to be empty")
    return Delivery("out", "the place where it lay is empty")


def why_unbalanced(before: Memory, removed: int, scene: Scene, ids_are_kept: bool) -> str | None:
    """Why a look after a removal may hold one thing too many; None where the things are accounted for."""
    then, now = before.frame, scene.observation
    if then is None or then.visible_ids is None or scene.visible_ids is None:
        return None
    if then.observation.shape != now.shape or not same_pose(then.observation.camera, now.camera):
        return None
    return _one_too_many(before, removed, scene, _recognise(before, scene, ids_are_kept), felt=False)


class _Things(NamedTuple):
    """The objects that show in a look: how each looks, and which known object each one is, if any."""

    looks: Mapping[int, ObjectLook]
    same: Mapping[int, int]

    def of(self, known: int) -> list[ObjectLook]:
        """The objects that are a known one."""
        return [self.looks[k] for k, old in self.same.items() if old == known]

    def strangers(self) -> dict[int, ObjectLook]:
        """The objects that are no known one, less those too small to be a thing."""
        unknown = {k: look for k, look in self.looks.items() if k not in self.same}
        return {k: look for k, look in unknown.items() if look.area >= LEAST_STRANGER}


_STILL_SEEN = Delivery("not_out", "the target, or what looks like it, is still seen")


def _by_gripper(outcome: Outcome, status: RobotStatus) -> Delivery | None:
    if outcome.holding is False:
        return Delivery("not_out", "its gripper felt nothing")
    if status.holding:
        return Delivery("not_out", "its gripper still holds something")
    return None


def _recognise(before: Memory, scene: Scene, ids_are_kept: bool) -> _Things:
    """The objects of a look; what is said to be taken may still be among them."""
    looks = {k: look for k, look in look_at(scene).items() if look.area}
    known = {k: each.last for k, each in before.known.items()}
    matches = identify(known, looks, scene, before.frame, ids_are_kept=ids_are_kept)
    return _Things(looks, {k: match.known for k, match in matches.same.items()})


def _where_it_lay(was: ObjectLook, there: list[ObjectLook], outcome: Outcome) -> Delivery | None:
    """What the target's old place says, where something that looks like it is there."""
    if any(is_unchanged(was, look) for look in there):
        return Delivery("not_out", "the target lies where it lay")
    in_place = [look for look in there if covered(was.mask, look.mask) >= SAME_PLACE]
    if not in_place:
        return None
    deeper = all(look.depth > was.depth + ALIKE_DEPTH_M for look in in_place)  # NaN compares false
    if deeper and outcome.holding is True:
        return Delivery("not_known", "what looks like it lies deeper than it lay: it may have lain below")
    return _STILL_SEEN


def _why_no_proof(before: Memory, target: int, scene: Scene, has_sign: bool) -> str | None:
    """Why a look cannot be trusted to show the same table as before; None where it can."""
    assert before.frame is not None
    then, now = before.frame.observation, scene.observation
    if then.shape != now.shape:
        return f"the look after it has another size, {now.shape[1]} x {now.shape[0]} pixels"
    if then.depth is not None:
        read = ~np.isnan(then.depth)
        still = read & ~np.isnan(now.depth) if now.depth is not None else np.zeros_like(read)
        if still.sum() < LEAST_DEPTH * read.sum():
            return "the look after it has no depth, or too little, so nobody knows whether the target is out"
    alike = _alike(then, now)
    ids_then, ids_now = before.frame.visible_ids, scene.visible_ids
    assert ids_then is not None and ids_now is not None
    behind = (ids_then == 0) & (ids_now == 0)
    if behind.any() and alike[behind].mean() < SEEN_AGAIN:
        return "what is behind the objects looks another way: the camera is covered, moved or out of order"
    masks = [ids_then == k for k, known in before.known.items() if k != target and known.last.area]
    seen = sum(float(alike[mask].mean()) >= SEEN_AGAIN for mask in masks)
    if masks and seen < max(1.0, OTHERS_SEEN * len(masks)):
        return f"only {seen} of {len(masks)} other objects are seen again where they were"
    if not masks and not has_sign and not _edges_stay(then, now, behind):
        return "nothing else is in the picture by which to tell that the camera still sees the same place"
    return None


def _one_too_many(before: Memory, gone: int, now: Scene, things: _Things, felt: bool) -> str | None:
    """Why the things of a look may be one too many; None where they are accounted for.

    The things before, less the one taken, must be the things after. A stranger may be what was taken, in
    another pose; so may what rises where nothing is segmented, or under the mask of another object. What
    showed before as well, in whole or in part, is none.
    """
    assert before.frame is not None and now.visible_ids is not None
    was = before.known[gone].last
    hidden = {label_at_place(each.last, now) for each in before.lost.values() if not each.taken}
    unexplained = 0
    for k, stranger in things.strangers().items():
        in_place = covered(was.mask, stranger.mask) >= SAME_PLACE
        if np.isnan(stranger.depth) and not np.isnan(was.depth) and in_place:
            return "something without depth is where the target lay"
        showed = _showed(stranger, before.frame, gone) >= SHOWN or k in hidden
        if not (showed or _came_to_light(stranger, was, before.frame, gone, felt)):
            unexplained += stranger.area
    if unexplained >= RISEN * was.area:
        return "a thing is seen that was not there before; it may be the target in another pose"
    return _why_it_rises(before, was, now, things)


def _why_it_rises(before: Memory, was: ObjectLook, now: Scene, things: _Things) -> str | None:
    """What rises, where no object that moved accounts for it; None where nothing does."""
    then = before.frame
    assert then is not None and then.visible_ids is not None and now.visible_ids is not None
    z, after = then.observation.depth, now.observation.depth
    if z is None or after is None:
        return None
    risen = ndimage.binary_opening(z - after > ALIKE_DEPTH_M, np.ones((SPECK, SPECK), np.bool_))
    sunk = after - z > ALIKE_DEPTH_M  # NaN compares false
    sizes = np.bincount(ndimage.label(risen & (now.visible_ids == 0))[0].ravel())[1:]
    if sizes.size and sizes.max() >= RISEN * was.area:
        return "something rises where nothing was; it may be the target in another pose"
    for k, old in things.same.items():
        # A thing that moved leaves the place where it was, and rises over as much elsewhere.
        grown = np.count_nonzero(risen & (now.visible_ids == k))
        left = np.count_nonzero(sunk & (then.visible_ids == old))
        if grown - left >= RISEN * was.area:
            return f"object {old} has grown; the target may lie under its mask"
    return None


def _showed(stranger: ObjectLook, then: Scene, gone: int) -> float:
    """Share of a stranger that a look before showed, perhaps in the shade, and not as what was taken.

    Then the thing was not found, or it is a piece of another one.
    """
    found = find_in(stranger, then)
    same = 0
    for k in found.on.keys() - {gone}:
        as_before = found.recoloured[k] <= SAME_PIXELS
        if as_before or relit(found.same_hues[k], found.relit[k]) > SURE_ODDS:
            same += found.on[k]
    return same / len(stranger.pixels)


def _came_to_light(stranger: ObjectLook, target: ObjectLook, then: Scene, gone: int, felt: bool) -> bool:
    """Whether a thing below the place of the target surely is another one.

    It looks like another one. And it showed beside the target before; or it lay out of sight and is too
    short to be the target, fallen into its own place with another face up: what fell shows whole. Where the
    gripper felt the target, it may be smaller instead.
    """
    below = stranger.depth > target.depth + UNCHANGED_DEPTH_M  # NaN compares false
    likeness = alike(stranger.histogram, target.histogram) + alike(stranger.hues, target.hues)
    if not below or likeness / 2 >= UNLIKE:
        return False
    showed = _showed(stranger, then, gone)
    if showed >= SHOWED_BESIDE:
        return True
    found = find_in(stranger, then)
    covered_by_it = (found.hidden + found.on.get(gone, 0)) / len(stranger.pixels)
    assert then.observation.depth is not None  # else nothing is known to lie below
    floor = float(np.nanpercentile(then.observation.depth, FLOOR))
    is_short = _length(stranger, floor) < SHORTER * _length(target, target.depth)
    is_small = felt and stranger.area <= SMALLER * target.area
    return (is_short or is_small) and covered_by_it + showed >= WAS_HIDDEN


def _length(look: ObjectLook, floor: float) -> float:
    """Length [m] of a thing, from what shows down to a floor [m], in any direction; NaN where unknown."""
    if look.camera.intrinsics is None:
        return np.nan
    fx, fy, *_ = look.camera.intrinsics
    rows, cols = look.pixels.T * look.depth
    spread = np.hypot(np.subtract.outer(cols, cols) / fx, np.subtract.outer(rows, rows) / fy)
    return float(np.hypot(spread.max(), max(floor - look.depth, 0.0)))


def label_at_place(old: ObjectLook, now: Scene) -> int | None:
    """The object of a look that shows most of a known one's pixels where they were; None where none does."""
    found = find_in(old, now)
    for k, n in found.on.items():
        if k and n >= SHOWN * len(old.pixels) and found.recoloured[k] <= SAME_PIXELS:
            return k
    return None


def _is_empty(then: Scene, target: int, now: Scene, others: Bool[np.ndarray, "h w"]) -> bool:
    """Whether the target's old pixels show something deeper, or another object that is known.

    Where the target had no depth reading itself, the colour has to have changed.
    """
    place = np.asarray(then.visible_ids == target)
    if not place.any():
        return False
    before, after = then.observation.depth, now.observation.depth
    if before is not None and (~np.isnan(before[place])).mean() >= LEAST_READ:
        deeper = after - before if after is not None else np.full(place.shape, np.nan)
        told = place & (others | ~np.isnan(deeper))
        empty = others | (deeper > UNCHANGED_DEPTH_M)  # NaN compares false
    else:
        told = place
        empty = others | (_colour_distance(then.observation, now.observation) >= SAME_COLOUR)
    enough = told.sum() >= LEAST_READ * place.sum()
    return bool(enough and empty[told].mean() >= EMPTIED)


def _alike(then: Observation, now: Observation) -> Bool[np.ndarray, "h w"]:
    """Where two looks show the same thing, by colour, and by depth where both read. Shape (h, w)."""
    alike: np.ndarray = _colour_distance(then, now) < SAME_COLOUR
    if then.depth is not None and now.depth is not None:
        alike &= ~(np.abs(now.depth - then.depth) > ALIKE_DEPTH_M)  # NaN contradicts nothing
    return alike


def _colour_distance(then: Observation, now: Observation) -> Float[np.ndarray, "h w"]:
    return np.asarray(np.linalg.norm(now.rgb.astype(np.float64) - then.rgb, axis=2))


def _edges_stay(then: Observation, now: Observation, where: Bool[np.ndarray, "h w"]) -> bool:
    """Whether edges behind the objects, of a bin for example, are where they were; False without any."""
    rows, cols = (n // CELL * CELL for n in where.shape)
    behind = where[:rows:CELL, :cols:CELL][:-1, :-1]
    before, after = edges(then.rgb) & behind, edges(now.rgb) & behind
    n = int(before.sum())
    return n >= LEAST_EDGES and int((before & after).sum()) >= SEEN_AGAIN * n
