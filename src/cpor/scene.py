"""What the camera saw: a photograph, its depth, and the objects found in it.

Visible masks exclude each other (a pixel shows one object), so all of them are one image of ids.
Amodal masks, visible and hidden part together, overlap, so each object keeps its own, cropped.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Float32, Int32, UInt8

from cpor.errors import InvalidSceneError, list_labels

MAX_OBJECT_ID = 65535
"""Ids are 1 to this: 0 is the background, and files keep ids in 16 bits."""


class BlockedBy(NamedTuple):
    """An ordered pair of object ids: `blocker` obstructs, or may obstruct, `blocked`."""

    blocked: int
    blocker: int


class PixelPoint(NamedTuple):
    """A place in the image in pixels, x along the columns and y along the rows."""

    x: float
    y: float


class Intrinsics(NamedTuple):
    """Focal lengths and principal point, in pixels, of a pinhole camera that looks along +z."""

    fx: float
    fy: float
    cx: float
    cy: float


class _ComparesByValue:
    """Equality over all fields of a dataclass, arrays among them. Not hashable."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, type(self)):
            return NotImplemented
        return all(_same(getattr(self, f.name), getattr(other, f.name)) for f in fields(self))  # type: ignore[arg-type]


@dataclass(frozen=True, eq=False)
class Camera(_ComparesByValue):
    """The camera of an observation, as far as it is known.

    Attributes:
        intrinsics: None where the camera is not calibrated.
        T_world_camera: Pose of the camera in the world, None where unknown. Shape (4, 4). [m]
        depth_unit_m: Step in which the sensor or file counts depth, which in memory is in metres. [m]
        workspace: Corners of the polygon in which objects may be asked for, None where not given. [px]
        p_unit: Probability that `depth_unit_m` is right: 1 if it was given, less if it was guessed.
    """

    intrinsics: Intrinsics | None = None
    T_world_camera: Float[np.ndarray, "4 4"] | None = None
    depth_unit_m: float = 0.001
    workspace: tuple[PixelPoint, ...] | None = None
    p_unit: float = 1.0

    def __post_init__(self) -> None:
        k = self.intrinsics
        if k is not None and not (np.isfinite(k).all() and k.fx > 0.0 and k.fy > 0.0):
            raise InvalidSceneError(f"the camera has {k}; all must be finite, fx and fy above 0")
        if not (np.isfinite(self.depth_unit_m) and self.depth_unit_m > 0.0):
            raise InvalidSceneError(f"depth_unit_m is {self.depth_unit_m}; give the metres per step")
        if self.T_world_camera is not None:
            T = np.array(self.T_world_camera, dtype=np.float64)
            if not _is_rigid(T):
                raise InvalidSceneError("T_world_camera must be a (4, 4) rotation and translation in metres")
            object.__setattr__(self, "T_world_camera", _lock(T))
        if self.workspace is not None:
            corners = tuple(PixelPoint(float(x), float(y)) for x, y in self.workspace)
            if len(set(corners)) < 3 or not np.isfinite(corners).all():
                raise InvalidSceneError("the workspace needs at least 3 different corners x, y in pixels")
            object.__setattr__(self, "workspace", corners)


@dataclass(frozen=True, eq=False)
class Observation(_ComparesByValue):
    """One RGB-D frame.

    Attributes:
        rgb: Shape (h, w, 3), read-only.
        depth: NaN: no reading; the constructor turns zeros, negatives and infinities into it. None: the
            frame has no depth at all. Shape (h, w), read-only. [m]
        camera: What is known of the camera.
        time_s: When it was taken, on the camera's clock; None where unknown. [s]
        number: The camera's count of frames; None where unknown.
    """

    rgb: UInt8[np.ndarray, "h w 3"]
    depth: Float32[np.ndarray, "h w"] | None = None
    camera: Camera = field(default_factory=Camera)
    time_s: float | None = None
    number: int | None = None

    def __post_init__(self) -> None:
        if self.rgb.dtype != np.uint8 or self.rgb.ndim != 3 or self.rgb.shape[2] != 3 or not self.rgb.size:
            raise InvalidSceneError(f"rgb must be uint8 (h, w, 3), got {self.rgb.dtype} {self.rgb.shape}")
        object.__setattr__(self, "rgb", _read_only(self.rgb))
        if self.depth is not None:
            if self.depth.dtype != np.float32 or self.depth.shape != self.shape:
                got = f"{self.depth.dtype} {self.depth.shape}"
                raise InvalidSceneError(f"depth must be float32 {self.shape} in metres, got {got}")
            reads = (self.depth > 0.0) & (self.depth < np.inf)
            object.__setattr__(self, "depth", _lock(np.where(reads, self.depth, np.float32(np.nan))))
        if self.time_s is not None and not np.isfinite(self.time_s):
            raise InvalidSceneError(f"time_s is {self.time_s}; give seconds, or None where unknown")

    @cached_property
    def shape(self) -> tuple[int, int]:
        """Height and width of the image in pixels."""
        return self.rgb.shape[0], self.rgb.shape[1]


@dataclass(frozen=True, eq=False)
class MaskCrop(_ComparesByValue):
    """A mask, kept as what lies inside its bounding box.

    Attributes:
        top, left: First row and column of the box. [px]
        pixels: Shape (rows, cols) of the box, read-only; (0, 0) for an empty mask.
    """

    top: int
    left: int
    pixels: Bool[np.ndarray, "rows cols"]

    def __post_init__(self) -> None:
        object.__setattr__(self, "pixels", _read_only(self.pixels))

    @classmethod
    def from_mask(cls, mask: Bool[np.ndarray, "h w"], top: int = 0, left: int = 0) -> "MaskCrop":
        """The crop of a mask, which begins at that row and column of the image."""
        rows = np.flatnonzero(mask.any(axis=1))
        if rows.size == 0:
            return cls(0, 0, np.zeros((0, 0), dtype=bool))
        band = mask[rows[0] : rows[-1] + 1]
        cols = np.flatnonzero(band.any(axis=0))
        # A copy, since a view would keep the whole mask alive.
        return cls(top + int(rows[0]), left + int(cols[0]), band[:, cols[0] : cols[-1] + 1].copy())

    def join(self, other: "MaskCrop") -> "MaskCrop":
        """The union of two masks."""
        if not other.pixels.size:
            return self
        if not self.pixels.size:
            return other
        top, left = min(self.top, other.top), min(self.left, other.left)
        bottom = max(self.top + self.pixels.shape[0], other.top + other.pixels.shape[0])
        right = max(self.left + self.pixels.shape[1], other.left + other.pixels.shape[1])
        pixels: Bool[np.ndarray, "rows cols"] = np.zeros((bottom - top, right - left), dtype=bool)
        for each in (self, other):
            rows, cols = each.pixels.shape
            y, x = each.top - top, each.left - left
            pixels[y : y + rows, x : x + cols] |= each.pixels
        return MaskCrop(top, left, pixels)

    def to_mask(self, shape: tuple[int, int]) -> Bool[np.ndarray, "h w"]:
        """The mask of the whole image of the given height and width. Shape (h, w)."""
        mask = np.zeros(shape, dtype=bool)
        rows, cols = self.pixels.shape
        mask[self.top : self.top + rows, self.left : self.left + cols] = self.pixels
        return mask


@dataclass(frozen=True)
class DetectedObject:
    """One object of a scene. Its visible mask is where `Scene.visible_ids` holds its id.

    Attributes:
        id: 1 to 65535.
        amodal: Visible and hidden part together. None, or empty, where the hidden part is not known:
            that is no answer, not "nothing is hidden".
        name: Name given to it; None if there is none.
        score: Confidence of the detector, in [0, 1].
        occluded: Whether the detector says that part of it is hidden; None where it does not say.
        called: What every surface calls it, unique in the scene: see `cpor.words.names`. None: not
            named yet.
    """

    id: int
    amodal: MaskCrop | None = None
    name: str | None = None
    score: float | None = None
    occluded: bool | None = None
    called: str | None = None

    @cached_property
    def title(self) -> str | None:
        """Name to show: the one given later if there is one, else the one that surfaces use."""
        return self.called if self.called and self.called.startswith(self.name or "") else self.name


@dataclass(frozen=True)
class TrueRelations:
    """Ground truth of one kind of obstruction.

    Attributes:
        objects: The ids that were labelled; of a pair with another object nothing is known.
        pairs: The relations that hold among them.
    """

    objects: frozenset[int]
    pairs: frozenset[BlockedBy]

    def __post_init__(self) -> None:
        for pair in self.pairs:
            if pair.blocked == pair.blocker or not self.objects.issuperset(pair):
                raise InvalidSceneError(
                    f"{pair} is not a pair of the objects {list_labels(sorted(self.objects))}"
                )


@dataclass(frozen=True)
class SemanticScores:
    """What a relation scorer said.

    Attributes:
        scores: Raw score in [0, 1] of each pair asked about; None where no answer came.
        scorer: Name of the scorer.
    """

    scores: Mapping[BlockedBy, float | None]
    scorer: str | None = None

    def __post_init__(self) -> None:
        for pair, score in self.scores.items():
            if pair.blocked == pair.blocker:
                raise InvalidSceneError(f"object {pair.blocked} cannot obstruct itself; drop the pair")
            if score is not None and not 0.0 <= score <= 1.0:
                raise InvalidSceneError(f"the score of {pair} is {score}; it must lie in [0, 1] or be None")
        object.__setattr__(self, "scores", dict(self.scores))


@dataclass(frozen=True)
class Sources:
    """Provenance of a scene.

    Attributes:
        frame: Digest of picture and depth.
        masks: Digest of visible and amodal masks; None: there are none.
        segmenter: Fingerprint of the segmenter of the masks; None: not recorded.
        scores: Digest of the semantic scores; None: there are none.
        scorer: Fingerprint of their scorer; None: not recorded.
        made_here: Which of `masks` and `scores` this process made itself, or made again alike. No file says
            so: what is read from a file is a claim.
    """

    frame: str
    masks: str | None = None
    segmenter: str | None = None
    scores: str | None = None
    scorer: str | None = None
    made_here: frozenset[str] = field(default=frozenset(), compare=False)


@dataclass(frozen=True, eq=False)
class Scene(_ComparesByValue):
    """A frame, the objects in it, and what else is known of them.

    Attributes:
        observation: The frame.
        objects: By ascending id, the order of every array over objects. One may have no visible pixel.
        visible_ids: Id of the object each pixel shows, 0 for background. None: not segmented. Shape
            (h, w), read-only.
        true_occlusion, true_sweep, true_lift: Ground truth, where labelled: which object hides, stands in
            the gripper's way to, or rests on which.
        request: What was asked for, in words.
        points: A point that marks an object, by its id. [px]
        semantic_scores: What a relation scorer said of this scene.
        sources: Recorded provenance of masks and scores; None: none.
    """

    observation: Observation
    objects: tuple[DetectedObject, ...] = ()
    visible_ids: Int32[np.ndarray, "h w"] | None = None
    true_occlusion: TrueRelations | None = None
    true_sweep: TrueRelations | None = None
    true_lift: TrueRelations | None = None
    request: str | None = None
    points: Mapping[int, PixelPoint] = field(default_factory=dict)
    semantic_scores: SemanticScores | None = None
    sources: Sources | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "objects", tuple(sorted(self.objects, key=attrgetter("id"))))
        object.__setattr__(self, "points", dict(self.points))
        height, width = self.observation.shape
        _check_objects(self.objects, height, width)
        for x, y in self.points.values():
            if not (0.0 <= x < width and 0.0 <= y < height):
                raise InvalidSceneError(f"the point ({x}, {y}) lies outside of the {width} x {height} image")
        named = set(self.points)
        if self.visible_ids is not None:
            object.__setattr__(self, "visible_ids", _read_only(self.visible_ids))
            named.update(_ids_in(self.visible_ids, height, width))
        if self.semantic_scores is not None:
            named.update(k for pair in self.semantic_scores.scores for k in pair)
        if unknown := named.difference(self.ids):
            raise InvalidSceneError(f"unknown object {min(unknown)}; the scene has: {list_labels(self.ids)}")

    @cached_property
    def ids(self) -> tuple[int, ...]:
        """Ids of the objects, ascending."""
        return tuple(o.id for o in self.objects)


def _check_objects(objects: tuple[DetectedObject, ...], height: int, width: int) -> None:
    """Ids in range and all different, scores in range, masks inside the image."""
    for k, o in enumerate(objects):
        if not 1 <= o.id <= MAX_OBJECT_ID or (k and objects[k - 1].id == o.id):
            raise InvalidSceneError(f"object id {o.id} is not unique or not within 1 to {MAX_OBJECT_ID}")
        if o.score is not None and not 0.0 <= o.score <= 1.0:
            raise InvalidSceneError(f"object {o.id} has the score {o.score}; it must lie in [0, 1]")
        if o.amodal is not None:
            rows, cols = o.amodal.pixels.shape
            if not (0 <= o.amodal.top <= height - rows and 0 <= o.amodal.left <= width - cols):
                raise InvalidSceneError(f"the amodal mask of object {o.id} reaches outside of the image")


def _ids_in(image: np.ndarray, height: int, width: int) -> list[int]:
    """Ids in an image of ids, background aside, once its type, size and range are right."""
    if image.dtype != np.int32 or image.shape != (height, width):
        raise InvalidSceneError(f"visible_ids must be int32 {height, width}, got {image.dtype} {image.shape}")
    if not 0 <= image.min() <= image.max() <= MAX_OBJECT_ID:
        raise InvalidSceneError(f"visible_ids holds {image.min()} to {image.max()}, not 0 to {MAX_OBJECT_ID}")
    return (np.flatnonzero(np.bincount(image.reshape(-1))[1:]) + 1).tolist()


def _is_rigid(T: np.ndarray) -> bool:
    if T.shape != (4, 4) or not np.isfinite(T).all() or not np.array_equal(T[3], (0.0, 0.0, 0.0, 1.0)):
        return False
    # 1e-3: poses are written with few digits; a mirrored or scaled one is off by far more.
    return bool(np.allclose(T[:3, :3] @ T[:3, :3].T, np.eye(3), atol=1e-3) and np.linalg.det(T) > 0.0)


def _read_only(array: np.ndarray) -> np.ndarray:
    """The array itself if it is read-only, else a read-only copy."""
    return _lock(array.copy()) if array.flags.writeable else array


def _lock(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return a.dtype == b.dtype and np.array_equal(a, b, equal_nan=a.dtype.kind == "f")
    return not isinstance(a, np.ndarray) and not isinstance(b, np.ndarray) and bool(a == b)
