"""The same views through OpenGL, where it is installed; nothing else in this package needs it.

MuJoCo picks its OpenGL when it is imported, by the environment variable MUJOCO_GL. We never set it: with
a value whose library is missing, `import mujoco` itself may fail.
"""

import copy
from dataclasses import dataclass

import mujoco
import numpy as np
from jaxtyping import Float32, Int32, UInt8

from cpor.errors import SimulationError
from cpor.sim.camera.rays import FAR
from cpor.sim.camera.views import CameraSetup
from cpor.sim.physics.world import World

_NEAR = 0.05
_REMEDY = (
    "use the ray caster (cast_views and render_rgb need no OpenGL), or install an OpenGL library "
    "(Debian: libegl1 libgl1) and `pip install pyopengl`, and start Python with MUJOCO_GL=egl"
)


@dataclass(frozen=True, eq=False)
class GlViews:
    """What OpenGL shows of a world.

    Attributes:
        rgb: With MuJoCo's own lights and plain colours. Shape (h, w, 3).
        depth: NaN for nothing. Shape (h, w). [m]
        visible_ids: Object shown, 0 for table, bin, arm and nothing. Shape (h, w).
        geoms: MuJoCo's geom shown, -1 for nothing. Shape (h, w).
    """

    rgb: UInt8[np.ndarray, "h w 3"]
    depth: Float32[np.ndarray, "h w"]
    visible_ids: Int32[np.ndarray, "h w"]
    geoms: Int32[np.ndarray, "h w"]


def render_gl(world: World, camera: CameraSetup) -> GlViews:
    """Render a world as it stands with OpenGL; neither its model nor its data is touched.

    Raises:
        SimulationError: There is no OpenGL here.
    """
    model = copy.copy(world.model)
    model.vis.global_.offwidth, model.vis.global_.offheight = camera.width, camera.height
    # One sample a pixel, or ids would be mixed at edges; finer round things, since OpenGL draws facets.
    model.vis.quality.offsamples = 0
    model.vis.quality.numslices, model.vis.quality.numstacks = 128, 64
    model.stat.extent, model.vis.map.znear, model.vis.map.zfar = 1.0, _NEAR, FAR
    data = mujoco.MjData(model)
    data.qpos[:] = world.data.qpos
    data.mocap_pos[:] = world.data.mocap_pos
    data.mocap_quat[:] = world.data.mocap_quat
    mujoco.mj_forward(model, data)

    with _open_renderer(model, camera) as renderer:
        option = mujoco.MjvOption()
        option.geomgroup[:] = 1
        renderer.update_scene(data, scene_option=option)
        _aim(renderer.scene, camera)
        rgb = renderer.render()
        renderer.enable_segmentation_rendering()
        labels = renderer.render()
        renderer.enable_depth_rendering()
        depth = renderer.render()
    is_geom = labels[..., 1] == int(mujoco.mjtObj.mjOBJ_GEOM)
    geoms = np.where(is_geom, labels[..., 0], -1).astype(np.int32)
    ids = np.where(is_geom, world.object_of_geom[geoms], 0).astype(np.int32)
    return GlViews(rgb, np.where(is_geom, depth, np.float32(np.nan)).astype(np.float32), ids, geoms)


def _open_renderer(model: mujoco.MjModel, camera: CameraSetup) -> mujoco.Renderer:
    if not hasattr(mujoco, "Renderer"):
        raise SimulationError(f"this MuJoCo was built without OpenGL; {_REMEDY}")
    try:
        return mujoco.Renderer(model, camera.height, camera.width)
    except (ImportError, OSError, RuntimeError, AttributeError, mujoco.FatalError) as error:
        raise SimulationError(f"OpenGL cannot be used here ({error}); {_REMEDY}") from error


def _aim(scene: mujoco.MjvScene, camera: CameraSetup) -> None:
    """Give OpenGL's camera our pose and intrinsics."""
    pose = camera.T_world_camera
    fx, fy, cx, cy = camera.intrinsics
    # Pixel centres are whole numbers, so the image begins half a pixel before 0.
    left, right = (-0.5 - cx) / fx, (camera.width - 0.5 - cx) / fx
    top, bottom = (cy + 0.5) / fy, (cy + 0.5 - camera.height) / fy
    for eye in scene.camera:
        eye.pos, eye.forward, eye.up = pose[:3, 3], pose[:3, 2], -pose[:3, 1]
        eye.frustum_near, eye.frustum_far = _NEAR, FAR
        eye.frustum_center, eye.frustum_width = 0.5 * (left + right) * _NEAR, 0.5 * (right - left) * _NEAR
        eye.frustum_top, eye.frustum_bottom = top * _NEAR, bottom * _NEAR
