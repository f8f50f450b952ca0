"""Postures in closed form, straight ways, and what the arm must not touch."""

import numpy as np
import pytest

from cpor.sim.arm import ur3e
from cpor.sim.arm.kinematics import BRANCHES, Kinematics, inverse, nearest_turn
from tests.support.arm_cell import BIN


@pytest.fixture(scope="module")
def arm():
    return Kinematics(BIN)


def straight_down(x, y, z, yaw=0.0):
    T = np.eye(4)
    T[:3, 0] = np.cos(yaw), np.sin(yaw), 0.0
    T[:3, 2] = 0.0, 0.0, -1.0
    T[:3, 1] = np.cross(T[:3, 2], T[:3, 0])
    T[:3, 3] = x, y, z
    return T


def test_one_branch_is_the_posture_one_came_from(arm, rng):
    for _ in range(100):
        joints = rng.uniform(-np.pi, np.pi, 6)
        branches = arm.postures(arm.forward(joints)[None])[0]
        off = np.abs((branches - joints + np.pi) % (2 * np.pi) - np.pi).max(axis=1)
        assert np.nanmin(off) < 1e-6


def test_every_branch_reaches_the_pose(arm, rng, evidence):
    worst, reached = 0.0, 0
    for _ in range(100):
        T = arm.forward(rng.uniform(-np.pi, np.pi, 6))
        for joints in arm.postures(T[None])[0]:
            if not np.isnan(joints).any():
                reached += 1
                worst = max(worst, float(np.abs(arm.forward(joints) - T).max()))
    assert reached > 300
    assert worst < 1e-7
    evidence(
        "acts",
        "UR3e inverse kinematics, closed form: worst error over 100 poses, all branches [m]",
        "",
        worst,
    )


def test_beyond_reach_there_is_no_posture(arm):
    T = np.stack([straight_down(0.9, 0.0, 0.1), straight_down(0.05, 0.0, 0.1)])
    assert np.isnan(inverse(T)).all(axis=(1, 2))[0]
    assert inverse(T).shape == (2, BRANCHES, 6)
    assert arm.straight(T[0], T[0], 0.05, np.array(ur3e.HOME)) is None


def test_straight_way_is_straight_and_never_flips(arm):
    start, end = straight_down(0.36, 0.03, 0.15, 0.4), straight_down(0.36, 0.03, 0.02, 0.4)
    track = arm.straight(start, end, 0.05, np.array(ur3e.HOME))
    assert track is not None
    poses = np.stack([arm.forward(joints) for joints in track])
    assert np.allclose(poses[:, :3, :3], end[:3, :3], atol=1e-6)
    assert np.allclose(poses[:, :2, 3], (0.36, 0.03), atol=1e-6)
    assert (np.diff(poses[:, 2, 3]) < 0).all()
    assert np.abs(np.diff(track, axis=0)).max() < 0.3


def test_fingers_in_the_wall_or_below_the_table_are_refused(arm):
    home = np.array(ur3e.HOME)
    wall = 0.36 + BIN.inner[0] / 2 + BIN.wall / 2
    assert not arm.collides(home, 0.06)
    for x, z in ((wall, 0.05), (0.36, -0.004)):
        end = straight_down(x, 0.0, z, np.pi / 2)
        start = end.copy()
        start[2, 3] += 0.1
        assert arm.straight(start, end, 0.04, home) is None
        assert arm.straight(start, end, 0.04, home, must_be_free=False) is not None


def test_arm_folded_into_itself_is_refused(arm):
    assert arm.collides(np.array([0.8, -1.4, -2.8, -2.9, 1.9, 2.5]), 0.05)


def test_full_turns_bring_a_posture_near_but_not_past_the_limits(rng):
    near = rng.uniform(-6, 6, 6)
    joints = rng.uniform(-np.pi, np.pi, 6)
    turned = nearest_turn(joints, near)
    assert np.allclose(np.cos(turned), np.cos(joints)) and np.allclose(np.sin(turned), np.sin(joints))
    assert (np.abs(turned) <= ur3e.JOINT_LIMIT).all()
    far = nearest_turn(np.full(6, 0.5), np.full(6, 6.1))
    assert np.allclose(far, 0.5)
