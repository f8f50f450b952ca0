"""The ray caster against hand-worked geometry and against MuJoCo's own rays."""

import mujoco
import numpy as np
import pytest
from sim.hand_made import at, on_table, single, thrown

from cpor.errors import SimulationError
from cpor.sim.camera import _ray_kernels
from cpor.sim.camera.views import cast_views, overhead_camera
from cpor.sim.physics.build import build_world
from cpor.sim.physics.world import Bin, World

BOX = single("box", (0.03, 0.02, 0.01))


def multi_ray(world, camera, only=None):
    """Depth, geoms and normals as MuJoCo has them, of all geoms or those of one object."""
    model = world.model.__copy__()
    data = mujoco.MjData(model)
    data.qpos[:] = world.data.qpos
    mujoco.mj_forward(model, data)
    model.geom_group[:] = 1 if only is None else np.where(world.object_of_geom == only, 1, 0)
    rays = camera.rays().reshape(-1)
    count = rays.size // 3
    geoms, depth, normals = np.empty(count, np.int32), np.empty(count), np.empty(3 * count)
    groups = np.array([0, 1, 0, 0, 0, 0], np.uint8)
    origin = camera.T_world_camera[:3, 3].copy()
    mujoco.mj_multiRay(model, data, origin, rays, groups, True, -1, geoms, depth, normals, count, 10.0)
    shape = (camera.height, camera.width)
    return depth.reshape(shape), geoms.reshape(shape), normals.reshape(*shape, 3)


def same_views(a, b):
    images = ("depth", "visible_ids", "geoms", "normals")
    return (
        all(np.array_equal(getattr(a, k), getattr(b, k), equal_nan=True) for k in images)
        and a.amodal == b.amodal
    )


def test_kernel_numbers_are_mujocos():
    for name in ("PLANE", "SPHERE", "CAPSULE", "ELLIPSOID", "CYLINDER", "BOX", "MESH"):
        assert getattr(_ray_kernels, name) == int(getattr(mujoco.mjtGeom, f"mjGEOM_{name}"))


def test_overhead_camera_looks_down_with_world_x_to_the_right():
    camera = overhead_camera(distance=0.5, look_at=(0.36, 0.0, 0.1))
    right, down, forward = camera.T_world_camera[:3, :3].T
    assert (
        np.allclose(right, (1, 0, 0)) and np.allclose(down, (0, -1, 0)) and np.allclose(forward, (0, 0, -1))
    )
    assert np.allclose(camera.T_world_camera[:3, 3], (0.36, 0.0, 0.6))


@pytest.mark.parametrize(("tilt", "azimuth"), [(0, 0), (20, 0), (35, 130)])
def test_the_optical_axis_meets_the_point_looked_at(tilt, azimuth):
    camera = overhead_camera(tilt_deg=tilt, azimuth_deg=azimuth, distance=0.7, look_at=(0.3, 0.1, 0.05))
    pose = camera.T_world_camera
    assert np.allclose(pose[:3, 3] + 0.7 * pose[:3, 2], (0.3, 0.1, 0.05))
    assert np.isclose(np.linalg.det(pose[:3, :3]), 1.0)
    assert np.isclose(-pose[2, 2], np.cos(np.deg2rad(tilt)))


@pytest.mark.parametrize("wrong", [{"fov_deg": 0.0}, {"tilt_deg": 90.0}, {"distance": -1.0}, {"width": 0}])
def test_a_camera_that_cannot_be_is_refused(wrong):
    with pytest.raises(SimulationError):
        overhead_camera(**wrong)


def test_depth_and_extent_of_a_box_are_those_of_geometry():
    camera = overhead_camera(distance=0.6, look_at=(0.36, 0.0, 0.02))
    views = cast_views(on_table((BOX, at(0, 0, 0.01))), camera)
    # The top of the box is at 0.02, the camera at 0.62: depth 0.6, and the table is at 0.62.
    shown = views.visible_ids == 1
    assert np.allclose(views.depth[shown], 0.6, atol=1e-6)
    assert np.allclose(views.depth[~shown], 0.62, atol=1e-6)
    rows, cols = np.nonzero(shown)
    focal = camera.intrinsics.fx
    assert np.ptp(cols) + 1 == pytest.approx(focal * 0.06 / 0.6, abs=1.0)
    assert np.ptp(rows) + 1 == pytest.approx(focal * 0.04 / 0.6, abs=1.0)
    assert cols.mean() == pytest.approx(319.5, abs=0.01) and rows.mean() == pytest.approx(239.5, abs=0.01)
    assert np.allclose(views.normals[shown], (0, 0, 1))


def test_a_thing_to_the_right_and_away_appears_right_and_up():
    views = cast_views(on_table((BOX, at(0.05, 0.06, 0.01))), overhead_camera())
    rows, cols = np.nonzero(views.visible_ids == 1)
    assert cols.mean() > 340 and rows.mean() < 200


def test_points_lie_where_the_surfaces_are():
    views = cast_views(on_table((BOX, at(0.02, -0.01, 0.01))), overhead_camera(tilt_deg=20))
    points = views.points()
    on_top = (views.visible_ids == 1) & (views.normals[..., 2] > 0.99)
    assert np.allclose(points[on_top][:, 2], 0.02, atol=1e-6)
    assert np.allclose(points[views.visible_ids == 0][:, 2], 0.0, atol=1e-6)


def test_what_is_hidden_counts_in_the_amodal_mask():
    lower, lid = single("box", (0.03, 0.03, 0.01)), single("box", (0.015, 0.03, 0.01))
    # The lid covers the left half of the lower box, 10 mm above it.
    camera = overhead_camera(distance=0.65)
    views = cast_views(on_table((lower, at(0, 0, 0.01)), (lid, at(-0.015, 0, 0.04))), camera)
    alone = cast_views(on_table((lower, at(0, 0, 0.01))), camera)
    amodal = views.amodal[1].to_mask((480, 640))
    assert np.array_equal(amodal, alone.visible_ids == 1)
    hidden = amodal & (views.visible_ids != 1)
    assert (views.visible_ids[hidden] == 2).all()
    assert hidden.sum() / amodal.sum() == pytest.approx(0.5, abs=0.03)


def test_an_object_partly_or_wholly_outside_of_the_image():
    camera = overhead_camera()
    views = cast_views(on_table((BOX, at(0.235, 0, 0.01)), (BOX, at(0, 0.4, 0.01))), camera)
    edge = views.amodal[1]
    assert edge.left + edge.pixels.shape[1] == camera.width
    assert (
        0
        < edge.pixels.sum()
        < 0.9 * cast_views(on_table((BOX, at(0, 0, 0.01))), camera).amodal[1].pixels.sum()
    )
    assert views.amodal[2].pixels.size == 0


def test_a_camera_that_sees_nothing_says_so():
    camera = overhead_camera(look_at=(5.0, 5.0, 0.0), width=64, height=48)
    views = cast_views(on_table((BOX, at(0, 0, 0.01))), camera)
    assert np.isnan(views.depth).all() and (views.geoms == -1).all() and not views.normals.any()


@pytest.mark.parametrize("seed", range(4))
def test_agrees_with_mujocos_own_rays(seed):
    world = thrown(seed)
    camera = overhead_camera(320, 240, tilt_deg=12.0 * seed, azimuth_deg=50.0 * seed)
    views = cast_views(world, camera)
    depth, geoms, normals = multi_ray(world, camera)
    assert np.abs(views.depth - depth).max() < 1e-5
    # Geoms of one object share faces; who of them is hit there is a toss-up, which object is not.
    assert (views.visible_ids == world.object_of_geom[geoms]).mean() > 0.9999
    same = views.geoms == geoms
    assert same.mean() > 0.99
    assert np.percentile(np.abs(views.normals - normals)[same], 99.9) < 1e-4
    for obj, crop in views.amodal.items():
        truth = multi_ray(world, camera, only=obj)[1] >= 0
        assert (crop.to_mask(truth.shape) != truth).sum() <= 3


def test_every_kind_of_part_agrees_with_mujocos_own_rays():
    turn = (0.8, 0.4, 0.3, 0.33)
    sizes = {
        "sphere": (0.02,),
        "capsule": (0.012, 0.03),
        "ellipsoid": (0.03, 0.02, 0.01),
        "cylinder": (0.02, 0.02),
    }
    things = [
        (single(kind, size), at(0.05 * k - 0.1, 0.0, 0.06, turn))
        for k, (kind, size) in enumerate(sizes.items())
    ]
    world = on_table(*things, (BOX, at(0.1, 0.03, 0.05, turn)))
    camera = overhead_camera(tilt_deg=25)
    views = cast_views(world, camera)
    depth, geoms, normals = multi_ray(world, camera)
    assert (views.geoms == geoms).mean() > 0.9999
    assert np.abs(views.depth - depth)[views.geoms == geoms].max() < 1e-5
    assert np.abs(views.normals - normals)[views.geoms == geoms].max() < 1e-3


def test_an_infinite_plane_can_be_seen():
    spec = mujoco.MjSpec()
    spec.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_PLANE, size=[0, 0, 1])
    model = spec.compile()
    world = World(model, mujoco.MjData(model), {}, {}, np.zeros(1, np.int32), None, False)
    views = cast_views(world, overhead_camera(64, 48, tilt_deg=30))
    assert (views.geoms == 0).all() and np.allclose(views.points()[..., 2], 0.0, atol=1e-6)


def test_a_mesh_that_is_not_convex_is_refused():
    spec = mujoco.MjSpec()
    # A pyramid whose base is pushed in.
    vertices = [(-1, -1, 0), (1, -1, 0), (1, 1, 0), (-1, 1, 0), (0, 0, 1), (0, 0, 0.5)]
    faces = [(0, 1, 4), (1, 2, 4), (2, 3, 4), (3, 0, 4), (1, 0, 5), (2, 1, 5), (3, 2, 5), (0, 3, 5)]
    spec.add_mesh(name="dented", uservert=np.array(vertices, float).ravel() * 0.03, userface=np.ravel(faces))
    spec.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_MESH, meshname="dented")
    model = spec.compile()
    world = World(model, mujoco.MjData(model), {}, {}, np.zeros(1, np.int32), None, False)
    with pytest.raises(SimulationError, match="dented"):
        cast_views(world, overhead_camera(64, 48))


def test_visible_is_part_of_amodal_and_nothing_else_is_labelled():
    world = thrown(7, count=12)
    views = cast_views(world, overhead_camera(tilt_deg=15))
    for obj, crop in views.amodal.items():
        assert not ((views.visible_ids == obj) & ~crop.to_mask((480, 640))).any()
    assert np.array_equal(views.visible_ids, world.object_of_geom[views.geoms])


def test_model_and_data_are_left_as_found():
    world = thrown(3)
    model_before = {k: np.array(getattr(world.model, k)) for k in ("geom_group", "geom_rgba", "geom_size")}
    data_before = {k: np.array(getattr(world.data, k)) for k in ("qpos", "qvel", "xpos", "geom_xpos")}
    cast_views(world, overhead_camera(160, 120))
    assert all(np.array_equal(getattr(world.model, k), v) for k, v in model_before.items())
    assert all(np.array_equal(getattr(world.data, k), v) for k, v in data_before.items())


def test_the_present_pose_counts_even_where_mujoco_has_not_been_told():
    world = on_table((BOX, at(0, 0, 0.01)))
    camera = overhead_camera(distance=0.6, look_at=(0.36, 0.0, 0.0))
    start = world.model.jnt_qposadr[world.model.body_jntadr[world.body_of[1]]]
    world.data.qpos[start + 2] = 0.11
    views = cast_views(world, camera)
    assert np.allclose(views.depth[views.visible_ids == 1], 0.48, atol=1e-6)


def test_repetition_changes_nothing():
    world = thrown(5)
    camera = overhead_camera(tilt_deg=10)
    first = cast_views(world, camera)
    assert same_views(first, cast_views(world, camera))


def test_the_arm_hides_but_is_no_object():
    objects, poses = {1: BOX}, {1: at(0, 0, 0.01)}
    world = build_world(objects, poses, Bin(), arm=True)
    views = cast_views(world, overhead_camera(distance=1.5))
    arm = [g for g in range(world.model.ngeom) if world.model.geom_bodyid[g] not in (0, world.body_of[1])]
    assert np.isin(views.geoms, arm).any()
    assert not views.visible_ids[np.isin(views.geoms, arm)].any()
