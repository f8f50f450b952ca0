"""Which object of a look is the target. In doubt it is not seen."""

from collections.abc import Callable
from typing import TypeAlias

from cpor.errors import InvalidSettingError
from cpor.perception.grounding import Found
from cpor.robot.carry_over import Memory
from cpor.scene import PixelPoint, Scene
from cpor.semantics.grounder import ground_with
from cpor.tracking.identity import SURE

TargetFinder: TypeAlias = Callable[[Scene], int | None]
"""Finds the target in a scene, by its name for example; None where it is not there."""


def find_as_asked(target: int | None, point: PixelPoint | None, request: str | None) -> int | TargetFinder:
    """Who finds the object asked for, in one of three ways.

    Args:
        target: Its id in the first frame.
        point: A pixel that shows it in the first frame.
        request: What it looks like, in words.

    Raises:
        InvalidSettingError: Asked for in no way, or in more than one.
    """
    if sum(way is not None for way in (target, point, request)) != 1:
        raise InvalidSettingError("say which object in one way: target, point or request")
    if target is not None:
        return target
    looks = 0

    def find(scene: Scene) -> int | None:
        nonlocal looks
        looks += 1
        if point is not None and looks > 1:
            return None  # what is at that pixel now is another object
        told = ground_with(None, scene, None, point, request)
        return told.meant.id if isinstance(told.meant, Found) else None

    return find


class Pursuit:
    """Which object is asked for.

    Args:
        wanted: Its id in the first frame, or who finds it.
        ids_are_kept: Whether the segmenter says to give an object the same id in every frame.

    Attributes:
        target: The target's id, seen or not; None until it was seen.
        doubted: Whether what is seen under the target's id may be another object. It is not trusted until it
            shows the target as it was, or somebody says which object is meant.
    """

    def __init__(self, wanted: int | TargetFinder, ids_are_kept: bool) -> None:
        self.wanted = wanted
        self.target: int | None = None
        self.doubted = False
        self._keeps = ids_are_kept

    def find(self, now: Memory, is_first: bool) -> tuple[int | None, Memory]:
        """The target's id in the last look, None where it is not seen, never a guess; and what is known then.

        Args:
            now: What is known after that look.
            is_first: Whether no look was before it.
        """
        assert now.frame is not None
        here = seen_in(now, now.frame)
        found = self.target
        if found is None and isinstance(self.wanted, int) and (self._keeps or is_first):
            found = self.wanted  # where every frame numbers anew, the id means something in the first only
        found = found if found in here else None
        self.doubted = found is not None and now.known[found].p_same < SURE
        if self.doubted:
            found = None
        if found is None and not isinstance(self.wanted, int):
            found = self.wanted(now.frame)
            found = found if found in here else None
            if found is not None:
                if self.target is not None and found in now.new and self.target not in now.known:
                    now, found = now.rename(found, self.target), self.target
                now, self.doubted = now.trust(found), False
        self.target = self.target if found is None else found
        return found, now

    def turn_to(self, obj: int, memory: Memory) -> Memory | None:
        """Ask for an object of the last look from now on; what is known then, None where it is not seen."""
        if memory.frame is None or obj not in seen_in(memory, memory.frame):
            return None
        self.wanted = self.target = obj
        self.doubted = False
        return memory.trust(obj)


def seen_in(memory: Memory, scene: Scene) -> list[int]:
    """The objects that show in a frame; all of it where it has no masks."""
    return [k for k, known in memory.known.items() if known.last.area or scene.visible_ids is None]
