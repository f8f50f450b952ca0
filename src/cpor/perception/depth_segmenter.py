"""A classical segmenter for comparison: what stands out of the table, cut along steps and creases of depth.

It sees no colour and has learnt nothing. The hidden part is guessed: the convex hull of what shows, where
something nearer lies on it.
"""

import numpy as np
from jaxtyping import Bool, Float32, Int32
from PIL import Image, ImageDraw
from scipy import ndimage
from scipy.spatial import ConvexHull, QhullError

from cpor.errors import InvalidSceneError
from cpor.perception.mask_selection import drop_crumbs
from cpor.perception.support_plane import fit_support_plane
from cpor.scene import DetectedObject, MaskCrop, Observation, Scene

LEAST_HEIGHT_M = 0.008
"""What stands out less is table, up to a distance of 1 m; farther away the bound grows with the square of the
distance, as the error of depth does. [m]"""

STEP_M = 0.008
"""Neighbouring pixels that differ more belong to different objects; grows likewise. [m]"""

CREASE = 0.0018
"""Valleys sharper than this, in metres over the square of a pixel at work size, cut too. [m]"""

LEAST_AREA = 4e-4
"""Smaller objects are dropped, as a share of the image."""

WORK_WIDTH = 320
"""Depth is brought to about this width before it is cut. [px]"""


class DepthSegmenter:
    """Cuts depth into objects; the same frame gives the same answer."""

    def segment(self, observation: Observation) -> Scene:
        """The objects of a frame, the largest first; ids from 1."""
        if observation.depth is None:
            raise InvalidSceneError("the depth segmenter needs depth; use another segmenter for this frame")
        stride = max(1, round(observation.shape[1] / WORK_WIDTH))
        # Readings from the middle of their squares; the border that does not fill one is cut.
        rows, cols = (side // stride for side in observation.shape)
        middle = stride // 2
        depth = np.ascontiguousarray(observation.depth[middle::stride, middle::stride][:rows, :cols])
        labels = _label(depth)
        labels = np.kron(labels, np.ones((stride, stride), dtype=np.int32))
        rows, cols = observation.shape
        grown = np.zeros((rows, cols), dtype=np.int32)
        grown[: labels.shape[0], : labels.shape[1]] = labels[:rows, :cols]
        return _scene(observation, grown, depth, labels[::stride, ::stride])


def _label(depth: Float32[np.ndarray, "h w"]) -> Int32[np.ndarray, "h w"]:
    """Numbers of objects, the largest first, 0 for none."""
    empty = np.zeros(depth.shape, dtype=np.int32)
    plane = fit_support_plane(depth, np.random.default_rng(0))
    if plane is None:
        return empty
    z = ndimage.median_filter(fill_holes(depth), size=3)
    height = np.clip(plane.depth(depth.shape) - z, -1.0, 1.0)
    stands = (height > LEAST_HEIGHT_M * np.maximum(1.0, z) ** 2) & np.isfinite(depth)
    cores, count = ndimage.label(ndimage.binary_erosion(stands & ~_cuts(z, height)))
    if count == 0:
        return empty
    least = max(6.0, LEAST_AREA * depth.size)
    sizes = np.bincount(cores.reshape(-1))
    kept = sizes >= 0.4 * least  # an eroded core is smaller than its object
    kept[0] = False
    kept &= ~_frames(cores, count)
    number = np.zeros(count + 1, dtype=np.int32)
    by_size = [k for k in np.argsort(-sizes, kind="stable") if kept[k]]
    number[by_size] = np.arange(1, len(by_size) + 1)
    return _grow(number[cores], stands, least)


def _cuts(z: Float32[np.ndarray, "h w"], height: Float32[np.ndarray, "h w"]) -> Bool[np.ndarray, "h w"]:
    """Where one object ends: a step of depth, or a valley between two."""
    allowed = STEP_M * np.maximum(1.0, z) ** 2
    cut = np.zeros(z.shape, dtype=bool)
    for axis in (0, 1):
        step = np.abs(np.diff(z, axis=axis)) > np.delete(allowed, -1, axis=axis)
        ahead = np.insert(step, step.shape[axis], False, axis=axis)
        behind = np.insert(step, 0, False, axis=axis)
        cut |= ahead | behind
    valley = ndimage.gaussian_laplace(height, sigma=1.5)
    return np.asarray(cut | (valley > CREASE))


def fill_holes(depth: Float32[np.ndarray, "h w"]) -> Float32[np.ndarray, "h w"]:
    """The nearest reading wherever there is none; 0 where there is none at all."""
    missing = ~np.isfinite(depth)
    if not missing.any():
        return depth
    if missing.all():
        return np.zeros_like(depth)
    rows, cols = ndimage.distance_transform_edt(missing, return_distances=False, return_indices=True)
    return np.asarray(depth[rows, cols])


def _frames(labels: Int32[np.ndarray, "h w"], count: int) -> Bool[np.ndarray, " n"]:
    """Which numbers are the rim of a bin or a wall: a wide box of which they fill little, at the border."""
    frame = np.zeros(count + 1, dtype=bool)
    sizes = np.bincount(labels.reshape(-1), minlength=count + 1)
    for k, box in enumerate(ndimage.find_objects(labels), start=1):
        if box is None:
            continue
        area = (box[0].stop - box[0].start) * (box[1].stop - box[1].start)
        frame[k] = area > 0.3 * labels.size and (sizes[k] < 0.45 * area or sizes[k] > 0.5 * labels.size)
    return frame


def _grow(
    cores: Int32[np.ndarray, "h w"], stands: Bool[np.ndarray, "h w"], least: float
) -> Int32[np.ndarray, "h w"]:
    """Give back what erosion and cuts took: each pixel that stands out goes to the nearest core near it."""
    distance, (rows, cols) = ndimage.distance_transform_edt(cores == 0, return_indices=True)
    grown = np.where(stands & (distance <= 4.0), cores[rows, cols], 0).astype(np.int32)
    for k, box in enumerate(ndimage.find_objects(grown), start=1):
        if box is not None:
            mine = grown[box] == k
            grown[box][mine & ~drop_crumbs(mine, int(least), 0.1)] = 0
    return grown


def _scene(
    observation: Observation,
    visible_ids: Int32[np.ndarray, "h w"],
    depth: Float32[np.ndarray, "r c"],
    labels: Int32[np.ndarray, "r c"],
) -> Scene:
    count = int(visible_ids.max())
    numbers = np.arange(1, count + 1)
    with np.errstate(invalid="ignore"):
        middle = [float(np.nanmedian(depth[labels == k])) if (labels == k).any() else np.nan for k in numbers]
    z = np.array([np.inf, *middle])
    objects = []
    for k, box in zip(numbers.tolist(), ndimage.find_objects(visible_ids, max_label=count), strict=True):
        if box is None:
            continue
        shown = visible_ids[box] == k
        hull = convex_hull(shown)
        nearer = (z[visible_ids[box]] < z[k]) & (visible_ids[box] != k)
        crop = MaskCrop(box[0].start, box[1].start, shown | (hull & nearer))
        objects.append(DetectedObject(k, crop, occluded=bool((hull & nearer).sum() > 0.05 * shown.sum())))
    return Scene(observation, tuple(objects), visible_ids)


def convex_hull(mask: Bool[np.ndarray, "h w"]) -> Bool[np.ndarray, "h w"]:
    """The convex hull of a mask."""
    rim = mask & ~ndimage.binary_erosion(mask)
    rows, cols = np.nonzero(rim)
    points = np.stack([cols, rows], axis=1)
    try:
        corners = points[ConvexHull(points).vertices]
    except (QhullError, ValueError):  # a line or a point is its own hull
        return mask
    image = Image.new("1", (mask.shape[1], mask.shape[0]))
    ImageDraw.Draw(image).polygon([tuple(map(float, corner)) for corner in corners], fill=1, outline=1)
    return np.asarray(np.asarray(image) | mask)
