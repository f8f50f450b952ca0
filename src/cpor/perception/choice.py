"""Which segmenter a command's options ask for, and what it finds."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from cpor.errors import InvalidSettingError
from cpor.perception.mask_files import GivenMasks
from cpor.perception.onnx_segmenter import OnnxSegmenter
from cpor.perception.registry import DEFAULT, make_segmenter
from cpor.perception.segmenter import Segmenter
from cpor.scene import Observation, Scene

GIVEN = "given"
"""Name of the masks that a scene came with."""


@dataclass(frozen=True)
class SegmenterChoice:
    """Which segmenter to use; with nothing said, the masks a scene came with, else ours.

    Attributes:
        name: Of a segmenter, as `make_segmenter` has it.
        masks: File of masks another program wrote.
        weights: Another network than ours.
        ignore_given: Whether to segment although the scene has masks.
    """

    name: str | None = None
    masks: Path | None = None
    weights: Path | None = None
    ignore_given: bool = False

    def __post_init__(self) -> None:
        if self.masks is not None and self.name not in (None, "file"):
            raise InvalidSettingError(
                f"--masks is read by the segmenter `file`, not by {self.name!r}; drop one"
            )
        if self.weights is not None and self.name not in (None, DEFAULT):
            raise InvalidSettingError(f"--weights is for the segmenter `embedded`, not for {self.name!r}")

    def segment(self, given: Scene) -> tuple[Scene, str, dict[str, float]]:
        """The scene, who segmented it, and the time of each stage in milliseconds."""
        undecided = self.name is None and self.masks is None and self.weights is None
        if self.name == GIVEN or (undecided and given.visible_ids is not None and not self.ignore_given):
            return _timed(GivenMasks(given).segment, given.observation, GIVEN)
        if self.masks is not None:
            made = make_segmenter("file", path=self.masks)
            scene, name, times = _timed(made.segment, given.observation, "file")
        else:
            name = self.name or DEFAULT
            made = make_segmenter(name, **({"path": self.weights} if self.weights else {}))
            if isinstance(made, OnnxSegmenter):
                scene, times = made.segment_with_times(given.observation)
                name = segmenter_name(made, name)
            else:
                scene, name, times = _timed(made.segment, given.observation, name)
        return replace(scene, request=given.request), name, times


def segmenter_name(segmenter: Segmenter, name: str) -> str:
    """What masks of a segmenter are called: its name, and the version of the weights where it has some."""
    return f"{name} {segmenter.notes.version}" if isinstance(segmenter, OnnxSegmenter) else name


def _timed(
    segment: Callable[[Observation], Scene], observation: Observation, name: str
) -> tuple[Scene, str, dict[str, float]]:
    start = time.perf_counter()
    scene = segment(observation)
    return scene, name, {"segment": 1e3 * (time.perf_counter() - start)}
