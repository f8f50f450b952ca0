"""Regions grown from clicks: where colour and depth change, an object ends.

With depth, what the depth segmenter cuts out around the click is taken; without, or where it finds nothing,
the region whose border is the sharpest. Edges are looked for at about 320 pixels width, whatever the camera.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int32
from scipy import ndimage

from cpor.perception.depth_segmenter import DepthSegmenter, fill_holes
from cpor.perception.support_plane import fit_support_plane
from cpor.scene import Observation, PixelPoint

WORK_WIDTH = 320
"""Regions are grown at about this width. [px]"""

COLOUR_STEP = 60.0
"""A change of colour by so many of 255 steps from pixel to pixel at work size is an edge as such."""

DEPTH_STEP_M = 0.012
"""A change of depth by so much is one, up to a distance of 1 m; farther away its square counts. [m]"""

LEAST_HEIGHT_M = 0.006
"""What stands out of the table less belongs to it, unless the click is there. Grows likewise. [m]"""

CAP = 3.0
"""Stronger edges count as this strong: one sharp border must not outweigh an open one elsewhere."""

LEVELS = 24
MOST_SHARE = 0.25
"""A region covers at most this share of the picture."""


@dataclass(frozen=True, eq=False)
class EdgeMap:
    """How strongly a frame changes from pixel to pixel, at work size.

    Attributes:
        strength: 1 is an edge as such. Shape (h, w).
        table: Pixels of the support, and behind it; all False where none was found. Shape (h, w).
        stride: Pixels of the frame to one of these, along each side.
        shape: Height and width of the frame. [px]
    """

    strength: Float[np.ndarray, "h w"]
    table: Bool[np.ndarray, "h w"]
    stride: int
    shape: tuple[int, int]

    @classmethod
    def of(cls, frame: Observation) -> "EdgeMap":
        """The edges of a frame."""
        stride = max(1, round(frame.shape[1] / WORK_WIDTH))
        start = stride // 2
        rgb = frame.rgb[start::stride, start::stride].astype(np.float32)
        smooth = ndimage.gaussian_filter(rgb, (1.0, 1.0, 0.0))
        strength = np.zeros(rgb.shape[:2], np.float64)
        for channel in range(3):
            slopes = (ndimage.sobel(smooth[..., channel], axis=axis) / 8.0 for axis in (0, 1))
            strength = np.maximum(strength, np.hypot(*slopes))
        strength = 2.0 * strength / COLOUR_STEP
        table = np.zeros(strength.shape, np.bool_)
        if frame.depth is not None:
            depth = frame.depth[start::stride, start::stride]
            far = np.maximum(1.0, np.nan_to_num(depth, nan=1.0)) ** 2
            z = ndimage.median_filter(fill_holes(depth), size=3)
            steps = np.maximum(*(_steps(z, axis) for axis in (0, 1)))
            strength = strength + steps / (DEPTH_STEP_M * far)
            plane = fit_support_plane(depth, np.random.default_rng(0))
            if plane is not None:
                with np.errstate(invalid="ignore"):
                    table = plane.depth(depth.shape) - z < LEAST_HEIGHT_M * far
        return cls(np.minimum(strength, CAP), table, stride, frame.shape)

    def shrink(self, mask: Bool[np.ndarray, "H W"]) -> Bool[np.ndarray, "h w"]:
        """A mask of the frame at work size."""
        start = self.stride // 2
        return mask[start :: self.stride, start :: self.stride]

    def enlarge(self, mask: Bool[np.ndarray, "h w"]) -> Bool[np.ndarray, "H W"]:
        """A mask at work size on the frame, its steps smoothed."""
        rows, cols = self.shape
        large = np.repeat(np.repeat(mask, self.stride, axis=0), self.stride, axis=1)[:rows, :cols]
        large = np.pad(large, ((0, rows - large.shape[0]), (0, cols - large.shape[1])), mode="edge")
        if self.stride == 1:
            return large
        return np.asarray(ndimage.uniform_filter(large.astype(np.float32), 2 * self.stride - 1) >= 0.5)

    def place(self, point: PixelPoint) -> tuple[int, int]:
        """Row and column of a point of the frame."""
        rows, cols = self.strength.shape
        return min(int(point.y) // self.stride, rows - 1), min(int(point.x) // self.stride, cols - 1)


def grow_object(
    frame: Observation, point: PixelPoint, barred: Bool[np.ndarray, "H W"]
) -> Bool[np.ndarray, "H W"]:
    """What lies at a point, as far as depth and colour tell. Shape (H, W).

    Of 110 objects of 44 table-top photographs, clicked in the middle, depth alone gives 58 % with an IoU of
    at least .8, the sharpest border 40 %.
    """
    if frame.depth is not None:
        cut = DepthSegmenter().segment(frame).visible_ids
        assert cut is not None
        label = cut[int(point.y), int(point.x)]
        region = (cut == label) & ~barred
        if label and region.sum() <= MOST_SHARE * region.size:
            return np.asarray(region)
    return grow_region(EdgeMap.of(frame), point, barred)


def grow_region(
    edges: EdgeMap, point: PixelPoint, barred: Bool[np.ndarray, "H W"]
) -> Bool[np.ndarray, "H W"]:
    """The region around a point whose border is the sharpest; at least a small disc. Shape (H, W).

    Of all regions that hold the point and end where edges exceed some strength, the one is taken around which
    edges are strongest on average.
    """
    here = edges.place(point)
    free = ~edges.shrink(barred)
    if not edges.table[here]:
        free &= ~edges.table
    free[here] = True
    disc = _disc(edges.strength.shape, here, 2.0)
    strength = np.where(free, edges.strength, CAP)
    best, sharpest = disc & free, 0.0
    area = 0
    for level in np.quantile(strength[free], np.linspace(0.1, 1.0, LEVELS)):
        inside = (strength <= level) & free | disc & free
        labels, _ = ndimage.label(inside)
        region = labels == labels[here]
        size = int(region.sum())
        if size > MOST_SHARE * region.size:
            break
        if size == area:
            continue
        area = size
        closed = ndimage.binary_fill_holes(ndimage.binary_opening(region, iterations=1) | disc & region)
        ring = ndimage.binary_dilation(closed, iterations=2) & ~closed
        sharp = float(strength[ring].mean()) * min(1.0, (size / 60.0) ** 0.5) if ring.any() else 0.0
        if sharp >= sharpest:
            best, sharpest = closed, sharp
    # The edge itself belongs half to the object: it was left out while the region grew.
    grown = ndimage.binary_dilation(best) & (free | best)
    return np.asarray(edges.enlarge(grown) & ~barred)


def share_between(
    edges: EdgeMap, mask: Bool[np.ndarray, "H W"], a: PixelPoint, b: PixelPoint
) -> Bool[np.ndarray, "H W"]:
    """The part of a mask that belongs to `a` rather than to `b`: the cut runs along edges. Shape (H, W)."""
    small = edges.shrink(mask)
    marks: Int32[np.ndarray, "h w"] = np.zeros(small.shape, np.int32)
    marks[~small] = -1
    for label, point in ((1, a), (2, b)):
        marks[_disc(small.shape, edges.place(point), 1.5)] = label
    # The cost of a step is its edge, and a little for its length: where there is no edge, the nearer has it.
    height = np.where(small, 1 + 60.0 * edges.strength, 255).astype(np.uint8)
    owner = ndimage.watershed_ift(height, marks)
    return np.asarray(edges.enlarge(owner == 1) & mask)


def _disc(shape: tuple[int, int], centre: tuple[int, int], radius: float) -> Bool[np.ndarray, "h w"]:
    rows, cols = np.ogrid[: shape[0], : shape[1]]
    return np.asarray((rows - centre[0]) ** 2 + (cols - centre[1]) ** 2 <= radius**2)


def _steps(z: Float[np.ndarray, "h w"], axis: int) -> Float[np.ndarray, "h w"]:
    """The larger of the changes to both neighbours along an axis."""
    first, last = np.take(z, [0], axis), np.take(z, [-1], axis)
    behind, ahead = np.diff(z, axis=axis, prepend=first), np.diff(z, axis=axis, append=last)
    return np.maximum(np.abs(behind), np.abs(ahead)).astype(np.float64)
