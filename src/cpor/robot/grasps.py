"""Where a parallel gripper can take an object, from one RGB-D frame with masks; nothing else is known.

Straight down and from tilted directions, the scene is turned into height maps as the coming fingers meet it.
A grasp is a line across the object on which both fingers have room beside it, as deep as the surroundings
allow, and press on opposite sides. What the camera did not see counts as blocked.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from jaxtyping import Float, Int8

from cpor.errors import InvalidSceneError
from cpor.robot import grasp_map_kernels as kernels
from cpor.robot.grasp_kernels import COLUMNS, search
from cpor.scene import Scene

SIDE_STEP = 0.003
"""Below what is seen from above, sides are thought of as points this far from each other. [m]"""

OWN_SIDES = 0.025
"""The object to grasp is thought to reach this far down from what is seen of it. [m]"""


@dataclass(frozen=True)
class Gripper:
    """A parallel gripper, as far as finding grasps goes.

    Attributes:
        opening: Greatest distance between the fingers. [m]
        finger_thickness: Along the direction of closing. [m]
        finger_width: Across it. [m]
        finger_length: From the palm to the tips. [m]
        palm_half: Half sizes of the palm along and across the direction of closing. [m]
    """

    opening: float = 0.085
    finger_thickness: float = 0.005
    finger_width: float = 0.016
    finger_length: float = 0.085
    palm_half: tuple[float, float] = (0.055, 0.03)


@dataclass(frozen=True)
class GraspSettings:
    """How grasps are looked for.

    Attributes:
        cell: Size of a cell of the height maps. [m]
        tilts_deg: Angles between approach and straight down.
        tilt_azimuths: How many directions a tilted approach may come from.
        angles: How many directions of closing are tried in half a turn.
        depths: How far below the object's top the tips may be, deepest first. [m]
        room: Between finger and object before closing. [m]
        floor_margin: Tips stay above table and bin by this. [m]
        other_margin: And above other objects beside the wanted one. [m]
        push: In `loose` grasps, how deep the tips may press into other objects' upper edges. [m]
        steepest: How much the sides of the object may lean inwards from the tips up, or towards each
            other across the fingers, as a tangent: there it is squeezed out. Twice that in `loose` ones.
        centres: At most this many places of the object are tried for an approach.
        most: At most this many grasps are returned.
        good: Score of the best grasp up to which `loose` ones are looked for too.
    """

    cell: float = 0.002
    tilts_deg: tuple[float, ...] = (0.0, 15.0, 30.0)
    tilt_azimuths: int = 8
    angles: int = 12
    depths: tuple[float, ...] = (0.032, 0.026, 0.021, 0.017, 0.013, 0.010, 0.007)
    room: float = 0.003
    floor_margin: float = 0.0025
    other_margin: float = 0.001
    push: float = 0.010
    steepest: float = 0.45
    centres: int = 60
    most: int = 40
    good: float = 0.4


@dataclass(frozen=True, eq=False)
class GraspPose:
    """A way to take an object.

    Attributes:
        T_world_gripper: Where the gripper closes: origin midway between the finger tips, z along the
            approach, x the direction of closing. Shape (4, 4). [m]
        width: Opening of the fingers before they close. [m]
        score: 1 is ideal, towards 0 the worse; only comparable within one object.
        loose: Whether the fingers push other objects aside.
    """

    T_world_gripper: Float[np.ndarray, "4 4"]
    width: float
    score: float
    loose: bool = False

    @property
    def approach(self) -> Float[np.ndarray, " 3"]:
        """Direction in which the gripper comes. Shape (3,)."""
        return self.T_world_gripper[:3, 2]


GraspFinder: TypeAlias = Callable[[Scene, int], list[GraspPose]]
"""Grasps of an object of a scene, best first; none where it cannot be taken."""


@dataclass(frozen=True, eq=False)
class HeightMap:
    """The scene around one object from above.

    Attributes:
        top: Height of what each cell shows. Shape (n, n). [m]
        what: Its layer, as `grasp_map_kernels` counts them. Shape (n, n).
        corner: Least x and y. [m]
        centre: Where the object's mass is thought to be. Shape (3,). [m]
    """

    top: Float[np.ndarray, "n n"]
    what: Int8[np.ndarray, "n n"]
    corner: tuple[float, float]
    centre: Float[np.ndarray, " 3"]


def find_grasps(
    scene: Scene, obj: int, gripper: Gripper | None = None, settings: GraspSettings | None = None
) -> list[GraspPose]:
    """Grasps of an object, best first.

    Those that push other objects aside count less, and are looked for only where the others are few or bad.

    Args:
        scene: Frame with depth, intrinsics, camera pose, and visible masks.
        obj: Id of the object.
        gripper: The gripper; `Gripper()` by default.
        settings: How to look; `GraspSettings()` by default.

    Returns:
        Grasps, best first; empty where the object shows too little or has no room around it.

    Raises:
        InvalidSceneError: The scene lacks depth, masks or the camera's calibration.
    """
    gripper, settings = gripper or Gripper(), settings or GraspSettings()
    surface = survey(scene, obj, settings.cell)
    if surface is None:
        return []
    found: list[GraspPose] = []
    views = _views(surface, settings)
    for loose in (False, True):
        found += _along_all_approaches(surface, views, gripper, settings, loose)
        if len(found) >= settings.most // 2 and found[0].score > settings.good:
            break
    return sorted(found, key=lambda grasp: -grasp.score)[: settings.most]


def survey(scene: Scene, obj: int, cell: float, around: float = 0.11) -> HeightMap | None:
    """Height map of the surroundings of an object; None where it shows no pixel with depth."""
    seen, camera = scene.observation, scene.observation.camera
    if seen.depth is None or scene.visible_ids is None:
        raise InvalidSceneError("grasps need depth and visible masks; this scene lacks one of them")
    if camera.intrinsics is None or camera.T_world_camera is None:
        raise InvalidSceneError("grasps need intrinsics and T_world_camera; calibrate the camera first")
    ids = scene.visible_ids
    layer = np.where(ids == obj, kernels.WANTED, np.where(ids > 0, kernels.OTHER, kernels.BACKGROUND))
    layer = layer.astype(np.int8)
    wanted = layer == kernels.WANTED
    rows, cols = np.nonzero(wanted & np.isfinite(seen.depth))
    if len(rows) < 20:
        return None
    fx, fy, cx, cy = camera.intrinsics
    # Only the part of the image around the object matters.
    reach = int(1.3 * (around + 0.02) * max(fx, fy) / float(np.median(seen.depth[rows, cols])))
    r0, r1 = max(0, rows.min() - reach), min(ids.shape[0], rows.max() + reach)
    c0, c1 = max(0, cols.min() - reach), min(ids.shape[1], cols.max() + reach)
    layer = np.ascontiguousarray(layer[r0:r1, c0:c1])
    depth = kernels.fill_depth(seen.depth[r0:r1, c0:c1].astype(np.float64), layer, 6)
    v, u = np.mgrid[r0:r1, c0:c1]
    points = np.stack([(u - cx) / fx * depth, (v - cy) / fy * depth, depth], axis=-1)
    points = points @ camera.T_world_camera[:3, :3].T + camera.T_world_camera[:3, 3]
    own = points[(layer == kernels.WANTED) & np.isfinite(depth)]
    low, high = np.percentile(own[:, :2], 1, axis=0), np.percentile(own[:, :2], 99, axis=0)
    middle = (low + high) / 2
    half = float((high - low).max()) / 2 + around
    n = int(2 * half / cell)
    corner = (float(middle[0] - half), float(middle[1] - half))
    top, what = kernels.map_heights(points, layer, *corner, cell, n, 0.006)
    centre = np.append(own[:, :2].mean(axis=0), np.percentile(own[:, 2], 80))
    amodal = next((o.amodal for o in scene.objects if o.id == obj), None)
    if amodal is not None and amodal.pixels.any():
        # How far the hidden part moves the middle.
        shown, whole = np.argwhere(wanted).mean(axis=0), np.argwhere(amodal.pixels).mean(axis=0)
        whole += amodal.top, amodal.left
        dv, du = (whole - shown) / (fy, fx) * np.nanmedian(depth[layer == kernels.WANTED])
        centre[:2] += (camera.T_world_camera[:3, :3] @ (du, dv, 0.0))[:2]
    return HeightMap(top, what, corner, centre)


def _views(surface: HeightMap, settings: GraspSettings) -> list[tuple[float, np.ndarray, np.ndarray]]:
    """The scene as fingers meet it that come along each approach, the straight ones first.

    Returns:
        Tilt of the approach [deg]; its axes, rows u and v across it, w against it, shape (3, 3); maps from
        `grasp_map_kernels.see_along`, shape (3, size, size) [m].
    """
    span = len(surface.top) // 2
    out = []
    for tilt in sorted(settings.tilts_deg):
        turns = settings.tilt_azimuths if tilt else 1
        for k in range(turns):
            azimuth, lean = 2 * np.pi * k / turns, np.deg2rad(tilt)
            w = np.array([np.sin(lean) * np.cos(azimuth), np.sin(lean) * np.sin(azimuth), np.cos(lean)])
            u = np.array([np.cos(lean) * np.cos(azimuth), np.cos(lean) * np.sin(azimuth), -np.sin(lean)])
            axes = np.stack([u, np.cross(w, u), w])
            seen = surface.top, surface.what, *surface.corner, settings.cell, surface.centre
            maps = kernels.see_along(*seen, axes, SIDE_STEP, OWN_SIDES, span)
            out.append((tilt, axes, kernels.close_holes(maps)))
    return out


def _along_all_approaches(
    surface: HeightMap,
    views: list[tuple[float, np.ndarray, np.ndarray]],
    gripper: Gripper,
    settings: GraspSettings,
    loose: bool,
) -> list[GraspPose]:
    g, s = gripper, settings
    hand = np.array([g.opening, g.finger_thickness, g.finger_width, g.finger_length, *g.palm_half])
    margins = np.array([s.room, 0.002, s.floor_margin, s.other_margin, s.steepest])
    if loose:
        # Fingers a little slimmer than they are: what they overlap with gives way.
        margins = np.array([0.0015, -0.002, s.floor_margin, -s.push, 2 * s.steepest])
        hand[1] = 0.003
    angles = np.arange(s.angles) * np.pi / s.angles
    rows, axes = [np.zeros((0, COLUMNS))], list[np.ndarray]()
    for tilt, across, maps in views:
        back, other, wanted = maps
        cells = np.argwhere(wanted > np.maximum(other, back))
        if len(cells) == 0:
            continue
        centres = np.ascontiguousarray(cells[:: max(1, len(cells) // s.centres)])
        floor_w = -surface.centre[2] * across[2, 2]
        found = search(maps, s.cell, centres, angles, np.array(s.depths), hand, margins, floor_w)
        # Straight down disturbs least; a tilt must earn its place.
        found[:, 5] += 0.35 * tilt / 30.0 + (1.2 if loose else 0.0)
        rows.append(found)
        axes += [across] * len(found)
    table = np.concatenate(rows)
    return [_pose(surface, axes[k], table[k], loose) for k in _diverse(table, axes, settings.most)]


def _diverse(table: np.ndarray, axes: list[np.ndarray], most: int) -> list[int]:
    """Rows of the best grasps, leaving out those that are nearly the same as a better one."""
    against = np.array([each[2] for each in axes]).reshape(-1, 3)
    kept: list[int] = []
    for k in np.argsort(table[:, 5], kind="stable"):
        if len(kept) == most:
            break
        turn = np.abs((table[kept, 3] - table[k, 3] + np.pi / 2) % np.pi - np.pi / 2)
        near = np.hypot(table[kept, 0] - table[k, 0], table[kept, 1] - table[k, 1]) < 0.008
        if not (near & (turn < 0.3) & (against[kept] @ against[k] > 0.98)).any():
            kept.append(int(k))
    return kept


def _pose(surface: HeightMap, axes: np.ndarray, row: np.ndarray, loose: bool) -> GraspPose:
    u, v, w, angle, width, cost = row[:6]
    closing = np.cos(angle) * axes[0] + np.sin(angle) * axes[1]
    T = np.eye(4)
    T[:3, 0], T[:3, 2] = closing, -axes[2]
    T[:3, 1] = np.cross(T[:3, 2], T[:3, 0])
    T[:3, 3] = surface.centre + u * axes[0] + v * axes[1] + w * axes[2]
    T.flags.writeable = False
    return GraspPose(T, float(width), float(np.exp(-cost / 2)), loose)
