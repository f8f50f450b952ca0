"""Pictures of pairs for the embedded scorer: what lies around two objects, and where each of them shows."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Int32, UInt8
from PIL import Image
from scipy import ndimage

from cpor.scene import BlockedBy, Scene

CROP_SIZE = 96
"""Rows and columns of a picture. [px]"""

MARGIN = 0.15
"""Room around both objects, on each side, as a share of the longer side of their common box."""

NEAR_PX = 8
"""Objects farther apart cannot be in each other's way: the ring of the geometric evidence. [px]"""


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


def pair_crops(
    rgb: UInt8[np.ndarray, "h w 3"],
    visible_ids: Int32[np.ndarray, "h w"],
    pairs: Sequence[BlockedBy],
    size: int = CROP_SIZE,
) -> UInt8[np.ndarray, "n s s 5"]:
    """One picture a pair: red, green, blue, where `blocked` shows, where `blocker` shows (0 or up to 255).

    The picture is the square around both visible masks with some room; beyond the image it is black.
    Both objects must show somewhere. Shape (n, size, size, 5).
    """
    out = np.zeros((len(pairs), size, size, 5), dtype=np.uint8)
    boxes = ndimage.find_objects(visible_ids)
    done: dict[BlockedBy, int] = {}
    for k, (blocked, blocker) in enumerate(pairs):
        twin = done.get(BlockedBy(blocker, blocked))
        if twin is not None:  # the same place seen the other way round
            out[k] = out[twin][..., [0, 1, 2, 4, 3]]
        else:
            _crop(rgb, visible_ids, (blocked, blocker), (boxes[blocked - 1], boxes[blocker - 1]), out[k])
        done[BlockedBy(blocked, blocker)] = k
    return out


def _crop(
    rgb: UInt8[np.ndarray, "h w 3"],
    visible_ids: Int32[np.ndarray, "h w"],
    both: tuple[int, int],
    boxes: tuple[tuple[slice, slice], tuple[slice, slice]],
    out: UInt8[np.ndarray, "s s 5"],
) -> None:
    size = out.shape[0]
    low = [min(box[axis].start for box in boxes) for axis in (0, 1)]
    high = [max(box[axis].stop for box in boxes) for axis in (0, 1)]
    side = max(h - s for s, h in zip(low, high, strict=True)) * (1.0 + 2.0 * MARGIN)
    corner = [(s + h - side) / 2.0 for s, h in zip(low, high, strict=True)]
    # The part inside the image, in pixels of the image and of the picture.
    inside = [
        (max(0, int(np.floor(c))), min(n, int(np.ceil(c + side))))
        for c, n in zip(corner, visible_ids.shape, strict=True)
    ]
    place = [
        (max(0, round((a - c) * size / side)), min(size, round((b - c) * size / side)))
        for (a, b), c in zip(inside, corner, strict=True)
    ]
    window = np.s_[inside[0][0] : inside[0][1], inside[1][0] : inside[1][1]]
    here = np.s_[place[0][0] : place[0][1], place[1][0] : place[1][1]]
    wide, tall = place[1][1] - place[1][0], place[0][1] - place[0][0]
    if wide < 1 or tall < 1:
        return
    layers = [rgb[window], *((visible_ids[window] == each).astype(np.uint8) * 255 for each in both)]
    for layer, first in zip(layers, (0, 3, 4), strict=True):
        image = Image.fromarray(np.ascontiguousarray(layer))
        small = np.asarray(image.resize((wide, tall), Image.Resampling.BILINEAR)).reshape(tall, wide, -1)
        out[here][..., first : first + small.shape[2]] = small
