"""The arm as bodies: its lengths, its stiffness, its fingers."""

import threading

import mujoco
import numpy as np
import pytest

from cpor.sim.arm import ur3e
from cpor.sim.arm.motion import Motion
from tests.support.arm_cell import arm_world, at, block, look, named, robot_in


@pytest.fixture(scope="module")
def bare():
    spec = mujoco.MjSpec()
    ur3e.add_arm(spec, 0.5)
    return spec.compile()


def chain_of_dh(joints):
    T = np.eye(4)
    T[2, 3] = ur3e.BASE_HEIGHT
    for q, (a, d, alpha) in zip(joints, ur3e.DH, strict=True):
        c, s, ca, sa = np.cos(q), np.sin(q), np.cos(alpha), np.sin(alpha)
        T = T @ np.array(
            [[c, -s * ca, s * sa, a * c], [s, c * ca, -c * sa, a * s], [0, sa, ca, d], [0, 0, 0, 1]]
        )
    return T


def test_flange_stands_where_the_published_lengths_put_it(bare, rng):
    data = mujoco.MjData(bare)
    for _ in range(10):
        joints = rng.uniform(-3, 3, 6)
        data.qpos[:6] = joints
        mujoco.mj_kinematics(bare, data)
        want = chain_of_dh(joints)
        tips = want[:3, 3] + ur3e.FLANGE_TO_TIPS * want[:3, 2]
        assert np.allclose(data.site(ur3e.TCP).xpos, tips, atol=1e-9)
        assert np.allclose(data.site(ur3e.TCP).xmat.reshape(3, 3), want[:3, :3], atol=1e-9)


def test_arm_holds_its_posture_against_gravity():
    world = arm_world({1: (named("red cube"), at(0, 0, 0.03))})
    motion = Motion(world, threading.Event())
    motion.place(np.array(ur3e.HOME), 0.05)
    motion.wait(1.0)
    assert np.abs(motion.joints - ur3e.HOME).max() < 1e-3
    assert motion.opening == pytest.approx(0.05, abs=5e-4)
    assert not motion.holding


def test_fingers_open_fully_and_together():
    world = arm_world({1: (named("red cube"), at(0, 0, 0.03))})
    motion = Motion(world, threading.Event())
    motion.place(np.array(ur3e.HOME), 0.05)
    motion.open(ur3e.GRIPPER.opening)
    left, right = (world.data.joint(name).qpos[0] for name in ur3e.FINGERS)
    assert motion.opening == pytest.approx(0.085, abs=1e-3)
    assert left == pytest.approx(right, abs=2e-4)
    assert not motion.close()
    assert motion.opening < 0.0016


@pytest.mark.parametrize("friction", [0.3, 0.6])
def test_finger_friction_counts_even_on_rougher_objects(friction):
    world = arm_world({1: (block((0.02, 0.02, 0.02)), at(0, 0, 0.02))}, friction=friction)
    robot = robot_in(world)
    pads = {world.model.geom(f"{name}_pad").id for name in ur3e.FINGERS}
    seen = []

    def watch(world):
        contact = world.data.contact
        touching = np.isin(contact.geom, list(pads)).any(axis=1)
        seen.extend(contact.friction[touching, 0].tolist())

    robot.motion._watch = watch
    assert robot.remove(look(robot), 1).kind == "done"
    assert seen and set(np.round(seen, 6)) == {friction}
