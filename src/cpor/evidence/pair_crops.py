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


def near_pairs(scene: Scene, within: int = NEAR_PX) -> tuple[BlockedBy, ...]:
    """The ordered pairs worth asking about: one shows on the hidden part of the other, or near its mask.

    Args:
        scene: With visible masks.
        within: How near, in pixels of an image 640 wide; larger images are measured in proportion. [px]
    """
    # Imported here, as below, because numba takes most of a second.
    from cpor.evidence import _crop_kernels

    ids = scene.visible_ids
    if ids is None or not scene.objects:
        return ()
    reach = max(1, round(within * ids.shape[1] / 640))
    shown = _shown_boxes(ids, scene.objects[-1].id)
    boxes, places, amodal = _with_hidden(scene, shown)
    pairs: set[BlockedBy] = set()
    for o in scene.objects:
        if not shown[o.id].any():
            continue
        near = np.zeros(len(boxes), np.bool_)
        _crop_kernels.mark_near(o.id, ids, boxes[o.id], places[o.id], amodal, reach, near)
        for other in np.flatnonzero(near).tolist():
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
    from cpor.evidence import _crop_kernels

    ids, depth = scene.visible_ids, scene.observation.depth
    assert ids is not None
    out = np.zeros((len(pairs), len(GEOMETRY_LAYERS), CROP_SIZE, CROP_SIZE), np.uint8)
    if not pairs:
        return out
    depth = _read_only(np.zeros((0, 0), np.float32)) if depth is None else depth
    boxes, places, amodal = _with_hidden(scene, _shown_boxes(ids, scene.objects[-1].id))
    asked, readings = np.array(pairs), np.empty((len(pairs), CROP_SIZE**2), np.float32)
    counts = _crop_kernels.cut_masks(ids, depth, asked, boxes, places, amodal, MARGIN, out, readings)
    found = zip(readings, counts, strict=True)
    middles = np.array([np.median(row[:n]) if n else np.nan for row, n in found], np.float32)
    _crop_kernels.cut_depth(depth, asked, boxes, MARGIN, middles, np.float32(1.0 / DEPTH_STEP), out)
    return out


def colour_crops(
    rgb: UInt8[np.ndarray, "h w 3"], visible_ids: Int32[np.ndarray, "h w"], pairs: Sequence[Pair]
) -> UInt8[np.ndarray, "n 5 s s"]:
    """`COLOUR_LAYERS` of each pair: the photograph as it is, masks as 0 and 1; no depth, no hidden part.

    The picture is the square around both visible masks; beyond the image all layers are 0. Both objects must
    show. Shape (n, 5, CROP_SIZE, CROP_SIZE).
    """
    from cpor.evidence import _crop_kernels

    out = np.zeros((len(pairs), len(COLOUR_LAYERS), CROP_SIZE, CROP_SIZE), np.uint8)
    if pairs:
        boxes = _shown_boxes(visible_ids, max(max(pair) for pair in pairs))
        # The kernels are compiled for read-only arrays, as those of a scene are.
        rgb, visible_ids = _read_only(rgb), _read_only(visible_ids)
        _crop_kernels.cut_colours(rgb, visible_ids, np.array(pairs), boxes, MARGIN, out)
    return out


def _shown_boxes(ids: Int32[np.ndarray, "h w"], last: int) -> Int64[np.ndarray, "ids 4"]:
    """First row, end row, first column, end column of what shows, by id; 0 where nothing does."""
    boxes = np.zeros((last + 1, 4), np.int64)
    for k, box in enumerate(ndimage.find_objects(ids, max_label=last), start=1):
        if box is not None:
            boxes[k] = box[0].start, box[0].stop, box[1].start, box[1].stop
    return boxes


def _with_hidden(
    scene: Scene, shown: Int64[np.ndarray, "ids 4"]
) -> tuple[Int64[np.ndarray, "ids 4"], Int64[np.ndarray, "ids 5"], Bool[np.ndarray, " pixels"]]:
    """Boxes of visible and hidden parts, and the amodal masks, as `_crop_kernels` wants them."""
    boxes, places = shown.copy(), np.zeros((len(shown), 5), np.int64)
    pixels = [np.zeros(0, np.bool_)]
    begin = 0
    for o in scene.objects:
        if o.amodal is not None and o.amodal.pixels.size and shown[o.id].any():
            (rows, cols), top, left = o.amodal.pixels.shape, o.amodal.top, o.amodal.left
            places[o.id] = top, left, rows, cols, begin
            boxes[o.id, ::2] = np.minimum(boxes[o.id, ::2], (top, left))
            boxes[o.id, 1::2] = np.maximum(boxes[o.id, 1::2], (top + rows, left + cols))
            pixels.append(o.amodal.pixels.reshape(-1))
            begin += o.amodal.pixels.size
    return boxes, places, np.concatenate(pixels)


def _read_only(array: np.ndarray) -> np.ndarray:
    view = array.view()
    view.flags.writeable = False
    return view
