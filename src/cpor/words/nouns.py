"""How likely an object is what a noun names, from an ImageNet classifier that sees it alone on grey.

The classifier's first guess for a thing is often odd. What tells is how much more it says of a noun's classes
than it usually says of any thing, and which of the things in view it says most of.
"""

import json
from functools import cache
from pathlib import Path

import numpy as np
from jaxtyping import Float, UInt8
from PIL import Image
from scipy import ndimage

from cpor.errors import InputFileError, MissingExtraError
from cpor.perception.network_file import PACKAGED, Session, open_network
from cpor.scene import Scene

USUAL_FILE = Path(__file__).with_name("usual_classes.json")

CLASSES, PICTURE_SIZE = 1000, 224
"""Classes of the network; rows and columns of a picture of an object. [px]"""

_ROOM = 1.3
"""Side of the square around an object, by the longer side of its box."""

_GREY = 128
"""What shows beside the object is this grey."""

_LEAST_USUAL, LEAST_TOLD = 1e-3, 1e-2
"""Added to what is usually said of a class, and to how much more is said."""


def object_crops(scene: Scene) -> tuple[list[int], UInt8[np.ndarray, "n 3 p p"]]:
    """Ids of the objects that show, and a picture of each, alone on grey. Shapes (n,) and (n, 3, p, p)."""
    ids, size = scene.visible_ids, (PICTURE_SIZE, PICTURE_SIZE)
    shown: list[int] = []
    crops = np.zeros((len(scene.objects), PICTURE_SIZE, PICTURE_SIZE, 3), np.uint8)
    if ids is None or not scene.objects:
        return shown, crops.transpose(0, 3, 1, 2)
    photograph = Image.fromarray(scene.observation.rgb)
    for k, box in enumerate(ndimage.find_objects(ids, max_label=scene.objects[-1].id), start=1):
        if box is None:
            continue
        ends = np.array([(each.start, each.stop) for each in box[::-1]])  # of columns, of rows
        half = 0.5 * _ROOM * np.ptp(ends, axis=1).max()
        left, top = np.rint(ends.mean(axis=1) - half).astype(int).tolist()
        right, bottom = np.rint(ends.mean(axis=1) + half).astype(int).tolist()
        square = left, top, right, bottom
        rgb = photograph.crop(square).resize(size, Image.Resampling.BILINEAR)
        mask = Image.fromarray((ids == k).astype(np.uint8) * 255).crop(square)
        share = np.asarray(mask.resize(size, Image.Resampling.BILINEAR))[..., None] / 255.0
        crops[len(shown)] = np.asarray(rgb) * share + _GREY * (1.0 - share)
        shown.append(k)
    return shown, crops[: len(shown)].transpose(0, 3, 1, 2)


def judge_classes(scene: Scene, path: Path = PACKAGED / "nouns.onnx") -> dict[int, Float[np.ndarray, "1000"]]:
    """Probability of each ImageNet class for each object; empty without onnxruntime."""
    shown, crops = object_crops(scene)
    if not shown:
        return {}
    try:
        session = _open(path)
    except MissingExtraError:
        return {}
    p = np.asarray(session.run(["p"], {"pictures": np.ascontiguousarray(crops)})[0], dtype=np.float64)
    if p.shape != (len(shown), CLASSES):
        raise InputFileError(f"{path} gave {p.shape} for {len(shown)} pictures of {CLASSES} classes")
    return dict(zip(shown, p, strict=True))


def lift(
    p: Float[np.ndarray, "1000"], usual: Float[np.ndarray, "1000"] | None = None
) -> Float[np.ndarray, "1000"]:
    """How much more than usual each class is said of an object, by its probabilities; None: as fitted."""
    return np.asarray(p / ((_usual() if usual is None else usual) + _LEAST_USUAL))


@cache
def _open(path: Path) -> Session:
    return open_network(path, ("pictures",), ("p",))


@cache
def _usual() -> Float[np.ndarray, "1000"]:
    """Mean probability of each class over objects of photographs and of simulated scenes."""
    return np.array(json.loads(USUAL_FILE.read_text()))
