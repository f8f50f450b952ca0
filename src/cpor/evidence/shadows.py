r"""Depth shadows: readings that are missing where a projector, or a second camera, does not see the surface.

Such a sensor stands a baseline b aside from the camera, so that a pixel in column c with depth z appears to
it at c + k / z, with k = b f, f the focal length in pixels. A surface hides what it covers there: with H(c)
the largest c' + k / z(c') over the columns c' before c, a surface at depth z in column c is in shadow where

    c + k / z <= H(c)        that is, where z >= z_min(c) = k / (H(c) - c)

(and likewise to the left, above and below). A run of L missing pixels between depths z_near and z_far then
has L = k (1 / z_near - 1 / z_far). One side and one k that explain many runs, while few on the opposite side
agree, tell a shadow from readings lost on both sides of every edge, or on dark and shiny surfaces.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from jaxtyping import Float32
from scipy import ndimage

from cpor.scene import Scene

STEP_M = 0.01
"""Depth step at a run of missing pixels below which the run says nothing of a shadow. [m]"""

LEAST_RUN = 4
"""Shortest run that is counted: readings next to any edge get lost. [px]"""

SAME_K = 1.25
"""Runs whose k lie within this factor agree."""

LEAST_SHARE = 0.005
"""Share of the picture that agreeing runs must cover."""

OVER_OPPOSITE = 5.0
"""How many times more pixels agree than on the opposite side. In 50 simulated heaps without a shadow: at most
3.4; with a projector 5 cm aside at least 5.8, 15 cm aside at least 27."""

LEAST_AGREE = 0.4
"""Share of the runs of a side, by length, that must agree on k. At least 0.44 in five bins, 0.61 on five
tables, 0.65 in simulated heaps with a projector 15 cm aside."""

LARGEST_K = 0.45
"""Largest k over the width of the picture: 0.45 m of baseline where the focal length is the width. [m]"""

FRINGE_PX = 2
"""Missing pixels this close to a shadow, along the row, belong to it: edges lose readings. [px]"""

ALIKE = 0.03
"""Neighbours whose depths differ by less than this share support each other."""

SUPPORT = 3
"""Neighbours of 8 that must support a reading before it casts a shadow or fills a hole: stray ones do not."""

LEAST_READ = 0.2
"""Share of an object with depth, its shadows filled, from which on its other holes are filled."""

FILLING = f"filled 2: {LEAST_READ}"
"""What a fingerprint of the geometry covers of the filling; another version fills otherwise."""


class ShadowSide(NamedTuple):
    """Where shadows lie.

    Attributes:
        axis: 1: beside near surfaces; 0: above or below them.
        after: Whether they lie to the right or below, not to the left or above.
        k: Baseline times focal length. [m px]
    """

    axis: int
    after: bool
    k: float


def find_shadow(depth: Float32[np.ndarray, "h w"]) -> ShadowSide | None:
    """The side on which near surfaces cast depth shadows; None where there is none.

    Args:
        depth: NaN where there is no reading. Shape (h, w). [m]
    """
    found: dict[float, ShadowSide] = {}
    for axis in (1, 0):
        length, before, after = _runs(depth if axis else depth.T)
        counts = (length >= LEAST_RUN) & (np.abs(before - after) > STEP_M)
        length, before, after = length[counts], before[counts], after[counts]
        k = length / np.abs(1.0 / before - 1.0 / after)
        for is_after in (True, False):
            here = (before < after) == is_after
            best, agree = _agreeing(k[here], length[here])
            opposite = ~here & (k >= best) & (k <= SAME_K * best)
            least = max(
                LEAST_SHARE * depth.size,
                OVER_OPPOSITE * float(length[opposite].sum()),
                LEAST_AGREE * float(length[here].sum()),
            )
            if agree >= least and best <= LARGEST_K * depth.shape[1]:
                found[agree] = ShadowSide(axis, is_after, best * SAME_K**0.5)
    # Wide shadows cut runs along the other axis: only the side that explains most counts.
    return found[max(found)] if found else None


class Filled(NamedTuple):
    """A scene with depth where the sensor gave none; the scene itself, twice, where there is no shadow.

    Attributes:
        shadows: Depth in shadows alone. What another hole hides stays unknown.
        holes: Depth in other holes too: what one object or the background shows is taken for one surface.
    """

    shadows: Scene
    holes: Scene


def fill_shadows(scene: Scene) -> Filled:
    """The scene with depth in its shadows, and in its other holes as well.

    In a shadow a pixel takes the nearest reading of the object that it shows, or of the background, where a
    surface at that depth is in shadow. Else it takes z_min, the nearest depth that is, or the next reading
    beyond the shadow where that is nearer. In another hole it takes the nearest reading of the object that it
    shows, or of the background; none where an object has readings on less than LEAST_READ of its pixels.
    """
    depth, ids = scene.observation.depth, scene.visible_ids
    side = None if depth is None or ids is None else find_shadow(depth)
    if depth is None or ids is None or side is None:
        return Filled(scene, scene)
    supported = np.where(_is_supported(depth), depth, np.float32(np.nan))
    filled = depth.copy()
    images = (depth, supported, _own_depth(supported, ids), filled)
    z, near, own, out = (each if side.axis else each.T for each in images)
    if not side.after:
        z, near, own, out = (each[:, ::-1] for each in (z, near, own, out))
    columns = np.arange(z.shape[1])
    seen = np.where(np.isnan(near), -np.inf, columns + side.k / near)
    room = np.maximum.accumulate(seen, axis=1) - columns
    missing, beyond = np.isnan(z), _next_reading(near)
    is_own = _with_fringe(side.k / own - room, missing)
    is_other = _with_fringe(side.k / beyond - room, missing) & ~is_own
    out[is_own] = own[is_own]
    out[is_other] = np.minimum(side.k / room[is_other].clip(1e-6), beyond[is_other])
    known = ~np.isnan(filled).ravel()
    share = np.bincount(ids.ravel()[known], minlength=ids.max() + 1) / np.bincount(ids.ravel()).clip(1)
    guessed = np.where(np.isnan(filled) & (share[ids] >= LEAST_READ), images[2], filled)
    return Filled(_with_depth(scene, filled), _with_depth(scene, guessed))


def _with_depth(scene: Scene, depth: np.ndarray) -> Scene:
    return replace(scene, observation=replace(scene.observation, depth=depth))


def _with_fringe(out_of_shadow: np.ndarray, missing: np.ndarray) -> np.ndarray:
    """Missing pixels in shadow and in its fringe; given how far out of shadow their surface is. [px]."""
    core = ndimage.binary_dilation(missing & (out_of_shadow <= 0.0), np.ones((1, 2 * FRINGE_PX + 1)))
    fringed: np.ndarray = core & missing & (out_of_shadow <= FRINGE_PX)
    return fringed


def _runs(depth: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Length of each run of missing pixels in a row, and the readings before and after it. Shapes (n,)."""
    change = np.diff(np.pad(np.isnan(depth), ((0, 0), (1, 1))).astype(np.int8), axis=1)
    rows, start = np.nonzero(change == 1)
    end = np.nonzero(change == -1)[1]
    inside = (start > 0) & (end < depth.shape[1])
    rows, start, end = rows[inside], start[inside], end[inside]
    return end - start, depth[rows, start - 1], depth[rows, end]


def _agreeing(k: np.ndarray, length: np.ndarray) -> tuple[float, float]:
    """The k from which on, within SAME_K, the longest runs in sum lie; and their sum. [m px], [px]."""
    if not k.size:
        return 0.0, 0.0
    order = np.argsort(k)
    k, total = k[order], np.concatenate([[0.0], np.cumsum(length[order])])
    agree = total[np.searchsorted(k, SAME_K * k, side="right")] - total[:-1]
    best = int(agree.argmax())
    return float(k[best]), float(agree[best])


def _is_supported(depth: np.ndarray) -> np.ndarray:
    """Readings with enough neighbours alike. Shape (h, w)."""
    around, alike = np.pad(depth, 1, constant_values=np.nan), np.zeros(depth.shape, np.int8)
    for row in range(3):
        for col in range(3):
            there = around[row : row + depth.shape[0], col : col + depth.shape[1]]
            alike += np.abs(there - depth) < ALIKE * depth
    return alike > SUPPORT  # each is alike itself


def _own_depth(depth: np.ndarray, ids: np.ndarray) -> np.ndarray:
    """Nearest reading under the same mask, or beside all masks; NaN where it has none. Shape (h, w). [m]."""
    own = np.full(depth.shape, np.nan, np.float32)
    for k, box in enumerate(ndimage.find_objects(ids + 1)):
        if box is None:
            continue
        mask, missing = ids[box] == k, np.isnan(depth[box])
        reads = mask & ~missing
        if reads.any() and (mask & missing).any():
            rows, cols = ndimage.distance_transform_edt(~reads, return_distances=False, return_indices=True)
            own[box][mask] = depth[box][rows, cols][mask]
    return own


def _next_reading(depth: np.ndarray) -> np.ndarray:
    """The first reading at or after each pixel of a row; NaN where none follows. Shape (h, w). [m]."""
    width = depth.shape[1]
    at = np.where(np.isnan(depth), width, np.arange(width))
    at = np.minimum.accumulate(at[:, ::-1], axis=1)[:, ::-1]
    padded = np.pad(depth, ((0, 0), (0, 1)), constant_values=np.nan)
    found: np.ndarray = np.take_along_axis(padded, at, axis=1)
    return found
