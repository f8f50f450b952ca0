"""Grasps from one RGB-D frame with masks: hand-made height fields under a pinhole camera, no simulator."""

import numpy as np
import pytest

from cpor.errors import InvalidSceneError
from cpor.robot import grasp_map_kernels as kernels
from cpor.robot.grasps import GraspSettings, Gripper, find_grasps, survey
from cpor.scene import Camera, DetectedObject, Intrinsics, Observation, Scene

HEIGHT = 0.6
FOCAL = 900.0
SHAPE = (360, 360)
INTRINSICS = Intrinsics(FOCAL, FOCAL, 179.5, 179.5)
LOOKS_DOWN = np.array([[1.0, 0, 0, 0], [0, -1, 0, 0], [0, 0, -1, HEIGHT], [0, 0, 0, 1]])


def photograph(boxes, depth=None, camera=None, spheres=()):
    """Boxes {id: (x, y, half x, half y, top, turn)} on a table at z = 0, seen from above."""
    rows, cols = np.mgrid[: SHAPE[0], : SHAPE[1]]
    z = np.full(SHAPE, HEIGHT)
    ids = np.zeros(SHAPE, np.int32)
    for obj, (x, y, a, b, top, turn) in sorted(boxes.items(), key=lambda item: item[1][4]):
        px, py = (cols - 179.5) / FOCAL * (HEIGHT - top) - x, -(rows - 179.5) / FOCAL * (HEIGHT - top) - y
        c, s = np.cos(turn), np.sin(turn)
        inside = (np.abs(c * px + s * py) < a) & (np.abs(-s * px + c * py) < b)
        z[inside], ids[inside] = HEIGHT - top, obj
    for obj, radius in spheres:
        px, py = (cols - 179.5) / FOCAL * HEIGHT, -(rows - 179.5) / FOCAL * HEIGHT
        rise = radius**2 - px**2 - py**2
        inside = rise > 0
        z[inside], ids[inside] = HEIGHT - radius - np.sqrt(rise[inside]), obj
    frame = Observation(
        np.zeros((*SHAPE, 3), np.uint8),
        (z if depth is None else depth(z)).astype(np.float32),
        Camera(INTRINSICS, LOOKS_DOWN) if camera is None else camera,
    )
    known = sorted(set(ids.reshape(-1).tolist()) - {0})
    return Scene(frame, tuple(DetectedObject(obj) for obj in known), ids)


def finger_boxes(grasp, gripper=None):
    """Corners of both fingers before closing. Shape (2, 8, 3)."""
    g = gripper or Gripper()
    T = grasp.T_world_gripper
    out = []
    for side in (-1, 1):
        x = side * (grasp.width / 2 + np.array([0.0, g.finger_thickness]))
        corners = [
            (a, b, c) for a in x for b in (-g.finger_width / 2, g.finger_width / 2) for c in (0, -0.05)
        ]
        out.append(np.array(corners) @ T[:3, :3].T + T[:3, 3])
    return np.stack(out)


def test_box_is_taken_across_its_narrow_side_near_its_middle():
    turn = 0.5
    grasps = find_grasps(photograph({1: (0.02, -0.01, 0.05, 0.015, 0.04, turn)}), 1)
    best = grasps[0]
    across = np.array([-np.sin(turn), np.cos(turn), 0.0])
    assert abs(best.T_world_gripper[:3, 0] @ across) > np.cos(0.2)
    assert np.linalg.norm(best.T_world_gripper[:2, 3] - (0.02, -0.01)) < 0.012
    assert 0.03 < best.width < 0.06
    assert 0.0 < best.T_world_gripper[2, 3] < 0.02
    assert best.approach @ (0, 0, -1) > 0.9


def test_every_grasp_is_a_right_handed_pose_and_they_come_best_first():
    grasps = find_grasps(photograph({1: (0, 0, 0.03, 0.02, 0.04, 0.0)}), 1)
    assert len(grasps) > 5
    for grasp in grasps:
        R = grasp.T_world_gripper[:3, :3]
        assert np.allclose(R.T @ R, np.eye(3)) and np.linalg.det(R) > 0
        assert grasp.width <= Gripper().opening
    strict = [g.score for g in grasps if not g.loose]
    assert strict == sorted(strict, reverse=True)
    assert [g.loose for g in grasps] == sorted(g.loose for g in grasps)


def test_fingers_stay_above_table_and_clear_of_neighbours():
    boxes = {
        1: (0, 0, 0.04, 0.016, 0.04, 0.0),
        2: (0, 0.045, 0.05, 0.015, 0.05, 0.0),
        3: (0.07, 0, 0.02, 0.05, 0.05, 0),
    }
    strict = [g for g in find_grasps(photograph(boxes), 1) if not g.loose]
    assert strict
    for grasp in strict:
        for corners in finger_boxes(grasp):
            assert corners[:, 2].min() > 0.0
            for x, y, a, b, top, _ in (boxes[2], boxes[3]):
                low = corners[corners[:, 2] < top - 0.002]
                inside = (np.abs(low[:, 0] - x) < a - 0.001) & (np.abs(low[:, 1] - y) < b - 0.001)
                assert not inside.any()


def test_between_tight_neighbours_only_pushing_is_left():
    walls = {2: (0, 0.0315, 0.12, 0.015, 0.04, 0), 3: (0, -0.0315, 0.12, 0.015, 0.04, 0)}
    walls |= {4: (0.0665, 0, 0.025, 0.015, 0.04, 0), 5: (-0.0665, 0, 0.025, 0.015, 0.04, 0)}
    free = find_grasps(photograph({1: (0, 0, 0.04, 0.015, 0.04, 0)}), 1)
    tight = find_grasps(photograph({1: (0, 0, 0.04, 0.015, 0.04, 0)} | walls), 1)
    assert not free[0].loose
    assert all(g.loose for g in tight)


def test_object_wider_than_the_gripper_has_at_most_desperate_grasps():
    assert all(
        g.loose and g.score < 0.2 for g in find_grasps(photograph({1: (0, 0, 0.055, 0.055, 0.04, 0.3)}), 1)
    )


def test_ball_is_taken_below_its_equator():
    radius = 0.026
    grasps = find_grasps(photograph({}, spheres=[(1, radius)]), 1)
    assert grasps
    assert np.linalg.norm(grasps[0].T_world_gripper[:2, 3]) < 0.008
    assert grasps[0].T_world_gripper[2, 3] < radius + 0.006


def test_fingers_never_close_beside_a_steep_side():
    def roof_top(x, y):
        return np.where((np.abs(x) < 0.035) & (np.abs(y) < 0.03), 0.08 - 1.6 * np.abs(x), 0.0)

    rows, cols = np.mgrid[: SHAPE[0], : SHAPE[1]]
    top = np.zeros(SHAPE)
    for _ in range(20):  # where the ray of each pixel meets the roof
        x, y = ((cols - 179.5) / FOCAL * (HEIGHT - top), -(rows - 179.5) / FOCAL * (HEIGHT - top))
        top = (top + roof_top(x, y)) / 2
    scene = photograph({1: (0, 0, 0.035, 0.03, 0.045, 0.0)}, depth=lambda z: HEIGHT - top)
    grasps = find_grasps(scene, 1)
    assert grasps
    for grasp in grasps:
        T = grasp.T_world_gripper
        across = np.linspace(-grasp.width / 2, grasp.width / 2, 60)
        between = T[:3, 3] + across[:, None] * T[:3, 0] - 0.003 * T[:3, 2]
        assert (between[:, 2] < roof_top(between[:, 0], between[:, 1])).any()


def test_deep_wall_beside_the_object_moves_the_fingers_away_from_it():
    scene = photograph({1: (0, 0, 0.03, 0.012, 0.03, 0.0), 2: (0, 0.02, 0.1, 0.005, 0.08, 0.0)})
    for grasp in find_grasps(scene, 1):
        if not grasp.loose:
            assert abs(grasp.T_world_gripper[1, 0]) < 0.9


def test_unseen_ground_leaves_no_clean_grasp():
    def blind(z):
        z = z.copy()
        cols = np.arange(SHAPE[1])
        z[:, (cols < 140) | (cols > 220)] = np.nan
        return z

    scene = photograph({1: (0, 0, 0.025, 0.06, 0.04, 0.0)}, depth=blind)
    assert all(g.loose for g in find_grasps(scene, 1))
    assert not find_grasps(photograph({1: (0, 0, 0.025, 0.06, 0.04, 0.0)}), 1)[0].loose


def test_holes_and_noise_do_not_hide_the_grasp(rng):
    def worn(z):
        z = z + rng.normal(0, 0.0012, z.shape)
        z[rng.random(z.shape) < 0.1] = np.nan
        return z

    best = find_grasps(photograph({1: (0.0, 0.0, 0.04, 0.015, 0.04, 0.0)}, depth=worn), 1)[0]
    assert abs(best.T_world_gripper[1, 0]) > 0.95
    assert np.linalg.norm(best.T_world_gripper[:2, 3]) < 0.015


def test_object_without_pixels_has_no_grasp():
    scene = photograph({1: (0, 0, 0.03, 0.02, 0.04, 0.0)})
    assert find_grasps(scene, 9) == []


def test_frames_without_depth_or_calibration_are_refused():
    scene = photograph({1: (0, 0, 0.03, 0.02, 0.04, 0.0)})
    flat = Scene(Observation(scene.observation.rgb), scene.objects, scene.visible_ids)
    with pytest.raises(InvalidSceneError, match="depth"):
        find_grasps(flat, 1)
    lost = photograph({1: (0, 0, 0.03, 0.02, 0.04, 0.0)}, camera=Camera(INTRINSICS))
    with pytest.raises(InvalidSceneError, match="T_world_camera"):
        find_grasps(lost, 1)


def test_fewer_tilts_give_only_straight_grasps():
    settings = GraspSettings(tilts_deg=(0.0,), most=10)
    grasps = find_grasps(photograph({1: (0, 0, 0.03, 0.02, 0.04, 0.0)}), 1, settings=settings)
    assert 0 < len(grasps) <= 10
    assert all(np.allclose(g.approach, (0, 0, -1)) for g in grasps)


def map_heights_plainly(points, layer, x0, y0, cell, n, noise):
    top, what = np.full((n, n), kernels.NOTHING), np.zeros((n, n), np.int8)
    cells = {}
    for p, kind in zip(points.reshape(-1, 3), layer.reshape(-1), strict=True):
        if np.isfinite(p[2]):
            cells.setdefault((int((p[0] - x0) / cell), int((p[1] - y0) / cell)), []).append((p[2], kind))
    for (i, j), readings in cells.items():
        if 0 <= i < n and 0 <= j < n:
            highest, kind = max(readings, key=lambda reading: reading[0])
            top[i, j] = np.mean([z for z, k in readings if k == kind and z > highest - noise])
            what[i, j] = kind
    return top, what


def test_height_map_agrees_with_its_plain_twin(rng):
    points = rng.uniform(0.001, 0.03, (20, 30, 3))
    points[rng.random((20, 30)) < 0.1] = np.nan
    layer = rng.integers(0, 3, (20, 30)).astype(np.int8)
    got = kernels.map_heights(points, layer, 0.0, 0.0, 0.004, 6, 0.006)
    want = map_heights_plainly(points, layer, 0.0, 0.0, 0.004, 6, 0.006)
    assert np.allclose(got[0], want[0])
    assert np.array_equal(got[1][want[0] > kernels.NOTHING], want[1][want[0] > kernels.NOTHING])


def test_view_straight_down_is_the_height_map_by_layers():
    surface = survey(
        photograph({1: (0, 0, 0.03, 0.02, 0.04, 0.0), 2: (0.06, 0, 0.01, 0.02, 0.02, 0)}), 1, 0.002
    )
    n = len(surface.top)
    centre = np.array(
        [surface.corner[0] + (n // 2 + 0.5) * 0.002, surface.corner[1] + (n // 2 + 0.5) * 0.002, 0.0]
    )
    axes = np.array([[1.0, 0, 0], [0, 1.0, 0], [0, 0, 1.0]])
    maps = kernels.see_along(
        surface.top, surface.what, *surface.corner, 0.002, centre, axes, 0.003, 0.02, n // 2
    )
    assert np.allclose(maps.max(axis=0)[:n, :n], surface.top)
    assert {kernels.BACKGROUND, kernels.OTHER, kernels.WANTED} == set(np.unique(surface.what).tolist())
