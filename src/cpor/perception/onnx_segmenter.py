"""Our own segmenter: an ONNX network that finds objects with visible and amodal masks, on a CPU."""

import math
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np
from jaxtyping import Float32, UInt8
from PIL import Image

from cpor.errors import InputFileError, InvalidSettingError
from cpor.perception.mask_selection import Detections, Letterbox, MaskSettings, add_faint, select_objects
from cpor.perception.network_file import CPU, PACKAGED, HoldsNetwork, Session, open_network, parse_device
from cpor.scene import Observation, PixelPoint, Scene
from cpor.sources import fingerprint_settings

SMALLER = 0.8
"""Size of the second picture as a share of the first: that of the pictures the network learnt with."""

LARGE = 60.0
"""Side of a square from which a thing of the second picture counts. [px of the first picture]"""

LEAST = 0.8
"""Share of the score threshold that such a thing must reach; scores of the second picture grow by it.

Chosen with the two values above on 110 objects of photographs and 438 of `dev` without depth, with version 5
of the network: recall and precision .809 and .754, .888 and .982; with one size .718 and .658, .906 and .985.
"""

WITHOUT_DEPTH = 0.08
"""What is added to the score threshold where there is no depth: scores mean less there.

With it 375 of 441 objects of `dev` and 95 of 110 of photographs are found without depth, precision .974 and
.792; at the threshold for depth precision on the photographs is .720 with as many found.
"""


def smaller(frame: Letterbox) -> Letterbox:
    """How the frame lies on the input for the second picture."""
    rows, cols = (max(1, round(SMALLER * c)) for c in frame.content)
    return replace(frame, content=(rows, cols))


def join_sizes(first: Detections, second: Detections, frame: Letterbox, settings: MaskSettings) -> Detections:
    """Large things of the second picture, and what the first one shows beside them, on the grid of the first.

    Without depth a print on a box looks like a thing of its own, the more so the larger the box is in the
    picture. Seen at the size that the network learnt with, the box stays whole; small things get lost there.
    """
    height, width = second.visible.shape[1:]
    cell = frame.size[0] * frame.size[1] / (height * width)
    rows, cols = (s / f for s, f in zip(smaller(frame).content, frame.content, strict=True))
    shown = (second.visible >= settings.mask_threshold).sum((1, 2)) * cell / (rows * cols)
    scores = np.minimum(second.scores / np.float32(LEAST), np.float32(1.0))
    large = np.flatnonzero((scores >= settings.score_threshold) & (shown >= LARGE**2))
    if not large.size:
        return first

    def spread(maps: Float32[np.ndarray, "k h w"]) -> Float32[np.ndarray, "n h w"]:
        box = (0.0, 0.0, cols * width, rows * height)
        sized = [
            Image.fromarray(maps[k]).resize((width, height), Image.Resampling.BILINEAR, box=box)
            for k in large
        ]
        return np.stack([np.asarray(each) for each in sized])

    visible = spread(second.visible)
    inside = first.visible >= settings.mask_threshold
    taken = (inside & (visible >= settings.mask_threshold).any(0)).sum((1, 2))
    beside = np.flatnonzero(taken <= 0.5 * inside.sum((1, 2)))
    return Detections(
        np.concatenate([scores[large], first.scores[beside]]),
        np.concatenate([visible, first.visible[beside]]),
        np.concatenate([spread(second.amodal), first.amodal[beside]]),
        np.concatenate([second.p_occluded[large], first.p_occluded[beside]]),
    )


_INPUTS = ("rgb", "depth")
_OUTPUTS = ("scores", "visible", "amodal", "occluded")


@dataclass(frozen=True)
class NetworkNotes:
    """What a segmenter's file says of itself.

    Attributes:
        size: Height and width of its input. [px]
        version: Version of the weights.
        score_threshold, mask_threshold: Chosen where it was trained.
    """

    size: tuple[int, int]
    version: str
    score_threshold: float
    mask_threshold: float


@dataclass(frozen=True)
class OnnxSegmenter(HoldsNetwork):
    """Finds objects in a frame of any size, with or without depth.

    The network is read when first used. It takes `rgb` (1, H, W, 3) uint8 and `depth` (1, H, W) float32 in
    metres, 0 without reading, and gives `scores` (k,), `visible` and `amodal` (k, h, w) probabilities on a
    coarser grid, `occluded` (k,). Its file says `height`, `width`, `version` and the two thresholds. A frame
    without depth is shown to it in two sizes (`join_sizes`).

    Attributes:
        path: The network; the one that comes with the package by default.
        settings: What counts as an object.
        score_threshold, mask_threshold: Those of the file by default.
        device: What runs the network: `cpu`, `cuda`, `tensorrt`, `coreml`, `openvino`, or `auto`, the best
            one that is installed. Another device rounds differently and so makes other masks: it has another
            fingerprint, and no promise of the bundled models holds there.
    """

    path: Path = PACKAGED / "segmenter.onnx"
    settings: MaskSettings = field(default_factory=MaskSettings)
    score_threshold: float | None = None
    mask_threshold: float | None = None
    device: str = "cpu"

    def __post_init__(self) -> None:
        parse_device(self.device)
        for name in ("score_threshold", "mask_threshold"):
            value = getattr(self, name)
            if value is not None and not 0.0 < value < 1.0:
                raise InvalidSettingError(f"{name} is {value}; give one inside (0, 1)")

    def segment(self, observation: Observation) -> Scene:
        """The objects of a frame; ids from 1, the surest first."""
        frame = Letterbox.fit(observation.shape, self.notes.size)
        found, settings = self._detect(observation, frame)
        return select_objects(found, observation, frame, settings)

    def segment_at(self, scene: Scene, point: PixelPoint) -> Scene | None:
        """A scene of its own with the object at a point too, which was too faint to be named; None: none."""
        frame = Letterbox.fit(scene.observation.shape, self.notes.size)
        found, settings = self._detect(scene.observation, frame)
        return add_faint(scene, found, frame, settings, point)

    @cached_property
    def fingerprint(self) -> str:
        """Name, version, and a digest of weights and thresholds."""
        settings = asdict(self.settings) | {"thresholds": (self.score_threshold, self.mask_threshold)}
        if (provider := self._session.get_providers()[0]) != CPU:
            settings["provider"] = provider
        return fingerprint_settings(f"embedded {self.notes.version}", settings, self.path)

    @cached_property
    def notes(self) -> NetworkNotes:
        """What the file says of itself."""
        written = dict(self._session.get_modelmeta().custom_metadata_map)
        try:
            notes = NetworkNotes(
                (int(written["height"]), int(written["width"])),
                written.get("version", "unknown"),
                float(written.get("score_threshold", "0.5")),
                float(written.get("mask_threshold", "0.5")),
            )
        except (KeyError, ValueError) as error:
            raise InputFileError(
                f"{self.path} does not say the size of its input ({error}); export it with `height` and "
                "`width` in its metadata"
            ) from error
        thresholds = (notes.score_threshold, notes.mask_threshold)
        if min(notes.size) < 1 or not all(math.isfinite(t) and 0.0 < t < 1.0 for t in thresholds):
            raise InputFileError(
                f"{self.path} says {notes}; sizes must be positive, thresholds inside (0, 1)"
            )
        return notes

    @cached_property
    def _session(self) -> Session:
        return open_network(self.path, _INPUTS, _OUTPUTS, self.device)

    def _mask_settings(self, sees_depth: bool) -> MaskSettings:
        notes = self.notes
        score = notes.score_threshold if self.score_threshold is None else self.score_threshold
        return replace(
            self.settings,
            score_threshold=score if sees_depth else min(score + WITHOUT_DEPTH, 0.99),
            mask_threshold=notes.mask_threshold if self.mask_threshold is None else self.mask_threshold,
        )

    def _detect(self, observation: Observation, frame: Letterbox) -> tuple[Detections, MaskSettings]:
        """What the network finds in a frame, without depth in two sizes, and what counts as an object."""
        rgb, depth = frame.place_rgb(observation.rgb), frame.place_depth(observation.depth)
        found, settings = self._run(rgb, depth), self._mask_settings(bool(depth.any()))
        if not depth.any():
            again = self._run(smaller(frame).place_rgb(observation.rgb), depth)
            found = join_sizes(found, again, frame, settings)
        return found, settings

    def _run(self, rgb: UInt8[np.ndarray, "h w 3"], depth: Float32[np.ndarray, "h w"]) -> Detections:
        outputs = self._session.run(list(_OUTPUTS), {"rgb": rgb[None], "depth": depth[None]})
        scores, visible, amodal, occluded = (np.asarray(each, dtype=np.float32) for each in outputs)
        k = scores.shape[0] if scores.ndim == 1 else -1
        if (
            visible.ndim != 3
            or visible.shape[0] != k
            or amodal.shape != visible.shape
            or occluded.shape != (k,)
        ):
            shapes = ", ".join(f"{n} {np.shape(o)}" for n, o in zip(_OUTPUTS, outputs, strict=True))
            raise InputFileError(f"{self.path} gave {shapes}; expected (k,), (k, h, w), (k, h, w), (k,)")
        return Detections(scores, visible, amodal, occluded)
