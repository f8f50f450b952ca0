"""Pictures of pairs for our networks: what lies around two objects, cut out and sampled to one size.

One picture serves both directions of a pair, (i, j) and (j, i). The training cuts its pictures with the same
functions, so a network is shown what it learnt from.
"""

from collections.abc import Iterable, Sequence
from typing import TypeAlias

import numpy as np
from jaxtyping import Bool, Int32, Int64, UInt8
from scipy import ndimage

from cpor.scene import BlockedBy, Scene

CROP_SIZE = 96
"""Rows and columns of a picture. [px]"""

MARGIN = 0.2
"""Room around both objects, shared by both sides, as a share of the longer side of their common box."""

DEPTH_STEP = 0.0012
"""What one step of the depth layer means; 128 is the median depth of the pair. [m]"""

NEAR_PX = 8
"""Objects farther apart cannot be in each other's way: the ring of the geometric evidence. [px]"""

GEOMETRY_LAYERS = ("depth", "visible i", "visible j", "amodal i", "amodal j", "others")
COLOUR_LAYERS = ("red", "green", "blue", "visible i", "visible j")

Pair: TypeAlias = tuple[int, int]
"""Ids of two objects, the smaller first."""

_Box: TypeAlias = tuple[int, int, int, int]


def near_pairs(scene: Scene, within: int = NEAR_PX) -> tuple[BlockedBy, ...]:
    """The ordered pairs worth asking about: one shows on the hidden part of the other, or near its mask.

    Args:
        scene: With visible masks.
        within: How near, in pixels of an image 640 wide; larger images are measured in proportion. [px]
    """
    ids = scene.visible_ids
    if ids is None or not scene.objects:
        return ()
    reach = max(1, round(within * ids.shape[1] / 640))
    boxes = ndimage.find_objects(ids, max_label=scene.objects[-1].id)
    pairs: set[BlockedBy] = set()
    for o in scene.objects:
        box = boxes[o.id - 1]
        if box is None:
            continue
        spans = [(s.start, s.stop) for s in box]
        if o.amodal is not None and o.amodal.pixels.size:
            starts, sizes = (o.amodal.top, o.amodal.left), o.amodal.pixels.shape
            spans = [(min(a, s), max(b, s + n)) for (a, b), s, n in zip(spans, starts, sizes, strict=True)]
        top, bottom, left, right = (
            *(max(0, spans[0][0] - reach), min(ids.shape[0], spans[0][1] + reach)),
            *(max(0, spans[1][0] - reach), min(ids.shape[1], spans[1][1] + reach)),
        )
        around = ids[top:bottom, left:right]
        covers = (around == o.id).astype(np.uint8)
        if o.amodal is not None and o.amodal.pixels.size:
            rows, cols = o.amodal.pixels.shape
            y, x = o.amodal.top - top, o.amodal.left - left
            covers[y : y + rows, x : x + cols] |= o.amodal.pixels
        reached = ndimage.maximum_filter(covers, size=2 * reach + 1, mode="constant")
        near = np.flatnonzero(np.bincount(around[reached > 0]))
        for other in near.tolist():
            if other not in (0, o.id):
                pairs.update((BlockedBy(o.id, other), BlockedBy(other, o.id)))
    return tuple(sorted(pairs))


def unordered(pairs: Iterable[BlockedBy]) -> list[Pair]:
    """Each pair once, the smaller id first, in order."""
    return sorted({(min(pair), max(pair)) for pair in pairs})


def geometry_crops(scene: Scene, pairs: Sequence[Pair]) -> UInt8[np.ndarray, "n 6 s s"]:
    """`GEOMETRY_LAYERS` of each pair: depth in steps around its median, masks as 0 and 1.

    Depth: 0 where there is no reading, else 1 to 255, nearer to the camera is more. The picture is the square
    around both objects, hidden parts included; beyond the image all layers are 0. Both objects must show.
    Shape (n, 6, CROP_SIZE, CROP_SIZE).
    """
    ids, depth = scene.visible_ids, scene.observation.depth
    assert ids is not None
    shown = ndimage.find_objects(ids)
    boxes: dict[int, _Box] = {}
    amodal: dict[int, Bool[np.ndarray, "h w"]] = {}
    for o in scene.objects:
        if o.id > len(shown) or shown[o.id - 1] is None:
            continue
        boxes[o.id] = box = _bounds(shown[o.id - 1])
        if o.amodal is not None and o.amodal.pixels.size:
            rows, cols = o.amodal.pixels.shape
            top, left = o.amodal.top, o.amodal.left
            boxes[o.id] = (
                *(min(box[0], top), max(box[1], top + rows)),
                *(min(box[2], left), max(box[3], left + cols)),
            )
            amodal[o.id] = o.amodal.to_mask(ids.shape)
    out = np.zeros((len(pairs), len(GEOMETRY_LAYERS), CROP_SIZE, CROP_SIZE), np.uint8)
    for crop, (i, j) in zip(out, pairs, strict=True):
        at, here = _place(boxes[i], boxes[j], ids.shape)
        label = ids[here]
        first, second = label == i, label == j
        layers = crop[:, at[0], at[1]]
        layers[1], layers[2] = first, second
        layers[3] = first | amodal[i][here] if i in amodal else first
        layers[4] = second | amodal[j][here] if j in amodal else second
        layers[5] = (label > 0) & ~first & ~second
        if depth is not None:
            z = depth[here]
            readings = z[(first | second) & ~np.isnan(z)]
            if readings.size:
                steps = (np.median(readings) - z) * np.float32(1.0 / DEPTH_STEP) + np.float32(128.0)
                layers[0] = np.where(np.isnan(z), 0.0, np.clip(np.rint(steps), 1.0, 255.0))
    return out


def colour_crops(
    rgb: UInt8[np.ndarray, "h w 3"], visible_ids: Int32[np.ndarray, "h w"], pairs: Sequence[Pair]
) -> UInt8[np.ndarray, "n 5 s s"]:
    """`COLOUR_LAYERS` of each pair: the photograph as it is, masks as 0 and 1; no depth, no hidden part.

    The picture is the square around both visible masks; beyond the image all layers are 0. Both objects must
    show. Shape (n, 5, CROP_SIZE, CROP_SIZE).
    """
    shown = ndimage.find_objects(visible_ids)
    out = np.zeros((len(pairs), len(COLOUR_LAYERS), CROP_SIZE, CROP_SIZE), np.uint8)
    for crop, (i, j) in zip(out, pairs, strict=True):
        at, here = _place(_bounds(shown[i - 1]), _bounds(shown[j - 1]), visible_ids.shape)
        label = visible_ids[here]
        layers = crop[:, at[0], at[1]]
        layers[:3] = rgb[here].transpose(2, 0, 1)
        layers[3], layers[4] = label == i, label == j
    return out


def _bounds(box: tuple[slice, slice]) -> _Box:
    return box[0].start, box[0].stop, box[1].start, box[1].stop


def _place(
    a: _Box, b: _Box, shape: tuple[int, ...]
) -> tuple[tuple[slice, slice], tuple[Int64[np.ndarray, "r 1"], Int64[np.ndarray, "1 c"]]]:
    """Which part of a picture lies inside the image, and the pixels of the image that it shows."""
    low = (min(a[0], b[0]), min(a[2], b[2]))
    high = (max(a[1], b[1]), max(a[3], b[3]))
    side = max(high[0] - low[0], high[1] - low[1]) * (1.0 + MARGIN)
    corner = [0.5 * (low[axis] + high[axis] - side) for axis in (0, 1)]
    parts, pixels = [], []
    for axis in (0, 1):
        at = np.floor(corner[axis] + (np.arange(CROP_SIZE) + 0.5) * (side / CROP_SIZE)).astype(np.int64)
        inside = np.flatnonzero((at >= 0) & (at < shape[axis]))
        parts.append(slice(int(inside[0]), int(inside[-1]) + 1))
        pixels.append(at[inside])
    return (parts[0], parts[1]), (pixels[0][:, None], pixels[1][None, :])
