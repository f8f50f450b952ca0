"""A simulated world: a table, perhaps a bin on it, objects, perhaps the arm, and their ids in MuJoCo.

World frame: the table top is z = 0 with z up, the arm's base stands in the origin and looks along +x, the
heap lies around `HEAP_CENTRE`. What is taken away goes to the tray at `DISCARD`, the target to `DELIVERY`.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import mujoco
import numpy as np
from jaxtyping import Float, Int32

from cpor.sim.objects.solids import ObjectModel

HEAP_CENTRE = (0.36, 0.0)
"""Where the heap lies, well inside the reach of a UR3e (0.5 m). [m]"""

DISCARD = (0.05, 0.34)
"""Where what is removed is put. [m]"""

DELIVERY = (0.05, -0.34)
"""Where the target is put. [m]"""


@dataclass(frozen=True)
class Bin:
    """An open bin around `HEAP_CENTRE`; None in its place is a bare table.

    Attributes:
        inner: Inner length along x and width along y. [m]
        height: Height of the walls above the floor. [m]
        wall: Thickness of the walls; the floor is the table, which is thick. [m]
    """

    inner: tuple[float, float] = (0.22, 0.18)
    height: float = 0.06
    wall: float = 0.006


@dataclass(frozen=True, eq=False)
class World:
    """A compiled world and its present state; physics runs in `data`.

    Attributes:
        model: The compiled model.
        data: Its state; each step changes it.
        objects: By id, 1 to n; the ids are those of scenes.
        body_of: MuJoCo's body of each object.
        object_of_geom: Object id of each geom, 0 for table, bin and arm. Shape (ngeom,).
        bin: The bin, None on a bare table.
        has_arm: Whether the arm is there.
    """

    model: mujoco.MjModel
    data: mujoco.MjData
    objects: Mapping[int, ObjectModel]
    body_of: Mapping[int, int]
    object_of_geom: Int32[np.ndarray, " ngeom"]
    bin: Bin | None
    has_arm: bool

    def pose(self, obj: int) -> Float[np.ndarray, " 7"]:
        """Position [m] and quaternion (w, x, y, z) of an object. Shape (7,)."""
        start = self.model.jnt_qposadr[self.model.body_jntadr[self.body_of[obj]]]
        return np.array(self.data.qpos[start : start + 7])

    def poses(self) -> dict[int, Float[np.ndarray, " 7"]]:
        """The poses of all objects, by id."""
        return {obj: self.pose(obj) for obj in self.objects}
