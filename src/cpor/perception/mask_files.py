"""Segmenters that look nothing up in the frame: masks that came with a scene, or from another program.

A PNG holds the id of what each pixel shows. A folder is one of BOP's, `mask_visib`, with `mask` beside it for
whole objects. Other files are JSON as COCO has it (a list of results, or `images`, `annotations` and
`categories`), or an npz of stacks of masks; both are read as users of UOAIS, Mask R-CNN and SAM have them:

    what        JSON, in each entry                npz
    visible     visible_mask, else segmentation    visible, pred_visible_masks, else masks, pred_masks
    amodal      amodal_mask, or segmentation       amodal, pred_amodal_masks, or pred_masks
                beside visible_mask                beside a visible one
    score       score, predicted_iou               scores
    hidden      occluded, occluded_rate            occluded, pred_occlusions
    id, name    id; category_id by categories      ids

Where no amodal mask is given, the hidden part is not known. A pixel that several visible masks claim goes to
the one with the best score, the smallest among equals.

`write_coco` and `write_bop` write masks for other programs. The label image that others want is
`instances.png` of a scene folder.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Bool

from cpor.errors import InvalidSceneError, SceneFileError, list_labels
from cpor.io import images
from cpor.io.whole_files import read_bytes, read_text, write_bytes, write_text
from cpor.perception.rle import decode_mask, encode_mask
from cpor.scene import MAX_OBJECT_ID, DetectedObject, MaskCrop, Observation, Scene

MOST_VALUES = 2**31
"""Larger arrays are refused before they are read: 250 masks of 4k. [pixels]"""

LEAST_HIDDEN_RATE = 0.05
"""An `occluded_rate` above this means occluded: the share that counts as hiding throughout (truth.py)."""

_VISIBLE_KEYS = ("visible", "visible_masks", "pred_visible_masks")
_AMODAL_KEYS = ("amodal", "amodal_masks", "pred_amodal_masks")
_EITHER_KEYS = ("masks", "pred_masks")


@dataclass(frozen=True)
class GivenMasks:
    """Hands out the masks that a scene came with."""

    scene: Scene

    def segment(self, observation: Observation) -> Scene:
        """The scene's objects, on this frame."""
        if self.scene.visible_ids is None:
            raise InvalidSceneError("the scene came without masks; segment it, or add instances.png")
        if observation.shape != self.scene.observation.shape:
            raise InvalidSceneError(
                f"the given masks are {self.scene.observation.shape}, the frame {observation.shape}"
            )
        return replace(self.scene, observation=observation)


@dataclass(frozen=True)
class FileMasks:
    """Reads the masks that another segmenter wrote.

    Attributes:
        name: What its masks are called.
        path: JSON, npz, PNG or a folder; the head of this module says what it holds.
        image_id: Which image of a JSON file or folder with several.
    """

    name: ClassVar[str] = "file"
    path: Path
    image_id: int | str | None = None

    def segment(self, observation: Observation) -> Scene:
        """The objects in the file, on this frame, which must be the one they were found in."""
        path = Path(self.path)
        if path.suffix.lower() == ".npz":
            found = _read_npz(path, observation.shape)
        elif path.suffix.lower() == ".json":
            found = _read_json(path, observation.shape, self.image_id)
        elif path.suffix.lower() == ".png":
            found = _read_labels(path, observation.shape)
        elif path.is_dir():
            found = _read_bop(path, observation.shape, self.image_id)
        else:
            raise SceneFileError(f"{path} is no .json, .npz, .png or folder; save masks in one of these")
        return scene_of(observation, found)


@dataclass(frozen=True, eq=False)
class FoundMask:
    """One object as a file has it; masks have the shape of the image."""

    id: int
    visible: Bool[np.ndarray, "h w"]
    amodal: Bool[np.ndarray, "h w"] | None = None
    name: str | None = None
    score: float | None = None
    occluded: bool | None = None


def scene_of(observation: Observation, found: Sequence[FoundMask]) -> Scene:
    """A scene of masks that may overlap; what shows nowhere once they exclude each other is left out."""
    ids = np.zeros(observation.shape, dtype=np.int32)
    for each in sorted(found, key=lambda o: (o.score or 0.0, -int(o.visible.sum()))):
        ids[each.visible] = each.id
    shown = np.bincount(ids.reshape(-1), minlength=MAX_OBJECT_ID + 1)
    objects = []
    for each in found:
        if shown[each.id]:
            amodal = None if each.amodal is None else MaskCrop.from_mask(each.amodal | (ids == each.id))
            objects.append(DetectedObject(each.id, amodal, each.name, each.score, each.occluded))
    return Scene(observation, tuple(objects), ids)


def _read_labels(path: Path, shape: tuple[int, int]) -> list[FoundMask]:
    """A label image: the id of what each pixel shows, 0 for background."""
    ids = images.decode_grey(read_bytes(path), path, images.IDS, shape=shape)
    return [FoundMask(int(k), ids == k) for k in np.unique(ids) if k]


def _read_bop(folder: Path, shape: tuple[int, int], image_id: int | str | None) -> list[FoundMask]:
    """Masks as BOP has them, IMAGE_OBJECT.png; objects are numbered from 1 here."""
    if (folder / "mask_visib").is_dir():
        folder = folder / "mask_visib"
    files = sorted(folder.glob("*_*.png"))
    shown = sorted({file.name.split("_")[0] for file in files})
    if image_id is not None:
        shown = [name for name in shown if name.lstrip("0") == str(image_id).lstrip("0")]
    if len(shown) != 1:
        raise SceneFileError(
            f"{folder} has masks of {len(shown)} such images; give a folder with one, or an image_id"
        )
    found = []
    for k, file in enumerate((file for file in files if file.name.startswith(f"{shown[0]}_")), start=1):
        whole = folder.with_name("mask") / file.name
        masks = [
            images.decode_grey(read_bytes(each), each, images.IDS, shape=shape) > 0
            for each in (file, whole)
            if each.is_file()
        ]
        found.append(FoundMask(k, masks[0], masks[1] if len(masks) > 1 else None))
    return found


def _read_json(path: Path, shape: tuple[int, int], image_id: int | str | None) -> list[FoundMask]:
    text = read_text(path)
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SceneFileError(f"{path} is not valid JSON ({error}); fix or replace it") from error
    entries = content.get("annotations") if isinstance(content, dict) else content
    if not isinstance(entries, list) or not all(isinstance(each, dict) for each in entries):
        raise SceneFileError(
            f"{path} holds no list of masks; COCO files have it at the top or in `annotations`"
        )
    entries = _of_image(path, entries, image_id)
    if isinstance(content, dict):
        _check_size(path, content, entries, shape)
    names = _category_names(content)
    ids = _ids(path, [each.get("id") for each in entries])
    found = []
    for k, (number, entry) in enumerate(zip(ids, entries, strict=True)):
        where = f"{path}, mask {k + 1}"
        visible = entry.get("visible_mask") or entry.get("segmentation")
        amodal = entry.get("amodal_mask") or (
            entry.get("segmentation") if entry.get("visible_mask") else None
        )
        occluded = entry.get("occluded")
        if occluded is None and (rate := _number(entry.get("occluded_rate"), where)) is not None:
            occluded = rate > LEAST_HIDDEN_RATE
        score = entry.get("score", entry.get("predicted_iou"))
        found.append(
            FoundMask(
                number,
                decode_mask(visible, shape, where),
                None if amodal is None else decode_mask(amodal, shape, where),
                names.get(entry.get("category_id")),
                _score(_number(score, where)),
                None if occluded is None else bool(occluded),
            )
        )
    return found


def _category_names(content: Any) -> dict[Any, str]:
    """The names of a COCO file's categories, by id."""
    categories = content.get("categories") if isinstance(content, dict) else None
    return {
        each.get("id"): str(each["name"])
        for each in (categories if isinstance(categories, list) else [])
        if isinstance(each, dict) and "name" in each
    }


def _of_image(path: Path, entries: list[dict[str, Any]], image_id: int | str | None) -> list[dict[str, Any]]:
    numbers = {each.get("image_id"): None for each in entries}
    if image_id is not None:
        chosen = [each for each in entries if str(each.get("image_id")) == str(image_id)]
        if not chosen:
            raise SceneFileError(f"{path} has no masks of image {image_id}; it has: {list_labels(numbers)}")
        return chosen
    if len(numbers) > 1:
        raise SceneFileError(
            f"{path} has masks of several images; choose an image_id: {list_labels(numbers)}"
        )
    return entries


def _check_size(
    path: Path, content: dict[str, Any], entries: list[dict[str, Any]], shape: tuple[int, int]
) -> None:
    """Compare the size that the file gives for the image: polygons do not tell theirs."""
    listed = content.get("images")
    pictures = listed if isinstance(listed, list) else [content.get("image")]  # SAM has one `image`
    wanted = {each.get("image_id") for each in entries}
    for image in pictures:
        if not isinstance(image, dict) or not {"height", "width"} <= set(image):
            continue
        size = (image["height"], image["width"])
        if (len(pictures) == 1 or image.get("id") in wanted) and size != shape:
            raise SceneFileError(
                f"{path} has masks of an image of {size[1]} x {size[0]} pixels, this one has "
                f"{shape[1]} x {shape[0]}; give the masks of this very image"
            )


def _read_npz(path: Path, shape: tuple[int, int]) -> list[FoundMask]:
    arrays = images.decode_npz(read_bytes(path), path, MOST_VALUES)
    visible = _stack(path, arrays, _VISIBLE_KEYS, shape)
    amodal = _stack(path, arrays, _AMODAL_KEYS, shape)
    either = _stack(path, arrays, _EITHER_KEYS, shape)
    if visible is None:
        visible, either = either, None
    if visible is None:
        wanted = list_labels((*_VISIBLE_KEYS, *_EITHER_KEYS))
        raise SceneFileError(
            f"{path} has no visible masks; it needs one of {wanted}, has: {list_labels(arrays)}"
        )
    amodal = either if amodal is None else amodal
    n = len(visible)
    columns = {key: _column(path, arrays, key, n) for key in ("ids", "scores", "occluded", "pred_occlusions")}
    if amodal is not None and len(amodal) != n:
        raise SceneFileError(
            f"{path} has {n} visible and {len(amodal)} amodal masks; give one of each a object"
        )
    flags = columns["occluded"] if columns["occluded"] is not None else columns["pred_occlusions"]
    ids = _ids(path, [None] * n if columns["ids"] is None else columns["ids"].tolist())
    return [
        FoundMask(
            ids[k],
            visible[k],
            None if amodal is None else amodal[k],
            score=None if columns["scores"] is None else _score(float(columns["scores"][k])),
            occluded=None if flags is None else bool(flags[k] > 0.5),
        )
        for k in range(n)
    ]


def _stack(
    path: Path, arrays: dict[str, np.ndarray], keys: tuple[str, ...], shape: tuple[int, int]
) -> Bool[np.ndarray, "n h w"] | None:
    for key in keys:
        if key in arrays:
            stack = arrays[key]
            if stack.ndim == 4 and stack.shape[1] == 1:  # detectron2 and torchvision keep a channel
                stack = stack[:, 0]
            if stack.ndim != 3 or stack.shape[1:] != shape or stack.dtype.kind not in "biuf":
                raise SceneFileError(
                    f"{path}: {key} is {stack.dtype} {stack.shape}; it must be (n, {shape[0]}, {shape[1]}), "
                    "the size of the image"
                )
            # Soft masks are probabilities, whole ones 0 and 1 or 0 and 255.
            return np.asarray(stack > (0.5 if stack.dtype.kind == "f" else 0))
    return None


def _column(path: Path, arrays: dict[str, np.ndarray], key: str, n: int) -> np.ndarray | None:
    if key not in arrays:
        return None
    column = arrays[key].reshape(-1)
    if column.size != n or column.dtype.kind not in "biuf":
        raise SceneFileError(
            f"{path}: {key} has {column.size} entries for {n} masks; give one number per mask"
        )
    return column


def _ids(path: Path, written: list[Any]) -> list[int]:
    """Ids as written where they can serve as ids, else 1, 2, 3 and so on."""
    if len(written) > MAX_OBJECT_ID:
        raise SceneFileError(f"{path} has {len(written)} masks; at most {MAX_OBJECT_ID} are read")
    usable = all(isinstance(k, int) and 1 <= k <= MAX_OBJECT_ID for k in written)
    return written if usable and len(set(written)) == len(written) else list(range(1, len(written) + 1))


def _number(value: object, where: str) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise SceneFileError(f"{where}: {value!r} is no number")
    return float(value)


def _score(value: float | None) -> float | None:
    """In [0, 1]: SAM predicts an IoU, which may come out a little above 1."""
    return None if value is None or not np.isfinite(value) else float(min(1.0, max(0.0, value)))


def write_coco(scene: Scene, path: str | Path) -> None:
    """Write one COCO file: `segmentation` is what shows, `amodal_mask` the whole object where it is known."""
    ids = _written_ids(scene)
    height, width = ids.shape
    names = sorted({o.name or "object" for o in scene.objects})
    annotations = []
    for o in scene.objects:
        mask = ids == o.id
        entry: dict[str, Any] = {"id": o.id, "image_id": 1, "iscrowd": 0, "area": int(mask.sum())}
        entry |= {"category_id": names.index(o.name or "object") + 1, "segmentation": encode_mask(mask)}
        rows, cols = np.nonzero(mask.any(axis=1))[0], np.nonzero(mask.any(axis=0))[0]
        if not len(rows):
            continue  # COCO has no object that shows nowhere
        corner = int(cols[0]), int(rows[0])
        entry["bbox"] = [*corner, int(cols[-1]) + 1 - corner[0], int(rows[-1]) + 1 - corner[1]]
        if o.amodal is not None:
            entry["amodal_mask"] = encode_mask(o.amodal.to_mask(ids.shape))
        if o.score is not None:
            entry["score"] = o.score
        if o.occluded is not None:
            entry["occluded"] = o.occluded
        annotations.append(entry)
    picture = {"id": 1, "width": width, "height": height, "file_name": "rgb.png"}
    categories = [{"id": k, "name": name} for k, name in enumerate(names, 1)]
    content = {"images": [picture], "annotations": annotations, "categories": categories}
    write_text(Path(path), json.dumps(content, allow_nan=False) + "\n")


def write_bop(scene: Scene, folder: str | Path, image_id: int = 0) -> None:
    """Write masks as BOP has them: `mask_visib/` and, where the whole object is known, `mask/`.

    Objects are numbered from 0 by ascending id.
    """
    ids = _written_ids(scene)
    for name in ("mask_visib", "mask"):
        (Path(folder) / name).mkdir(parents=True, exist_ok=True)
    for k, o in enumerate(scene.objects):
        file = f"{image_id:06d}_{k:06d}.png"
        write_bytes(
            Path(folder) / "mask_visib" / file, images.encode_png((ids == o.id).astype(np.uint8) * 255)
        )
        if o.amodal is not None:
            whole = o.amodal.to_mask(ids.shape).astype(np.uint8) * 255
            write_bytes(Path(folder) / "mask" / file, images.encode_png(whole))


def _written_ids(scene: Scene) -> np.ndarray:
    if scene.visible_ids is None:
        raise InvalidSceneError("the scene has no masks to write; segment it first")
    return scene.visible_ids
