"""Hand-eye calibration finds the camera back, exactly without noise and to millimetres with it."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from cpor.errors import InvalidSettingError
from cpor.robot.hand_eye import solve_hand_eye, touch_errors


def pose(rotation, place):
    T = np.eye(4)
    T[:3, :3], T[:3, 3] = rotation.as_matrix(), place
    return T


def jitter(rng, T, metres, degrees):
    turn = Rotation.from_rotvec(np.radians(degrees) * rng.standard_normal(3))
    return T @ pose(turn, metres * rng.standard_normal(3))


CAMERA = pose(Rotation.from_euler("xyz", [170.0, 5.0, 20.0], degrees=True), (0.36, 0.02, 0.65))
BOARD = pose(Rotation.from_euler("xyz", [10.0, -20.0, 5.0], degrees=True), (0.01, 0.02, 0.05))


def pictures(rng, camera, n=20, noise=(0.0, 0.0), turns=35.0):
    """Arm poses, and where the camera sees the board, with noise on what is seen."""
    tools, boards = [], []
    for _ in range(n):
        turn = Rotation.from_euler("xyz", turns * rng.standard_normal(3) + [180.0, 0.0, 0.0], degrees=True)
        tool = pose(turn, rng.uniform((0.25, -0.12, 0.1), (0.45, 0.12, 0.3)))
        if camera == "fixed":
            board = np.linalg.inv(CAMERA) @ tool @ BOARD
        else:
            board = np.linalg.inv(tool @ CAMERA) @ BOARD
        tools.append(tool)
        boards.append(jitter(rng, board, *noise))
    return tools, boards


@pytest.mark.parametrize("camera", ["fixed", "wrist"])
def test_without_noise_it_is_exact(rng, camera):
    solved = solve_hand_eye(*pictures(rng, camera), camera)
    np.testing.assert_allclose(solved.T, CAMERA, atol=1e-9)
    assert solved.spread_m < 1e-9 and solved.spread_deg < 1e-6


def test_with_the_noise_of_a_board_it_is_good_to_millimetres(rng, evidence):
    off = []
    for _ in range(10):
        solved = solve_hand_eye(*pictures(rng, "fixed", noise=(0.001, 0.2)))
        off.append(np.linalg.norm(solved.T[:3, 3] - CAMERA[:3, 3]))
        assert 0.0005 < solved.spread_m < 0.008
    assert np.median(off) < 0.003
    evidence(
        "acts",
        "hand-eye, 20 poses, board noise 1 mm and 0.2 deg: median error [mm]",
        "< 3",
        1e3 * np.median(off),
    )


def test_poses_that_turn_about_one_axis_are_refused(rng):
    tools = [pose(Rotation.from_euler("z", k * 15.0, degrees=True), (0.3, 0.01 * k, 0.2)) for k in range(8)]
    boards = [np.linalg.inv(CAMERA) @ T @ BOARD for T in tools]
    with pytest.raises(InvalidSettingError, match="one axis"):
        solve_hand_eye(tools, boards)


def test_too_few_poses_are_refused(rng):
    tools, boards = pictures(rng, "fixed", n=2)
    with pytest.raises(InvalidSettingError, match="at least 3"):
        solve_hand_eye(tools, boards)


def test_touching_points_tells_how_far_off_a_calibration_is(rng):
    seen = rng.uniform((-0.1, -0.1, 0.5), (0.1, 0.1, 0.7), (6, 3))
    touched = seen @ CAMERA[:3, :3].T + CAMERA[:3, 3]
    assert touch_errors(CAMERA, seen, touched).max() < 1e-12
    assert touch_errors(CAMERA, seen, touched + np.array([0.003, 0.0, 0.004])) == pytest.approx(0.005)
