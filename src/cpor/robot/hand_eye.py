"""Where the camera is: hand-eye calibration from arm poses and board poses, and how to check it.

A X = X B for every pair of arm poses: the rotation in closed form (Park and Martin 1994, from the logarithms
of the rotations), the translation by linear least squares. See docs/hand-eye.md for how to take the poses.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

import numpy as np
from jaxtyping import Float
from scipy.spatial.transform import Rotation

from cpor.errors import InvalidSettingError

Pose = Float[np.ndarray, "4 4"]


@dataclass(frozen=True, eq=False)
class HandEye:
    """A solved calibration.

    Attributes:
        T: `T_base_camera` of a camera that stands still, `T_tool_camera` of one on the wrist. Shape
            (4, 4). [m]
        spread_m: How far the board seems to move although it does not, root mean square. [m]
        spread_deg: How far it seems to turn, root mean square.
    """

    T: Pose
    spread_m: float
    spread_deg: float


def solve_hand_eye(
    T_base_tool: Sequence[Pose], T_camera_board: Sequence[Pose], camera: Literal["fixed", "wrist"] = "fixed"
) -> HandEye:
    """Solve for the camera's pose.

    Args:
        T_base_tool: The tool in the arm's base frame, one for each picture. Shape (4, 4) each. [m]
        T_camera_board: The board in the camera's frame, in the same order. Shape (4, 4) each. [m]
        camera: `fixed`: it stands still and the board is in the gripper; `wrist`: it is on the arm and the
            board stands still.

    Raises:
        InvalidSettingError: Too few poses, or all turned about one axis: then the answer is not determined.
    """
    if len(T_base_tool) != len(T_camera_board) or len(T_base_tool) < 3:
        raise InvalidSettingError("give as many arm poses as board poses, at least 3 (take 15 or more)")
    hand = [np.linalg.inv(T) if camera == "fixed" else np.asarray(T) for T in T_base_tool]
    board = [np.asarray(T) for T in T_camera_board]
    pairs = list(combinations(range(len(hand)), 2))
    A = [np.linalg.inv(hand[j]) @ hand[i] for i, j in pairs]
    B = [board[j] @ np.linalg.inv(board[i]) for i, j in pairs]
    turns_a = Rotation.from_matrix(np.array([T[:3, :3] for T in A])).as_rotvec()
    turns_b = Rotation.from_matrix(np.array([T[:3, :3] for T in B])).as_rotvec()
    # Half-turns have two logarithms, and which one comes out is chance.
    sure = np.linalg.norm(turns_a, axis=1) < 0.9 * np.pi
    u, strength, vt = np.linalg.svd(turns_a[sure].T @ turns_b[sure])
    if not sure.any() or strength[1] < 1e-3 * max(strength[0], 1e-9) or strength[0] < 1e-3:
        raise InvalidSettingError(
            "all poses turn about one axis; tilt the board differently between pictures"
        )
    R = u @ np.diag([1.0, 1.0, np.linalg.det(u @ vt)]) @ vt
    left = np.concatenate([T[:3, :3] - np.eye(3) for T in A])
    right = np.concatenate([R @ b[:3, 3] - a[:3, 3] for a, b in zip(A, B, strict=True)])
    X = np.eye(4)
    X[:3, :3], X[:3, 3] = R, np.linalg.lstsq(left, right, rcond=None)[0]
    still = np.array([h @ X @ b for h, b in zip(hand, board, strict=True)])
    places, turns = still[:, :3, 3], Rotation.from_matrix(still[:, :3, :3])
    off = (turns.mean().inv() * turns).magnitude()
    spread = float(np.sqrt(((places - places.mean(axis=0)) ** 2).sum(axis=1).mean()))
    return HandEye(X, spread, float(np.degrees(np.sqrt((off**2).mean()))))


def touch_errors(
    T_world_camera: Pose, seen: Float[np.ndarray, "n 3"], touched: Float[np.ndarray, "n 3"]
) -> Float[np.ndarray, " n"]:
    """How far [m] each point touched with the tool is from where the camera says it is. Shape (n,).

    Args:
        T_world_camera: The calibration to check. Shape (4, 4). [m]
        seen: The points in the camera's frame. Shape (n, 3). [m]
        touched: The tool point in the world when it touched them. Shape (n, 3). [m]
    """
    world = seen @ T_world_camera[:3, :3].T + T_world_camera[:3, 3]
    return np.asarray(np.linalg.norm(world - touched, axis=1))
