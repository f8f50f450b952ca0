"""From a network's overlapping soft masks to objects: the best of each, one object a pixel, no crumbs.

A frame of any size keeps its aspect on the network's input and lies in the upper left corner. The rest is
filled with its mean colour, in which there is nothing to be found, and with missing depth.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float32, Int32, UInt8
from PIL import Image
from scipy import ndimage

from cpor.scene import DetectedObject, MaskCrop, Observation, PixelPoint, Scene

FAINTEST = 0.2
"""Score from which a detection counts where a person says that something is there.

Pointing at 172 objects of `dev` that no mask showed: 73 such masks have an IoU of at least .5, 67 are a part
of the object, 10 are of another one, and 22 times there is none. With 0.35 it is 62, 51, 9 and 50.
"""


@dataclass(frozen=True)
class Letterbox:
    """How a frame lies on the input.

    Attributes:
        frame: Height and width of the frame. [px]
        size: Height and width of the input. [px]
        content: Height and width of the frame on the input. [px]
    """

    frame: tuple[int, int]
    size: tuple[int, int]
    content: tuple[int, int]

    @classmethod
    def fit(cls, frame: tuple[int, int], size: tuple[int, int]) -> "Letterbox":
        """As large as it goes."""
        scale = min(size[0] / frame[0], size[1] / frame[1])
        rows, cols = (max(1, min(s, round(f * scale))) for f, s in zip(frame, size, strict=True))
        return cls(frame, size, (rows, cols))

    def place_rgb(self, rgb: UInt8[np.ndarray, "h w 3"]) -> UInt8[np.ndarray, "H W 3"]:
        """The photograph on the input."""
        rows, cols = self.content
        if self.content != self.frame:
            # A gap of 2 halves the cost of shrinking a 4k frame, and no difference can be seen.
            image = Image.fromarray(np.ascontiguousarray(rgb))
            small = image.resize((cols, rows), Image.Resampling.BILINEAR, reducing_gap=2.0)
            rgb = np.asarray(small)
        if self.content == self.size:
            return np.ascontiguousarray(rgb)
        out = np.empty((*self.size, 3), dtype=np.uint8)
        out[:] = rgb.reshape(-1, 3).mean(axis=0).astype(np.uint8)
        out[:rows, :cols] = rgb
        return out

    def place_depth(self, depth: Float32[np.ndarray, "h w"] | None) -> Float32[np.ndarray, "H W"]:
        """Depth in metres on the input, 0 where there is no reading. A reading is picked, never mixed."""
        out = np.zeros(self.size, dtype=np.float32)
        if depth is not None:
            rows, cols = (
                ((np.arange(c) + 0.5) * (f / c)).astype(np.intp)
                for c, f in zip(self.content, self.frame, strict=True)
            )
            picked = depth[np.ix_(rows, cols)] if self.content != self.frame else depth
            out[: rows.size, : cols.size] = np.nan_to_num(picked, nan=0.0)
        return out

    def spread(
        self, coarse: Float32[np.ndarray, "h w"], at_least: float
    ) -> tuple[int, int, Float32[np.ndarray, "rows cols"]] | None:
        """A coarse map of the input at the size of the frame, inside the box where it may reach a value.

        Returns:
            First row and column of the box, and the values in it; None where the map stays below the value.
        """
        above = coarse >= at_least
        rows, cols = np.flatnonzero(above.any(axis=1)), np.flatnonzero(above.any(axis=0))
        if rows.size == 0:
            return None
        # Coarse cells a frame pixel; a cell more on each side, because interpolation reaches that far.
        steps = [
            c / f * k / s
            for c, f, k, s in zip(self.content, self.frame, coarse.shape, self.size, strict=True)
        ]
        spans = []
        for cells, step, most in zip((rows, cols), steps, self.frame, strict=True):
            low = max(0, int((cells[0] - 1) / step))
            high = min(most, int((cells[-1] + 2) / step) + 1)
            if low >= high:  # all of it lies on the filling
                return None
            spans.append((low, high))
        (top, bottom), (left, right) = spans
        limits = coarse.shape[1], coarse.shape[0], coarse.shape[1], coarse.shape[0]
        box = (left * steps[1], top * steps[0], right * steps[1], bottom * steps[0])
        inside = tuple(min(max(0.0, v), m) for v, m in zip(box, limits, strict=True))
        values = Image.fromarray(coarse).resize(
            (right - left, bottom - top), Image.Resampling.BILINEAR, box=inside
        )
        return top, left, np.asarray(values)


@dataclass(frozen=True, slots=True)
class MaskSettings:
    """What counts as an object; the default shares were chosen on the dev split.

    Attributes:
        score_threshold: Detections below are dropped.
        mask_threshold: A pixel belongs to a mask from this probability.
        same_iou: Keep only the better of two detections whose visible masks overlap more than this.
        least_kept: A detection that keeps less than this share of its pixels against better ones goes.
        least_area: Objects and fragments smaller than this share of the image are dropped.
        least_fragment: So are fragments smaller than this share of the object's largest.
        most_objects: No more than this many, the best.
    """

    score_threshold: float = 0.5
    mask_threshold: float = 0.5
    same_iou: float = 0.35
    least_kept: float = 0.55
    least_area: float = 1e-4
    least_fragment: float = 0.08
    most_objects: int = 100


@dataclass(frozen=True, eq=False)
class Detections:
    """What a network found, masks as coarse maps of its input.

    Attributes:
        scores: Shape (k,), in [0, 1].
        visible: Probability that a cell shows the object. Shape (k, h, w).
        amodal: Probability that a cell shows or hides it. Shape (k, h, w).
        p_occluded: Probability that part of it is hidden. Shape (k,).
    """

    scores: Float32[np.ndarray, " k"]
    visible: Float32[np.ndarray, "k h w"]
    amodal: Float32[np.ndarray, "k h w"]
    p_occluded: Float32[np.ndarray, " k"]


def select_objects(
    found: Detections, observation: Observation, frame: Letterbox, settings: MaskSettings
) -> Scene:
    """The scene of a frame: ids from 1 in the order of the scores, the best first. May be empty."""
    best = select_detections(found, frame, settings)
    ids = _paint(found.visible, best, frame, settings.mask_threshold)
    least = max(4, round(settings.least_area * ids.size))
    boxes = ndimage.find_objects(ids, max_label=len(best))
    objects: list[DetectedObject] = []
    relabel = np.zeros(len(best) + 1, dtype=np.int32)
    for number, (k, box) in enumerate(zip(best, boxes, strict=True), start=1):
        if box is None:
            continue
        mine = ids[box] == number
        kept = drop_crumbs(mine, least, settings.least_fragment)
        ids[box][mine & ~kept] = 0
        if not kept.any():
            continue
        relabel[number] = len(objects) + 1
        at = box[0].start, box[1].start
        objects.append(_make_object(len(objects) + 1, kept, at, k, found, frame, settings, least))
    return Scene(observation, tuple(objects), relabel[ids])


def add_faint(
    scene: Scene, found: Detections, frame: Letterbox, settings: MaskSettings, point: PixelPoint
) -> Scene | None:
    """The scene with the best detection at a point too, faint as it may be; None where there is none.

    It takes no pixel of the objects that are there.
    """
    assert scene.visible_ids is not None
    free, row, col = scene.visible_ids == 0, int(point.y), int(point.x)
    least = max(4, round(settings.least_area * free.size))
    order = np.argsort(-found.scores, kind="stable")
    for k in order[found.scores[order] >= FAINTEST]:
        if (spread := frame.spread(found.visible[k], settings.mask_threshold)) is None:
            continue
        top, left, values = spread
        shown = np.zeros_like(free)
        shown[top : top + values.shape[0], left : left + values.shape[1]] = values >= settings.mask_threshold
        shown = drop_crumbs(shown & free, least, settings.least_fragment)
        if not shown[row, col] or shown.sum() < least:
            continue
        label = max(scene.ids, default=0) + 1
        new = _make_object(label, shown, (0, 0), k, found, frame, settings, least)
        ids = np.where(shown, np.int32(label), scene.visible_ids)
        return Scene(scene.observation, (*scene.objects, new), ids, request=scene.request)
    return None


def select_detections(found: Detections, frame: Letterbox, settings: MaskSettings) -> list[int]:
    """Indices of the detections that stay, by falling score."""
    # Rows and columns of the coarse maps that show the frame.
    sides = zip(frame.content, found.visible.shape[1:], frame.size, strict=True)
    rows, cols = (min(k, -(-c * k // s)) for c, k, s in sides)
    # A score that is no number compares as false and so drops out.
    order = np.argsort(-found.scores, kind="stable")
    order = order[found.scores[order] >= settings.score_threshold]
    shown = found.visible[order, :rows, :cols].reshape(order.size, rows * cols)
    inside = shown >= settings.mask_threshold
    overlap = inside.astype(np.float32) @ inside.astype(np.float32).T
    area = overlap.diagonal()
    union = np.maximum(area[:, None] + area[None, :] - overlap, 1.0)
    stays: list[int] = []
    for k in range(order.size):
        if area[k] > 0 and (overlap[k, stays] <= settings.same_iou * union[k, stays]).all():
            stays.append(k)
    stays = stays[: settings.most_objects]
    while stays:
        # What is left to each once every cell goes to the likeliest; the worst goes, and all share anew.
        values = np.where(inside[stays], shown[stays], -1.0)
        winner = np.where(values.max(axis=0) > 0.0, values.argmax(axis=0), len(stays))
        share = np.bincount(winner, minlength=len(stays))[: len(stays)] / area[stays]
        poorest = int(share.argmin())
        if share[poorest] >= settings.least_kept:
            break
        del stays[poorest]
    return [int(order[k]) for k in stays]


def drop_crumbs(mask: Bool[np.ndarray, "h w"], least: int, least_share: float) -> Bool[np.ndarray, "h w"]:
    """The mask without fragments of fewer pixels than `least`, or than a share of the largest.

    A fragment of fair size stays, since things lie across others.
    """
    labels, count = ndimage.label(mask, structure=np.ones((3, 3), dtype=bool))
    if count == 0:
        return mask
    sizes = np.bincount(labels.reshape(-1))
    sizes[0] = 0
    stays = sizes >= max(least, least_share * sizes.max())
    stays[0] = False
    if stays[1:].all():
        return mask
    return np.asarray(stays[labels])


def _paint(
    visible: Float32[np.ndarray, "k h w"], best: Sequence[int], frame: Letterbox, threshold: float
) -> Int32[np.ndarray, "rows cols"]:
    """Number of the detection, from 1 in the order given, that most likely shows at each pixel, else 0."""
    ids = np.zeros(frame.frame, dtype=np.int32)
    highest = np.full(frame.frame, np.nextafter(np.float32(threshold), np.float32(0.0)), dtype=np.float32)
    for number, k in enumerate(best, start=1):
        if (spread := frame.spread(visible[k], threshold)) is None:
            continue
        top, left, values = spread
        here = np.s_[top : top + values.shape[0], left : left + values.shape[1]]
        wins = values > highest[here]
        np.copyto(highest[here], values, where=wins)
        ids[here][wins] = number
    return ids


def _make_object(
    label: int,
    shown: Bool[np.ndarray, "rows cols"],
    at: tuple[int, int],
    k: int,
    found: Detections,
    frame: Letterbox,
    settings: MaskSettings,
    least: int,
) -> DetectedObject:
    """The object of detection k: what shows of it, from row and column `at` on, and its hidden part."""
    spread = frame.spread(found.amodal[k], settings.mask_threshold)
    if spread is None:
        top, left, hidden = 0, 0, np.zeros((0, 0), dtype=bool)
    else:
        top, left, values = spread
        hidden = drop_crumbs(values >= settings.mask_threshold, least, settings.least_fragment)
    whole = MaskCrop.from_mask(shown, *at).join(MaskCrop.from_mask(hidden, top, left))
    score = float(min(1.0, found.scores[k]))
    return DetectedObject(label, whole, score=score, occluded=bool(found.p_occluded[k] >= 0.5))
