"""Inverse kinematics of the UR3e in closed form, and postures that hit nothing.

The wrist's axes make the six equations separate: joint 1 from where the wrist centre is, joints 5 and 6
from the tool's direction, joints 2 to 4 from a planar triangle. Two signs each for joints 1, 5 and 3 give
eight branches; a straight line stays on one branch, so that the arm never flips on the way.
"""

import mujoco
import numpy as np
from jaxtyping import Float

from cpor.sim.arm import ur3e
from cpor.sim.physics.world import HEAP_CENTRE, Bin

BRANCHES = 8


def inverse(T_base_flange: Float[np.ndarray, "n 4 4"]) -> Float[np.ndarray, "n 8 6"]:
    """All postures that bring the flange to each pose, joint angles within (-pi, pi].

    Args:
        T_base_flange: Pose of the flange in the frame of the arm's base. Shape (n, 4, 4). [m]

    Returns:
        Joint angles by branch; NaN where a branch does not reach. Shape (n, 8, 6). [rad]
    """
    (_, d1, _), (a2, _, _), (a3, _, _), (_, d4, _), (_, d5, _), (_, d6, _) = ur3e.DH
    n = len(T_base_flange)
    R, p = T_base_flange[:, :3, :3], T_base_flange[:, :3, 3]
    wrist = p - d6 * R[:, :, 2]
    out = np.full((n, BRANCHES, 6), np.nan)
    radius = np.maximum(np.hypot(wrist[:, 0], wrist[:, 1]), 1e-9)
    with np.errstate(invalid="ignore"):
        lean = np.arcsin(d4 / radius)
        for branch in range(BRANCHES):
            shoulder, flip, elbow = branch & 1, 1 - (branch & 2), 1 - (branch & 4) // 2
            heading = np.arctan2(wrist[:, 1], wrist[:, 0])
            q1 = heading + (np.pi - lean if shoulder else lean)
            s1, c1 = np.sin(q1), np.cos(q1)
            axis = np.stack([s1, -c1, np.zeros(n)], axis=1)
            q5 = flip * np.arccos(np.clip(np.einsum("ni,ni->n", R[:, :, 2], axis), -1.0, 1.0))
            seen = np.einsum("nji,nj->ni", R, axis) * np.where(np.sin(q5) < 0, -1.0, 1.0)[:, None]
            q6 = np.arctan2(-seen[:, 1], seen[:, 0])
            # The frame before the last two joints, in the frame that joint 1 turns.
            R_01 = np.stack([[c1, np.zeros(n), s1], [s1, np.zeros(n), -c1], [c1 * 0, c1 * 0 + 1, c1 * 0]])
            R_01 = R_01.transpose(2, 0, 1)
            R_14 = np.einsum("nji,njk,nkl->nil", R_01, R, _rotation_46(q5, q6).transpose(0, 2, 1))
            d = wrist - d5 * np.einsum("nij,nj->ni", R_01, R_14[:, :, 2])
            d[:, 2] -= d1
            x, y = d[:, 0] * c1 + d[:, 1] * s1, d[:, 2]
            cosine = (x * x + y * y - a2 * a2 - a3 * a3) / (2 * a2 * a3)
            q3 = elbow * np.arccos(np.where(np.abs(cosine) <= 1.0, cosine, np.nan))
            q2 = np.arctan2(y, x) - np.arctan2(a3 * np.sin(q3), a2 + a3 * np.cos(q3))
            q4 = np.arctan2(R_14[:, 1, 0], R_14[:, 0, 0]) - q2 - q3
            q = np.stack([q1, q2, q3, q4, q5, q6], axis=1)
            out[:, branch] = (q + np.pi) % (2 * np.pi) - np.pi
    out[np.isnan(out).any(axis=2)] = np.nan
    return out


def _rotation_46(q5: np.ndarray, q6: np.ndarray) -> np.ndarray:
    s5, c5, s6, c6 = np.sin(q5), np.cos(q5), np.sin(q6), np.cos(q6)
    rows = [[c5 * c6, -c5 * s6, -s5], [s5 * c6, -s5 * s6, c5], [-s6, -c6, np.zeros_like(s5)]]
    return np.array(rows).transpose(2, 0, 1)


class Kinematics:
    """Postures and straight motions of the arm in its cell; knows table and bin, but no object."""

    def __init__(self, bin: Bin | None) -> None:
        self._model = _cell(bin)
        self._data = mujoco.MjData(self._model)
        self._joints = [self._model.joint(name).qposadr[0] for name in ur3e.JOINTS]
        self._fingers = [self._model.joint(name).qposadr[0] for name in ur3e.FINGERS]
        self._tcp = self._model.site(ur3e.TCP).id

    def forward(self, joints: Float[np.ndarray, " 6"]) -> Float[np.ndarray, "4 4"]:
        """Pose of the gripper in the world. Shape (4, 4). [m]."""
        self._data.qpos[self._joints] = joints
        mujoco.mj_kinematics(self._model, self._data)
        T = np.eye(4)
        T[:3, :3] = self._data.site_xmat[self._tcp].reshape(3, 3)
        T[:3, 3] = self._data.site_xpos[self._tcp]
        return T

    def postures(self, T_world_gripper: Float[np.ndarray, "n 4 4"]) -> Float[np.ndarray, "n 8 6"]:
        """Joint angles for poses of the gripper, by branch; NaN out of reach. Shape (n, 8, 6). [rad], [m]."""
        T = np.array(T_world_gripper, dtype=np.float64)
        T[:, :3, 3] -= ur3e.FLANGE_TO_TIPS * T[:, :3, 2]
        T[:, 2, 3] -= ur3e.BASE_HEIGHT
        return inverse(T)

    def collides(self, joints: Float[np.ndarray, " 6"], opening: float) -> bool:
        """Whether the arm, with the fingers this far open, would touch itself, the table or the bin."""
        self._data.qpos[self._joints] = joints
        self._data.qpos[self._fingers] = opening / 2
        mujoco.mj_kinematics(self._model, self._data)
        mujoco.mj_collision(self._model, self._data)
        return bool(self._data.ncon > 0)

    def straight(
        self,
        start: Float[np.ndarray, "4 4"],
        end: Float[np.ndarray, "4 4"],
        opening: float,
        near: Float[np.ndarray, " 6"],
        steps: int = 8,
        must_be_free: bool = True,
    ) -> Float[np.ndarray, "steps 6"] | None:
        """A straight motion from one pose of the gripper to another, without a collision.

        Args:
            start: Where the gripper starts; only the position counts. Shape (4, 4). [m]
            end: Where it ends, and the orientation of the whole way. Shape (4, 4). [m]
            opening: Opening of the fingers. [m]
            near: The branch that starts nearest to this posture is preferred. Shape (6,). [rad]
            steps: Number of postures.
            must_be_free: Whether a motion that touches something is refused.

        Returns:
            Postures along it, all on one branch; None where no branch makes it. Shape (steps, 6). [rad]
        """
        T = np.repeat(end[None], steps, axis=0)
        T[:, :3, 3] = np.linspace(start[:3, 3], end[:3, 3], steps)
        branches = self.postures(T)
        reach = ~np.isnan(branches[:, :, 0]).any(axis=0)
        tracks = {int(b): _unwrap(branches[:, b], near) for b in np.flatnonzero(reach)}
        for branch in sorted(tracks, key=lambda b: float(np.abs(tracks[b][0] - near).max())):
            joints = tracks[branch]
            jumps = np.abs(np.diff(joints, axis=0)).max() > 0.6
            # With the upper arm below the horizontal the elbow would hang into the heap.
            hangs = np.sin(joints[:, 1]).max() > 0.0
            if jumps or hangs or np.abs(joints).max() > ur3e.JOINT_LIMIT:
                continue
            looks = joints[np.linspace(0, steps - 1, 4).astype(int)]
            if not (must_be_free and any(self.collides(q, opening) for q in looks)):
                return joints
        return None

    def is_free(self, start: Float[np.ndarray, " 6"], end: Float[np.ndarray, " 6"], opening: float) -> bool:
        """Whether the straight line in joint space between two postures touches nothing."""
        return not any(self.collides(q, opening) for q in np.linspace(start, end, 6))


def nearest_turn(joints: np.ndarray, near: np.ndarray) -> np.ndarray:
    """The same posture with each joint turned by full turns, within its limits, to lie nearest to `near`."""
    turned = near + (joints - near + np.pi) % (2 * np.pi) - np.pi
    too_far = np.abs(turned) > ur3e.JOINT_LIMIT
    return np.asarray(np.where(too_far, turned - np.sign(turned) * 2 * np.pi, turned))


def _unwrap(track: np.ndarray, near: np.ndarray) -> np.ndarray:
    out = np.empty_like(track)
    for k, joints in enumerate(track):
        near = out[k] = nearest_turn(joints, near)
    return out


def _cell(bin: Bin | None) -> mujoco.MjModel:
    """Arm, table and bin alone; every body of the arm touches every other that is not its neighbour."""
    spec = mujoco.MjSpec()
    ur3e.add_arm(spec, 1.0)
    box = mujoco.mjtGeom.mjGEOM_BOX
    # 1 mm lower than the table, since a grasp may close right on it.
    spec.worldbody.add_geom(name="table", type=box, size=(1.0, 1.0, 0.05), pos=(0.5, 0, -0.051))
    if bin is not None:
        (x, y), (lx, ly), t = HEAP_CENTRE, bin.inner, bin.wall / 2
        for sign in (-1, 1):
            along_x = (x + sign * (lx / 2 + t), y, bin.height / 2)
            along_y = (x, y + sign * (ly / 2 + t), bin.height / 2)
            spec.worldbody.add_geom(type=box, size=(t, ly / 2 + 2 * t, bin.height / 2), pos=along_x)
            spec.worldbody.add_geom(type=box, size=(lx / 2, t, bin.height / 2), pos=along_y)
    spec.add_exclude(bodyname1=ur3e.FINGERS[0], bodyname2=ur3e.FINGERS[1])
    for geom in spec.geoms:
        geom.contype = geom.conaffinity = 1
    return spec.compile()
