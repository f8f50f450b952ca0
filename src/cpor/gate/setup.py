"""What the set-up of a camera looks like in a frame and its masks, so that another one is told from it."""

import numpy as np

from cpor.evidence.shadows import find_shadow
from cpor.gate.middle import middle_of
from cpor.scene import Scene

SETUP_FIGURES = {
    "width": "width of the picture in pixels",
    "field_of_view": "field of view in degrees",
    "distance": "distance of the middle of the picture in metres",
    "tilt": "tilt of the ground, from above to below as a share of the distance,",
    "size": "width of a typical object as a share of the picture's",
    "unread": "share of pixels without depth",
    "grain": "unevenness of depth from pixel to pixel in millimetres",
    "shadow": "baseline of the depth sensor in metres, by its shadows,",
}
"""What each figure is, for people."""

BEFORE = {"shadow": (0.0,)}
"""What a model says of a figure that is newer than it: before there was `shadow`, no shadow was filled."""

LESS_IS_SAFE = frozenset({"unread", "grain"})
"""A depth picture with fewer holes and less noise shows all that the tested ones showed. Of every other
figure less is as new as more: a nearer camera, a narrower picture or smaller objects show other errors."""

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
    focal = seen.shape[1] if seen.camera.intrinsics is None else seen.camera.intrinsics.fx
    side = find_shadow(seen.depth)
    figures["shadow"] = 0.0 if side is None else side.k / focal
    depth, third = seen.depth, seen.shape[0] // 3
    figures["unread"] = float(np.isnan(depth).mean())
    parts = (middle_of(depth), depth[:third], depth[-third:])
    if all(np.isfinite(part).any() for part in parts):
        middle, upper, lower = (float(np.nanmedian(part)) for part in parts)
        figures |= {"distance": middle, "tilt": (upper - lower) / middle}
    bend = 1e3 * np.abs(depth[:, 2:] - 2.0 * depth[:, 1:-1] + depth[:, :-2])
    bend = bend[bend < SMOOTH_MM]
    return figures | ({"grain": float(bend.mean())} if bend.size else {})
