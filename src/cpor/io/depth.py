"""Depth as a frame has it: in metres, in the pixels of the photograph; and what a step of it means.

A pixel (u, v) of the depth camera with reading z lies at X = z K_d^-1 (u, v, 1); the photograph shows it at
K_c (R X + t), where T_colour_depth = (R, t). Of readings that fall on one pixel the nearest counts.

The unit is guessed from how far away the middle of the picture would be, d = unit * median:
p(unit | picture) ~ p(unit) exp(-ln(d / TYPICAL_M)² / (2 SPREAD²)).
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Float32, Shaped

from cpor.errors import InvalidSceneError
from cpor.scene import Camera, Intrinsics

DEPTH_RANGE_M = (0.05, 20.0)
"""Readings outside are no readings: nearer than depth cameras measure, farther than any table. [m]"""

SATURATED = 65535
"""Value of a 16-bit step that means no reading."""

MOST_SCALE = 8
"""Depth may have so many times fewer or more pixels along a side than the photograph."""

STRAY_FACTOR = 2.0
"""A reading this many times nearer or farther than the median around it may be a stray one."""

STRAY_ALIKE = 0.1
"""Readings whose depths differ by less than this share support each other."""

STRAY_SUPPORT = 2
"""Neighbours of 24 that a stray reading has at most for support."""

_WIDEST = 16
"""A reading covers at most so many pixels of the photograph along each side. [px]"""


TYPICAL_M = 0.75
"""Median distance of the middles of 57 photographs and MetaGraspNet views; they lie 0.50 to 1.27 away. [m]"""

PLAUSIBLE_M = (0.15, 4.0)
"""Nearer than depth cameras measure well, farther than any arm's table. A unit ten times too large or too
small puts the middles of all those frames outside. [m]"""

USUAL_M = (0.25, 2.5)
"""Beyond these a scene is unlike all of them, by a factor of two. [m]"""

SPREAD = 0.45
"""Spread of ln(distance): more than twice that of those frames, since they are few."""

COMMON_INTEGERS = {0.001: 0.80, 0.0001: 0.08, 0.00025: 0.05, 0.0002: 0.03, 0.01: 0.04}
"""How common units of whole steps are, by our judgement: millimetres, then a 0.1 mm of rendered sets, that
of close-range cameras, that of the TUM data sets, centimetres."""

COMMON_FLOATS = {1.0: 0.85, 0.001: 0.12, 0.01: 0.03}
"""The same for pictures with fractions: metres, millimetres, centimetres."""

SURE = 0.95
"""At least this probable: sure enough not to ask."""


@dataclass(frozen=True, eq=False)
class DepthCamera:
    """A depth camera with pictures that are not registered to the photograph.

    Attributes:
        intrinsics: Intrinsics of the depth picture.
        T_colour_depth: Pose of the depth camera in that of colour; None: they stand at one place.
            Shape (4, 4). [m]
    """

    intrinsics: Intrinsics
    T_colour_depth: Float[np.ndarray, "4 4"] | None = None

    def __post_init__(self) -> None:
        Camera(self.intrinsics, self.T_colour_depth)  # refuses what no camera has


def to_metres(steps: Shaped[np.ndarray, "h w"], unit_m: float) -> Float32[np.ndarray, "h w"]:
    """Depth in metres from steps of a unit, NaN where there is no reading. Shape (h, w)."""
    low, high = DEPTH_RANGE_M
    if steps.dtype == np.uint16:
        metres = (np.arange(SATURATED + 1) * unit_m).astype(np.float32)
        metres[(metres < low) | (metres > high)] = np.nan
        metres[[0, SATURATED]] = np.nan
        return np.take(metres, steps)
    with np.errstate(over="ignore", invalid="ignore"):
        found: np.ndarray = (steps.astype(np.float64) * unit_m).astype(np.float32)
    found[~((found >= low) & (found <= high))] = np.nan
    return found


def drop_strays(depth: Float32[np.ndarray, "h w"]) -> tuple[Float32[np.ndarray, "h w"], int]:
    """Depth without readings that stand alone far before or behind all around them; and how many these were.

    Args:
        depth: NaN where there is no reading. Shape (h, w). [m]
    """
    beside = np.zeros(depth.shape, np.bool_)
    for here, there in ((np.s_[:, 1:], np.s_[:, :-1]), (np.s_[1:], np.s_[:-1])):
        jump = (depth[here] > STRAY_FACTOR * depth[there]) | (STRAY_FACTOR * depth[here] < depth[there])
        beside[here] |= jump
        beside[there] |= jump
    rows, cols = np.nonzero(beside)
    if not rows.size:
        return depth, 0
    z, around = depth[rows, cols], np.pad(depth, 2, constant_values=np.nan)
    near = np.stack([around[rows + dy, cols + dx] for dy in range(5) for dx in range(5)])
    middle = np.nanmedian(near, axis=0)
    alike = np.count_nonzero(np.abs(near - z) < STRAY_ALIKE * z, axis=0) - 1  # each is alike itself
    far = (z > STRAY_FACTOR * middle) | (STRAY_FACTOR * z < middle)
    stray = far & (alike <= STRAY_SUPPORT)
    if not stray.any():
        return depth, 0
    kept = depth.copy()
    kept[rows[stray], cols[stray]] = np.nan
    return kept, int(stray.sum())


def same_aspect(depth: tuple[int, int], photograph: tuple[int, int]) -> bool:
    """Whether two sizes, rows and columns, differ by one factor, to a pixel of the coarser one."""
    scale = photograph[1] / depth[1]
    off = abs(scale * depth[0] - photograph[0])
    return off <= max(scale, 1.0) and 1.0 / MOST_SCALE <= scale <= MOST_SCALE


def resize_depth(depth: Shaped[np.ndarray, "rows cols"], shape: tuple[int, int]) -> Shaped[np.ndarray, "h w"]:
    """The reading nearest to each pixel of a picture of another size, never a mixture. Shape (h, w)."""
    rows, cols = ((np.arange(new) + 0.5) * old / new for new, old in zip(shape, depth.shape, strict=True))
    resized: np.ndarray = depth[rows.astype(np.intp)[:, None], cols.astype(np.intp)]
    return resized


def align_depth(
    depth: Float32[np.ndarray, "rows cols"],
    sensor: DepthCamera,
    colour: Intrinsics | None,
    shape: tuple[int, int],
) -> Float32[np.ndarray, "h w"]:
    """Depth in the pixels of the photograph, NaN where nothing was measured.

    Args:
        depth: As the depth camera has it. Shape (rows, cols). [m]
        sensor: The depth camera.
        colour: Intrinsics of the photograph.
        shape: Height and width of the photograph. [px]
    """
    if colour is None:
        raise InvalidSceneError(
            "the depth camera is known, but not that of the photograph; give fx, fy, cx and cy of both"
        )
    rows, cols = np.nonzero(np.isfinite(depth))
    z = depth[rows, cols].astype(np.float64)
    k = sensor.intrinsics
    pose = np.eye(4) if sensor.T_colour_depth is None else sensor.T_colour_depth
    corners = []
    for side in (-0.5, 0.5):  # a reading covers what its pixel covers
        points = np.stack([(cols + side - k.cx) / k.fx * z, (rows + side - k.cy) / k.fy * z, z])
        x, y, ahead = pose[:3, :3] @ points + pose[:3, 3:]
        seen = np.maximum(ahead, 1e-6)
        corners.append((colour.fx * x / seen + colour.cx + 0.5, colour.fy * y / seen + colour.cy + 0.5))
    (left, top), (right, bottom) = corners
    out = np.full(shape, np.inf, np.float32)
    there = (ahead > 0.0) & (right > 0) & (bottom > 0) & (left < shape[1]) & (top < shape[0])
    x0, y0 = (np.floor(each[there]).astype(np.int64) for each in (left, top))
    x1 = np.maximum(np.ceil(right[there]).astype(np.int64), x0 + 1)
    y1 = np.maximum(np.ceil(bottom[there]).astype(np.int64), y0 + 1)
    value = ahead[there].astype(np.float32)
    wide = min(_WIDEST, int((x1 - x0).max(initial=1)))
    high = min(_WIDEST, int((y1 - y0).max(initial=1)))
    for dy in range(high):
        for dx in range(wide):
            x, y = x0 + dx, y0 + dy
            inside = (x < x1) & (y < y1) & (x >= 0) & (y >= 0) & (x < shape[1]) & (y < shape[0])
            np.minimum.at(out, (y[inside], x[inside]), value[inside])
    out[np.isinf(out)] = np.nan
    return out


def middle_of(picture: np.ndarray) -> np.ndarray:
    """The middle half of each axis, at most about 40,000 pixels of it: what is to be grasped lies there."""
    height, width = picture.shape[:2]
    stride = max(1, round((height * width / 160_000) ** 0.5))
    return picture[height // 4 : height - height // 4 : stride, width // 4 : width - width // 4 : stride]


def guess_depth_unit(steps: np.ndarray) -> tuple[float | None, float]:
    """The likeliest unit of a depth picture as its file has it, and the probability of that one. [m].

    None where no unit puts the scene on a table in front of the camera.

    Args:
        steps: Raw values, of any integer or floating type; 0, negative and not finite: no reading.
            Shape (h, w).
    """
    values = middle_of(steps).astype(np.float64)
    values = values[np.isfinite(values) & (values > 0.0)]
    if values.size == 0:
        return None, 0.0
    common = COMMON_FLOATS if steps.dtype.kind == "f" else COMMON_INTEGERS
    distance = {unit: unit * float(np.median(values)) for unit in common}
    weight = {
        unit: common[unit] * float(np.exp(-0.5 * (np.log(d / TYPICAL_M) / SPREAD) ** 2))
        for unit, d in distance.items()
        if PLAUSIBLE_M[0] <= d <= PLAUSIBLE_M[1]
    }
    if not weight:
        return None, 0.0
    best = max(weight, key=lambda unit: weight[unit])
    return best, weight[best] / sum(weight.values())
