"""What a segmenter must be able to do: find the objects of a frame, visible and hidden parts."""

from importlib.metadata import EntryPoint
from typing import Protocol, cast, runtime_checkable

from cpor.plugins import SEGMENTERS, list_plugins, make_plugin
from cpor.scene import Observation, PixelPoint, Scene

DEFAULT = "embedded"
"""The one that needs nothing but the package."""


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


def list_segmenters() -> dict[str, EntryPoint]:
    """Every segmenter that is installed, by name; nothing is loaded."""
    return list_plugins(SEGMENTERS)


def make_segmenter(name: str = DEFAULT, **options: object) -> Segmenter:
    """The segmenter of a name, or of `module:attribute`.

    Args:
        name: As `list_segmenters` has it, or `module:attribute`.
        **options: Its parameters, such as `path` of the segmenter `file`.

    Raises:
        InvalidSettingError: No such segmenter, or other options than it takes.
    """
    return cast(Segmenter, make_plugin(SEGMENTERS, name, **options))
