"""The sensor model: what a depth camera makes of a perfect view.

Noise that grows with the square of the distance (stereo and structured light both triangulate), steps of
the depth unit, and readings that are missing: at depth edges, at grazing angles, and in blobs on dark or
shiny surfaces. The colour image is out of register with depth by a pixel or two, blurred and noisy.

Sensors by name add what their principle brings: shadows where a projector or second camera does not see the
surface (cast by a second ray), readings between two surfaces, hollows that look too deep, even surfaces
without readings, a depth picture with fewer pixels, and colour lit by the projector.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float32, UInt8
from scipy import ndimage

from cpor.errors import SimulationError
from cpor.io.depth import resize_depth
from cpor.scene import DetectedObject, Intrinsics, Observation, Scene
from cpor.sim.camera.look import SceneLook
from cpor.sim.camera.shading import list_surfaces, render_rgb
from cpor.sim.camera.views import FAR, CameraSetup, Views, cast_depth, cast_views, gather_geometry
from cpor.sim.physics.world import World


@dataclass(frozen=True)
class SensorModel:
    """How a camera fails.

    Attributes:
        noise_at_1m: Standard deviation of depth at 1 m; it grows with the square of depth. [m]
        noise_grain: Size over which the noise of neighbours is alike. [px]
        depth_unit_m: Step of the readings. [m]
        edge_loss: Chance that a reading next to a depth edge is missing.
        edge_width: How far from an edge readings suffer. [px]
        grazing_loss: Chance at a surface seen edge-on; falls to 0 where it is seen at 60 degrees.
        dark_loss: Share of a black surface that is missing.
        shiny_loss: Share of a mirror-like surface that is missing.
        stray_loss: Share missing anywhere.
        blob_px: Size of the holes. [px]
        shift_px: Standard deviation of the misregistration of colour against depth, a frame each. [px]
        blur_px: Standard deviation of the blur of the colour image. [px]
        rgb_noise: Standard deviation of the noise of a grey value of 128. [levels]
        baseline_m: Place of the projector or second camera: to the right of the camera, negative to the left;
            0: at the camera. [m]
        mixed: Chance that a reading next to a depth edge lies between the two surfaces.
        hollow_m: How much too deep a hollow 3 cm below its surroundings reads, by light on detours. [m]
        even_loss: Share of a surface without any pattern that is missing.
        coarse: Pixels of the colour picture for each pixel of the depth picture, along a side.
        projector_light: Share of the light that comes from the projector.
        colour_lost: Whether colour is black where depth is missing.
    """

    noise_at_1m: float
    noise_grain: float
    depth_unit_m: float
    edge_loss: float
    edge_width: float
    grazing_loss: float
    dark_loss: float
    shiny_loss: float
    stray_loss: float
    blob_px: float
    shift_px: float
    blur_px: float
    rgb_noise: float
    baseline_m: float = 0.0
    mixed: float = 0.0
    hollow_m: float = 0.0
    even_loss: float = 0.0
    coarse: int = 1
    projector_light: float = 0.0
    colour_lost: bool = False


# Like an Intel RealSense D435 at 0.5 to 0.8 m: 1 to 2 mm of noise, millimetre steps.
DEFAULT_SENSOR = SensorModel(
    noise_at_1m=0.0030, noise_grain=0.8, depth_unit_m=0.001, edge_loss=0.55, edge_width=2.0, grazing_loss=0.7,
    dark_loss=0.25, shiny_loss=0.30, stray_loss=0.002, blob_px=4.0, shift_px=0.8, blur_px=0.5, rgb_noise=2.5,
)  # fmt: skip
# Worse than any camera one would buy; for training.
HARSH_SENSOR = SensorModel(
    noise_at_1m=0.0070, noise_grain=1.2, depth_unit_m=0.001, edge_loss=0.85, edge_width=3.5,
    grazing_loss=0.95, dark_loss=0.6, shiny_loss=0.6, stray_loss=0.02, blob_px=6.0,
    shift_px=1.6, blur_px=0.9, rgb_noise=6.0,
)  # fmt: skip

# Active stereo; shadows, noise and holes as on five tables of a D415 (0.7 mm at 1 m, 6 cm, 4 % missing).
_REALSENSE = SensorModel(
    noise_at_1m=0.0015, noise_grain=1.2, depth_unit_m=0.001, edge_loss=0.35, edge_width=1.5, grazing_loss=0.6,
    dark_loss=0.15, shiny_loss=0.25, stray_loss=0.002, blob_px=5.0, shift_px=0.8, blur_px=0.6, rgb_noise=2.5,
    baseline_m=0.055,
)  # fmt: skip
# Structured light that lights the scene alone; as in five bins of a PhoXi (0.4 mm, half of the size, dark).
_PHOXI = SensorModel(
    noise_at_1m=0.0004, noise_grain=0.5, depth_unit_m=0.0001, edge_loss=0.3, edge_width=1.0, grazing_loss=0.7,
    dark_loss=0.35, shiny_loss=0.4, stray_loss=0.002, blob_px=2.5, shift_px=0.2, blur_px=0.5, rgb_noise=2.0,
    baseline_m=-0.30, coarse=2, projector_light=1.0, colour_lost=True,
)  # fmt: skip
# Time of flight, whose light comes from beside the lens.
_KINECT = SensorModel(
    noise_at_1m=0.0015, noise_grain=1.0, depth_unit_m=0.001, edge_loss=0.25, edge_width=1.5, grazing_loss=0.5,
    dark_loss=0.5, shiny_loss=0.3, stray_loss=0.002, blob_px=4.0, shift_px=1.0, blur_px=0.5, rgb_noise=2.5,
    baseline_m=0.02, mixed=0.5, hollow_m=0.006, coarse=2,
)  # fmt: skip
# Passive stereo: nothing projected, so that even surfaces have no depth.
_ZED = SensorModel(
    noise_at_1m=0.0050, noise_grain=2.5, depth_unit_m=0.001, edge_loss=0.5, edge_width=4.0, grazing_loss=0.5,
    dark_loss=0.3, shiny_loss=0.3, stray_loss=0.002, blob_px=8.0, shift_px=0.1, blur_px=0.5, rgb_noise=2.5,
    baseline_m=0.12, mixed=0.3, even_loss=0.35,
)  # fmt: skip

_PRESETS: dict[str, SensorModel | None] = {
    "none": None, "default": DEFAULT_SENSOR, "harsh": HARSH_SENSOR,
    "realsense": _REALSENSE, "phoxi": _PHOXI, "kinect": _KINECT, "zed": _ZED,
}  # fmt: skip

_HOLLOW_M = 0.03
"""Depth below the surroundings at which `hollow_m` is reached. [m]"""

_PATTERN = 6.0
"""Standard deviation of grey around a pixel from which on a surface is not even. [levels]"""

_SHADOW_STEP_M = 0.004
"""How much nearer what the projector meets must be for a point to lie in its shadow. [m]"""

_PROJECTOR_GAIN = 0.6
"""Brightness under the projector alone, over that of a lit room: 40 of 255 in five bins, half of it black."""

_EDGE_STEP = 0.015
"""A step in depth between neighbours that counts as an edge, at 1 m; objects lie on each other. [m]"""


def sensor_preset(name: str) -> SensorModel | None:
    """A sensor by name, see `SensorName`; None for `none`, which is perfect."""
    if name not in _PRESETS:
        raise SimulationError(f"unknown sensor {name!r}; there are: {', '.join(_PRESETS)}")
    return _PRESETS[name]


def lit_image(world: World, views: Views, baseline_m: float) -> Bool[np.ndarray, "h w"]:
    """What a projector or second camera sees of each pixel's surface, by a second ray. Shape (h, w).

    Args:
        world: As it stood when `views` were cast.
        views: What the camera sees.
        baseline_m: Where the other one stands: to the right, negative to the left. [m]
    """
    z = np.where(np.isfinite(views.depth), views.depth, FAR)
    fx, fy, cx, cy = views.camera.intrinsics
    pose = np.array(views.camera.T_world_camera)
    pose[:3, 3] += baseline_m * pose[:3, 0]
    height, width = z.shape
    shift = fx * baseline_m / z  # to the left, in the picture of the other one
    room = int(np.ceil(np.abs(shift).max())) + 1
    wider = Intrinsics(fx, fy, cx + room, cy), (height, width + 2 * room)
    seen = cast_depth(gather_geometry(world), pose, *wider)
    columns = np.arange(width) + room - shift
    # A point between two columns is lit where either is: pixels are not points.
    rows, left = np.arange(height)[:, None], np.floor(columns).astype(np.intp)
    met = np.maximum(seen[rows, left], seen[rows, left + 1])
    return np.asarray(z - met <= _SHADOW_STEP_M)


def shine_image(world: World, views: Views, look: SceneLook) -> Float32[np.ndarray, "h w"]:
    """How shiny what each pixel shows is, 0 for nothing. Shape (h, w)."""
    shines = np.append(list_surfaces(world, look)[3], 0.0).astype(np.float32)
    return np.asarray(shines[views.geoms])


def sense(
    views: Views,
    rgb: UInt8[np.ndarray, "h w 3"],
    camera: CameraSetup,
    sensor: SensorModel | None,
    rng: np.random.Generator,
    shine: Float32[np.ndarray, "h w"] | None = None,
    lit: Bool[np.ndarray, "h w"] | None = None,
) -> Observation:
    """The frame a sensor makes of a view.

    Args:
        views: What is there.
        rgb: Its picture, which also says what is dark. Shape (h, w, 3).
        camera: The camera of `views`.
        sensor: None for a perfect one.
        rng: Where the errors come from.
        shine: See `shine_image`; None: nothing shines. Shape (h, w).
        lit: See `lit_image`; None: there are no shadows. Shape (h, w).
    """
    if sensor is None:
        return Observation(rgb, np.array(views.depth), camera.describe())
    missing = _lost_readings(views, rgb, sensor, rng, shine)
    depth = _noisy_depth(views.depth, sensor, rng)
    depth[missing] = np.nan
    if lit is not None:
        depth[~lit] = np.nan
    if sensor.coarse > 1:
        depth = resize_depth(depth[:: sensor.coarse, :: sensor.coarse], depth.shape)
    rgb = _noisy_colour(_relit(rgb, lit, sensor.projector_light), sensor, rng)
    if sensor.colour_lost:
        rgb[np.isnan(depth)] = 0
    return Observation(rgb, depth, camera.describe(sensor.depth_unit_m))


def _relit(rgb: np.ndarray, lit: np.ndarray | None, share: float) -> np.ndarray:
    """The picture with a share of its light from the projector, which fades towards the corners."""
    if share == 0.0:
        return rgb
    height, width = rgb.shape[:2]
    off = np.hypot((np.arange(height)[:, None] / height - 0.5), np.arange(width) / width - 0.5)
    beam = _PROJECTOR_GAIN * (1.0 - off * off) * (1.0 if lit is None else lit)
    return np.asarray(np.round(rgb * (1.0 - share + share * beam)[..., None]).astype(np.uint8))


def _noisy_depth(depth: np.ndarray, sensor: SensorModel, rng: np.random.Generator) -> np.ndarray:
    if sensor.hollow_m > 0.0:
        known = np.nan_to_num(depth, nan=np.nanmax(depth, initial=0.0))
        below = known - ndimage.gaussian_filter(known, depth.shape[0] / 32.0)
        depth = depth + np.float32(sensor.hollow_m) * np.clip(below / np.float32(_HOLLOW_M), 0.0, 1.0)
    if sensor.mixed > 0.0:
        at_edge = (_edge_nearness(depth, 1.0) > 0.0) & (rng.random(depth.shape) < sensor.mixed)
        near, far = ndimage.minimum_filter(depth, 3), ndimage.maximum_filter(depth, 3)
        depth = np.where(at_edge, near + rng.random(depth.shape, np.float32) * (far - near), depth)
    noise = _grain(rng, depth.shape, sensor.noise_grain)
    measured = depth + np.float32(sensor.noise_at_1m) * depth * depth * noise
    unit = np.float32(sensor.depth_unit_m)
    return np.asarray(np.round(measured / unit) * unit, np.float32)


def _lost_readings(
    views: Views, rgb: np.ndarray, sensor: SensorModel, rng: np.random.Generator, shine: np.ndarray | None
) -> Bool[np.ndarray, "h w"]:
    """Where there is no reading. Shape (h, w)."""
    kept = 1.0 - sensor.edge_loss * _edge_nearness(views.depth, sensor.edge_width)
    facing = _facing(views)
    kept *= 1.0 - sensor.grazing_loss * np.clip(1.0 - 2.0 * facing, 0.0, 1.0)
    # The projected pattern drowns below a tenth of full brightness (about 25 of 255 is black plastic).
    brightness = rgb.max(axis=2).astype(np.float32)
    kept *= 1.0 - sensor.dark_loss * np.clip(1.0 - brightness / 70.0, 0.0, 1.0)
    if shine is not None:
        # Most where the mirror image of the camera itself is seen, some anywhere.
        kept *= 1.0 - sensor.shiny_loss * np.clip(2.0 * shine - 0.5, 0.0, 1.0) * (0.5 + 0.5 * facing**8)
    if sensor.even_loss > 0.0:
        grey = rgb.mean(axis=2, dtype=np.float32)
        variance = ndimage.uniform_filter(grey * grey, 9) - ndimage.uniform_filter(grey, 9) ** 2
        spread = np.sqrt(np.maximum(variance, 0.0))
        kept *= 1.0 - sensor.even_loss * np.clip(1.0 - spread / _PATTERN, 0.0, 1.0)
    kept *= 1.0 - sensor.stray_loss
    # Holes are blobs: one smooth field, made uniform over the image by its rank, decides for all causes.
    chance = _uniform_field(rng, views.depth.shape, sensor.blob_px)
    return np.asarray(chance > kept)


def _facing(views: Views) -> np.ndarray:
    """Cosine between the surface's normal and the way back to the camera. Shape (h, w)."""
    directions = views.camera.rays().astype(np.float32)
    cosine = -(directions * views.normals).sum(axis=2) / np.sqrt((directions * directions).sum(axis=2))
    return np.asarray(np.clip(cosine, 0.0, 1.0))


def _edge_nearness(depth: np.ndarray, width: float) -> np.ndarray:
    """1 at a step in depth, falling to 0 within `width` pixels. Shape (h, w)."""
    filled = np.nan_to_num(depth, nan=0.0)
    spread = ndimage.maximum_filter(filled, 3) - ndimage.minimum_filter(filled, 3)
    edges = spread > _EDGE_STEP * np.maximum(filled, 0.1)
    nearness: np.ndarray = edges.astype(np.float32)
    for away in range(1, int(np.ceil(width))):
        edges = ndimage.maximum_filter(edges, 3)
        np.maximum(nearness, np.float32(1.0 - away / width), out=nearness, where=edges)
    return nearness


def _grain(rng: np.random.Generator, shape: tuple[int, ...], grain: float) -> np.ndarray:
    """Normal noise with unit variance whose neighbours are alike over `grain` pixels. Shape (h, w)."""
    noise: np.ndarray = rng.standard_normal(shape, dtype=np.float32)
    if grain <= 0.0:
        return noise
    smooth = ndimage.gaussian_filter(noise, grain, mode="wrap", truncate=3.0)
    return np.asarray(smooth / smooth.std())


def _uniform_field(rng: np.random.Generator, shape: tuple[int, int], blob: float) -> np.ndarray:
    """Smooth noise, uniform in [0, 1] over the image. Shape (h, w)."""
    # The distribution function of the normal, close enough: |error| < 0.01.
    return np.asarray(1.0 / (1.0 + np.exp(-1.702 * _grain(rng, shape, 0.5 * blob))))


def _noisy_colour(rgb: np.ndarray, sensor: SensorModel, rng: np.random.Generator) -> np.ndarray:
    image = rgb.astype(np.float32)
    # Shift and blur are one small kernel along each axis.
    for axis, shift in enumerate(rng.normal(0.0, sensor.shift_px, size=2)):
        image = ndimage.correlate1d(image, _moved_blur(shift, sensor.blur_px), axis=axis, mode="nearest")
    # Shot noise: its variance grows with the light.
    spread = sensor.rgb_noise * np.sqrt((image + 16.0) / 144.0)
    image += spread * rng.standard_normal(image.shape, dtype=np.float32)
    return np.clip(np.round(image), 0, 255).astype(np.uint8)


def _moved_blur(shift: float, blur: float) -> np.ndarray:
    """Weights of a blur whose middle lies `shift` pixels off; never narrower than linear interpolation."""
    reach = int(np.ceil(abs(shift) + 3.0 * blur)) + 1
    offset = np.abs(np.arange(-reach, reach + 1) - shift)
    weights = np.exp(-0.5 * (offset / blur) ** 2) if blur > 0.25 else np.maximum(1.0 - offset, 0.0)
    return np.asarray(weights / weights.sum())


def photograph(
    world: World,
    camera: CameraSetup,
    look: SceneLook,
    sensor: SensorModel | None,
    rng: np.random.Generator,
    views: Views | None = None,
) -> Scene:
    """The scene a camera records, with true masks and names, without true relations; sensor None: perfect."""
    if views is None:
        views = cast_views(world, camera)
    rgb = render_rgb(world, views, look)
    shine = None if sensor is None else shine_image(world, views, look)
    lit = lit_image(world, views, sensor.baseline_m) if sensor is not None and sensor.baseline_m else None
    observation = sense(views, rgb, camera, sensor, rng, shine, lit)
    objects = tuple(
        DetectedObject(obj, views.amodal[obj], world.objects[obj].name) for obj in sorted(world.objects)
    )
    return Scene(observation, objects, views.visible_ids)
