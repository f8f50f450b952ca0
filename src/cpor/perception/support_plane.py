"""The plane that most of a scene rests on, from depth alone.

The inverse depth of a plane is linear in the pixel: 1 / z = a x + b y + c whatever the camera, so no
intrinsics are needed.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Float32

TRIALS = 200
"""Trials of three readings each: with a third of all on the plane, one frame in 1,900 has no good one."""

SAMPLE = 4000
"""Readings that vote; more changes nothing."""

NEAR_M = 0.006
"""A reading votes for a plane it is this near to, along the ray. [m]"""


@dataclass(frozen=True)
class SupportPlane:
    """A plane as inverse depth over pixels: 1 / z = a x + b y + c."""

    a: float
    b: float
    c: float

    def depth(self, shape: tuple[int, int]) -> Float32[np.ndarray, "h w"]:
        """Depth of the plane at each pixel in metres; infinite where the ray does not meet it."""
        y, x = np.ogrid[: shape[0], : shape[1]]
        inverse = self.a * x + self.b * y + self.c
        with np.errstate(divide="ignore"):
            return np.where(inverse > 1e-6, 1.0 / inverse, np.inf).astype(np.float32)


def fit_support_plane(
    depth: Float32[np.ndarray, "h w"], rng: np.random.Generator, behind_cost: float = 2.0
) -> SupportPlane | None:
    """The plane with most readings on it and few behind it; None where there is no such plane.

    Args:
        depth: NaN without reading. Shape (h, w). [m]
        rng: Random generator of the trials.
        behind_cost: Votes that a reading behind the plane costs. Things stand on the plane, so hardly a
            reading lies behind it: that tells a floor from a lid. 0 where a floor beyond a table may show.
    """
    rows, cols = np.nonzero(np.isfinite(depth))
    if rows.size < 50:
        return None
    chosen = rng.choice(rows.size, size=min(SAMPLE, rows.size), replace=False)
    y, x = rows[chosen].astype(np.float64), cols[chosen].astype(np.float64)
    z = depth[rows[chosen], cols[chosen]].astype(np.float64)
    ones = np.ones_like(x)
    points = np.stack([x, y, ones], axis=1)
    picks = rng.integers(0, z.size, (TRIALS, 3))
    corners = points[picks]
    usable = np.abs(np.linalg.det(corners)) > 1.0  # not on one line
    if not usable.any():
        return None
    planes = np.linalg.solve(corners[usable], (1.0 / z[picks[usable]])[..., None])[..., 0]
    best, most = 0, -np.inf
    for k, plane in enumerate(planes):  # one by one, since all at once are too much for the cache
        above = _above(plane, points, z)
        behind = np.count_nonzero(above < -3.0 * NEAR_M)
        votes = np.count_nonzero(np.abs(above) < NEAR_M) - behind_cost * behind
        best, most = (k, votes) if votes > most else (best, most)
    members = np.abs(_above(planes[best], points, z)) < NEAR_M
    if members.sum() < 0.05 * z.size:
        return None
    plane, *_ = np.linalg.lstsq(points[members], 1.0 / z[members], rcond=None)
    return SupportPlane(*map(float, plane))


def _above(
    plane: Float[np.ndarray, " 3"], points: Float[np.ndarray, "n 3"], z: Float[np.ndarray, " n"]
) -> Float[np.ndarray, " n"]:
    """How far each reading lies before a plane, along its ray; infinite where that does not meet it. [m]."""
    inverse = points @ plane
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(inverse > 1e-6, 1.0 / inverse, np.inf) - z)
