"""The simulated camera: where it stands, and what it would see without noise, hidden parts included.

Pixel (row, column) = (v, u) has its centre at u, v exactly, as OpenCV and RealSense have it. The camera
frame has x to the right, y down and z forward.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Float32, Int32

from cpor.errors import SimulationError
from cpor.scene import Camera, Intrinsics, MaskCrop
from cpor.sim.camera.rays import cast_images, gather_geometry
from cpor.sim.physics.world import HEAP_CENTRE, World


@dataclass(frozen=True, eq=False)
class CameraSetup:
    """A pinhole camera in the world.

    Attributes:
        width, height: Size of the image. [px]
        intrinsics: Focal lengths and principal point. [px]
        T_world_camera: Pose of the camera. Shape (4, 4). [m]
    """

    width: int
    height: int
    intrinsics: Intrinsics
    T_world_camera: Float[np.ndarray, "4 4"]

    def __post_init__(self) -> None:
        if self.width < 1 or self.height < 1:
            raise SimulationError(f"the image is {self.width} x {self.height}; give at least one pixel")
        pose = np.array(self.T_world_camera, dtype=np.float64)
        pose.flags.writeable = False
        object.__setattr__(self, "T_world_camera", pose)

    def describe(self, depth_unit_m: float = 0.001) -> Camera:
        """The same camera as observations carry it."""
        return Camera(self.intrinsics, np.array(self.T_world_camera), depth_unit_m)

    def rays(self, step: int = 1) -> Float[np.ndarray, "h w 3"]:
        """Direction of every `step`-th pixel in the world, 1 m along the optical axis. Shape (h, w, 3)."""
        fx, fy, cx, cy = self.intrinsics
        columns, rows = np.arange(0, self.width, step), np.arange(0, self.height, step)
        directions = np.empty((rows.size, columns.size, 3))
        directions[..., 0] = (columns - cx) / fx
        directions[..., 1] = ((rows - cy) / fy)[:, None]
        directions[..., 2] = 1.0
        in_world: np.ndarray = directions @ self.T_world_camera[:3, :3].T
        return in_world


@dataclass(frozen=True, eq=False)
class Views:
    """What a camera without noise sees, and what it would see of each object alone.

    Attributes:
        camera: The camera.
        depth: Along the optical axis; NaN where nothing is hit. Shape (h, w). [m]
        visible_ids: Object shown, 0 for table, bin, arm and nothing. Shape (h, w).
        geoms: MuJoCo's geom shown, -1 for nothing. Shape (h, w).
        normals: Surface normals in the world, away from the inside; zeros for nothing. Shape (h, w, 3).
        amodal: Mask of each object as if it were alone; empty for one outside of the image.
    """

    camera: CameraSetup
    depth: Float32[np.ndarray, "h w"]
    visible_ids: Int32[np.ndarray, "h w"]
    geoms: Int32[np.ndarray, "h w"]
    normals: Float32[np.ndarray, "h w 3"]
    amodal: Mapping[int, MaskCrop]

    def points(self) -> Float[np.ndarray, "h w 3"]:
        """What each pixel hits, in the world, in metres; NaN where nothing. Shape (h, w, 3)."""
        points: np.ndarray = self.camera.T_world_camera[:3, 3] + self.camera.rays() * self.depth[..., None]
        return points


def overhead_camera(
    width: int = 640,
    height: int = 480,
    tilt_deg: float = 0.0,
    azimuth_deg: float = 0.0,
    distance: float = 0.65,
    fov_deg: float = 30.0,
    look_at: tuple[float, float, float] = (*HEAP_CENTRE, 0.02),
) -> CameraSetup:
    """A camera above the heap.

    Args:
        width: Width of the image. [px]
        height: Height of the image. [px]
        tilt_deg: Angle between the optical axis and straight down; the camera leans back towards -y.
        azimuth_deg: Turn of the camera about the vertical through `look_at`; at 0 world x is to the right.
        distance: From `look_at`. [m]
        fov_deg: Angle of view from top to bottom.
        look_at: Point in the middle of the image. [m]

    Raises:
        SimulationError: An angle or the distance is out of range.
    """
    if not (0.0 < fov_deg < 170.0 and 0.0 <= tilt_deg < 90.0 and distance > 0.0):
        asked = f"fov_deg {fov_deg}, tilt_deg {tilt_deg}, distance {distance}"
        raise SimulationError(
            f"no overhead camera with {asked}; need 0 < fov < 170, 0 <= tilt < 90, distance > 0"
        )
    tilt, azimuth = np.deg2rad([tilt_deg, azimuth_deg])
    # Columns: right, down, forward, at azimuth 0.
    leaning = np.array(
        [
            [1.0, 0.0, 0.0],
            [0.0, -np.cos(tilt), np.sin(tilt)],
            [0.0, -np.sin(tilt), -np.cos(tilt)],
        ]
    )
    turn = np.array(
        [[np.cos(azimuth), -np.sin(azimuth), 0.0], [np.sin(azimuth), np.cos(azimuth), 0.0], [0.0, 0.0, 1.0]]
    )
    pose = np.eye(4)
    pose[:3, :3] = turn @ leaning
    pose[:3, 3] = np.array(look_at) - distance * pose[:3, 2]
    focal = 0.5 * height / np.tan(0.5 * np.deg2rad(fov_deg))
    intrinsics = Intrinsics(float(focal), float(focal), 0.5 * (width - 1), 0.5 * (height - 1))
    return CameraSetup(width, height, intrinsics, pose)


def cast_views(world: World, camera: CameraSetup, threads: int = 1) -> Views:
    """Look at a world as it stands; neither its model nor its data is touched.

    Args:
        world: What to look at; `data.qpos` says where things are.
        camera: From where.
        threads: How many to use; the result does not depend on it.
    """
    geometry = gather_geometry(world)
    shape = (camera.height, camera.width)
    images = cast_images(
        geometry, sorted(world.objects), camera.T_world_camera, camera.intrinsics, shape, threads
    )
    for image in (images.depth, images.visible_ids, images.geoms, images.normals):
        image.flags.writeable = False
    return Views(camera, images.depth, images.visible_ids, images.geoms, images.normals, images.amodal)
