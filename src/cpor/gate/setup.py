"""What the set-up of a camera looks like in a frame and its masks, so that another one is told from it."""

import numpy as np
from jaxtyping import Float32

from cpor.evidence.shadows import find_shadow
from cpor.io.depth import middle_of
from cpor.perception.support_plane import fit_support_plane
from cpor.scene import Intrinsics, Scene

SETUP_FIGURES = {
    "width": "width of the picture in pixels",
    "field_of_view": "field of view in degrees",
    "distance": "distance of the middle of the picture in metres",
    "height": "height of the camera above the ground in metres",
    "lean_across": "lean of the ground to the side (sine of the angle)",
    "lean_along": "lean of the ground from top to bottom (sine of the angle)",
    "size": "width of a typical object as a share of the picture's",
    "unread": "share of pixels without depth",
    "grain": "unevenness of depth from pixel to pixel in millimetres",
    "shadow": "baseline of the depth sensor in metres, by its shadows,",
}
"""What each figure is, for people."""

LESS_IS_SAFE = frozenset({"unread"})
"""A depth picture with fewer holes shows all that the tested ones showed. Of every other figure less is as
new as more: a nearer camera, a narrower picture or smaller objects show other errors, and smoother depth is
that of another kind of sensor, whose other errors were not tested."""

GROUND_WIDTH = 160
"""The ground is found on a copy about this wide. [px]"""

SMOOTH_MM = 5.0
"""Depth that bends by less than this from pixel to pixel shows no edge. [mm]"""


def setup_figures(scene: Scene) -> dict[str, float]:
    """One number for each of SETUP_FIGURES; NaN where it cannot be told."""
    seen, ids = scene.observation, scene.visible_ids
    figures = dict.fromkeys(SETUP_FIGURES, np.nan) | {"width": float(seen.shape[1])}
    if seen.camera.intrinsics is not None:
        half = 0.5 * seen.shape[0] / seen.camera.intrinsics.fy
        figures["field_of_view"] = float(np.rad2deg(2.0 * np.arctan(half)))
    if ids is not None and ids.any():
        counts = np.bincount(ids.reshape(-1))[1:]
        figures["size"] = float(np.median(np.sqrt(counts[counts > 0]))) / ids.shape[1]
    if seen.depth is None:
        return figures | {"unread": 1.0, "shadow": 0.0}
    depth = seen.depth
    focal = seen.shape[1] if seen.camera.intrinsics is None else seen.camera.intrinsics.fx
    side = find_shadow(depth)
    figures["shadow"] = 0.0 if side is None else side.k / focal
    figures["unread"] = float(np.isnan(depth).mean())
    if np.isfinite(middle := middle_of(depth)).any():
        figures["distance"] = float(np.nanmedian(middle))
    figures |= _ground(depth, seen.camera.intrinsics)
    bend = 1e3 * np.abs(depth[:, 2:] - 2.0 * depth[:, 1:-1] + depth[:, :-2])
    bend = bend[bend < SMOOTH_MM]
    return figures | ({"grain": float(bend.mean())} if bend.size else {})


def _ground(depth: Float32[np.ndarray, "h w"], camera: Intrinsics | None) -> dict[str, float]:
    """Height and normal of the plane that most of the scene rests on; nothing where neither is known."""
    stride = max(1, depth.shape[1] // GROUND_WIDTH)
    plane = fit_support_plane(depth[::stride, ::stride], np.random.default_rng(0)) if camera else None
    if camera is None or plane is None:
        return {}
    # A point X of the plane has n X = height, and its pixel is K X / z: so 1 / z = n K^-1 (x, y, 1) / height.
    a, b = plane.a / stride, plane.b / stride
    normal = np.array([a * camera.fx, b * camera.fy, plane.c + a * camera.cx + b * camera.cy])
    height = float(1.0 / np.linalg.norm(normal))
    across, along = (normal[:2] * height).tolist()
    return {"height": height, "lean_across": across, "lean_along": along}
