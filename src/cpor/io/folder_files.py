"""The single files of a scene folder, read strictly: an error names the file, the fault and the remedy.

Each `encode_…` gives the bytes of a file, the same bytes for the same content.
"""

import io
import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, BinaryIO, TypeVar

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, RootModel, ValidationError

from cpor.errors import SceneFileError, TooLargeError
from cpor.io.images import open_entry, read_array, read_npy_header, reading
from cpor.io.whole_files import parse_strict, read_text
from cpor.scene import MAX_OBJECT_ID, MaskCrop, Sources

ObjectId = Annotated[int, Field(ge=1, le=MAX_OBJECT_ID)]
UnitScore = Annotated[float, Field(ge=0.0, le=1.0)]
_Number = TypeVar("_Number", int, float)
Positive = Annotated[_Number, Field(gt=0)]
_FOUR = Field(min_length=4, max_length=4)
_TWO = Field(min_length=2, max_length=2)


class JsonFile(BaseModel):
    """Strict about types and numbers, lenient about keys it does not know."""

    model_config = ConfigDict(strict=True, frozen=True, allow_inf_nan=False)


class DepthCameraFile(JsonFile):
    """`depth_camera` of `camera.json`: where depth is not registered, the camera that took it."""

    fx: float
    fy: float
    cx: float
    cy: float
    T_colour_depth: Annotated[list[Annotated[list[float], _FOUR]], _FOUR] | None = None


class CameraFile(JsonFile):
    """`camera.json`: intrinsics, size, workspace [px], metres of a step of depth, pose, time, number.

    `p_unit`: probability of a unit that was guessed.
    """

    fx: float | None = None
    fy: float | None = None
    cx: float | None = None
    cy: float | None = None
    width: Positive[int] | None = None
    height: Positive[int] | None = None
    depth_unit_m: Positive[float] | None = None
    p_unit: UnitScore | None = None
    T_world_camera: Annotated[list[Annotated[list[float], _FOUR]], _FOUR] | None = None
    workspace: Annotated[list[Annotated[list[float], _TWO]], Field(min_length=3, max_length=1000)] | None = (
        None
    )
    time_s: float | None = None
    number: int | None = None
    depth_camera: DepthCameraFile | None = None


class RelationEntry(JsonFile):
    """One relation: `blocker` obstructs `blocked`."""

    blocked: ObjectId
    blocker: ObjectId


class RelationsFile(JsonFile):
    """`relations.json` and its kin: the objects that were labelled, and the true relations."""

    objects: list[ObjectId]
    relations: list[RelationEntry]


class ScoreEntry(RelationEntry):
    """One scored relation; null is no answer, and leaving the score out is an error."""

    score: UnitScore | None


class ScoresFile(JsonFile):
    """`scores.json`: semantic scores and their scorer."""

    scorer: str | None = None
    relations: list[ScoreEntry]


class SourcesFile(JsonFile):
    """`sources.json`: digests of frame, masks and scores, and fingerprints of segmenter and scorer."""

    frame: str
    masks: str | None = None
    segmenter: str | None = None
    scores: str | None = None
    scorer: str | None = None

    @classmethod
    def of(cls, sources: Sources) -> "SourcesFile":
        """Without what only the process that made them knows."""
        return cls(**{name: getattr(sources, name) for name in cls.model_fields})


class ObjectEntry(JsonFile):
    """One object of `objects.json`."""

    id: ObjectId
    name: str | None = None
    score: UnitScore | None = None
    occluded: bool | None = None
    called: str | None = None


class ObjectsFile(JsonFile):
    """`objects.json`: objects with their names and detector scores."""

    objects: list[ObjectEntry]


class PointsFile(RootModel[dict[ObjectId, tuple[float, float]]]):
    """`points.json`: id -> [x, y] [px]."""

    model_config = JsonFile.model_config


_Model = TypeVar("_Model", bound=BaseModel)


def read_json(path: Path, model: type[_Model]) -> _Model:
    """A JSON file as the given model."""
    return parse_json(read_text(path), model, path)


def parse_json(text: str, model: type[_Model], path: Path | str) -> _Model:
    """A JSON text as the given model; errors call it `path`."""
    # The model's own parser lets NaN tokens and repeated keys pass where no field forbids them.
    parse_strict(text, name=path, remedy="fix or remove it")
    try:
        return model.model_validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(step) for step in first["loc"]) or "content"
        raise SceneFileError(f"{path}: {place}: {first['msg']}, got {first['input']!r}") from error


def encode_json(model: BaseModel) -> bytes:
    """Bytes of a JSON file, absent values left out except where null has a meaning."""
    content = model.model_dump(mode="json")
    if isinstance(model, CameraFile | ObjectsFile):
        content = model.model_dump(mode="json", exclude_none=True)
    return (json.dumps(content, allow_nan=False, ensure_ascii=False) + "\n").encode()


def read_masks(path: Path, shape: tuple[int, int]) -> dict[int, MaskCrop]:
    """Amodal masks by id, one at a time, so that memory holds crops only whatever the file claims."""
    return decode_masks(path, path, shape)


def decode_masks(
    file: Path | BinaryIO, path: Path | str, shape: tuple[int, int], most_pixels: int | None = None
) -> dict[int, MaskCrop]:
    """Amodal masks of an npz file, or of its content, which errors call `path`.

    Args:
        file: The file.
        path: What errors call it.
        shape: Height and width that each mask must have. [px]
        most_pixels: Limit for all masks together; None: no limit.
    """
    with reading(path), zipfile.ZipFile(file) as archive:
        if lacking := {"ids.npy", "masks.npy"}.difference(archive.namelist()):
            raise SceneFileError(f"{path} lacks an array ({min(lacking)}); it needs ids and masks")
        with open_entry(archive, "ids.npy", path) as stream:
            found = read_array(path, stream, MAX_OBJECT_ID)
        if found.ndim != 1 or found.dtype.kind not in "iu":
            raise SceneFileError(f"{path}: ids must be a list of whole numbers; save int64 (n,)")
        ids, n = found.tolist(), found.size
        if len(set(ids)) < n or not all(1 <= k <= MAX_OBJECT_ID for k in ids):
            raise SceneFileError(f"{path}: ids must be {n} different numbers from 1 to {MAX_OBJECT_ID}")
        with open_entry(archive, "masks.npy", path) as stream:
            size, dtype, columns_first = read_npy_header(path, stream)
            if columns_first:
                raise SceneFileError(f"{path} stores columns first; save np.ascontiguousarray(masks)")
            if size != (n, *shape) or dtype != np.bool_:
                wanted = f"bool {(n, *shape)}, as many as ids and as large as rgb.png"
                raise SceneFileError(f"{path}: masks are {dtype} {size}; they must be {wanted}")
            if most_pixels is not None and n * shape[0] * shape[1] > most_pixels:
                raise TooLargeError(f"{path}: {n} masks of that size are too many; send smaller images")
            crops = {k: _read_mask(path, stream, shape) for k in ids}
            stream.read(1)  # The checksum is only compared at the end of the stream.
            return crops


def encode_masks(masks: Mapping[int, MaskCrop], shape: tuple[int, int]) -> bytes:
    """Bytes of an npz file of masks; the time of writing is left out."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        with archive.open("ids.npy", "w") as stream:
            np.lib.format.write_array(stream, np.array(list(masks), dtype=np.int64))
        with archive.open("masks.npy", "w", force_zip64=True) as stream:
            header = {"descr": "|b1", "fortran_order": False, "shape": (len(masks), *shape)}
            np.lib.format.write_array_header_1_0(stream, header)
            for crop in masks.values():
                stream.write(crop.to_mask(shape).tobytes())
    return buffer.getvalue()


def _read_mask(path: Path | str, stream: Any, shape: tuple[int, int]) -> MaskCrop:
    raw = stream.read(shape[0] * shape[1])
    if len(raw) < shape[0] * shape[1]:
        raise SceneFileError(f"{path} ends before its last mask; write or fetch it again")
    return MaskCrop.from_mask(np.frombuffer(raw, np.uint8).reshape(shape) != 0)
