"""How an object looks in a frame, and what of it is still where it was in another one."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

from cpor.scene import Camera, MaskCrop, Observation, PixelPoint, Scene

UNCHANGED_IOU = 0.9
"""Least overlap of an object's visible masks for it to count as unchanged."""

UNCHANGED_DEPTH_M = 0.005
"""Most change of its median depth for it to count as unchanged: above the noise of a median. [m]"""

SAME_PLACE = 0.6
"""Least share of the smaller of two masks that the other covers for an object to lie in the same place: it
was nudged, or something was taken off it or fell on it."""

SAME_COLOUR = 40.0
"""Most distance of mean colours of the same thing, of 255 a channel."""

ALIKE_DEPTH_M = 0.015
"""Most change of depth at a pixel that still shows the same thing: noise of a pixel, not of a median. [m]"""

SAME_PIXELS = 25.0
"""Most change of colour of pixels that still show the same thing, the median, of 255 a channel."""

SHOWN = 0.7
"""Least share of an object's pixels that show the same depth in one place for it to be still there."""

SPOT = 0.0125
"""Radius of the spot that a person who points means, as a share of the image's width."""

SAMPLES = 400
"""Pixels of an object that are looked up in another frame."""

BINS = 6
"""Bins of the colour histogram, a channel."""

HUES = 18
"""Bins of the histogram of hues, and one more for what has none."""

NO_HUE, FULL_HUE = 0.15, 0.35
"""A pixel whose channels differ by less than this share of the largest has no hue; from the second on it
counts with its hue alone."""

DARK = 15.0
"""Added to the largest channel and to brightness, of 255: what is nearly black has no hue and no shade."""


@dataclass(frozen=True, eq=False)
class ObjectLook:
    """How an object looked in one frame.

    Attributes:
        mask: Its visible mask; empty where it was not seen.
        depth: Median of its depth readings, NaN without any. [m]
        colour: Mean colour, of 255 a channel. Shape (3,).
        histogram: Shares of colours, which sum to 1; zeros where it was not seen. Shape (bins,).
        hues: The same of hues, which neither shade nor gloss changes. Shape (hues + 1,).
        pixels: Some of its pixels, row and column. Shape (m, 2).
        depths: Their depth, NaN without reading. Shape (m,). [m]
        colours: Their colour, of 255 a channel. Shape (m, 3).
        camera: That took the frame.
        name: What it was called.
    """

    mask: MaskCrop
    depth: float
    colour: Float[np.ndarray, " 3"]
    histogram: Float[np.ndarray, " bins"]
    hues: Float[np.ndarray, " hues"]
    pixels: Int[np.ndarray, "m 2"]
    depths: Float[np.ndarray, " m"]
    colours: Float[np.ndarray, "m 3"]
    camera: Camera
    name: str | None

    @property
    def area(self) -> int:
        """Visible pixels."""
        return int(self.mask.pixels.sum())


def look_at(scene: Scene) -> dict[int, ObjectLook]:
    """How each object of a scene looks."""
    seen, ids = scene.observation, scene.visible_ids
    nothing = np.zeros(seen.shape, np.bool_)
    return {o.id: _look(seen, nothing if ids is None else ids == o.id, o.name) for o in scene.objects}


def look_at_spot(seen: Observation, place: PixelPoint) -> ObjectLook:
    """How the spot around a pixel looks, as far as it has the pixel's depth."""
    rows, cols = np.indices(seen.shape)
    near = np.hypot(rows - place.y, cols - place.x) <= SPOT * seen.shape[1]
    if seen.depth is not None:
        step = np.abs(seen.depth - seen.depth[int(place.y), int(place.x)])
        near &= ~(step > ALIKE_DEPTH_M)  # NaN compares false
    return _look(seen, near, None)


def _look(seen: Observation, shown: Bool[np.ndarray, "h w"], name: str | None) -> ObjectLook:
    mask = MaskCrop.from_mask(shown)
    pixels = np.argwhere(mask.pixels) + np.array([mask.top, mask.left])
    depth, colour, shares, hues = np.nan, np.full(3, np.nan), np.zeros(BINS**3), np.zeros(HUES + 1)
    if len(pixels):
        colours = seen.rgb[pixels[:, 0], pixels[:, 1]]
        colour, shares, hues = colours.mean(axis=0), _histogram(colours), _hues(colours)
        readings = _depth_at(seen, pixels)
        readings = readings[~np.isnan(readings)]
        depth = float(np.median(readings)) if readings.size else np.nan
    some = pixels[:: max(1, len(pixels) // SAMPLES)]
    sampled = _depth_at(seen, some), seen.rgb[some[:, 0], some[:, 1]].astype(np.float64)
    return ObjectLook(mask, depth, colour, shares, hues, some, *sampled, seen.camera, name)


def _histogram(colours: Shaped[np.ndarray, "m 3"]) -> Float[np.ndarray, " bins"]:
    """Shares of colours, of 255 a channel, of at least one pixel."""
    steps = colours.astype(np.int64) * BINS // 256
    return np.bincount(steps @ [BINS * BINS, BINS, 1], minlength=BINS**3) / len(colours)


def _hues(colours: Shaped[np.ndarray, "m 3"]) -> Float[np.ndarray, " hues"]:
    """Shares of hues, each pixel split between the two bins next to it; the last is of those without one.

    A surface shows the light it scatters times its colour, and the light it mirrors as it came: k c + g. The
    angle around the grey axis depends neither on the shade k nor on the gloss g.
    """
    r, g, b = colours.astype(np.float64).T
    largest, least = np.maximum(np.maximum(r, g), b), np.minimum(np.minimum(r, g), b)
    has = np.clip(((largest - least) / (largest + DARK) - NO_HUE) / (FULL_HUE - NO_HUE), 0.0, 1.0)
    angle = np.arctan2(np.sqrt(0.75) * (g - b), r - 0.5 * (g + b)) / (2.0 * np.pi)
    place = np.mod(angle, 1.0) * HUES
    lower = place.astype(np.int64)
    part = place - lower
    shares = np.bincount(lower % HUES, has * (1.0 - part), HUES)
    shares += np.bincount((lower + 1) % HUES, has * part, HUES)
    return np.append(shares, (1.0 - has).sum()) / len(r)


def alike(one: Float[np.ndarray, " bins"], other: Float[np.ndarray, " bins"]) -> float:
    """Overlap of two histograms, in [0, 1]."""
    return float(np.sqrt(one * other).sum())


def _depth_at(seen: Observation, pixels: Int[np.ndarray, "m 2"]) -> Float[np.ndarray, " m"]:
    if seen.depth is None:
        return np.full(len(pixels), np.nan)
    return np.asarray(seen.depth[pixels[:, 0], pixels[:, 1]], np.float64)


@dataclass(frozen=True, eq=False)
class PlaceSeen:
    """Where the sampled pixels of an object fall in another frame, and what is there.

    Attributes:
        stays: How many show the depth that it would have there; without a reading, an object.
        gone: How many show something deeper, or without a reading no object: it is not there.
        hidden: How many show something nearer, so that it may be behind it.
        on: How many of those that stay show each object.
        recoloured: How far the median of those has another colour than before, of 255 a channel.
        alike: Overlap of the histograms of their colours before and now.
        same_hues: Overlap of the histograms of their hues before and now.
        relit: Logarithm of how many times brighter the median of them is now.
        centre: Centre of the place, row and column; NaN where unknown. Shape (2,). [px]
    """

    stays: int
    gone: int
    hidden: int
    on: Mapping[int, int]
    recoloured: Mapping[int, float]
    alike: Mapping[int, float]
    same_hues: Mapping[int, float]
    relit: Mapping[int, float]
    centre: Float[np.ndarray, " 2"]


def same_pose(a: Camera, b: Camera) -> bool:
    """Whether two frames were taken from the same place, as far as anybody says."""
    if a.T_world_camera is None or b.T_world_camera is None:
        return True
    return bool(np.allclose(a.T_world_camera, b.T_world_camera, atol=1e-4))


def find_in(look: ObjectLook, scene: Scene) -> PlaceSeen:
    """Where an object's pixels are in another frame: the same ones, or by the poses of both cameras."""
    seen = scene.observation
    pixels, expected, colours = _project(look, seen.camera)
    centre = pixels.mean(axis=0) if len(pixels) else np.full(2, np.nan)
    inside = ((pixels >= 0) & (pixels < seen.shape)).all(axis=1)
    pixels, expected, colours = pixels[inside], expected[inside], colours[inside]
    deeper = _depth_at(seen, pixels) - expected
    ids = np.zeros(seen.shape, np.int32) if scene.visible_ids is None else scene.visible_ids
    shown = ids[pixels[:, 0], pixels[:, 1]]
    gone, hidden = deeper > ALIKE_DEPTH_M, deeper < -ALIKE_DEPTH_M  # NaN compares false
    gone |= np.isnan(deeper) & (shown == 0)
    stays = ~gone & ~hidden
    found, counts = np.unique(shown[stays], return_counts=True)
    on = dict(zip(found.tolist(), counts.tolist(), strict=True))
    now = seen.rgb[pixels[:, 0], pixels[:, 1]]
    change = np.linalg.norm(now - colours, axis=1)
    of = {k: stays & (shown == k) for k in on}
    recoloured = {k: float(np.median(change[here])) for k, here in of.items()}
    likeness = {k: alike(_histogram(colours[here]), _histogram(now[here])) for k, here in of.items()}
    hues = {k: alike(_hues(colours[here]), _hues(now[here])) for k, here in of.items()}
    brighter = np.log((now.mean(axis=1) + DARK) / (colours.mean(axis=1) + DARK))
    relit = {k: float(np.median(brighter[here])) for k, here in of.items()}
    n_stay, n_gone, n_hidden = (int(each.sum()) for each in (stays, gone, hidden))
    return PlaceSeen(n_stay, n_gone, n_hidden, on, recoloured, likeness, hues, relit, centre)


def _project(
    look: ObjectLook, to: Camera
) -> tuple[Int[np.ndarray, "m 2"], Float[np.ndarray, " m"], Float[np.ndarray, "m 3"]]:
    """Pixels of a look in another camera, the depth they should have there, and their colours."""
    of = look.camera
    if same_pose(of, to):
        return look.pixels, look.depths, look.colours
    if of.intrinsics is None or to.intrinsics is None:
        return look.pixels[:0], look.depths[:0], look.colours[:0]
    assert of.T_world_camera is not None and to.T_world_camera is not None
    reads = ~np.isnan(look.depths)
    z, (rows, columns) = look.depths[reads], look.pixels[reads].T
    fx, fy, cx, cy = of.intrinsics
    here = np.stack([(columns - cx) / fx * z, (rows - cy) / fy * z, z, np.ones_like(z)])
    x, y, depth, _ = np.linalg.inv(to.T_world_camera) @ of.T_world_camera @ here
    front = depth > 0.0
    x, y, depth = x[front], y[front], depth[front]
    fx, fy, cx, cy = to.intrinsics
    pixels = np.stack([np.rint(y / depth * fy + cy), np.rint(x / depth * fx + cx)], axis=1)
    return pixels.astype(np.int64), depth, look.colours[reads][front]


def is_unchanged(before: ObjectLook, now: ObjectLook) -> bool:
    """Whether an object lies where it lay and shows what it showed; never without a mask in both frames."""
    if not same_pose(before.camera, now.camera) or overlap(before.mask, now.mask) <= UNCHANGED_IOU:
        return False
    if np.isnan(before.depth) and np.isnan(now.depth):
        return True  # a frame without depth, or a thing that never reads: the mask has to do
    return bool(abs(before.depth - now.depth) < UNCHANGED_DEPTH_M)  # NaN on one side is a change


def overlap(a: MaskCrop, b: MaskCrop) -> float:
    """Intersection over union of two masks; 0 where either is empty."""
    both = shared_pixels(a, b)
    return both / (np.count_nonzero(a.pixels) + np.count_nonzero(b.pixels) - both) if both else 0.0


def covered(a: MaskCrop, b: MaskCrop) -> float:
    """Share of the smaller of two masks that the other covers."""
    smaller = min(np.count_nonzero(a.pixels), np.count_nonzero(b.pixels))
    return shared_pixels(a, b) / max(int(smaller), 1)


def shared_pixels(a: MaskCrop, b: MaskCrop) -> int:
    """Pixels that two masks share."""
    top, left = max(a.top, b.top), max(a.left, b.left)
    bottom = min(a.top + a.pixels.shape[0], b.top + b.pixels.shape[0])
    right = min(a.left + a.pixels.shape[1], b.left + b.pixels.shape[1])
    if bottom <= top or right <= left:
        return 0
    first = a.pixels[top - a.top : bottom - a.top, left - a.left : right - a.left]
    other = b.pixels[top - b.top : bottom - b.top, left - b.left : right - b.left]
    return int(np.count_nonzero(first & other))


def are_near(a: MaskCrop, b: MaskCrop, gap: int) -> bool:
    """Whether the boxes of two masks are at most `gap` pixels apart; never where either is empty."""
    if not a.pixels.size or not b.pixels.size:
        return False
    return bool(
        a.top - gap <= b.top + b.pixels.shape[0]
        and b.top - gap <= a.top + a.pixels.shape[0]
        and a.left - gap <= b.left + b.pixels.shape[1]
        and b.left - gap <= a.left + a.pixels.shape[1]
    )
