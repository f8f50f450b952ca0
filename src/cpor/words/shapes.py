"""Which everyday shape each object has: a small network on a picture of it, its depth and its masks.

The training cuts its pictures with the same function, so the network is shown what it learnt from. Without
onnxruntime shapes are not known: every object is a thing then.
"""

from functools import cache
from pathlib import Path

import numpy as np
from jaxtyping import Float, Float32, UInt8
from scipy import ndimage

from cpor.errors import InputFileError, MissingExtraError
from cpor.perception.network_file import PACKAGED, Session, open_network
from cpor.scene import MaskCrop, Scene

SHAPES = (
    *("box", "book", "block", "can", "bottle", "cup", "bowl", "plate", "ball", "fruit", "tool", "pen"),
    *("tube", "ring", "bag", "card", "cable", "vehicle", "thing"),
)
"""The words of the network, in the order of its outputs; a thing has none of the shapes before."""

LAYERS = ("red", "green", "blue", "visible", "amodal", "depth", "others")

_DEPTH_STEP = 0.001
"""What one step of the depth layer means; 128 is the median depth of the object. [m]"""

PICTURE_SIZE = 80
"""Rows and columns of a picture of an object. [px]"""

_REACH = 1.2
"""Half a picture's side, by half the object's long axis."""


def object_pictures(
    scene: Scene,
) -> tuple[tuple[int, ...], UInt8[np.ndarray, "n 7 p p"], Float32[np.ndarray, "n 4"]]:
    """Ids of the objects that show, `LAYERS` of each, and their sizes.

    A picture is the square around the object, hidden parts included, turned so that the object's long axis
    lies along the rows; beyond the image all layers are 0. Depth: 0 where there is no reading, else 1 to 255,
    nearer to the camera is more. Sizes: natural logarithm of half the picture's side by 0.1 m, whether that
    is known, natural logarithm of the short by the long axis, and the share of the object that shows.
    Shapes (n,), (n, 7, p, p), (n, 4).
    """
    ids, depth, rgb = scene.visible_ids, scene.observation.depth, scene.observation.rgb
    if ids is None or not scene.objects:
        return (
            (),
            np.zeros((0, len(LAYERS), PICTURE_SIZE, PICTURE_SIZE), np.uint8),
            np.zeros((0, 4), np.float32),
        )
    boxes = ndimage.find_objects(ids, max_label=scene.objects[-1].id)
    shown = [o for o in scene.objects if boxes[o.id - 1] is not None]
    pictures = np.zeros((len(shown), len(LAYERS), PICTURE_SIZE, PICTURE_SIZE), np.uint8)
    sizes = np.zeros((len(shown), 4), np.float32)
    k = scene.observation.camera.intrinsics
    focal = k.fx if k is not None else float(ids.shape[1])
    grid = (np.arange(PICTURE_SIZE) + 0.5) * (2.0 / PICTURE_SIZE) - 1.0
    for layers, size, o in zip(pictures, sizes, shown, strict=True):
        box = boxes[o.id - 1]
        visible_part = MaskCrop(box[0].start, box[1].start, ids[box] == o.id)
        crop = visible_part if o.amodal is None else visible_part.join(o.amodal)
        seen = int(visible_part.pixels.sum())
        points = np.argwhere(crop.pixels) + np.array([crop.top, crop.left])
        centre = points.mean(axis=0)
        along, across, ratio = _axes(points - centre)
        half = _REACH * max(float(np.quantile(np.abs((points - centre) @ along), 0.98)), 2.0)
        at = centre[:, None, None] + half * (
            grid[None, None, :] * along[:, None, None] + grid[None, :, None] * across[:, None, None]
        )
        at = np.rint(at).astype(np.int64)
        inside = (at >= 0).all(axis=0) & (at[0] < ids.shape[0]) & (at[1] < ids.shape[1])
        rows, cols = at[0][inside], at[1][inside]
        label = ids[rows, cols]
        visible = label == o.id
        layers[:3, inside] = rgb[rows, cols].T
        layers[3, inside], layers[4, inside] = visible, crop.to_mask(ids.shape)[rows, cols]
        layers[6, inside] = (label > 0) & ~visible
        size[2:] = np.log(ratio), seen / len(points)
        if depth is not None:
            z = depth[rows, cols]
            readings = z[visible & ~np.isnan(z)]
            if readings.size:
                middle = np.median(readings)
                steps = (middle - z) / np.float32(_DEPTH_STEP) + np.float32(128.0)
                layers[5, inside] = np.where(np.isnan(z), 0.0, np.clip(np.rint(steps), 1.0, 255.0))
                size[:2] = np.log(half * middle / focal / 0.1), 1.0
    return tuple(o.id for o in shown), pictures, sizes


def _axes(
    points: Float[np.ndarray, "n 2"],
) -> tuple[Float[np.ndarray, "2"], Float[np.ndarray, "2"], float]:
    """Directions of the long and the short axis of points about 0, and the short axis by the long one."""
    if len(points) < 2:
        return np.array([0.0, 1.0]), np.array([1.0, 0.0]), 1.0
    spread, turn = np.linalg.eigh(np.cov(points.T))
    ratio = float(np.sqrt(max(float(spread[0]), 0.1) / max(float(spread[1]), 0.1)))
    return turn[:, 1], turn[:, 0], ratio


def judge_shapes(
    pictures: UInt8[np.ndarray, "n 7 p p"],
    sizes: Float32[np.ndarray, "n 4"],
    path: Path = PACKAGED / "shapes.onnx",
) -> Float[np.ndarray, "n shapes"] | None:
    """Probability of each of `SHAPES` for each of `object_pictures`; None without onnxruntime."""
    try:
        session = _open(path)
    except MissingExtraError:
        return None
    if not len(pictures):
        return np.zeros((0, len(SHAPES)))
    # It is not known which end is up: the picture and the same upside down tell together.
    both = np.concatenate([pictures, pictures[:, :, ::-1, ::-1]])
    feeds = {"crops": both, "size": np.tile(sizes, (2, 1))}
    logit = np.asarray(session.run(["logit"], feeds)[0], dtype=np.float64)
    if logit.shape != (len(both), len(SHAPES)):
        raise InputFileError(f"{path} gave {logit.shape} for {len(both)} pictures of {len(SHAPES)} shapes")
    logit = logit.reshape(2, len(pictures), len(SHAPES)).mean(axis=0)
    p = np.exp(logit - logit.max(axis=1, keepdims=True))
    return np.asarray(p / p.sum(axis=1, keepdims=True))


@cache
def _open(path: Path) -> Session:
    return open_network(path, ("crops", "size"), ("logit",))
