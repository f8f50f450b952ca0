"""Masks for other programs: COCO (run lengths) and BOP. `mask_files.FileMasks` reads both back.

The label image that others want is `instances.png` of a scene folder.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np

from cpor.errors import InvalidSceneError
from cpor.io.images import encode_png
from cpor.io.whole_files import write_bytes, write_text
from cpor.perception.rle import encode_mask
from cpor.scene import Scene


def write_coco(scene: Scene, path: str | Path) -> None:
    """Write one COCO file: `segmentation` is what shows, `amodal_mask` the whole object where it is known."""
    ids = _ids(scene)
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
    images = [{"id": 1, "width": width, "height": height, "file_name": "rgb.png"}]
    categories = [{"id": k, "name": name} for k, name in enumerate(names, 1)]
    content = {"images": images, "annotations": annotations, "categories": categories}
    write_text(Path(path), json.dumps(content, allow_nan=False) + "\n")


def write_bop(scene: Scene, folder: str | Path, image_id: int = 0) -> None:
    """Write masks as BOP has them: `mask_visib/` and, where the whole object is known, `mask/`.

    Objects are numbered from 0 by ascending id.
    """
    ids = _ids(scene)
    for name in ("mask_visib", "mask"):
        (Path(folder) / name).mkdir(parents=True, exist_ok=True)
    for k, o in enumerate(scene.objects):
        file = f"{image_id:06d}_{k:06d}.png"
        write_bytes(Path(folder) / "mask_visib" / file, encode_png((ids == o.id).astype(np.uint8) * 255))
        if o.amodal is not None:
            whole = o.amodal.to_mask(ids.shape).astype(np.uint8) * 255
            write_bytes(Path(folder) / "mask" / file, encode_png(whole))


def _ids(scene: Scene) -> np.ndarray:
    if scene.visible_ids is None:
        raise InvalidSceneError("the scene has no masks to write; segment it first")
    return scene.visible_ids
