"""Which objects lie in the workspace: inside the given polygon, else on the support found from depth.

The support is the plane with most readings beside the objects. It reaches as far as its connected readings
do; an object lies on it where it projects into their convex hull. Where less of it shows than of the objects,
as in a full bin or a tub whose walls have no depth, it may be a wall or a rim: then no object is outside.
"""

import numpy as np
from jaxtyping import Bool, Float, Int32
from PIL import Image, ImageDraw
from scipy import ndimage
from scipy.spatial import ConvexHull, QhullError

from cpor.perception.support_plane import NEAR_M, SupportPlane, fit_support_plane
from cpor.scene import Observation, PixelPoint, Scene

LEAST_SHARE = 0.5
"""An object lies in the workspace where at least this share of its visible pixels does."""

MARGIN_M = 0.05
"""The found support reaches this far over its readings: objects hide its edge, or stand on it. [m]"""

LEAST_SHOWN = 0.65
"""The support must show on at least this many times the pixels of all objects. It shows on 1.7 to 15 times as
many in 54 pictures of tables and 48 simulated bins, 0.9 in a laboratory full of furniture; in five full bins,
where walls are taken for it, 0.2 to 0.5, in a tub 0.1."""

HEIGHTS_M = (-0.1, 0.5)
"""What is higher over the found support does not lie on it (an arm, a shelf), nor what is lower (the floor
beside a table). A little lower may be a flat bin. [m]"""

_NEAR_SHARE = 0.008
"""A reading is on the support within this share of its depth: noise of depth cameras grows with depth."""


_PIXELS = 60_000
"""The support is looked for in about so many pixels of a frame; more change nothing."""

_SAMPLE = 1500
"""Pixels of an object that are held against the found support; more change nothing."""


def in_workspace(scene: Scene) -> frozenset[int]:
    """Ids of the objects that lie in the workspace.

    An object that shows nowhere lies in it: nothing says otherwise. Without a polygon and without a support
    found from depth, every object does.
    """
    frame, ids = scene.observation, scene.visible_ids
    if ids is None or not scene.objects:
        return frozenset(scene.ids)
    if frame.camera.workspace is not None:
        rows, cols = np.nonzero(ids)
        inside = _in_polygon(frame.camera.workspace, frame.shape)[rows, cols]
    elif frame.depth is not None and (support := _Support.find(frame, ids)) is not None:
        rows, cols = _sample(ids)
        inside = support.carries(rows, cols, frame.depth[rows, cols])
    else:
        return frozenset(scene.ids)
    labels, n = ids[rows, cols], scene.objects[-1].id + 1
    area, within = np.bincount(labels, minlength=n), np.bincount(labels[inside], minlength=n)
    return frozenset(k for k in scene.ids if within[k] >= LEAST_SHARE * area[k])


def _in_polygon(corners: tuple[PixelPoint, ...], shape: tuple[int, int]) -> Bool[np.ndarray, "h w"]:
    image = Image.new("1", shape[::-1])
    ImageDraw.Draw(image).polygon([tuple(each) for each in corners], fill=1)
    return np.array(image, dtype=bool)


def _sample(ids: Int32[np.ndarray, "h w"]) -> tuple[np.ndarray, np.ndarray]:
    """Rows and columns of object pixels, about as many of each object. Shapes (k,)."""
    rows, cols = np.nonzero(ids)
    labels = ids[rows, cols]
    kept = np.random.default_rng(0).random(labels.size) * np.bincount(labels)[labels] < _SAMPLE
    return rows[kept], cols[kept]


class _Support:
    """The plane that objects rest on, as far as its connected readings reach."""

    def __init__(self, plane: SupportPlane, frame: Observation, rows: np.ndarray, cols: np.ndarray) -> None:
        """Take the plane and the pixels that show it."""
        k = frame.camera.intrinsics
        height, width = frame.shape
        # As wide a view as depth cameras have, where the camera is not known.
        self.fx, self.fy, self.cx, self.cy = k or (float(width), float(width), width / 2, height / 2)
        # 1 / z = a x + b y + c is n . p = 1 for the point p, so n is normal to the plane.
        self.plane = plane
        self.n = np.array(
            [plane.a * self.fx, plane.b * self.fy, plane.a * self.cx + plane.b * self.cy + plane.c]
        )
        self.along = np.linalg.svd(self.n[None])[2][1:]
        self.hull = ConvexHull(self._project(rows, cols, self._depth(rows, cols))[0])

    @classmethod
    def find(cls, frame: Observation, ids: Int32[np.ndarray, "h w"]) -> "_Support | None":
        """The support of a frame with masks; None where there is none."""
        if frame.depth is None:
            return None
        step = max(1, round((ids.size / _PIXELS) ** 0.5))
        ids, depth = ids[::step, ::step], frame.depth[::step, ::step]
        background = np.where(ids == 0, depth, np.float32(np.nan))
        plane = fit_support_plane(background, np.random.default_rng(0), behind_cost=0.0)
        if plane is None:
            return None
        expected = plane.depth(ids.shape)
        on = np.abs(background - expected) < np.maximum(NEAR_M, _NEAR_SHARE * expected)
        parts, _ = ndimage.label(on, np.ones((3, 3)))  # not the next table of the same height
        rows, cols = np.nonzero(on & (parts == np.bincount(parts[on], minlength=1).argmax()))
        if rows.size < LEAST_SHOWN * np.count_nonzero(ids):
            return None
        plane = SupportPlane(plane.a / step, plane.b / step, plane.c)
        try:
            return cls(plane, frame, rows * step, cols * step)
        except (QhullError, ValueError):  # a line or a point
            return None

    def carries(self, rows: np.ndarray, cols: np.ndarray, z: np.ndarray) -> Bool[np.ndarray, " k"]:
        """Whether each pixel shows something over the support; z may be NaN. Shape (k,)."""
        z = np.where(np.isfinite(z), z, self._depth(rows, cols))
        xy, height = self._project(rows, cols, z)
        beyond = (xy @ self.hull.equations[:, :2].T + self.hull.equations[:, 2]).max(axis=1)
        return np.asarray((beyond <= MARGIN_M) & (height >= HEIGHTS_M[0]) & (height <= HEIGHTS_M[1]))

    def _depth(self, rows: np.ndarray, cols: np.ndarray) -> Float[np.ndarray, " k"]:
        """Depth of the plane at pixels, in metres; very far where the ray does not meet it. Shape (k,)."""
        inverse = self.plane.a * cols + self.plane.b * rows + self.plane.c
        return np.asarray(1.0 / np.maximum(inverse, 1e-6))

    def _project(
        self, rows: np.ndarray, cols: np.ndarray, z: np.ndarray
    ) -> tuple[Float[np.ndarray, "k 2"], Float[np.ndarray, " k"]]:
        """Place along the plane and height over it, in metres. Shapes (k, 2) and (k,)."""
        points = np.stack([(cols - self.cx) / self.fx * z, (rows - self.cy) / self.fy * z, z], axis=1)
        return points @ self.along.T, (1.0 - points @ self.n) / np.linalg.norm(self.n)
