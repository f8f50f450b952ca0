"""Grasps of other planners: their forms, whose they are, and which are refused."""

import threading
from dataclasses import replace

import msgpack
import numpy as np
import pytest
import zmq
from support.box_table import Box, OverTheTable, TableMasks
from support.plain_system import plain_system

from cpor.bridges.grasp_planner import (
    GraspGenServer,
    PlannedGrasps,
    from_graspnet,
    graspnet_planner,
    points_of,
)
from cpor.errors import InvalidSceneError, RobotError
from cpor.robot.grasps import GraspPose, find_grasps
from cpor.robot.loop import retrieve
from cpor.robot.robot_file import build_ur
from cpor.robot.ur import facing_down
from cpor.scene import BlockedBy, SemanticScores
from cpor.system import System

APART = {1: Box((40, 56), (54, 66), 0.04, (200, 30, 30)), 2: Box((40, 56), (100, 112), 0.04, (30, 200, 30))}
BESIDE = {1: Box((40, 56), (54, 66), 0.04, (200, 30, 30)), 2: Box((38, 58), (66, 80), 0.09, (30, 200, 30))}


def see(boxes):
    camera = OverTheTable(boxes)
    return TableMasks(camera.table).segment(camera.frame())


def to_graspnet(grasps, seen, depth=0.02):
    """The array that GraspNet-API would have of these grasps."""
    rows = []
    for k, grasp in enumerate(grasps):
        T = np.linalg.inv(seen.camera.T_world_camera) @ grasp.T_world_gripper
        R = np.stack([T[:3, 2], T[:3, 0], T[:3, 1]], axis=1)  # approach, closing, the third
        place = T[:3, 3] - depth * T[:3, 2]
        rows.append([1.0 - k / 100, grasp.width, 0.02, depth, *R.ravel(), *place, -1])
    return np.array(rows)


def across(scene, obj, along="y", width=0.06):
    """Straight down onto the middle of an object, fingers apart along x or y of the world."""
    points = points_of(scene)[scene.visible_ids == obj]
    T = facing_down(*points.mean(axis=0))
    T[2, 3] -= 0.01
    if along == "y":
        T[:3, :2] = T[:3, 1::-1] * np.array([1.0, -1.0])
    return GraspPose(T, width, 1.0)


def filtered(scene, *grasps):
    planned = PlannedGrasps(lambda scene, obj: list(grasps), System(scorer="none"))
    return planned(scene, 1), planned.refused


def test_the_arrays_of_graspnet_are_our_poses():
    scene = see(APART)
    ours = find_grasps(scene, 1)[:5]
    read = from_graspnet(to_graspnet(ours, scene.observation), scene.observation)
    for a, b in zip(ours, read, strict=True):
        np.testing.assert_allclose(a.T_world_gripper, b.T_world_gripper, atol=1e-12)
        assert b.width == a.width
    for wrong, why in (
        (np.zeros((3, 16)), "shape"),
        (np.zeros((3, 17)), "no rotation"),
        (np.full((1, 17), np.nan), "finite"),
    ):
        with pytest.raises(InvalidSceneError, match=why):
            from_graspnet(wrong, scene.observation)


def test_a_grasp_is_refused_where_its_way_meets_a_probable_blocker():
    free = see(APART)
    assert len(filtered(free, across(free, 1))[0]) == 1
    assert filtered(free, across(free, 2))[1] == {"not_its_own": 1}
    beside = see(BESIDE)  # the taller box stands where one finger comes down, if they come apart along x
    planned = PlannedGrasps(
        lambda scene, obj: [across(scene, 1, "x", 0.075), across(scene, 1, "y")], System()
    )

    def refused(p):
        scores = SemanticScores({BlockedBy(1, 2): p, BlockedBy(2, 1): 0.0}, "somebody")
        kept = planned(replace(beside, semantic_scores=scores), 1)
        assert len(kept) + sum(planned.refused.values()) == 2
        return planned.refused

    assert refused(1.0) == {"blocked": 1}
    # Geometry saw it: a reply alone does not free the way.
    assert refused(0.0) == {"blocked": 1}


def test_no_answer_is_not_free():
    scene = see(BESIDE)
    depth = scene.observation.depth.copy()
    depth[:, 60:74] = np.nan  # nothing is measured where the two meet
    holes = replace(scene, observation=replace(scene.observation, depth=depth))
    grasp = across(scene, 1, "x", 0.11)
    assert filtered(holes, grasp) == ([], {"no_answer": 1})
    with pytest.raises(InvalidSceneError, match="depth"):
        points_of(replace(scene, observation=replace(scene.observation, depth=None)))


def test_another_planner_drives_the_loop():
    camera, asked = OverTheTable(APART), []

    def network(seen):
        asked.append(seen)
        scene = TableMasks(camera.table).segment(seen)
        return to_graspnet([across(scene, k) for k in (1, 2)], seen)

    planned = PlannedGrasps(graspnet_planner(network), System(scorer="none"))
    robot = build_ur("192.0.2.1", camera, grasps=planned)
    result = retrieve(robot, plain_system(TableMasks(camera.table)), 1)
    assert asked and any(
        cycle.outcome is not None and cycle.outcome.kind == "done" for cycle in result.cycles
    )
    x, y, z = across(TableMasks(camera.table).segment(asked[0]), 1).T_world_gripper[:3, 3]
    assert any(f"line to ({x:.3f}, {y:.3f}, {z:.3f}) m" in motion for motion in robot.arm.motions)


def test_a_graspgen_server_is_asked():
    scene = see(APART)
    wanted = across(scene, 1)
    base = wanted.T_world_gripper.copy()
    base[:3, 3] -= 0.105 * base[:3, 2]
    context, heard = zmq.Context(), []
    server = context.socket(zmq.REP)
    port = server.bind_to_random_port("tcp://127.0.0.1")

    def array(value):
        return {
            b"nd": True,
            b"type": value.dtype.str,
            b"kind": b"",
            b"shape": value.shape,
            b"data": value.tobytes(),
        }

    def answer():
        for reply in (
            {
                "grasps": array(base[None].astype(np.float32)),
                "confidences": array(np.array([0.9], np.float32)),
            },
            {"error": "out of memory"},
        ):
            heard.append(msgpack.unpackb(server.recv()))
            server.send(msgpack.packb(reply))

    thread = threading.Thread(target=answer)
    thread.start()
    asks = GraspGenServer(f"tcp://127.0.0.1:{port}", timeout_s=20.0)
    (found,) = asks(scene, 1)
    np.testing.assert_allclose(found.T_world_gripper, wanted.T_world_gripper, atol=1e-6)
    assert heard[0]["action"] == "infer" and heard[0]["point_cloud"][b"shape"][1] == 3
    with pytest.raises(RobotError, match="out of memory"):
        asks(scene, 1)
    thread.join()
    server.close(0)
    with pytest.raises(RobotError, match="no answer"):
        GraspGenServer(f"tcp://127.0.0.1:{port}", timeout_s=0.05)(scene, 1)
    context.term()


BASE = {"confidences": [0.9], "grasps": np.eye(4).tolist()}


@pytest.mark.parametrize(
    ("reply", "says"),
    [
        (msgpack.packb({"grasps": "x" * 6_000_000}), "no answer"),
        (msgpack.packb({"error": "x" * 100_000}), "…$"),
        (msgpack.packb(BASE | {"grasps": np.full((4, 4), np.nan).tolist()}), "finite"),
        (msgpack.packb(BASE | {"confidences": [0.9, 0.8]}), "1 poses and 2 confidences"),
        (msgpack.packb({b"nd": True}), "no answer"),
        (b"\xc1", "no answer"),
    ],
)
def test_a_grasp_server_that_answers_too_much_or_nonsense(reply, says):
    with zmq.Context() as context, context.socket(zmq.REP) as server:
        server.setsockopt(zmq.LINGER, 0)
        port = server.bind_to_random_port("tcp://127.0.0.1")
        thread = threading.Thread(target=lambda: (server.recv(), server.send(reply)))
        thread.start()
        long = len(reply) > 4 * 2**20
        with pytest.raises(RobotError, match=says) as refused:
            GraspGenServer(f"tcp://127.0.0.1:{port}", timeout_s=0.5 if long else 20.0)(see(APART), 1)
        assert len(str(refused.value)) < 500
        thread.join()
