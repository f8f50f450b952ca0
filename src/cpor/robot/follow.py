"""Which object of a look is the target. In doubt it is not seen."""

from collections.abc import Callable
from dataclasses import replace
from typing import Protocol, TypeAlias, runtime_checkable

from cpor.errors import InvalidSettingError
from cpor.perception.segmenter import PointSegmenter, Segmenter
from cpor.robot.carry_over import Memory
from cpor.scene import Observation, PixelPoint, Scene
from cpor.semantics.grounder import ground_with
from cpor.tracking.identity import SURE
from cpor.words.grounding import Found, shows_nothing

TargetFinder: TypeAlias = Callable[[Scene], int | None]
"""Finds the target in a scene, by its name for example; None where it is not there."""


@runtime_checkable
class Pointing(Protocol):
    """A finder that can say where the target shows, for a segmenter that did not name it."""

    def __call__(self, scene: Scene) -> int | None:
        """The target in a scene; None where it is not there."""
        ...

    def where(self, scene: Scene) -> PixelPoint | None:
        """A pixel that shows it; None where nobody says."""
        ...


class PointedAt:
    """Finds what a pixel shows in the first frame; later another object may be there.

    Args:
        point: The pixel. [px]
    """

    def __init__(self, point: PixelPoint) -> None:
        self._point = point
        self._frame: Observation | None = None

    def __call__(self, scene: Scene) -> int | None:
        """The object at the pixel of the first frame; None in later ones."""
        told = None if self.where(scene) is None else ground_with(None, scene, None, self._point).meant
        return told.id if isinstance(told, Found) else None

    def where(self, scene: Scene) -> PixelPoint | None:
        """The pixel; None in later frames."""
        self._frame = self._frame or scene.observation
        return self._point if scene.observation is self._frame else None


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
    if point is not None:
        return PointedAt(point)

    def find(scene: Scene) -> int | None:
        told = ground_with(None, scene, None, None, request)
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

    def look_for(
        self, memory: Memory, seen: Scene, segmenter: Segmenter, is_first: bool
    ) -> tuple[int | None, Memory]:
        """The same as `find` of a new look; where somebody points, the segmenter looks more closely.

        Args:
            memory: What was known before it.
            seen: What the segmenter found.
            segmenter: Whose look it is.
            is_first: Whether no look was before it.
        """
        target, now = self.find(memory.carry_to(seen, self._keeps), is_first)
        if target is not None or self.doubted or not isinstance(self.wanted, Pointing):
            return target, now
        place = self.wanted.where(seen)
        if place is None or not shows_nothing(seen, place):
            return target, now
        closer = segmenter.segment_at(seen, place) if isinstance(segmenter, PointSegmenter) else None
        if closer is None:
            return target, now
        target, now = self.find(memory.carry_to(closer, self._keeps), is_first)
        says = "something seen only faintly counts since it was pointed at"
        return target, replace(now, events=(*now.events, says), made_here=frozenset())

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
                place = self.wanted.where(now.frame) if isinstance(self.wanted, Pointing) else None
                if self.target is not None and found in now.new and self.target not in now.known:
                    now, found = now.rename(found, self.target), self.target
                now, self.doubted = now.trust(found, place), False
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
