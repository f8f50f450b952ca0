"""The two trays of the cell: what is released in one moves to a free place of that tray and stays there.

So there is room for the next object, and the physics stays fast: what lies in a tray touches nothing any
more. The cameras over the heap do not see the trays; films do.
"""

from typing import Literal, TypeAlias

import mujoco
import numpy as np

from cpor.sim.arm.motion import Motion
from cpor.sim.physics.sweep import vertical_reach
from cpor.sim.physics.world import DELIVERY, DISCARD

Tray: TypeAlias = Literal["discard", "delivery"]

TRAYS: dict[Tray, tuple[float, float]] = {"discard": DISCARD, "delivery": DELIVERY}

REACH = 0.14
"""What lies within this of a tray's middle, along x and y, is in the tray. [m]"""

_STEP = 0.055
"""Distance of the places of a tray from its middle, along x and y. [m]"""

_PLACES: dict[Tray, tuple[tuple[int, int], ...]] = {
    "discard": ((-1, -1), (1, 1), (-1, 1), (1, -1)),
    "delivery": ((0, 0), (-1, -1), (1, 1), (-1, 1), (1, -1)),
}
"""In steps; what is delivered lies where it was released."""

_LAYER = 0.05
"""Height of the next layer of places, once all are taken. [m]"""


class Trays:
    """Where objects went; the truth for experiments, not for the robot.

    Args:
        motion: Motion of the arm that fills these trays.
    """

    def __init__(self, motion: Motion) -> None:
        self._motion = motion
        self._world = motion.world
        self._tray_of: dict[int, Tray] = {}

    def holds(self, obj: int, tray: Tray | None = None) -> bool:
        """Whether an object is in a tray, in any if none is named."""
        return obj in self._tray_of and tray in (None, self._tray_of[obj])

    def clear(self) -> None:
        """Note what lies in the trays, and make room for the next release."""
        for obj, body in self._world.body_of.items():
            if obj in self._tray_of:
                continue
            where = self._world.data.xipos[body, :2]
            for tray, centre in TRAYS.items():
                if np.abs(where - centre).max() < REACH:
                    self.put(obj, tray)

    def put(self, obj: int, tray: Tray) -> None:
        """Lay an object into the next free place of a tray, as if it had been released there."""
        layer, place = divmod(sum(each == tray for each in self._tray_of.values()), len(_PLACES[tray]))
        self._tray_of[obj] = tray
        model, data, body = self._world.model, self._world.data, self._world.body_of[obj]
        joint = model.body_jntadr[body]
        position, speed = model.jnt_qposadr[joint], model.jnt_dofadr[joint]
        mine = self._world.object_of_geom == obj
        data.qpos[position : position + 2] = np.add(TRAYS[tray], np.multiply(_STEP, _PLACES[tray][place]))
        mujoco.mj_kinematics(model, data)
        data.qpos[position + 2] += _LAYER * layer - vertical_reach(model, data)[0][mine].min()
        data.qvel[speed : speed + 6] = 0.0
        model.geom_contype[mine] = 0
        model.geom_conaffinity[mine] = 0
        model.body_gravcomp[body] = 1.0
        self._motion.wake_all()
