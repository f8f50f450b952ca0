"""Quality of masks, as UOAIS (Back et al. 2022) and its kin report it, and what grasping needs besides.

Predicted objects are assigned to true ones so that the sum of their F-measures is largest (Hungarian). With
c a predicted mask, g(c) its true one, D dilation, sums over assigned pairs above and over all below:

    overlap   P = sum |c n g(c)| / sum |c|              R = sum |c n g(c)| / sum |g|
    boundary  P = sum |bc n D(bg(c))| / sum |bc|        R = sum |D(bc) n bg(c)| / sum |bg|
    F = 2 P R / (P + R);   F@.75 = share of true objects assigned with an F above 0.75
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
from jaxtyping import Bool, Float, Int64
from scipy import ndimage
from scipy.optimize import linear_sum_assignment
from scipy.spatial import cKDTree

from cpor.errors import InvalidSceneError
from cpor.paper.means import Mean, mean_of
from cpor.scene import Scene

BOUNDARY_TOLERANCE = 0.003
"""Boundaries agree within this share of the image's diagonal, rounded up to pixels, as in the benchmarks."""

DETECTED_IOU = 0.5
"""A visible IoU from which an object counts as found."""

OCCLUDED = 0.05
"""An object is occluded when more than this share of it is hidden, as in the truth of relations."""

MUCH_HIDDEN = 0.15
"""Share hidden from which amodal masks are reported by themselves."""

KINDS = ("visible", "amodal", "invisible")


class Prf(NamedTuple):
    """Precision, recall, and their harmonic mean."""

    precision: float
    recall: float
    f1: float


@dataclass(frozen=True)
class MaskQuality:
    """How well one kind of mask agrees in one frame.

    Attributes:
        overlap, boundary: As the head of this module defines them.
        f_75: Share of the true objects that are found with an F above 0.75.
    """

    overlap: Prf
    boundary: Prf
    f_75: float


@dataclass(frozen=True)
class Match:
    """A true object and the predicted one assigned to it by visible IoU, at least `DETECTED_IOU`.

    Attributes:
        predicted, true: Ids.
        visible_iou: IoU of what shows.
        hidden_share: Hidden share of the true object; None, as the next two, where it has no amodal mask.
        amodal_iou: IoU of what shows and what is hidden; 0 where no amodal mask was predicted.
        invisible_iou: IoU of the hidden part alone; None also where nothing is hidden.
        flag_right: Whether the occlusion flag is right; None also where none was predicted.
    """

    predicted: int
    true: int
    visible_iou: float
    hidden_share: float | None = None
    amodal_iou: float | None = None
    invisible_iou: float | None = None
    flag_right: bool | None = None


@dataclass(frozen=True)
class FrameQuality:
    """Everything about one frame.

    Attributes:
        n_predicted, n_true: Objects that show.
        visible, amodal, invisible: The last two None where the truth has no amodal masks.
        matches: The objects found.
        n_much_hidden: True objects of which more than `MUCH_HIDDEN` is hidden, found or not.
    """

    n_predicted: int
    n_true: int
    visible: MaskQuality
    amodal: MaskQuality | None
    invisible: MaskQuality | None
    matches: tuple[Match, ...]
    n_much_hidden: int


Mask: TypeAlias = Bool[np.ndarray, "h w"]
"""A mask of the whole image."""


def intersections(a: Sequence[Mask], b: Sequence[Mask]) -> Int64[np.ndarray, "n m"]:
    """Number of pixels that each mask of one list shares with each of the other. Shape (n, m)."""
    shared = [[np.count_nonzero(mask & other) for other in b] for mask in a]
    return np.array(shared, np.int64).reshape(len(a), len(b))


def mask_quality(
    predicted: Sequence[Mask],
    true: Sequence[Mask],
    shape: tuple[int, int],
    tolerance: float = BOUNDARY_TOLERANCE,
) -> MaskQuality:
    """Agreement of two sets of masks in one frame.

    Where nothing is there and nothing was found, all is 1; found though nothing is there: precision 0, recall
    1; nothing found though something is there: precision 1, recall 0.

    Args:
        predicted: Masks that were found; they may overlap.
        true: Masks that are there; they may overlap.
        shape: Height and width of the image. [px]
        tolerance: Tolerance of boundaries, as a share of the diagonal.
    """
    if not predicted or not true:
        p, r = (float(not each) for each in (predicted, true))
        nothing = Prf(p, r, 1.0 if not predicted and not true else 0.0)
        return MaskQuality(nothing, nothing, r)
    shared = intersections(predicted, true)
    area_p, area_t = _areas(predicted), _areas(true)
    f = 2.0 * shared / np.maximum(area_p[:, None] + area_t[None, :], 1)
    rows, cols = linear_sum_assignment(f, maximize=True)
    overlap = _prf(shared[rows, cols].sum(), area_p.sum(), shared[rows, cols].sum(), area_t.sum())

    radius = float(np.ceil(tolerance * np.hypot(*shape)))
    rims_p, rims_t = ([_rim(each) for each in masks] for masks in (predicted, true))
    pairs = [(i, j) for i, j in zip(rows.tolist(), cols.tolist(), strict=True) if shared[i, j]]
    near_p = sum(_count_near(rims_p[i], rims_t[j], radius) for i, j in pairs)
    near_t = sum(_count_near(rims_t[j], rims_p[i], radius) for i, j in pairs)
    boundary = _prf(near_p, sum(map(len, rims_p)), near_t, sum(map(len, rims_t)))
    return MaskQuality(overlap, boundary, float(np.count_nonzero(f[rows, cols] > 0.75) / len(true)))


def frame_quality(predicted: Scene, true: Scene) -> FrameQuality:
    """Compare what was found in a frame with the truth; objects that show nowhere do not count.

    Raises:
        InvalidSceneError: A scene without masks, or of another size.
    """
    shape = true.observation.shape
    if predicted.visible_ids is None or true.visible_ids is None or predicted.observation.shape != shape:
        raise InvalidSceneError("both scenes need visible masks of the same size to be compared")
    shown_p, shown_t = _visible(predicted), _visible(true)
    amodal_t = _amodal(true, shown_t)
    visible = mask_quality(list(shown_p.values()), list(shown_t.values()), shape)
    pairs = _assign(shown_p, shown_t)
    if amodal_t is None:
        found = tuple(Match(p, t, iou) for p, t, iou in pairs)
        return FrameQuality(len(shown_p), len(shown_t), visible, None, None, found, 0)
    amodal_p = _amodal(predicted, shown_p, missing=np.zeros(shape, np.bool_)) or {}
    hidden_p, hidden_t = (
        {k: amodal[k] & ~shown[k] for k in shown}
        for amodal, shown in ((amodal_p, shown_p), (amodal_t, shown_t))
    )
    share = {k: int(hidden_t[k].sum()) / max(1, int(amodal_t[k].sum())) for k in shown_t}
    flags = {o.id: o.occluded for o in predicted.objects}
    matches = tuple(
        Match(
            p,
            t,
            iou,
            share[t],
            _iou(amodal_p[p], amodal_t[t]),
            _iou(hidden_p[p], hidden_t[t]) if share[t] > OCCLUDED else None,
            None if (flag := flags[p]) is None else flag == (share[t] > OCCLUDED),
        )
        for p, t, iou in pairs
    )
    return FrameQuality(
        len(shown_p),
        len(shown_t),
        visible,
        mask_quality(_not_empty(amodal_p), _not_empty(amodal_t), shape),
        mask_quality(_not_empty(hidden_p), _not_empty(hidden_t), shape),
        matches,
        sum(value > MUCH_HIDDEN for value in share.values()),
    )


def measure_masks(frames: Sequence[tuple[str, FrameQuality]], rng: np.random.Generator) -> dict[str, Mean]:
    """Every figure by name, such as `visible overlap f1` or `amodal_iou_much_hidden`, frames resampled.

    Overlap, boundary and F@.75 are means over frames, as the benchmarks print them; the rest are means over
    objects: shares found at a visible IoU of 0.5; IoU over the objects found, the invisible one over those of
    which more than `OCCLUDED` is hidden; right occlusion flags. `_all` counts objects not found as 0.

    Raises:
        InvalidSceneError: There is no frame.
    """
    if not frames:
        raise InvalidSceneError("no frame was compared; give at least one")
    figures = {}
    for kind in KINDS:
        some = [(name, q) for name, quality in frames if (q := getattr(quality, kind)) is not None]
        for part in ("overlap", "boundary"):
            for figure in Prf._fields:
                told = [(name, getattr(getattr(q, part), figure)) for name, q in some]
                figures[f"{kind} {part} {figure.replace('_', ' ')}"] = mean_of(told, rng)
        figures[f"{kind} f@.75"] = mean_of([(name, q.f_75) for name, q in some], rng)
    objects: dict[str, list[tuple[str, float]]] = {
        name: [] for name in ("recall", "precision", "visible_iou", "amodal_iou", "invisible_iou",
                              "amodal_iou_much_hidden", "amodal_iou_much_hidden_all", "occlusion_accuracy")
    }  # fmt: skip
    for name, quality in frames:
        for figure, value in _of_objects(quality):
            if value is not None:
                objects[figure].append((name, float(value)))
    return figures | {figure: mean_of(told, rng) for figure, told in objects.items()}


def _of_objects(quality: FrameQuality) -> Iterator[tuple[str, float | None]]:
    """Figures of single objects."""
    matches = quality.matches
    for figure, count in (("recall", quality.n_true), ("precision", quality.n_predicted)):
        yield from ((figure, float(k < len(matches))) for k in range(count))
    much = [m for m in matches if m.hidden_share is not None and m.hidden_share > MUCH_HIDDEN]
    for match in matches:
        yield "visible_iou", match.visible_iou
        yield "amodal_iou", match.amodal_iou
        yield "invisible_iou", match.invisible_iou
        yield "occlusion_accuracy", match.flag_right
    for match in much:
        yield "amodal_iou_much_hidden", match.amodal_iou
        yield "amodal_iou_much_hidden_all", match.amodal_iou
    for _ in range(quality.n_much_hidden - len(much)):
        yield "amodal_iou_much_hidden_all", 0.0


def _visible(scene: Scene) -> dict[int, Mask]:
    """Visible masks by id, of the objects that show."""
    masks = {k: np.asarray(scene.visible_ids == k) for k in scene.ids}
    return {k: mask for k, mask in masks.items() if mask.any()}


def _amodal(scene: Scene, shown: dict[int, Mask], missing: Mask | None = None) -> dict[int, Mask] | None:
    """Amodal masks of the objects that show; None where one has none and there is no stand-in for it."""
    masks = {
        o.id: missing if o.amodal is None else o.amodal.to_mask(scene.observation.shape)
        for o in scene.objects
        if o.id in shown
    }
    known = {k: mask for k, mask in masks.items() if mask is not None}
    return known if len(known) == len(masks) else None


def _assign(a: dict[int, Mask], b: dict[int, Mask]) -> list[tuple[int, int, float]]:
    """Ids and IoU of the pairs that together overlap best, as far as each reaches `DETECTED_IOU`."""
    iou = _ious(list(a.values()), list(b.values()))
    rows, cols = linear_sum_assignment(iou, maximize=True)
    ids_a, ids_b = list(a), list(b)
    return [
        (ids_a[i], ids_b[j], float(iou[i, j]))
        for i, j in zip(rows, cols, strict=True)
        if iou[i, j] >= DETECTED_IOU
    ]


def _ious(a: Sequence[Mask], b: Sequence[Mask]) -> Float[np.ndarray, "n m"]:
    shared = intersections(a, b)
    return np.asarray(shared / np.maximum(_areas(a)[:, None] + _areas(b)[None, :] - shared, 1))


def _iou(a: Mask, b: Mask) -> float:
    return float(_ious([a], [b])[0, 0])


def _areas(masks: Sequence[Mask]) -> Int64[np.ndarray, " n"]:
    return np.array([np.count_nonzero(each) for each in masks], dtype=np.int64)


def _not_empty(masks: dict[int, Mask]) -> list[Mask]:
    return [each for each in masks.values() if each.any()]


def _rim(mask: Mask) -> Int64[np.ndarray, "n 2"]:
    """Row and column of the pixels of a mask beside one that is not of it; the image's border makes none."""
    return np.argwhere(mask & ~ndimage.binary_erosion(mask, border_value=1))


def _count_near(a: Int64[np.ndarray, "n 2"], b: Int64[np.ndarray, "m 2"], radius: float) -> int:
    """How many points of `a` have one of `b` within the radius."""
    if not len(a) or not len(b):
        return 0
    distance, _ = cKDTree(b).query(a, distance_upper_bound=radius + 1e-6)
    return int(np.count_nonzero(np.isfinite(distance)))


def _prf(hits_p: float, all_p: float, hits_t: float, all_t: float) -> Prf:
    p, r = float(hits_p / max(all_p, 1)), float(hits_t / max(all_t, 1))
    return Prf(p, r, 2.0 * p * r / (p + r) if p + r else 0.0)
