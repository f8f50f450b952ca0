"""The two trays of the cell: what lies in one after a release is taken away, as a conveyor would.

So trays never fill up and the physics stays fast. What was taken away floats far from the cell, touches
nothing, and is remembered.
"""

from typing import Literal, TypeAlias

import numpy as np

from cpor.sim.arm.motion import Motion
from cpor.sim.physics.world import DELIVERY, DISCARD

Tray: TypeAlias = Literal["discard", "delivery"]

TRAYS: dict[Tray, tuple[float, float]] = {"discard": DISCARD, "delivery": DELIVERY}

REACH = 0.14
"""What lies within this of a tray's middle, along x and y, is in the tray. [m]"""

_PARK = (-3.0, 0.5)
"""x and z of where things are parked, one beside the other along y: out of any camera's view. [m]"""


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
        """Take away what lies in the trays."""
        for obj, body in self._world.body_of.items():
            if obj in self._tray_of:
                continue
            where = self._world.data.xipos[body, :2]
            for tray, centre in TRAYS.items():
                if np.abs(where - centre).max() < REACH:
                    self.put(obj, tray)

    def put(self, obj: int, tray: Tray) -> None:
        """Take an object away as if it had been put into a tray."""
        self._tray_of[obj] = tray
        model, data, body = self._world.model, self._world.data, self._world.body_of[obj]
        joint = model.body_jntadr[body]
        position, speed = model.jnt_qposadr[joint], model.jnt_dofadr[joint]
        data.qpos[position : position + 3] = _PARK[0], 0.4 * obj, _PARK[1]
        data.qvel[speed : speed + 6] = 0.0
        mine = self._world.object_of_geom == obj
        model.geom_contype[mine] = 0
        model.geom_conaffinity[mine] = 0
        model.body_gravcomp[body] = 1.0
        self._motion.wake_all()
