"""What a segmenter must be able to do: find the objects of a frame, visible and hidden parts."""

from typing import Protocol, runtime_checkable

from cpor.scene import Observation, Scene


@runtime_checkable
class Segmenter(Protocol):
    """Finds objects in a frame."""

    def segment(self, observation: Observation) -> Scene:
        """The scene of a frame: objects with visible and, where known, amodal masks. May be empty."""
        ...
