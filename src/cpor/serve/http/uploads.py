"""What callers upload: files by their content, never by their name; sizes checked before anything is decoded.

Nothing is written to disk, and no path of a caller's is opened.
"""

import io
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from cpor.errors import InvalidSettingError, SceneFileError
from cpor.io import folder_files as files
from cpor.io import images
from cpor.io.frame_files import make_observation
from cpor.io.scene_folder import make_camera, make_scores
from cpor.scene import Camera, DetectedObject, Intrinsics, MaskCrop, PixelPoint, Scene, Sources
from cpor.serve.api.asked import MOST_OBJECTS
from cpor.serve.http.refusals import TooMuch, Unsupported

ANALYSED_PIXELS = 2_500_000
"""Larger pictures are analysed at a fraction of their size, so that memory and time stay bounded."""


Upload: TypeAlias = Mapping[str, bytes]
"""The parts of a scene as they came, by name; the files of a scene folder, without their endings, and
`depth_unit_m`, the metres of one step of depth (default: what `camera` says, else it is guessed)."""

UploadLimits: TypeAlias = tuple[int, int]
"""Most pixels of one picture, and of all masks together."""

LONGEST_FIELD = 16_384
LONGEST = {"objects": 2**18, "scores": 2**20}
"""These grow with the number of objects and pairs."""


@dataclass(frozen=True, eq=False)
class Received:
    """An upload that was read.

    Attributes:
        scene: The frame as it is analysed, with the masks that came with it.
        shrunk: Pixels of the picture to one of `scene`, along each side.
        size: Width and height of the picture. [px]
        notes: What to know of the unit of its depth, in sentences.
    """

    scene: Scene
    shrunk: int
    size: tuple[int, int]
    notes: tuple[str, ...] = ()


def read_upload(upload: Upload, limits: UploadLimits) -> Received:
    """Read an upload into a scene.

    Raises:
        TooMuch: More pixels, masks or objects than are taken.
        Unsupported: A file that is not of a kind we read.
        SceneFileError: A damaged file, or files that contradict each other.
        InvalidSettingError: A part that goes without another, or is no text or number.
    """
    most_pixels, most_mask_pixels = limits
    companions = [name for name in ("depth", "instances", "amodal", "camera") if upload.get(name)]
    with _refusing():
        pixels, shape, step = images.decode_photograph(
            upload["rgb"], "rgb", companions, most_pixels, shrink_above=ANALYSED_PIXELS
        )
    camera, unit = _read_camera(upload, shape)
    steps = None
    if depth := upload.get("depth"):
        with _refusing():
            steps = images.decode_grey(depth, "depth", images.DEPTH, most_pixels, shape)
        steps = steps[::step, ::step]
    visible_ids = None
    ids: set[int] = set()
    if instances := upload.get("instances"):
        with _refusing():
            image = images.decode_grey(instances, "instances", images.IDS, most_pixels, shape)
        visible_ids = image[::step, ::step].astype(np.int32)
        ids.update(_ids_in(visible_ids))
        if step > 1:
            _refuse_lost("instances", set(_ids_in(image)) - ids, step)
    for name in ("amodal", "objects", "scores", "sources"):
        if upload.get(name) and visible_ids is None:
            raise InvalidSettingError(f"{name} goes with instances, which says what shows; send both")
    named: dict[int, files.ObjectEntry] = {}
    if listed := read_text(upload, "objects"):
        named = {o.id: o for o in files.parse_json(listed, files.ObjectsFile, "objects").objects}
        ids.update(named)
    amodal: dict[int, MaskCrop] = {}
    if masks := upload.get("amodal"):
        amodal = _read_amodal(masks, shape, step, most_mask_pixels)
        ids.update(amodal)
    if len(ids) > MOST_OBJECTS:
        raise TooMuch(
            f"instances, amodal and objects list {len(ids)} objects; at most {MOST_OBJECTS} are taken"
        )
    observation, notes = make_observation(pixels, steps, shrink_camera(camera, step), unit)
    entries = [named.get(k, files.ObjectEntry(id=k)) for k in sorted(ids)]
    objects = tuple(
        DetectedObject(e.id, amodal.get(e.id), e.name, e.score, e.occluded, e.called) for e in entries
    )
    scores = sources = None
    if scored := read_text(upload, "scores"):
        scores = make_scores(files.parse_json(scored, files.ScoresFile, "scores"), "scores", ids)
    made_by = read_text(upload, "sources")
    if made_by and step == 1:  # of a smaller picture they say nothing
        sources = Sources(**files.parse_json(made_by, files.SourcesFile, "sources").model_dump())
    scene = Scene(observation, objects, visible_ids, semantic_scores=scores, sources=sources)
    return Received(scene, step, (shape[1], shape[0]), notes)


def read_text(upload: Upload, name: str, longest: int | None = None) -> str | None:
    """A part as text; None where it is absent or blank."""
    longest = longest or LONGEST.get(name, LONGEST_FIELD)
    try:
        text = upload.get(name, b"").decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InvalidSettingError(f"{name} is not UTF-8 text") from None
    if len(text) > longest:
        raise InvalidSettingError(f"{name} has {len(text)} characters; at most {longest} are taken")
    return text if text.strip() else None


def read_number(upload: Upload, name: str, low: float, high: float) -> float | None:
    """A part as a number in a range; None where it is absent or blank."""
    text = read_text(upload, name)
    if text is None:
        return None
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not low <= value <= high:
        raise InvalidSettingError(f"{name} must be a number from {low:g} to {high:g}")
    return value


@contextmanager
def _refusing() -> Iterator[None]:
    """Images of another kind or size than is taken have an HTTP status of their own."""
    try:
        yield
    except images.ImageKindError as error:
        raise Unsupported(str(error)) from None
    except images.ImageSizeError as error:
        raise TooMuch(str(error)) from None


def _read_camera(upload: Upload, shape: tuple[int, int]) -> tuple[Camera, float | None]:
    """The camera, and the metres of one step of depth; None where unknown."""
    file = files.CameraFile()
    if given := read_text(upload, "camera"):
        file = files.parse_json(given, files.CameraFile, "camera")
        size = file.height or shape[0], file.width or shape[1]
        if size != shape:
            raise SceneFileError(
                f"camera says {size[1]} x {size[0]} pixels, rgb has {shape[1]} x {shape[0]}; send the camera "
                "of this picture"
            )
    unit = read_number(upload, "depth_unit_m", 1e-7, 1.0) or file.depth_unit_m
    if file.depth_camera is not None:
        raise SceneFileError(
            "camera describes a depth camera; register depth to rgb, and leave depth_camera out"
        )
    return make_camera(file.model_copy(update={"depth_unit_m": unit}), "camera"), unit


def _read_amodal(data: bytes, shape: tuple[int, int], step: int, most_pixels: int) -> dict[int, MaskCrop]:
    if not data.startswith(b"PK"):
        raise Unsupported("amodal is not an npz file; save ids and masks with np.savez_compressed")
    with images.reading("amodal"), zipfile.ZipFile(io.BytesIO(data)) as archive:
        entries = archive.infolist()
    if len(entries) > 16 or sum(entry.file_size for entry in entries) > most_pixels + 2**21:
        raise TooMuch(f"amodal unpacks to more than {most_pixels:,} pixels; send fewer or smaller masks")
    masks = files.decode_masks(io.BytesIO(data), "amodal", shape, most_pixels)
    if len(masks) > MOST_OBJECTS:
        raise TooMuch(f"amodal holds {len(masks)} masks; at most {MOST_OBJECTS} are taken")
    if step == 1:
        return masks
    smaller = {k: MaskCrop.from_mask(crop.to_mask(shape)[::step, ::step]) for k, crop in masks.items()}
    lost = {k for k, crop in smaller.items() if masks[k].pixels.any() and not crop.pixels.any()}
    _refuse_lost("amodal", lost, step)
    return smaller


def _ids_in(image: np.ndarray) -> list[int]:
    """Ids of the objects that an image of ids shows."""
    shows = np.zeros(np.iinfo(np.uint16).max + 1, np.bool_)
    for row in image:  # one at a time: indices take eight bytes each
        shows[row] = True
    return (np.flatnonzero(shows[1:]) + 1).tolist()


def _refuse_lost(name: str, lost: set[int], step: int) -> None:
    """An object too thin to be seen any more could be the one in the way: it must not vanish in silence."""
    if lost:
        raise SceneFileError(
            f"{name}: object {min(lost)} is too thin to be seen at 1/{step} of the size, at which so large a "
            f"picture is analysed; send all parts at no more than {ANALYSED_PIXELS:,} pixels"
        )


def shrink_camera(camera: Camera, step: int) -> Camera:
    """The camera of a picture of which every so many pixels are kept, along each side."""
    if step == 1:
        return camera
    k, corners = camera.intrinsics, camera.workspace
    if k is not None:
        k = Intrinsics(k.fx / step, k.fy / step, (k.cx + 0.5) / step - 0.5, (k.cy + 0.5) / step - 0.5)
    if corners is not None:
        corners = tuple(PixelPoint(x / step, y / step) for x, y in corners)
    return Camera(k, camera.T_world_camera, camera.depth_unit_m, corners)
