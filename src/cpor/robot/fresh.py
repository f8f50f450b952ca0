"""What differs between two looks from one place: a moved camera, a hand, a thing that was moved.

No motion is sent on an old picture. Right before the robot is sent the loop looks once more and compares;
any difference decides anew. At every look it compares the edges of the whole picture with the look before:
a heap changes in parts, but a bumped camera shifts everything.
"""

from collections.abc import Set

import numpy as np
from jaxtyping import Bool, Shaped, UInt8
from scipy import ndimage

from cpor.errors import CameraError
from cpor.scene import Observation, Scene
from cpor.tracking.looks import ALIKE_DEPTH_M, SAME_COLOUR, same_pose

EDGE_LEVELS = 30.0
"""Step of brightness between neighbouring pixels that is an edge and no noise, of 255."""

LEAST_EDGES = 60
"""Fewer pixels than this on edges tell nothing about a camera that was moved."""

CELL = 2
"""Edges are compared in cells of so many pixels. [px]"""

STILL = 3
"""A shift of the edges by so many cells is no sign of a moved camera."""

JITTER_PX = 4
"""A picture may be shifted by so much from the one before although nothing moved, as in our simulated camera,
whose colours and depth are not registered better. [px]"""

MOST_SHIFT = 0.2
"""Largest shift that is looked for, as a share of the image's width."""

BETTER = 1.25
"""A camera was moved if its edges fit a shift so many times better than they fit where they were."""

LEAST_READ = 0.2
"""Share of the pixels nearby that must have a depth reading for depth to be compared.

Of 108 pairs of looks at unmoved simulated heaps with six cameras it flags 1, as many as a rule that one
missing reading blinds, which leaves out 21 to 62 % of a picture."""

SPECK = 5
"""Side of the square that a changed place must hold: noise and flickering edges are thinner. [px]"""

LEAST_CHANGED = 0.0004
"""Least size of a changed place, as a share of the picture: 120 pixels of 640 x 480, a coin at 0.8 m."""


MOST_CHANGES = 3
"""Changes right before a motion, in a row, after which a person has to say."""


def camera_shift(then: Observation, now: Observation) -> str | None:
    """How far a moved camera shifts what it sees, in words; None where nothing says that it was moved.

    The edges of both looks are correlated at every shift.
    """
    if then.shape != now.shape or not same_pose(then.camera, now.camera):
        return None
    before, after = (edges(seen.rgb) for seen in (then, now))
    if min(before.sum(), after.sum()) < LEAST_EDGES:
        return None
    reach = round(MOST_SHIFT * before.shape[1])
    shape = [n + reach for n in before.shape]
    spectrum = np.fft.rfft2(after, shape) * np.conj(np.fft.rfft2(before, shape))
    fit = np.roll(np.fft.irfft2(spectrum, shape), (reach, reach), axis=(0, 1))
    fit = ndimage.uniform_filter(fit[: 2 * reach + 1, : 2 * reach + 1], 3)
    still = fit[reach - STILL : reach + STILL + 1, reach - STILL : reach + STILL + 1].max()
    row, col = np.unravel_index(int(fit.argmax()), fit.shape)
    down, right = int(row) - reach, int(col) - reach
    if max(abs(down), abs(right)) <= STILL or fit.max() <= BETTER * still:
        return None
    return f"what it sees is shifted by {CELL * down} px down and {CELL * right} px right"


def require_still_camera(before: Scene | None, now: Observation) -> None:
    """Refuse a look by a camera that was moved since the look before: its pose is not known any more.

    Raises:
        CameraError: It was.
    """
    shift = None if before is None else camera_shift(before.observation, now)
    if shift is not None:
        moved = f"the camera seems to have been moved: {shift}"
        raise CameraError(f"{moved}; mount it again and check its calibration")


def what_changed(scene: Scene, now: Observation, acted_on: Set[int]) -> str | None:
    """What differs between the look that was decided on and a fresh one; None where nothing does.

    Args:
        scene: What was decided on.
        now: A look at the same things, before anything moves.
        acted_on: The target, and the object that the robot is about to take.
    """
    then, ids = scene.observation, scene.visible_ids
    if then.shape != now.shape:
        return "the camera gives pictures of another size"
    if not same_pose(then.camera, now.camera):
        return "the camera stands elsewhere"
    if (shift := camera_shift(then, now)) is not None:
        return f"the camera was moved: {shift}"
    places = changed_places(then, now)
    if not places.any():
        return None
    if ids is None:
        return "something changed in the picture"
    touched = frozenset(np.unique(ids[places]).tolist())
    if near := sorted(touched & acted_on):
        return f"something changed at object {near[0]}"
    others = sorted(touched - {0})
    return f"something changed at object {others[0]}" if others else "something changed beside the objects"


def changed_places(then: Observation, now: Observation) -> Bool[np.ndarray, "h w"]:
    """Where two looks from one place show different things; specks of noise are left out. Shape (h, w)."""
    changed = ndimage.binary_opening(_differ(then, now), np.ones((SPECK, SPECK), np.bool_))
    labels, n = ndimage.label(changed)
    sizes = np.bincount(labels.ravel(), minlength=n + 1)
    large = sizes >= max(SPECK * SPECK, LEAST_CHANGED * labels.size)
    large[0] = False
    return np.asarray(large[labels])


def _differ(then: Observation, now: Observation) -> Bool[np.ndarray, "h w"]:
    """Where a look shows what the other one shows nowhere near. Shape (h, w).

    Near is within `JITTER_PX`: registration of colour and depth shakes, and fine patterns flicker.
    """
    differ: np.ndarray = _outside(now.rgb, then.rgb, SAME_COLOUR) | _outside(then.rgb, now.rgb, SAME_COLOUR)
    if then.depth is not None and now.depth is not None:
        a, b = then.depth[..., None], now.depth[..., None]
        differ |= _outside(a, b, ALIKE_DEPTH_M) | _outside(b, a, ALIKE_DEPTH_M)
    return differ


def _outside(
    values: Shaped[np.ndarray, "h w c"], of: Shaped[np.ndarray, "h w c"], slack: float
) -> Bool[np.ndarray, "h w"]:
    """Where values lie outside of the range that another look has nearby.

    NaN is outside of nothing, and nothing is outside where the other look has too few readings nearby.
    """
    window = (2 * JITTER_PX + 1, 2 * JITTER_PX + 1, 1)
    of = of.astype(np.float32)
    missing = np.isnan(of)
    low = ndimage.minimum_filter(np.where(missing, np.inf, of), window) - slack
    high = ndimage.maximum_filter(np.where(missing, -np.inf, of), window) + slack
    outside = ((values < low) | (values > high)).any(axis=2)
    if missing.any():
        read = ndimage.uniform_filter((~missing).all(axis=2).astype(np.float32), window[:2])
        outside &= read >= LEAST_READ
    return np.asarray(outside)


def edges(rgb: UInt8[np.ndarray, "h w 3"]) -> Bool[np.ndarray, "h1 w1"]:
    """Which cells hold an edge. Shape (h / CELL, w / CELL)."""
    rows, cols = (n // CELL * CELL for n in rgb.shape[:2])
    cells = rgb[:rows, :cols].reshape(rows // CELL, CELL, cols // CELL, CELL, 3).mean(axis=(1, 3, 4))
    across, down = np.abs(np.diff(cells, axis=1))[:-1], np.abs(np.diff(cells, axis=0))[:, :-1]
    return np.asarray(np.maximum(across, down) > EDGE_LEVELS)
