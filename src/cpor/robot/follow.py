"""Which object of a frame is the target, and whether it is out. In doubt it is not seen, and not out."""

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from cpor.robot.carry_over import SAME_PLACE, Look, Memory, covered, is_unchanged, look_at, recognise
from cpor.scene import Scene

TargetFinder: TypeAlias = Callable[[Scene], int | None]
"""Finds the target in a scene, by its name for example; None where it is not there."""


class Pursuit:
    """Which object is asked for, and where it was last.

    Args:
        wanted: Its id in the first frame, or who finds it.
        ids_are_kept: Whether the segmenter gives an object the same id in every frame.
    """

    def __init__(self, wanted: int | TargetFinder, ids_are_kept: bool) -> None:
        self.wanted = wanted
        self.target: int | None = None  # its id in the last frame
        self._keeps = ids_are_kept
        self._look: Look | None = None

    def find(self, scene: Scene, before: Memory, now: Memory, is_first: bool) -> int | None:
        """The target's id in a frame; None where it is not seen, never a guess.

        Args:
            scene: The frame.
            before: What was known after the frame before.
            now: The same, carried to this frame.
            is_first: Whether no frame was before this one.
        """
        found: int | None = None
        if self._look is not None and not self._keeps:
            found = find_again(before, now, self.target, self._look, scene)
        elif isinstance(self.wanted, int) and (self._keeps or is_first):
            found = self.wanted  # where every frame numbers anew, the id means something in the first only
        if found is None and not isinstance(self.wanted, int):
            found = self.wanted(scene)
        self.target = found if found in seen_in(now, scene) else None
        if self.target is not None:
            self._look = now.known[self.target].last
        return self.target

    def turn_to(self, obj: int, memory: Memory) -> bool:
        """Ask for another object from now on, by its id in the last frame; False where it was not seen."""
        if memory.frame is None or obj not in seen_in(memory, memory.frame):
            return False
        self.wanted = self.target = obj
        self._look = memory.known[obj].last
        return True


def find_again(before: Memory, now: Memory, target: int | None, look: Look, scene: Scene) -> int | None:
    """The target's id in a frame whose segmenter numbers anew; None where it is not recognised.

    Args:
        before: What was known after the frame before.
        now: The same, carried to this frame.
        target: The target's id in the frame before; None where it was not seen there.
        look: How the target looked when it was last seen.
        scene: This frame.
    """
    if target is not None:
        for new, old in now.same_as.items():
            if old == target:
                return new
    strangers = {k: now.known[k].last for k in seen_in(now, scene) if k not in now.same_as}
    return next(iter(recognise({0: look}, strangers, before.can_have_moved(scene, strangers))), None)


def seen_in(memory: Memory, scene: Scene) -> list[int]:
    """The objects that show in a frame; all of it where it has no masks."""
    return [k for k, known in memory.known.items() if known.last.area or scene.visible_ids is None]


def why_not_out(before: Memory, target: int, scene: Scene, ids_are_kept: bool) -> str | None:
    """Why the target is not out although the robot says that it delivered it; None where it is.

    Args:
        before: What was known before the attempt.
        target: The target's id then.
        scene: A look after the attempt.
        ids_are_kept: Whether the segmenter gives an object the same id in every frame.
    """
    looks = look_at(scene)
    if scene.visible_ids is not None:
        looks = {k: look for k, look in looks.items() if look.area}
    was = before.known[target].last
    if ids_are_kept:
        there = {target: looks[target]} if target in looks else {}
    else:
        # Whatever is said to be taken: here all that was there may still be there.
        same = recognise({k: known.last for k, known in before.known.items()}, looks)
        there = {k: looks[k] for k, old in same.items() if old == target}
        if not np.isnan(was.depth):
            depth = scene.observation.depth
            if depth is None or np.isnan(depth).all():
                return "the look after it has no depth, so nobody knows whether the target is out"
            strangers = [look for k, look in looks.items() if k not in same and np.isnan(look.depth)]
            if not there and any(covered(was.mask, look.mask) >= SAME_PLACE for look in strangers):
                return "something without depth is where the target lay"
    if not there:
        return None
    lies = any(is_unchanged(was, look) for look in there.values())
    return "the target lies where it lay" if lies else "the target, or what looks like it, is still seen"
