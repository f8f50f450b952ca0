"""What masks and depth say of an object's size, form and place, and how well words for these fit."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from jaxtyping import Bool, Float32, Int32
from scipy import ndimage
from scipy.spatial import ConvexHull, QhullError

from cpor.perception.support_plane import SupportPlane, fit_support_plane
from cpor.scene import Scene


@dataclass(frozen=True)
class Outline:
    """Size, form and place of one object, from its amodal mask where known, else from what shows.

    Attributes:
        x, y: Centre, as a share of the image's width and height.
        size: Length of a square of the same area: in metres at its depth, or the usual one where it has
            none; in pixels without any depth.
        elongation: Long by short side of the smallest rectangle around it, at least 1.
        roundness: Area by that of the smallest circle about its centre: 1 for a disk, 0.64 for a square.
        rectangularity: Area by that of the smallest rectangle: 1 for a rectangle, 0.79 for a disk.
        height: Over the support plane, None without depth or plane. [m]
        bulge: How much nearer its middle is than its rim, by half its width: 0 for a plate, 0.4 for a
            ball; None without depth.
        away: How far it lies from the camera along the support plane, as a share of the image's height at
            the usual depth; how far up in the picture where depth or plane is not known.
    """

    x: float
    y: float
    size: float
    elongation: float
    roundness: float
    rectangularity: float
    height: float | None
    bulge: float | None
    away: float


def measure_outlines(scene: Scene) -> dict[int, Outline]:
    """Outlines of the objects that show, by id."""
    ids = scene.visible_ids
    if ids is None or not scene.objects:
        return {}
    depth = scene.observation.depth
    k = scene.observation.camera.intrinsics
    # As wide a view as depth cameras have, where the camera is not known.
    intrinsics = k or (float(ids.shape[1]), float(ids.shape[1]), ids.shape[1] / 2.0, ids.shape[0] / 2.0)
    boxes = ndimage.find_objects(ids, max_label=scene.objects[-1].id)
    found: dict[int, Outline] = {}
    z_of: dict[int, float] = {}
    for o in scene.objects:
        box = boxes[o.id - 1]
        if box is None:
            continue
        shown = ids[box] == o.id
        top, left, mask = box[0].start, box[1].start, shown
        if o.amodal is not None and o.amodal.pixels.any():
            top, left, mask = o.amodal.top, o.amodal.left, o.amodal.pixels
        bulge = None
        if depth is not None and np.isfinite(depth[box][shown]).any():
            z_of[o.id] = float(np.nanmedian(depth[box][shown]))
            bulge = _bulge(depth[box], shown, intrinsics[0])
        found[o.id] = _outline(mask, (top, left), ids.shape, bulge)
    if not z_of:
        return found
    usual = float(np.median(list(z_of.values())))
    metres = {obj: z_of.get(obj, usual) / intrinsics[0] for obj in found}
    found = {obj: replace(o, size=o.size * metres[obj]) for obj, o in found.items()}
    assert depth is not None
    if (plane := fit_support_plane(depth, np.random.default_rng(0))) is not None:
        for obj, (away, height) in _along(plane, depth, ids, boxes, intrinsics).items():
            away *= intrinsics[1] / (usual * ids.shape[0])
            found[obj] = replace(found[obj], away=away, height=height)
    return found


def _along(
    plane: SupportPlane,
    depth: Float32[np.ndarray, "h w"],
    ids: Int32[np.ndarray, "h w"],
    boxes: Sequence[tuple[slice, slice] | None],
    intrinsics: tuple[float, float, float, float],
) -> dict[int, tuple[float, float | None]]:
    """How far each object lies along a plane, and the height of its middle over it; see `Outline`. [m].

    What has no depth lies on the plane.
    """
    fx, fy, cx, cy = intrinsics
    normal = np.array([plane.a * fx, plane.b * fy, plane.a * cx + plane.b * cy + plane.c])
    length = float(np.linalg.norm(normal))
    # Seen from the side, away is along the view; seen from above, it is up in the picture.
    away = np.array([0.0, -1.0, 1.0])
    away -= (away @ normal) * normal / length**2
    away /= np.linalg.norm(away)
    found: dict[int, tuple[float, float | None]] = {}
    for k, box in enumerate(boxes, start=1):
        if box is None:
            continue
        rows, cols = np.nonzero(ids[box] == k)
        z = depth[box][rows, cols]
        rows, cols = rows + box[0].start, cols + box[1].start
        known, height = np.isfinite(z), None
        inverse = plane.a * cols + plane.b * rows + plane.c
        if known.any():
            rows, cols, z = rows[known], cols[known], z[known]
            height = float(np.median(1.0 - z * inverse[known])) / length
        else:
            z = 1.0 / np.maximum(inverse, 1e-6)
        points = np.stack([(cols - cx) / fx * z, (rows - cy) / fy * z, z], axis=1)
        found[k] = float(np.median(points @ away)), height
    return found


def _outline(
    mask: Bool[np.ndarray, "h w"],
    corner: tuple[int, int],
    shape: tuple[int, int],
    bulge: float | None,
) -> Outline:
    filled = ndimage.binary_fill_holes(mask)
    rows, cols = np.nonzero(filled)
    points = np.stack([cols, rows], axis=1).astype(np.float64)
    area = float(len(points))
    centre = points.mean(axis=0)
    long, short = _smallest_rectangle(points)
    radius = float(np.quantile(np.linalg.norm(points - centre, axis=1), 0.995)) + 0.5
    y = float(corner[0] + centre[1] + 0.5) / shape[0]
    return Outline(
        x=float(corner[1] + centre[0] + 0.5) / shape[1],
        y=y,
        away=-y,
        size=float(np.sqrt(area)),
        elongation=long / short,
        roundness=min(1.0, area / (np.pi * radius**2)),
        rectangularity=min(1.0, area / (long * short)),
        height=None,
        bulge=bulge,
    )


def _smallest_rectangle(points: np.ndarray) -> tuple[float, float]:
    """Long and short side of the smallest rectangle around pixels: it lies along a side of their hull.

    Args:
        points: x and y, row by row. Shape (n, 2). [px]
    """
    turns = np.flatnonzero(np.diff(points[:, 1]))
    ends = points[np.unique([0, *turns, *(turns + 1), len(points) - 1])]  # of the rows: the hull is theirs
    try:
        hull = ends[ConvexHull(ends).vertices]
    except (QhullError, ValueError):  # a line or a point
        spans = np.ptp(points, axis=0) + 1.0
        return float(spans.max()), float(spans.min())
    sides = np.roll(hull, -1, axis=0) - hull
    angle = np.arctan2(sides[:, 1], sides[:, 0])
    # A pixel is a square, so its extent is one more than that of its centres.
    along = np.ptp(hull @ (np.cos(angle), np.sin(angle)), axis=0) + 1.0
    across = np.ptp(hull @ (-np.sin(angle), np.cos(angle)), axis=0) + 1.0
    best = int((along * across).argmin())
    spans = float(along[best]), float(across[best])
    return max(spans), min(spans)


def _bulge(z: np.ndarray, shown: Bool[np.ndarray, "h w"], focal: float) -> float | None:
    """Depth of the rim less that of the middle, by half the width of the object; `focal` in pixels."""
    inward = ndimage.distance_transform_edt(np.pad(shown, 1))[1:-1, 1:-1]
    deepest = float(inward.max())
    if deepest < 4.0:
        return None
    rim = z[shown & (inward > 0.05 * deepest) & (inward < 0.35 * deepest)]
    middle = z[inward > 0.8 * deepest]
    if not (np.isfinite(rim).any() and np.isfinite(middle).any()):
        return None
    nearest = float(np.nanmedian(middle))
    return (float(np.nanmedian(rim)) - nearest) * focal / (deepest * nearest)


def ramp(value: float, low: float, high: float) -> float:
    """0 up to `low`, 1 from `high` on, a straight line between; falling where `low` is above `high`."""
    return min(1.0, max(0.0, (value - low) / (high - low)))


Measure: TypeAlias = Callable[[Outline], float | None]


def _known(value: float | None, low: float, high: float) -> float | None:
    return None if value is None else ramp(value, low, high)


def _round(o: Outline) -> float:
    return ramp(o.roundness, 0.66, 0.82)


def _ball(o: Outline) -> float:
    return _round(o) if o.bulge is None else _round(o) * ramp(o.bulge, 0.05, 0.25)


def _box(o: Outline) -> float:
    return ramp(o.rectangularity, 0.8, 0.9) * ramp(o.roundness, 0.88, 0.8)


def _tall(o: Outline) -> float:
    """Height over the support; the long side where it is not known, as of things that lie in a bin."""
    return float(o.size * np.sqrt(o.elongation)) if o.height is None else o.height


FORMS: Mapping[str, Measure] = {
    "round": _round,
    "spherical": _ball,
    "long": lambda o: ramp(o.elongation, 1.6, 2.6),
    "rectangular": _box,
    "square": lambda o: _box(o) * ramp(o.elongation, 1.6, 1.25),
    "flat": lambda o: _known(o.height, 0.045, 0.02),
}
"""How well an outline fits a word for a form, in [0, 1]; None where it cannot be told."""

FORM_OF_SHAPE: Mapping[str, str] = {
    **dict.fromkeys(("box", "block", "book"), "rectangular"),
    **dict.fromkeys(("ball", "fruit"), "spherical"),
    "plate": "round",
    "pen": "long",
}
"""What a word for a shape means where shapes were not judged."""

MEASURES: Mapping[str, tuple[Measure, float]] = {
    "left": (lambda o: -o.x, 0.06),
    "right": (lambda o: o.x, 0.06),
    "back": (lambda o: o.away, 0.06),
    "front": (lambda o: -o.away, 0.06),
    "middle": (lambda o: -(((o.x - 0.5) ** 2 + (o.y - 0.5) ** 2) ** 0.5), 0.06),
    "big": (lambda o: o.size, 0.0),
    "small": (lambda o: 1.0 / o.size, 0.0),
    "longest": (lambda o: o.elongation, 0.0),
    "high": (lambda o: o.height, 0.012),
    "tall": (_tall, 0.0),
    "low": (lambda o: None if o.height is None else -o.height, 0.012),
}
"""What a word asks the most of, and the difference that tells two apart: in the measure itself, or, where 0,
a fifth of the larger."""

SIZES = frozenset(("big", "small", "longest", "tall"))
"""Measures of the whole object, which are not known of what hardly shows."""

TWO_SENSES: Mapping[str, tuple[str, str]] = {"top": ("high", "back"), "bottom": ("low", "front")}
"""Words for the heap and for the picture."""


def nth_chance(
    n: int, obj: int, values: Mapping[int, float], scale: float, fit: Mapping[int, float]
) -> float:
    """Probability that n - 1 of the other objects both fit and come before an object."""
    counts = np.zeros(n)  # of those before it, probability of 0 to n - 1
    counts[0] = 1.0
    for k, value in values.items():
        if k != obj:
            before = fit[k] / (1.0 + np.exp(np.clip(-4.0 * (value - values[obj]) / scale, -50.0, 50.0)))
            counts[1:] = counts[1:] * (1.0 - before) + counts[:-1] * before
            counts[0] *= 1.0 - before
    return float(counts[-1])
