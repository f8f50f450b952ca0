"""What a segmenter must be able to do: find the objects of a frame, visible and hidden parts."""

from typing import Protocol, runtime_checkable

from cpor.scene import Observation, PixelPoint, Scene


@runtime_checkable
class Segmenter(Protocol):
    """Finds objects in a frame."""

    def segment(self, observation: Observation) -> Scene:
        """The scene of a frame: objects with visible and, where known, amodal masks. May be empty."""
        ...


@runtime_checkable
class PointSegmenter(Segmenter, Protocol):
    """Can be told where an object is that it did not name by itself. A segmenter need not."""

    def segment_at(self, scene: Scene, point: PixelPoint) -> Scene | None:
        """A scene of its own with one more object, the one that shows at a point.

        Args:
            scene: What `segment` made of the frame; no mask holds the point.
            point: Where. [px]

        Returns:
            The same objects and the new one with the next free id; None where it sees none there.
        """
        ...
