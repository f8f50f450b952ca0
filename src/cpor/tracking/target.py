"""Which object of a look is the target. In doubt it is not seen.

A request is read once: an id and a point in the first look, words in the first look that shows what they
mean. From then on the identity of the object carries the target. The words of a target that is lost are not
read again, since they could mean another object by now: a person is asked.
"""

from collections.abc import Callable
from typing import Protocol, TypeAlias, runtime_checkable

from cpor.scene import PixelPoint, Scene
from cpor.tracking.identity import SURE
from cpor.tracking.memory import Memory
from cpor.words.grounding_answers import Grounding, NotFound, Request

TargetFinder: TypeAlias = Callable[[Scene], int | None]
"""A person or program that finds the target in a scene whenever it is not recognised; None: not there."""


@runtime_checkable
class Pointing(Protocol):
    """A finder that can also point at the target, for a segmenter that did not name it."""

    def __call__(self, scene: Scene) -> int | None:
        """The target in a scene; None where it is not there."""
        ...

    def where(self, scene: Scene) -> PixelPoint | None:
        """A pixel that shows it; None where there is none."""
        ...


class Track:
    """One target through many looks.

    Args:
        request: The request, or a finder.
        ids_are_kept: Whether the segmenter says to give an object the same id in every frame.

    Attributes:
        memory: What is known after the last look.
        target: The target's id, seen or not; None until it was seen.
        seen: Whether the last look shows it.
        doubted: Whether what is seen under the target's id may be another object. It is not trusted until it
            shows the target as it was, or a person says which object is meant.
        unclear: Why no object of the last look is the target; None where one is.
        looks: Number of looks so far.
    """

    def __init__(self, request: Request | TargetFinder, ids_are_kept: bool = False) -> None:
        self.request, self.ids_are_kept = request, ids_are_kept
        self.memory = Memory()
        self.target: int | None = None
        self.seen = self.doubted = False
        self.unclear: Grounding | None = None
        self.looks = 0

    @property
    def asked_for(self) -> int | None:
        """The id that the request names; None where it names none."""
        return self.request.id if isinstance(self.request, Request) else None

    def recognise(self, memory: Memory) -> int | None:
        """The target's id in a new look, by what is known of it; None where it is not seen or in doubt."""
        found = self.target
        if found is None and (self.ids_are_kept or self.looks == 0):
            found = self.asked_for  # where every frame numbers anew, the id means something in the first only
        found = found if found in memory.shown else None
        self.doubted = found is not None and memory.known[found].p_same < SURE
        found = None if self.doubted else found
        self.seen, self.unclear, self.looks = found is not None, None, self.looks + 1
        self.target = self.target if found is None else found
        if found is None:
            gone = self.target if self.target is not None else self.asked_for
            what = "The object asked for" if gone is None else f"Object {gone}"
            how = "may be another one" if self.doubted else "is not seen"
            self.unclear = NotFound(f"{what} {how} in frame {self.looks - 1}.")
        return found

    def accept(self, obj: int, memory: Memory, place: PixelPoint | None = None) -> Memory:
        """What is known once a request or a person says that an object of the last look is the target."""
        if self.target is not None and obj in memory.new and self.target not in memory.known:
            memory, obj = memory.rename(obj, self.target), self.target
        self.target, self.seen, self.doubted, self.unclear = obj, True, False, None
        return memory.trust(obj, place)

    def doubt(self) -> None:
        """Take note that something changed unseen: the target is itself only where it looks as it did."""
        if self.target is not None and self.target in self.memory.known:
            self.memory = self.memory.doubt(self.target)

    def turn_to(self, obj: int) -> bool:
        """Ask for an object of the last look from now on; False where that look does not show it."""
        if obj not in self.memory.shown:
            return False
        self.request, self.target, self.doubted = Request(obj), obj, False
        self.memory = self.memory.trust(obj)
        return True
