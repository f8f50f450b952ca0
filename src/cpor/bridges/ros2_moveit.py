"""Objects of the label image as boxes, for the planning scene of MoveIt 2 or another planner.

Messages are taken by their fields: those of rclpy, of a bag or of our node will do.
"""

from collections.abc import Collection
from typing import Any, NamedTuple

import numpy as np

from cpor.bridges.ros_images import read_camera, read_depth
from cpor.errors import SceneFileError

BEHIND_M = 0.05
"""A camera sees the front of a thing; its box reaches so much further away. [m]"""

_OUTLIERS = 1.0  # percent of the points at each side: depth flies at edges

LEAST_POINTS = 10
"""An object with fewer points of depth has no box."""


class PlanningBox(NamedTuple):
    """A box around what is seen of an object, along the axes of the camera's optical frame.

    Attributes:
        id: In the label image.
        center: [m]
        size: [m]
    """

    id: int
    center: tuple[float, float, float]
    size: tuple[float, float, float]


def planning_boxes(
    labels: Any, depth: Any, info: Any, leave_out: Collection[int] = (), behind_m: float = BEHIND_M
) -> list[PlanningBox]:
    """A box for each object of a label image.

    Args:
        labels: `/cpor/labels`.
        depth: The depth image of the same frame, aligned to the photograph.
        info: Camera info of the photograph.
        leave_out: Ids without box, such as the object that is to be grasped.
        behind_m: How much further away than what is seen a box reaches. [m]

    Raises:
        SceneFileError: A message cannot be read, or they are not of one size.
    """
    ids, camera = read_depth(labels, "labels")[0], read_camera(info, "camera info")
    steps, unit_m = read_depth(depth, "depth")
    if camera is None:
        raise SceneFileError("the camera info has no focal length; calibrate the camera")
    if not ids.shape == steps.shape == camera.shape:
        raise SceneFileError(
            f"labels, depth and camera info are of {ids.shape}, {steps.shape} and {camera.shape} pixels; "
            "they must be of one frame"
        )
    z = steps.astype(np.float64) * unit_m
    k = camera.intrinsics
    found = []
    for obj in sorted(set(np.unique(ids).tolist()) - {0, *leave_out}):
        v, u = np.nonzero((ids == obj) & np.isfinite(z) & (z > 0.0))
        if len(v) < LEAST_POINTS:
            continue
        depth_m = z[v, u]
        points = np.stack([(u - k.cx) / k.fx * depth_m, (v - k.cy) / k.fy * depth_m, depth_m], axis=1)
        low, high = np.percentile(points, [_OUTLIERS, 100.0 - _OUTLIERS], axis=0)
        high[2] += behind_m
        (x, y, z_m), (dx, dy, dz) = ((low + high) / 2.0).tolist(), (high - low).tolist()
        found.append(PlanningBox(obj, (x, y, z_m), (dx, dy, dz)))
    return found
