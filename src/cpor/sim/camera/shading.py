"""The colour picture: patterns, lamps with soft shadows, gloss, and darker corners, from the rays' hits."""

import mujoco
import numpy as np
from jaxtyping import Float, Float32, UInt8
from scipy import ndimage

from cpor.errors import SimulationError
from cpor.scene import Intrinsics
from cpor.sim.camera import _shade_kernels as kernels
from cpor.sim.camera.look import Light, SceneLook
from cpor.sim.camera.views import Geometry, Views, cast_depth, gather_geometry
from cpor.sim.objects.solids import Surface
from cpor.sim.physics.world import World

SHADOW_PIXELS = 384
"""Edge of a lamp's depth image; 1 to 2 mm a pixel at the usual distance."""

_CURVE_STEPS = 8192
_OPEN_STEP = 4
_DARKEST_CORNER = 0.35

PATTERN_CODES = {"plain": 0, "stripes": 1, "checker": 2, "speckle": 3, "label": 4, "grain": 5}
"""Numbers of the patterns in `_shade_kernels.pattern_weight`."""

ARM_SHINE = 0.4
"""The arm is of painted and brushed aluminium."""


def render_rgb(world: World, views: Views, look: SceneLook) -> UInt8[np.ndarray, "h w 3"]:
    """The picture of a world without noise, as it stood when `views` were cast. Shape (h, w, 3)."""
    light = _gather_light(world, gather_geometry(world), views, look)
    gains = look.exposure * np.array(look.white_balance)
    steps = (light * gains * (0.5 * (_CURVE_STEPS - 1)) + 0.5).astype(np.int64)
    return _film_curve()[np.clip(steps, 0, _CURVE_STEPS - 1)]


def _gather_light(
    world: World, geometry: Geometry, views: Views, look: SceneLook
) -> Float32[np.ndarray, "h w 3"]:
    """Linear light of each pixel. Shape (h, w, 3)."""
    count = world.model.ngeom
    positions, rotations = np.zeros((count, 3)), np.zeros((count, 3, 3))
    positions[geometry.numbers], rotations[geometry.numbers] = geometry.positions, geometry.rotations
    pose = views.camera.T_world_camera
    out = np.empty((*views.depth.shape, 3), np.float32)
    arrays = (
        views.depth, views.geoms, views.normals, _openness(views),
        pose[:3, 3].copy(), pose[:3, :3].copy(), np.array(views.camera.intrinsics, dtype=np.float64),
        positions, rotations, *list_surfaces(world, look),
        *_place_lamps(geometry, views, look), np.array(look.ambient, dtype=np.float64),
    )  # fmt: skip

    kernels.shade(*arrays, out)
    return out


def _place_lamps(geometry: Geometry, views: Views, look: SceneLook) -> tuple[np.ndarray, ...]:
    """Position, colour, frame, focal lengths, depth image and softness of each lamp, stacked."""
    centre, radius = _lit_region(views)
    count = len(look.lights)
    rotations, focals = np.zeros((count, 3, 3)), np.zeros((count, 4))
    maps = np.zeros((count, SHADOW_PIXELS, SHADOW_PIXELS))
    reaches = np.zeros(count)
    for k, lamp in enumerate(look.lights):
        pose, intrinsics = _lamp_camera(lamp, centre, radius)
        maps[k] = cast_depth(geometry, pose, intrinsics, (SHADOW_PIXELS, SHADOW_PIXELS))
        rotations[k], focals[k] = pose[:3, :3], intrinsics
        # Four looks a row span twice the half width of the shadow's edge.
        pixel = float(np.linalg.norm(centre - lamp.position)) / intrinsics.fx
        reaches[k] = max(2.0 * lamp.softness / 3.0 / pixel, 0.5)
    lamps = np.array([lamp.position for lamp in look.lights], dtype=np.float64).reshape(count, 3)
    colours = np.array([lamp.colour for lamp in look.lights], dtype=np.float64).reshape(count, 3)
    return lamps, colours, rotations, focals, maps, reaches


def _lit_region(views: Views) -> tuple[Float[np.ndarray, " 3"], float]:
    """Centre and radius, in metres, of a sphere around what the picture shows."""
    camera = views.camera
    points = (camera.T_world_camera[:3, 3] + camera.rays(16) * views.depth[::16, ::16, None]).reshape(-1, 3)
    points = points[np.isfinite(points).all(axis=1)]
    if not len(points):
        return np.zeros(3), 1.0
    centre = 0.5 * (points.min(axis=0) + points.max(axis=0))
    return centre, float(np.linalg.norm(points - centre, axis=1).max()) + 0.01


def _lamp_camera(lamp: Light, centre: np.ndarray, radius: float) -> tuple[np.ndarray, Intrinsics]:
    """A camera in a lamp that sees a sphere."""
    ahead = centre - np.array(lamp.position)
    distance = float(np.linalg.norm(ahead))
    ahead = ahead / distance
    aside = np.cross(ahead, (0.0, 1.0, 0.0) if abs(ahead[1]) < 0.9 else (1.0, 0.0, 0.0))
    aside /= np.linalg.norm(aside)
    pose = np.eye(4)
    pose[:3, :3] = np.column_stack([aside, np.cross(ahead, aside), ahead])
    pose[:3, 3] = lamp.position
    # A lamp inside the sphere sees half of all; what lies further off is lit without shadow.
    slope = radius / np.sqrt(distance**2 - radius**2) if distance > 1.1 * radius else 2.0
    focal = 0.5 * SHADOW_PIXELS / slope
    return pose, Intrinsics(focal, focal, 0.5 * (SHADOW_PIXELS - 1), 0.5 * (SHADOW_PIXELS - 1))


def _openness(views: Views) -> Float32[np.ndarray, "h w"]:
    """Share of ambient light each pixel gets: less where the neighbourhood stands higher. Shape (h, w)."""
    depth = views.depth
    missing = ~np.isfinite(depth)
    if missing.any():
        farthest = np.float32(1.0) if missing.all() else np.nanmax(depth)
        depth = np.where(missing, farthest, depth)
    coarse = depth[::_OPEN_STEP, ::_OPEN_STEP]
    # The neighbourhood is about as wide as the objects: 1/32 of the picture, and half of it.
    wide = depth.shape[0] / (32.0 * _OPEN_STEP)
    deeper = np.zeros(depth.shape, np.float32)
    for sigma, share in ((wide, 0.6), (0.4 * wide, 0.4)):
        around = ndimage.gaussian_filter(coarse, sigma, mode="nearest", truncate=2.5)
        full = around.repeat(_OPEN_STEP, axis=0).repeat(_OPEN_STEP, axis=1)
        full = full[: depth.shape[0], : depth.shape[1]]
        full = ndimage.uniform_filter(full, _OPEN_STEP, mode="nearest")
        deeper += np.float32(share) * (depth - full)
    # A hollow 3 cm below its surroundings loses half of the sky.
    return np.asarray(np.clip(1.0 - deeper / np.float32(0.06), _DARKEST_CORNER, 1.0), np.float32)


def _film_curve() -> UInt8[np.ndarray, " n"]:
    """Bytes of linear light from 0 to 2: sRGB with a soft shoulder above 0.7 instead of hard clipping."""
    light = np.linspace(0.0, 2.0, _CURVE_STEPS)
    knee = 0.7
    soft = np.where(light > knee, knee + (1.0 - knee) * (1.0 - np.exp(-(light - knee) / (1.0 - knee))), light)
    srgb = np.where(soft <= 0.0031308, 12.92 * soft, 1.055 * np.maximum(soft, 1e-9) ** (1.0 / 2.4) - 0.055)
    return np.clip(np.round(255.0 * srgb), 0, 255).astype(np.uint8)


def list_surfaces(world: World, look: SceneLook) -> tuple[np.ndarray, ...]:
    """What each geom looks like: objects as their parts say, table and bin as `look` says, others by rgba.

    Returns:
        Linear RGB of main and second colour, shape (ngeom, 2, 3); and, shape (ngeom,), code of the
        pattern, size of one repetition [m], shine, and longest axis, along which the pattern is laid.
    """
    model = world.model
    surfaces = [_surface_of_static(model, number, look) for number in range(model.ngeom)]
    for obj, thing in world.objects.items():
        body = world.body_of[obj]
        first, count = int(model.body_geomadr[body]), int(model.body_geomnum[body])
        if count != len(thing.parts):
            both = f"{len(thing.parts)} parts but {count} geoms"
            raise SimulationError(f"object {obj} ({thing.name}) has {both}; build one geom a part")
        surfaces[first : first + count] = [part.surface for part in thing.parts]
    return (
        np.array([(each.colour, each.second) for each in surfaces], dtype=np.float64),
        np.array([PATTERN_CODES[each.pattern] for each in surfaces], dtype=np.int64),
        np.array([each.scale for each in surfaces], dtype=np.float64),
        np.array([each.shine for each in surfaces], dtype=np.float64),
        _longest_axes(model),
    )


def _surface_of_static(model: mujoco.MjModel, number: int, look: SceneLook) -> Surface:
    name = model.geom(number).name
    if name.startswith("table"):
        return look.table
    if name.startswith("bin"):
        return look.bin
    red, green, blue, _ = (float(value) for value in model.geom_rgba[number])
    return Surface((red, green, blue), shine=ARM_SHINE)


def _longest_axes(model: mujoco.MjModel) -> np.ndarray:
    """Index of the longest axis; z where it is as long as another, since round things stand along z."""
    half = np.array(model.geom_aabb[:, 3:])
    longest = half.max(axis=1, keepdims=True)
    axes: np.ndarray = 2 - (half >= 0.999 * longest)[:, ::-1].argmax(axis=1)
    # A cylinder keeps its axis even where it is flat: labels and stripes run around it.
    is_round = np.isin(model.geom_type, (mujoco.mjtGeom.mjGEOM_CYLINDER, mujoco.mjtGeom.mjGEOM_CAPSULE))
    return np.where(is_round, 2, axes).astype(np.int64)
