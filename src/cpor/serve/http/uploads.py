"""What callers upload: files by their content, never by their name; sizes checked before anything is decoded.

Nothing is written to disk, and no path of a caller's is opened.
"""

import io
import warnings
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import UInt8
from PIL import ExifTags, Image, ImageOps

from cpor.data import folder_files as files
from cpor.data.scene_folder import (
    DEPTH_MODES,
    DEPTH_REMEDY,
    INSTANCE_MODES,
    INSTANCE_REMEDY,
    make_camera,
    to_metres,
)
from cpor.errors import InvalidSettingError, SceneFileError
from cpor.scene import Camera, DetectedObject, Intrinsics, MaskCrop, Observation, Scene
from cpor.serve.api.messages import MOST_OBJECTS
from cpor.serve.http.refusals import TooMuch, Unsupported

ANALYSED_PIXELS = 2_500_000
"""Larger pictures are analysed at a fraction of their size, so that memory and time stay bounded."""

_KINDS = {"PNG": b"\x89PNG\r\n\x1a\n", "JPEG": b"\xff\xd8\xff", "WEBP": b"RIFF"}
_RGB_MODES = ("RGB", "RGBA", "L", "LA", "P", "1", "CMYK")


@dataclass(frozen=True)
class Upload:
    """The parts of a scene as they came, not looked at yet.

    Attributes:
        rgb: A PNG, JPEG or WebP file.
        depth: A 16-bit PNG file.
        instances: A PNG file of ids.
        amodal: An npz file of masks.
        camera: JSON as `camera.json` has it.
        depth_unit_m: Metres of one step of depth; None: what `camera` says, else 0.001. [m]
        objects: JSON as `objects.json` has it, with names; only our own examples have it.
    """

    rgb: bytes
    depth: bytes | None = None
    instances: bytes | None = None
    amodal: bytes | None = None
    camera: str | None = None
    depth_unit_m: float | None = None
    objects: str | None = None


@dataclass(frozen=True)
class UploadLimits:
    """Most pixels of one picture, and of all masks together."""

    pixels: int
    mask_pixels: int


@dataclass(frozen=True, eq=False)
class Received:
    """An upload that was read.

    Attributes:
        scene: The frame as it is analysed, with the masks that came with it.
        shrunk: Pixels of the picture to one of `scene`, along each side.
        size: Width and height of the picture. [px]
    """

    scene: Scene
    shrunk: int
    size: tuple[int, int]


def read_upload(upload: Upload, limits: UploadLimits) -> Received:
    """Read an upload into a scene.

    Raises:
        TooMuch: More pixels, masks or objects than are taken.
        Unsupported: A file that is not of a kind we read.
        SceneFileError: A damaged file, or files that contradict each other.
    """
    companions = [name for name in ("depth", "instances", "amodal", "camera") if getattr(upload, name)]
    rgb, shape, step = _read_rgb(upload.rgb, limits.pixels, companions)
    camera, unit = _read_camera(upload, shape)
    depth = None
    if upload.depth is not None:
        steps = _read_png(upload.depth, "depth", DEPTH_MODES, DEPTH_REMEDY, shape, limits.pixels)
        depth = to_metres(steps[::step, ::step], unit)
    visible_ids = None
    ids: set[int] = set()
    if upload.instances is not None:
        image = _read_png(
            upload.instances, "instances", INSTANCE_MODES, INSTANCE_REMEDY, shape, limits.pixels
        )
        visible_ids = image[::step, ::step].astype(np.int32)
        ids.update(_ids_in(visible_ids))
        if step > 1:
            _refuse_lost("instances", set(_ids_in(image)) - ids, step)
    amodal: dict[int, MaskCrop] = {}
    if upload.amodal is not None:
        if upload.instances is None:
            raise InvalidSettingError("amodal goes with instances, which says what shows; send both")
        amodal = _read_amodal(upload.amodal, shape, step, limits.mask_pixels)
        ids.update(amodal)
    if len(ids) > MOST_OBJECTS:
        raise TooMuch(f"instances and amodal list {len(ids)} objects; at most {MOST_OBJECTS} are taken")
    observation = Observation(rgb, depth, _shrink_camera(camera, step))
    names: dict[int, str | None] = {}
    if upload.objects is not None:
        names = {o.id: o.name for o in files.parse_json(upload.objects, files.ObjectsFile, "objects").objects}
    objects = tuple(DetectedObject(k, amodal.get(k), names.get(k)) for k in sorted(ids))
    return Received(Scene(observation, objects, visible_ids), step, (shape[1], shape[0]))


def _read_rgb(
    data: bytes, most_pixels: int, companions: Sequence[str] = ()
) -> tuple[UInt8[np.ndarray, "h w 3"], tuple[int, int], int]:
    """The photograph as it is analysed, upright; its height and width as it came; by what it was shrunk.

    A large one shrinks before it becomes an array, so that memory holds it once.

    Args:
        data: The file.
        most_pixels: That it may have.
        companions: Parts that came with it, which no orientation turns.
    """
    kind = next((kind for kind, mark in _KINDS.items() if data.startswith(mark)), None)
    if kind is None or (kind == "WEBP" and data[8:12] != b"WEBP"):
        raise Unsupported("rgb is not a PNG, JPEG or WebP image; save it as one of them")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(io.BytesIO(data), formats=(kind,)) as image:
                _check_pixels("rgb", image.width, image.height, most_pixels)
                if image.mode not in _RGB_MODES:
                    raise Unsupported(f"rgb holds {image.mode} pixels; save it with 8 bits a channel")
                image.load()
                if companions and image.getexif().get(ExifTags.Base.Orientation, 1) != 1:
                    raise SceneFileError(
                        f"rgb is stored on its side or mirrored, {companions[0]} is not; save rgb upright, "
                        "without an orientation"
                    )
                ImageOps.exif_transpose(image, in_place=True)
                shape = image.height, image.width
                step = 1
                while shape[0] * shape[1] > ANALYSED_PIXELS * step**2:
                    step += 1
                return np.array(_as_rgb(image).reduce(step)), shape, step
    except SceneFileError:
        raise
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise TooMuch(f"rgb has more than {most_pixels:,} pixels; make it smaller") from None
    except files.DAMAGED as error:
        raise SceneFileError(f"rgb is damaged ({_say(error)}); write or fetch it again") from None


def _read_png(
    data: bytes,
    name: str,
    modes: tuple[str, ...],
    remedy: str,
    shape: tuple[int, int],
    most_pixels: int,
) -> np.ndarray:
    if not data.startswith(_KINDS["PNG"]):
        raise Unsupported(f"{name} is not a PNG image; save it as PNG")
    if len(data) >= 24:
        width, height = int.from_bytes(data[16:20], "big"), int.from_bytes(data[20:24], "big")
        _check_pixels(name, width, height, most_pixels)
        if (height, width) != shape:
            raise SceneFileError(
                f"{name} is {width} x {height} pixels, rgb {shape[1]} x {shape[0]}; bring them to one size"
            )
    return files.decode_png(data, name, modes, remedy, most_pixels=most_pixels)


def _read_camera(upload: Upload, shape: tuple[int, int]) -> tuple[Camera, float]:
    """The camera, and the metres of one step of depth."""
    file = files.CameraFile()
    if upload.camera is not None and upload.camera.strip():
        file = files.parse_json(upload.camera, files.CameraFile, "camera")
        size = file.height or shape[0], file.width or shape[1]
        if size != shape:
            raise SceneFileError(
                f"camera says {size[1]} x {size[0]} pixels, rgb has {shape[1]} x {shape[0]}; send the camera "
                "of this picture"
            )
    unit = upload.depth_unit_m or file.depth_unit_m or 0.001
    return make_camera(file.model_copy(update={"depth_unit_m": unit}), "camera"), unit


def _read_amodal(data: bytes, shape: tuple[int, int], step: int, most_pixels: int) -> dict[int, MaskCrop]:
    if not data.startswith(b"PK"):
        raise Unsupported("amodal is not an npz file; save ids and masks with np.savez_compressed")
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            entries = archive.infolist()
    except files.DAMAGED as error:
        raise SceneFileError(f"amodal is damaged ({_say(error)}); write or fetch it again") from None
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


def _check_pixels(name: str, width: int, height: int, most: int) -> None:
    if width * height > most:
        raise TooMuch(f"{name} has {width} x {height} pixels; at most {most:,} are taken")


def _as_rgb(image: Image.Image) -> Image.Image:
    if image.mode == "P":
        image = image.convert("RGBA")  # a palette may say what shows through
    return image if image.mode == "RGB" else image.convert("RGB")


def _shrink_camera(camera: Camera, step: int) -> Camera:
    k = camera.intrinsics
    if step == 1 or k is None:
        return camera
    smaller = Intrinsics(k.fx / step, k.fy / step, (k.cx + 0.5) / step - 0.5, (k.cy + 0.5) / step - 0.5)
    return Camera(smaller, camera.T_world_camera, camera.depth_unit_m)


def _say(error: BaseException) -> str:
    """A decoder's complaint in a few words; it knows no path, since it was given none."""
    return (str(error).splitlines() or [type(error).__name__])[0][:120]
