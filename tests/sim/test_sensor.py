"""The sensor model has the statistics it claims."""

from dataclasses import replace

import numpy as np
import pytest
from sim.hand_made import at, on_table, single, thrown

from cpor.errors import SimulationError
from cpor.evidence.shadows import find_shadow
from cpor.io.depth import drop_strays
from cpor.sim.camera.look import plain_look
from cpor.sim.camera.sensor import (
    DEFAULT_SENSOR,
    HARSH_SENSOR,
    lit_image,
    photograph,
    sense,
    sensor_preset,
    shine_image,
)
from cpor.sim.camera.shading import render_rgb
from cpor.sim.camera.views import cast_views, overhead_camera
from cpor.sim.objects.solids import Surface

LOSSLESS = replace(
    DEFAULT_SENSOR, edge_loss=0.0, grazing_loss=0.0, dark_loss=0.0, shiny_loss=0.0, stray_loss=0.0
)


def frame(world, sensor, rng, camera=None, look=None):
    camera, look = camera or overhead_camera(320, 240), look or plain_look()
    views = cast_views(world, camera)
    rgb = render_rgb(world, views, look)
    return sense(views, rgb, camera, sensor, rng, shine_image(world, views, look)), views, rgb


def block(surface=None, z=0.02):
    return on_table((single("box", (0.05, 0.05, 0.02), surface or Surface((0.5, 0.5, 0.5))), at(0, 0, z)))


def test_no_sensor_is_a_perfect_one(rng):
    observation, views, rgb = frame(block(), None, rng)
    assert np.array_equal(observation.depth, views.depth) and np.array_equal(observation.rgb, rgb)
    assert observation.camera.intrinsics == views.camera.intrinsics


@pytest.mark.parametrize("distance", [0.5, 0.65, 0.8])
def test_depth_noise_is_a_millimetre_or_two_and_grows_with_the_square(distance, rng, evidence):
    camera = overhead_camera(320, 240, distance=distance, look_at=(0.36, 0.0, 0.0))
    fine = replace(LOSSLESS, depth_unit_m=1e-6)
    observation, views, _ = frame(block(z=-0.1), fine, rng, camera)
    spread = float(np.nanstd(observation.depth - views.depth))
    assert spread == pytest.approx(DEFAULT_SENSOR.noise_at_1m * distance**2, rel=0.03)
    assert 0.0005 < spread < 0.002
    evidence(
        "acts",
        f"depth noise of the default sensor at {distance} m [mm]",
        "1 to 2 (growing with the square of the distance)",
        1e3 * spread,
    )


def test_noise_has_no_bias(rng):
    observation, views, _ = frame(block(z=-0.1), replace(LOSSLESS, depth_unit_m=1e-6), rng)
    assert abs(np.nanmean(observation.depth - views.depth)) < 5e-5


def test_readings_are_whole_steps(rng):
    observation, _, _ = frame(block(), DEFAULT_SENSOR, rng)
    steps = observation.depth[np.isfinite(observation.depth)] / 0.001
    assert np.abs(steps - np.round(steps)).max() < 1e-3
    assert observation.camera.depth_unit_m == 0.001


def missing_share(observation, where):
    return float(np.isnan(observation.depth[where]).mean())


def test_edges_lose_more_than_the_inside(rng):
    observation, views, _ = frame(block(), DEFAULT_SENSOR, rng)
    rows, cols = np.nonzero(views.visible_ids == 1)
    inside = np.zeros(views.depth.shape, bool)
    inside[rows.min() + 6 : rows.max() - 5, cols.min() + 6 : cols.max() - 5] = True
    border = (views.visible_ids == 1) & ~inside
    border[rows.min() + 2 : rows.max() - 1, cols.min() + 2 : cols.max() - 1] = False
    assert missing_share(observation, inside) < 0.03
    assert missing_share(observation, border) > 0.15


def test_dark_and_shiny_surfaces_lose_more_than_others(rng):
    shares = {}
    surfaces = {
        "matt": Surface((0.5, 0.5, 0.5), shine=0.05),
        "dark": Surface((0.004, 0.004, 0.004), shine=0.05),
        "shiny": Surface((0.5, 0.5, 0.5), shine=0.9),
    }
    for name, surface in surfaces.items():
        observation, views, _ = frame(block(surface), DEFAULT_SENSOR, rng)
        rows, cols = np.nonzero(views.visible_ids == 1)
        inside = np.zeros(views.depth.shape, bool)
        inside[rows.min() + 6 : rows.max() - 5, cols.min() + 6 : cols.max() - 5] = True
        shares[name] = missing_share(observation, inside)
    assert shares["matt"] < 0.02
    assert 0.05 < shares["dark"] < 0.5 and 0.1 < shares["shiny"] < 0.6


def test_grazing_surfaces_lose_readings(rng):
    camera = overhead_camera(320, 240, tilt_deg=80)
    observation, views, _ = frame(block(z=-0.1), DEFAULT_SENSOR, rng, camera)
    steep, _, _ = frame(block(z=-0.1), DEFAULT_SENSOR, rng, overhead_camera(320, 240, tilt_deg=20))
    seen = np.isfinite(views.depth)
    assert missing_share(observation, seen) > 0.2
    assert missing_share(steep, np.ones(seen.shape, bool)) < 0.02


def test_holes_are_blobs_not_salt(rng):
    observation, views, _ = frame(block(Surface((0.5, 0.5, 0.5), shine=0.9)), DEFAULT_SENSOR, rng)
    lost = np.isnan(observation.depth)
    rows, cols = np.nonzero(views.visible_ids == 1)
    patch = lost[rows.min() + 6 : rows.max() - 5, cols.min() + 6 : cols.max() - 5]
    beside = patch[:, 1:][patch[:, :-1]].mean()
    assert beside > 2.0 * patch.mean()


def test_colour_is_out_of_register_by_about_a_pixel(rng):
    views = cast_views(block(), overhead_camera(160, 120))
    bright = (views.visible_ids == 1)[..., None] & np.ones(3, bool)
    rgb = np.where(bright, 200, 20).astype(np.uint8)
    sensor = replace(LOSSLESS, rgb_noise=0.0, blur_px=0.0)
    columns = np.arange(160)

    def middle(image):
        weight = (image[..., 0].astype(float) - 20.0).sum(axis=0)
        return (weight @ columns) / weight.sum()

    moved = [middle(sense(views, rgb, views.camera, sensor, rng).rgb) - middle(rgb) for _ in range(80)]
    assert np.std(moved) == pytest.approx(DEFAULT_SENSOR.shift_px, rel=0.3)
    assert abs(np.mean(moved)) < 0.4


def test_colour_noise_is_as_strong_as_said(rng):
    views = cast_views(block(), overhead_camera(160, 120))
    grey = np.full((120, 160, 3), 128, np.uint8)
    seen = sense(views, grey, views.camera, replace(LOSSLESS, shift_px=0.0), rng).rgb
    assert seen.astype(float).std() == pytest.approx(DEFAULT_SENSOR.rgb_noise, rel=0.1)


def test_harsh_is_worse_than_default(rng):
    world = thrown(3)
    default, views, _ = frame(world, DEFAULT_SENSOR, rng)
    harsh, _, _ = frame(world, HARSH_SENSOR, rng)
    assert np.isnan(harsh.depth).mean() > 1.5 * np.isnan(default.depth).mean()
    assert np.nanstd(harsh.depth - views.depth) > 1.5 * np.nanstd(default.depth - views.depth)


def test_presets_go_by_name():
    assert sensor_preset("none") is None
    assert sensor_preset("default") is DEFAULT_SENSOR
    with pytest.raises(SimulationError, match="default, harsh"):
        sensor_preset("perfect")


def test_a_photograph_is_a_scene_with_names_and_true_masks():
    world, camera = thrown(4), overhead_camera(320, 240)
    views = cast_views(world, camera)
    scene = photograph(world, camera, plain_look(), DEFAULT_SENSOR, np.random.default_rng(1))
    assert np.array_equal(scene.visible_ids, views.visible_ids)
    assert {o.id: o.name for o in scene.objects} == {k: m.name for k, m in world.objects.items()}
    assert all(o.amodal == views.amodal[o.id] for o in scene.objects)
    assert scene.true_occlusion is None and scene.true_sweep is None
    assert np.allclose(scene.observation.camera.T_world_camera, camera.T_world_camera)


def test_the_same_rng_gives_the_same_photograph():
    world, camera = thrown(4), overhead_camera(320, 240)
    first, again, other = (
        photograph(world, camera, plain_look(), DEFAULT_SENSOR, np.random.default_rng(seed))
        for seed in (1, 1, 2)
    )
    assert first == again
    assert first != other


def photo(name, world, seed=0, size=(320, 240)):
    camera = overhead_camera(*size)
    return photograph(
        world, camera, plain_look(), sensor_preset(name), np.random.default_rng(seed)
    ).observation


@pytest.mark.parametrize("baseline", [0.06, 0.3, -0.3])
def test_a_shadow_is_as_wide_as_the_rays_make_it(baseline):
    world, camera = block(z=0.04), overhead_camera(640, 480)
    views = cast_views(world, camera)
    dark = ~lit_image(world, views, baseline)
    row = dark[240]
    top, table = views.depth[240, 320], views.depth[240, 40]
    width = camera.intrinsics.fx * abs(baseline) * (1.0 / top - 1.0 / table)
    assert row.sum() == pytest.approx(width, abs=2.0) and width > 5.0
    columns, block_columns = np.flatnonzero(row), np.flatnonzero(views.visible_ids[240] > 0)
    assert columns.max() - columns.min() + 1 == row.sum(), "one strip"
    left = columns.max() < block_columns.min() + 1
    assert left == (baseline > 0), "it lies on the side away from the projector"
    assert not dark[views.visible_ids > 0].any()


@pytest.mark.slow
@pytest.mark.parametrize(("name", "side"), [("realsense", False), ("phoxi", True)])
def test_the_shadow_of_a_named_sensor_is_found_where_it_stands(name, side):
    baseline, focal = sensor_preset(name).baseline_m, overhead_camera(640, 480).intrinsics.fx
    for seed in (1, 2):
        found = find_shadow(photo(name, thrown(seed), seed, (640, 480)).depth)
        assert (found.axis, found.after) == (1, side)
        assert found.k == pytest.approx(abs(baseline) * focal, rel=0.25)


def test_the_default_sensor_has_no_shadow_and_no_stray_reading():
    depth = photo("default", thrown(1), 1, (640, 480)).depth
    assert find_shadow(depth) is None
    assert drop_strays(depth)[0] is depth


def test_a_projector_alone_leaves_colour_black_where_depth_is_missing_and_fewer_readings():
    seen = photo("phoxi", block())
    missing = np.isnan(seen.depth)
    assert missing.mean() > 0.01 and not seen.rgb[missing].any()
    assert seen.rgb[~missing].mean() < 0.6 * photo("default", block()).rgb.mean()
    assert np.array_equal(seen.depth[::2, ::2], seen.depth[1::2, 1::2], equal_nan=True)


def test_readings_at_an_edge_are_mixed_and_hollows_read_too_deep(rng):
    sensor = replace(LOSSLESS, noise_at_1m=0.0, depth_unit_m=1e-6)
    world = block(z=0.04)
    mixed, views, _ = frame(world, replace(sensor, mixed=1.0), rng)
    low, high = np.nanmin(views.depth), np.nanmax(views.depth)
    between = (mixed.depth > low + 0.01) & (mixed.depth < high - 0.01)
    assert (
        between.sum() > 100 and np.nanmin(mixed.depth) > low - 1e-5 and np.nanmax(mixed.depth) < high + 1e-5
    )
    hollow, views, _ = frame(world, replace(sensor, hollow_m=0.006), rng)
    deeper = hollow.depth - views.depth
    beside = (views.visible_ids == 0) & (np.roll(views.visible_ids, 4, axis=1) > 0)
    assert deeper[beside].mean() > 0.002 and abs(deeper[:10].mean()) < 1e-4
    assert deeper.min() > -1e-5 and deeper.max() < 0.0061


def test_surfaces_without_a_pattern_have_no_depth_in_passive_stereo(rng):
    sensor, world = replace(LOSSLESS, even_loss=0.5), block(z=-0.1)
    camera = overhead_camera(320, 240)
    views = cast_views(world, camera)
    even = np.full((240, 320, 3), 120, np.uint8)
    patterned = rng.integers(60, 180, even.shape, dtype=np.uint8)
    lost = [np.isnan(sense(views, rgb, camera, sensor, rng).depth).mean() for rgb in (even, patterned)]
    assert lost[0] == pytest.approx(0.5, abs=0.1) and lost[1] < 0.01
