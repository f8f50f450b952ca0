"""Which object of a frame is the target. In doubt it is not seen."""

from collections.abc import Callable
from typing import TypeAlias

from cpor.robot.carry_over import Memory
from cpor.robot.looks import Look, contradicted, is_unchanged, recognise
from cpor.scene import Scene

TargetFinder: TypeAlias = Callable[[Scene], int | None]
"""Finds the target in a scene, by its name for example; None where it is not there."""


class Pursuit:
    """Which object is asked for, and where it was last.

    Args:
        wanted: Its id in the first frame, or who finds it.
        ids_are_kept: Whether the segmenter says to give an object the same id in every frame.

    Attributes:
        doubted: Whether the target's id shows another object than before. It is not trusted until it shows
            the target where it was, or somebody says which object is meant.
    """

    def __init__(self, wanted: int | TargetFinder, ids_are_kept: bool) -> None:
        self.wanted = wanted
        self.target: int | None = None  # its id in the last frame
        self.doubted = False
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
        if self.target is not None and self._keeps and isinstance(self.wanted, int):
            self.doubted = self._is_doubtful(self.target, now)
            self.target = None if self.doubted else self.target
        if self.target is not None:
            self._look = now.known[self.target].last
        return self.target

    def turn_to(self, obj: int, memory: Memory) -> bool:
        """Ask for another object from now on, by its id in the last frame; False where it was not seen."""
        if memory.frame is None or obj not in seen_in(memory, memory.frame):
            return False
        self.wanted = self.target = obj
        self._look = memory.known[obj].last
        self.doubted = False
        return True

    def _is_doubtful(self, found: int, now: Memory) -> bool:
        """Whether an id that is said to be kept shows another object than when it was last trusted."""
        if self._look is None:
            return False
        trusted, look = {found: self._look}, now.known[found].last
        if contradicted(trusted, {found: look}):
            return True
        if is_unchanged(self._look, look):
            return False
        return self.doubted or found in now.doubted


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
