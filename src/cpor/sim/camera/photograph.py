"""One photograph of a simulated world: cast, coloured, and passed through the sensor."""

import numpy as np

from cpor.scene import DetectedObject, Scene
from cpor.sim.camera.look import SceneLook
from cpor.sim.camera.sensor import SensorModel, lit_image, sense, shine_image
from cpor.sim.camera.shading import render_rgb
from cpor.sim.camera.views import CameraSetup, Views, cast_views
from cpor.sim.physics.world import World


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
