"""The simulated camera: where it stands, and what it would see without noise, hidden parts included.

Rays are cast without OpenGL. MuJoCo has `mj_multiRay`, which tests every ray against every geom near it; our
kernel goes from a geom to the pixels it can touch, so that hidden parts come at no extra cost and an image
takes a tenth of the time. The tests compare the two.

Pixel (row, column) = (v, u) has its centre at u, v exactly, as OpenCV and RealSense have it. The camera
frame has x to the right, y down and z forward.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import mujoco
import numpy as np
from jaxtyping import Float, Float32, Int32, Int64

from cpor.errors import SimulationError
from cpor.scene import Camera, Intrinsics, MaskCrop
from cpor.sim.camera import _ray_kernels as kernels
from cpor.sim.physics.world import HEAP_CENTRE, World

FAR = 10.0
"""Nothing beyond this is seen; the heap is within 1 m of the camera. [m]"""

_NEAR = 1e-3
"""Geoms that reach closer to the camera plane than this may touch any pixel. [m]"""

_CORNERS = np.array([(x, y, z) for x in (-1.0, 1.0) for y in (-1.0, 1.0) for z in (-1.0, 1.0)])

_KNOWN_KINDS = frozenset((kernels.PLANE, *range(kernels.SPHERE, kernels.MESH + 1)))


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
        return np.asarray(directions @ self.T_world_camera[:3, :3].T)


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
        return np.asarray(self.camera.T_world_camera[:3, 3] + self.camera.rays() * self.depth[..., None])


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
    """
    if not (0.0 < fov_deg < 170.0 and 0.0 <= tilt_deg < 90.0 and distance > 0.0):
        asked = f"fov_deg {fov_deg}, tilt_deg {tilt_deg}, distance {distance}"
        raise SimulationError(f"no camera with {asked}; need 0 < fov < 170, 0 <= tilt < 90, distance > 0")
    tilt, azimuth = np.deg2rad([tilt_deg, azimuth_deg])
    # Columns: right, down, forward, at azimuth 0.
    c, s = np.cos(tilt), np.sin(tilt)
    leaning = np.array([[1.0, 0.0, 0.0], [0.0, -c, s], [0.0, -s, -c]])
    c, s = np.cos(azimuth), np.sin(azimuth)
    turn = np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]])
    pose = np.eye(4)
    pose[:3, :3] = turn @ leaning
    pose[:3, 3] = np.array(look_at) - distance * pose[:3, 2]
    focal = 0.5 * height / np.tan(0.5 * np.deg2rad(fov_deg))
    intrinsics = Intrinsics(float(focal), float(focal), 0.5 * (width - 1), 0.5 * (height - 1))
    return CameraSetup(width, height, intrinsics, pose)


@dataclass(frozen=True, eq=False)
class Geometry:
    """All geoms of a world that can be seen, where they stand now.

    Attributes:
        numbers: MuJoCo's number of each. Shape (n,).
        kinds: MuJoCo's type of each. Shape (n,).
        positions: In the world. Shape (n, 3). [m]
        rotations: From the frame of the geom to the world. Shape (n, 3, 3).
        sizes: As MuJoCo has them. Shape (n, 3). [m]
        aabbs: Centre and half size of the box around each, in its frame. Shape (n, 6). [m]
        planes: Faces of meshes: outward normal and offset, in the frame of the geom. Shape (m, 4).
        plane_range: First and end face of each geom. Shape (n, 2).
        objects: Object id of each, 0 for table, bin and arm. Shape (n,).
    """

    numbers: Int32[np.ndarray, " n"]
    kinds: Int64[np.ndarray, " n"]
    positions: Float[np.ndarray, "n 3"]
    rotations: Float[np.ndarray, "n 3 3"]
    sizes: Float[np.ndarray, "n 3"]
    aabbs: Float[np.ndarray, "n 6"]
    planes: Float[np.ndarray, "m 4"]
    plane_range: Int64[np.ndarray, "n 2"]
    objects: Int32[np.ndarray, " n"]


def gather_geometry(world: World) -> Geometry:
    """The geoms of a world as it stands; its model and data are only read."""
    model = world.model
    # Positions in `world.data` may be those of before the last change of `qpos`, and are not ours to renew.
    data = mujoco.MjData(model)
    data.qpos[:] = world.data.qpos
    data.mocap_pos[:] = world.data.mocap_pos
    data.mocap_quat[:] = world.data.mocap_quat
    mujoco.mj_kinematics(model, data)

    seen = np.flatnonzero(model.geom_rgba[:, 3] > 0.0)
    kinds = model.geom_type[seen].astype(np.int64)
    for number, kind in zip(seen, kinds, strict=True):
        if kind not in _KNOWN_KINDS:
            raise SimulationError(
                f"the camera cannot see geom {number} ({model.geom(number).name!r}) of MuJoCo's type {kind}; "
                "use boxes, cylinders, capsules, ellipsoids, spheres, planes or convex meshes"
            )
    planes, plane_range = _faces(model, seen, kinds)
    return Geometry(
        numbers=seen.astype(np.int32),
        kinds=kinds,
        positions=np.array(data.geom_xpos[seen]),
        rotations=np.array(data.geom_xmat[seen]).reshape(-1, 3, 3),
        sizes=np.array(model.geom_size[seen]),
        aabbs=np.array(model.geom_aabb[seen]),
        planes=planes,
        plane_range=plane_range,
        objects=world.object_of_geom[seen].astype(np.int32),
    )


def cast_depth(
    geometry: Geometry,
    T_world_camera: Float[np.ndarray, "4 4"],
    intrinsics: Intrinsics,
    shape: tuple[int, int],
) -> Float[np.ndarray, "h w"]:
    """Depth alone, infinity where nothing is hit: what a light sees, in metres. Shape (h, w)."""
    boxes = _pixel_boxes(geometry, T_world_camera, intrinsics, shape)
    depth = np.full(shape, np.inf)
    geoms = np.full(shape, -1, np.int32)
    no_owner = np.full(geometry.kinds.shape, -1)
    nothing, no_start, no_box = np.zeros(0, np.uint8), np.zeros(0, np.int64), np.zeros((0, 4), np.int64)
    kernels.cast_geoms(
        *_arrays(geometry), boxes, no_owner, *_pinhole(T_world_camera, intrinsics), FAR,
        depth, geoms, nothing, no_start, no_box,
    )  # fmt: skip
    return depth


def cast_views(world: World, camera: CameraSetup) -> Views:
    """Look at a world as it stands, one ray a pixel; neither its model nor its data is touched."""
    geometry, ids = gather_geometry(world), sorted(world.objects)
    height, width = shape = (camera.height, camera.width)
    boxes = _pixel_boxes(geometry, camera.T_world_camera, camera.intrinsics, shape)
    index = {obj: k for k, obj in enumerate(ids)}
    owners = np.array([index.get(int(obj), -1) for obj in geometry.objects], dtype=np.int64)
    alone_box = np.array([_around(boxes[owners == k]) for k in range(len(ids))], np.int64).reshape(-1, 4)
    areas = (alone_box[:, 1] - alone_box[:, 0]) * (alone_box[:, 3] - alone_box[:, 2])
    alone_start = np.cumsum(areas) - areas
    alone = np.zeros(int(areas.sum()), np.uint8)
    depth = np.full(shape, np.inf)
    hits = np.full(shape, -1, np.int32)
    pinhole = _pinhole(camera.T_world_camera, camera.intrinsics)

    kernels.cast_geoms(
        *_arrays(geometry), boxes, owners, *pinhole, FAR,
        depth, hits, alone, alone_start, alone_box,
    )  # fmt: skip
    views = Views(
        camera,
        depth=np.empty(shape, np.float32),
        visible_ids=np.empty(shape, np.int32),
        geoms=np.empty(shape, np.int32),
        normals=np.empty((height, width, 3), np.float32),
        amodal={obj: _crop(alone[alone_start[k] :], alone_box[k]) for obj, k in index.items()},
    )
    images = views.depth, views.visible_ids, views.geoms, views.normals
    which = geometry.objects, geometry.numbers
    kernels.finish_images(*_arrays(geometry), *which, *pinhole, depth, hits, *images)
    for image in images:
        image.flags.writeable = False
    return views


def _arrays(geometry: Geometry) -> tuple[np.ndarray, ...]:
    g = geometry
    return g.kinds, g.positions, g.rotations, g.sizes, g.planes, g.plane_range


def _pinhole(T_world_camera: np.ndarray, intrinsics: Intrinsics) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    pose = np.array(T_world_camera, dtype=np.float64)
    return pose[:3, 3].copy(), pose[:3, :3].copy(), np.array(intrinsics, dtype=np.float64)


def _faces(model: mujoco.MjModel, seen: np.ndarray, kinds: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Planes of the faces of all meshes, and which belong to which geom."""
    planes = np.zeros((0, 4))
    plane_range = np.zeros((seen.size, 2), np.int64)
    for k in np.flatnonzero(kinds == kernels.MESH):
        faces = _planes_of_mesh(model, int(model.geom_dataid[seen[k]]))
        plane_range[k] = len(planes), len(planes) + len(faces)
        planes = np.concatenate([planes, faces])
    return planes, plane_range


def _planes_of_mesh(model: mujoco.MjModel, mesh: int) -> np.ndarray:
    """Outward normal and offset of each face of a convex mesh, equal ones once. Shape (m, 4)."""
    first, count = model.mesh_vertadr[mesh], model.mesh_vertnum[mesh]
    vertices = np.array(model.mesh_vert[first : first + count], dtype=np.float64)
    first, count = model.mesh_faceadr[mesh], model.mesh_facenum[mesh]
    a, b, c = (vertices[model.mesh_face[first : first + count, k]] for k in range(3))
    normals = np.cross(b - a, c - a)
    lengths = np.linalg.norm(normals, axis=1)
    proper = lengths > 1e-12
    normals = normals[proper] / lengths[proper, None]
    offsets = (normals * a[proper]).sum(axis=1)
    # Vertices are kept in single precision: 1e-5 m is far above its rounding, far below what one sees.
    if (vertices @ normals.T - offsets).max() > 1e-5:
        raise SimulationError(
            f"mesh {model.mesh(mesh).name!r} is not convex; MuJoCo lets it collide as its hull, so make a "
            "concave object of several convex parts"
        )
    _, once = np.unique(np.round(np.column_stack([normals, offsets]), 5), axis=0, return_index=True)
    once.sort()
    return np.column_stack([normals, offsets])[once]


def _pixel_boxes(
    geometry: Geometry, T_world_camera: np.ndarray, intrinsics: Intrinsics, shape: tuple[int, int]
) -> np.ndarray:
    """First row, end row, first column, end column, in pixels, that each geom can touch. Shape (n, 4)."""
    height, width = shape
    fx, fy, cx, cy = intrinsics
    corners = geometry.aabbs[:, None, :3] + _CORNERS * geometry.aabbs[:, None, 3:]
    in_world = corners @ geometry.rotations.transpose(0, 2, 1) + geometry.positions[:, None]
    in_camera = (in_world - T_world_camera[:3, 3]) @ T_world_camera[:3, :3]
    z = in_camera[..., 2]
    everywhere = (z < _NEAR).any(axis=1) | (geometry.kinds == kernels.PLANE)
    behind = (z < _NEAR).all(axis=1) & (geometry.kinds != kernels.PLANE)
    z = np.maximum(z, _NEAR)
    u = fx * in_camera[..., 0] / z + cx
    v = fy * in_camera[..., 1] / z + cy
    edges = np.stack(
        [np.floor(v.min(1)), np.ceil(v.max(1)) + 1, np.floor(u.min(1)), np.ceil(u.max(1)) + 1], 1
    )
    edges[everywhere] = 0, height, 0, width
    edges[behind] = 0
    return np.asarray(np.clip(edges, 0, (height, height, width, width)), np.int64)


def _around(boxes: np.ndarray) -> tuple[int, int, int, int]:
    """The box around boxes that are not empty."""
    boxes = boxes[(boxes[:, 0] < boxes[:, 1]) & (boxes[:, 2] < boxes[:, 3])]
    if not len(boxes):
        return 0, 0, 0, 0
    return int(boxes[:, 0].min()), int(boxes[:, 1].max()), int(boxes[:, 2].min()), int(boxes[:, 3].max())


def _crop(pixels: np.ndarray, box: np.ndarray) -> MaskCrop:
    """The mask in a box of the image, shrunk to what it holds."""
    top, bottom, left, right = (int(edge) for edge in box)
    inside = pixels[: (bottom - top) * (right - left)].reshape(bottom - top, right - left).astype(bool)
    return MaskCrop.from_mask(inside, top, left)
