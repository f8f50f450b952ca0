"""A film of the arm at work: poses are kept while it moves, pictures are made of them afterwards."""

from collections.abc import Callable
from dataclasses import replace

import mujoco
import numpy as np
from jaxtyping import Float, UInt8

from cpor.sim.camera.look import SceneLook
from cpor.sim.camera.shading import render_rgb
from cpor.sim.camera.views import CameraSetup, cast_views, overhead_camera
from cpor.sim.physics.world import World


class Film:
    """Takes down how the world stands every `every_s` seconds; give it to the robot as `watch`. [s]."""

    def __init__(self, every_s: float = 0.1) -> None:
        self.every_s = every_s
        self._poses: list[Float[np.ndarray, " nq"]] = []
        self._next_s = 0.0

    def __len__(self) -> int:
        return len(self._poses)

    def __call__(self, world: World) -> None:
        """Keep the pose if it is time; the world is not touched."""
        if world.data.time >= self._next_s:
            self._poses.append(np.array(world.data.qpos))
            self._next_s = world.data.time + self.every_s

    def develop(
        self,
        world: World,
        look: SceneLook,
        camera: CameraSetup,
        most: int = 160,
        progress: Callable[[str, int, int], None] = lambda what, done, total: None,
    ) -> tuple[list[UInt8[np.ndarray, "h w 3"]], float]:
        """At most so many pictures, the first and the last among them, and the time between two. [s].

        Only here frames are left out, since each costs a second or so.
        """
        count = min(most, len(self._poses))
        chosen = np.unique(np.linspace(0, len(self._poses) - 1, count).round().astype(int)).tolist()
        picture = make_projector(world, look, camera)
        frames = []
        for done, k in enumerate(chosen, 1):
            frames.append(picture(self._poses[k]))
            progress("film", done, len(chosen))
        shown_s = self.every_s * (len(self._poses) - 1) / max(1, len(frames) - 1)
        return frames, shown_s


def make_projector(
    world: World, look: SceneLook, camera: CameraSetup
) -> Callable[[Float[np.ndarray, " nq"]], UInt8[np.ndarray, "h w 3"]]:
    """A function that makes a picture of a pose (`data.qpos`) of a world, which may move meanwhile."""
    stage = replace(world, data=mujoco.MjData(world.model))

    def picture(pose: Float[np.ndarray, " nq"]) -> UInt8[np.ndarray, "h w 3"]:
        stage.data.qpos[:] = pose
        mujoco.mj_kinematics(stage.model, stage.data)
        return render_rgb(stage, cast_views(stage, camera), look)

    return picture


def film_camera(width: int = 480, height: int = 360) -> CameraSetup:
    """A camera that sees bin, trays and arm from the front."""
    return overhead_camera(
        width, height, tilt_deg=58.0, azimuth_deg=62.0, distance=1.35, fov_deg=40.0, look_at=(0.16, 0.0, 0.22)
    )


def close_camera(width: int = 480, height: int = 360) -> CameraSetup:
    """A camera nearer to the heap: bin, trays and gripper, but not all of the arm."""
    return overhead_camera(
        width, height, tilt_deg=56.0, azimuth_deg=62.0, distance=1.2, fov_deg=36.0, look_at=(0.2, 0.0, 0.17)
    )
