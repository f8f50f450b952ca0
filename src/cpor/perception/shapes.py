"""Which everyday shape each object has: a small network on a picture of it, its depth and its masks.

The training cuts its pictures with the same function, so the network is shown what it learnt from. Without
onnxruntime nobody tells shapes: every object is a thing then.
"""

from functools import cache
from pathlib import Path

import numpy as np
from jaxtyping import Float, Float32, Int64, UInt8
from scipy import ndimage

from cpor.perception.network_file import PACKAGED, MissingExtraError, Session, WeightsError, open_network
from cpor.scene import Scene

SHAPES = (
    *("box", "book", "block", "can", "bottle", "cup", "bowl", "plate", "ball", "fruit", "tool", "pen"),
    *("tube", "ring", "bag", "card", "cable", "vehicle", "thing"),
)
"""The words of the network, in the order of its outputs; a thing has none of the shapes before."""

CUT_SIZE = 64
"""Rows and columns of a picture as it is cut. [px]"""

TURNED_SIZE = 24
"""Rows and columns of a picture once it is turned. [px]"""

LAYERS = ("red", "green", "blue", "visible", "amodal", "depth", "others")

_MARGIN = 0.25
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
        whole = ids == o.id
        seen = int(whole.sum())
        if o.amodal is not None:
            whole |= o.amodal.to_mask(ids.shape)
        points = np.argwhere(whole)
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
        layers[3, inside], layers[4, inside] = visible, whole[rows, cols]
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


def shape_crops(
    scene: Scene,
) -> tuple[tuple[int, ...], UInt8[np.ndarray, "n 7 s s"], Float32[np.ndarray, "n 2"]]:
    """Ids of the objects that show, `LAYERS` of each, and the size of each picture.

    Depth: 0 where there is no reading, else 1 to 255, nearer to the camera is more. The picture is the square
    around the object, hidden parts included; beyond the image all layers are 0. Sizes: natural logarithm of
    the side of the picture by 0.1 m, and whether that is known. Shapes (n,), (n, 7, s, s), (n, 2).
    """
    ids, depth, rgb = scene.visible_ids, scene.observation.depth, scene.observation.rgb
    if ids is None or not scene.objects:
        return (), np.zeros((0, len(LAYERS), CUT_SIZE, CUT_SIZE), np.uint8), np.zeros((0, 2), np.float32)
    boxes = ndimage.find_objects(ids, max_label=scene.objects[-1].id)
    shown = [o for o in scene.objects if boxes[o.id - 1] is not None]
    crops = np.zeros((len(shown), len(LAYERS), CUT_SIZE, CUT_SIZE), np.uint8)
    sizes = np.zeros((len(shown), 2), np.float32)
    k = scene.observation.camera.intrinsics
    focal = k.fx if k is not None else float(ids.shape[1])
    for crop, size, o in zip(crops, sizes, shown, strict=True):
        rows, cols = boxes[o.id - 1]
        low, high = np.array([rows.start, cols.start]), np.array([rows.stop, cols.stop])
        if o.amodal is not None and o.amodal.pixels.size:
            corner = np.array([o.amodal.top, o.amodal.left])
            low, high = np.minimum(low, corner), np.maximum(high, corner + o.amodal.pixels.shape)
        side = float((high - low).max()) * (1.0 + _MARGIN)
        at, here = sample_square(0.5 * (low + high - side), side, ids.shape, CUT_SIZE)
        label = ids[here]
        visible = label == o.id
        layers = crop[:, at[0], at[1]]
        layers[:3] = rgb[here].transpose(2, 0, 1)
        layers[3], layers[4], layers[6] = visible, visible, (label > 0) & ~visible
        if o.amodal is not None:
            layers[4] |= o.amodal.to_mask(ids.shape)[here]
        if depth is not None:
            z = depth[here]
            readings = z[visible & ~np.isnan(z)]
            if readings.size:
                middle = np.median(readings)
                steps = (middle - z) / np.float32(_DEPTH_STEP) + np.float32(128.0)
                layers[5] = np.where(np.isnan(z), 0.0, np.clip(np.rint(steps), 1.0, 255.0))
                size[:] = np.log(side * middle / focal / 0.1), 1.0
    return tuple(o.id for o in shown), crops, sizes


def turn_upright(
    crops: UInt8[np.ndarray, "n 7 s s"], sizes: Float32[np.ndarray, "n 2"]
) -> tuple[UInt8[np.ndarray, "n 7 t t"], Float32[np.ndarray, "n 3"]]:
    """Pictures turned so that the long axis of each object lies along the rows and fills them.

    Lengths: natural logarithm of half the long axis by 0.1 m, whether that is known, and the share of the
    object that shows. Shapes (n, 7, t, t), (n, 3).
    """
    out = np.zeros((len(crops), len(LAYERS), TURNED_SIZE, TURNED_SIZE), np.uint8)
    lengths = np.zeros((len(crops), 3), np.float32)
    grid = (np.arange(TURNED_SIZE) + 0.5) * (2.0 / TURNED_SIZE) - 1.0
    for crop, size, turned, length in zip(crops, sizes, out, lengths, strict=True):
        rows, cols = np.nonzero(crop[4])
        if len(rows) < 2:
            continue
        points = np.stack([cols, rows], axis=1).astype(np.float64)
        centre = points.mean(axis=0)
        across, along = np.linalg.eigh(np.cov((points - centre).T))[1].T
        half = 1.1 * max(float(np.quantile(np.abs((points - centre) @ along), 0.98)), 2.0)
        x, y = (centre[k] + half * (grid[None, :] * along[k] + grid[:, None] * across[k]) for k in (0, 1))
        at = np.rint(np.stack([y, x])).astype(np.int64)
        inside = ((at >= 0) & (at < CUT_SIZE)).all(axis=0)
        at = np.clip(at, 0, CUT_SIZE - 1)
        turned[:] = crop[:, at[0], at[1]] * inside
        length[0] = size[0] + np.log(half / CUT_SIZE) * size[1]
        length[1], length[2] = size[1], crop[3].sum() / len(rows)
    return out, lengths


def judge_shapes(
    scene: Scene, path: Path = PACKAGED / "shapes.onnx"
) -> dict[int, Float[np.ndarray, " shapes"]]:
    """Probability of each of `SHAPES` for each object that shows; empty without onnxruntime."""
    ids, crops, sizes = shape_crops(scene)
    if not ids:
        return {}
    try:
        session = _open(path)
    except MissingExtraError:
        return {}
    turned, lengths = turn_upright(crops, sizes)
    # Nobody knows which end is up: all four mirror images tell together.
    mirrored = np.concatenate([turned[:, :, ::a, ::b] for a in (1, -1) for b in (1, -1)])
    feeds = {"crops": mirrored, "size": np.tile(lengths, (4, 1))}
    logit = np.asarray(session.run(["logit"], feeds)[0], dtype=np.float64)
    if logit.shape != (4 * len(ids), len(SHAPES)):
        raise WeightsError(f"{path} gave {logit.shape} for {4 * len(ids)} pictures of {len(SHAPES)} shapes")
    logit = logit.reshape(4, len(ids), len(SHAPES)).mean(axis=0)
    p = np.exp(logit - logit.max(axis=1, keepdims=True))
    return dict(zip(ids, p / p.sum(axis=1, keepdims=True), strict=True))


@cache
def _open(path: Path) -> Session:
    return open_network(path, ("crops", "size"), ("logit",))


def sample_square(
    corner: Float[np.ndarray, "2"], side: float, shape: tuple[int, ...], size: int
) -> tuple[tuple[slice, slice], tuple[Int64[np.ndarray, "r 1"], Int64[np.ndarray, "1 c"]]]:
    """Which part of a square picture lies inside the image, and the pixels of the image that it shows.

    Args:
        corner: Row and column of the square's upper left. [px]
        side: Of the square. [px]
        shape: Height and width of the image. [px]
        size: Rows and columns of the picture. [px]
    """
    parts, pixels = [], []
    for axis in (0, 1):
        at = np.floor(corner[axis] + (np.arange(size) + 0.5) * (side / size)).astype(np.int64)
        inside = np.flatnonzero((at >= 0) & (at < shape[axis]))
        parts.append(slice(int(inside[0]), int(inside[-1]) + 1))
        pixels.append(at[inside])
    return (parts[0], parts[1]), (pixels[0][:, None], pixels[1][None, :])
