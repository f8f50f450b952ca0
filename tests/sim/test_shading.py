"""Colours, patterns and shadows of the simulated picture."""

import math
from dataclasses import replace

import numpy as np
import pytest
from sim.hand_made import at, on_table, single, thrown

from cpor.errors import SimulationError
from cpor.sim.camera import _shade_kernels as kernels
from cpor.sim.camera.look import Light, plain_look, random_look
from cpor.sim.camera.shading import PATTERN_CODES, list_surfaces, render_rgb
from cpor.sim.camera.views import cast_views, overhead_camera
from cpor.sim.objects.catalogue import catalogue
from cpor.sim.objects.solids import Surface

CAMERA = overhead_camera(320, 240)
HUES = {
    "red": 0,
    "orange": 25,
    "yellow": 48,
    "green": 110,
    "turquoise": 175,
    "blue": 228,
    "purple": 280,
    "pink": 345,
}
BOX = (0.03, 0.03, 0.01)


def picture(world, look=None, camera=CAMERA):
    views = cast_views(world, camera)
    return render_rgb(world, views, look or plain_look()), views


def hue(pixels):
    """Angle of colours on the circle from red over green to blue, in degrees."""
    red, green, blue = np.asarray(pixels, float).T
    return np.rad2deg(np.arctan2(np.sqrt(3.0) * (green - blue), 2.0 * red - green - blue)) % 360.0


def plain_hash(i, j, k):
    """NumPy twin of `cell_hash`."""
    full = 0xFFFFFFFF
    mixed = (
        ((i & full) * 374761393 & full) ^ ((j & full) * 668265263 & full) ^ ((k & full) * 2246822519 & full)
    )
    mixed = ((mixed ^ (mixed >> 13)) * 1274126177) & full
    return (mixed ^ (mixed >> 16)) / 4294967296.0


def plain_noise(x, y, z):
    """NumPy twin of `smooth_noise`."""
    corner = np.floor([x, y, z]).astype(int)
    t = np.array([x, y, z]) - corner
    t = t * t * (3 - 2 * t)
    total = 0.0
    for step in np.ndindex(2, 2, 2):
        share = np.prod(np.where(step, t, 1 - t))
        total += share * plain_hash(*(int(v) for v in corner + step))
    return total


def plain_weight(pattern, x, y, z, scale):
    """NumPy twin of `pattern_weight` for the patterns that have sharp cells."""
    cell = np.floor([x / scale + 0.2631, y / scale + 0.2317, z / scale + 0.2503]).astype(int)
    if pattern == "stripes":
        s = z / scale + 0.2503
        return float(s - math.floor(s) < 0.5)
    return float(cell.sum() % 2 == 0) if pattern == "checker" else 0.0


def test_hash_and_noise_agree_with_their_twins(rng):
    for i, j, k in rng.integers(-5000, 5000, size=(200, 3)).tolist():
        assert kernels.cell_hash(i, j, k) == plain_hash(i, j, k)
    for x, y, z in rng.uniform(-30, 30, size=(200, 3)).tolist():
        assert kernels.smooth_noise(x, y, z) == pytest.approx(plain_noise(x, y, z), abs=1e-12)


@pytest.mark.parametrize("pattern", ["plain", "stripes", "checker"])
def test_patterns_agree_with_their_twins(pattern, rng):
    for x, y, z in rng.uniform(-0.1, 0.1, size=(300, 3)).tolist():
        expected = plain_weight(pattern, x, y, z, 0.02)
        assert kernels.pattern_weight(PATTERN_CODES[pattern], x, y, z, 0.02) == expected


@pytest.mark.parametrize(
    ("pattern", "least", "most"), [("speckle", 0.01, 0.3), ("grain", 0.1, 0.8), ("label", 0.1, 0.9)]
)
def test_other_patterns_show_both_colours_in_proportion(pattern, least, most, rng):
    points = rng.uniform(-0.02, 0.02, size=(4000, 3)).tolist()
    weights = np.array([kernels.pattern_weight(PATTERN_CODES[pattern], *p, 0.04) for p in points])
    assert weights.min() >= 0.0 and weights.max() <= 1.0 and weights.std() > 0.05
    assert least < weights.mean() < most


def test_every_pattern_has_a_code():
    assert sorted(PATTERN_CODES.values()) == list(range(len(PATTERN_CODES)))


@pytest.mark.parametrize("name", [m.name for m in catalogue() if m.name.split()[0] in HUES])
def test_things_have_the_colour_they_are_called_by(name):
    model = next(m for m in catalogue() if m.name == name)
    shares = []
    # From one side and from the other: a sponge is blue on one side only, a tin is steel from above.
    for turn in ((0.85, 0.45, 0.2, 0.18), (0.45, -0.85, 0.18, -0.2)):
        image, views = picture(
            on_table((model, at(0, 0, 0.08, turn))), camera=overhead_camera(320, 240, tilt_deg=30)
        )
        pixels = image[views.visible_ids == 1].astype(float)
        off = np.abs((hue(pixels) - HUES[name.split()[0]] + 180.0) % 360.0 - 180.0)
        shares.append(float(((off < 40.0) & (np.ptp(pixels, axis=1) > 40)).mean()))
    assert max(shares) > 0.25


def test_a_red_thing_stays_red_in_any_light(rng):
    world = on_table((single("box", BOX), at(0, 0, 0.01)))
    for _ in range(8):
        image, views = picture(world, random_look(rng))
        red, green, blue = image[views.visible_ids == 1].mean(axis=0)
        assert red > 1.8 * green and red > 1.8 * blue and red > 60


def test_a_lamp_throws_a_shadow_on_the_far_side():
    world = on_table((single("box", (0.01, 0.03, 0.03)), at(0, 0, 0.03)))
    lamp = Light((0.36 - 0.8, 0.0, 0.8), (0.7, 0.7, 0.7))
    even = Surface((0.4, 0.4, 0.4), shine=0.0)
    look = replace(plain_look(), lights=(lamp,), table=even)
    image, views = picture(world, look)
    # The lamp stands at 45 degrees to the left: a 6 cm box throws a 6 cm shadow to the right.
    points = views.points()
    table = (views.visible_ids == 0) & (np.abs(points[..., 1]) < 0.015)
    shadow = image[table & (points[..., 0] > 0.38) & (points[..., 0] < 0.41)].mean()
    light = image[table & (points[..., 0] < 0.34) & (points[..., 0] > 0.30)].mean()
    beyond = image[table & (points[..., 0] > 0.46) & (points[..., 0] < 0.50)].mean()
    assert shadow < 0.75 * light
    assert beyond > 0.9 * light


def test_no_surface_shades_itself():
    world = on_table((single("sphere", (0.03,), Surface((0.5, 0.5, 0.5), shine=0.0)), at(0, 0, 0.03)))
    lamp = Light((0.36, 0.0, 1.2), (0.7, 0.7, 0.7))
    image, views = picture(world, replace(plain_look(), lights=(lamp,)))
    top = (views.visible_ids == 1) & (views.normals[..., 2] > 0.6)
    brightness = image[top].mean(axis=1)
    # Smooth: light falls with the slope, by no more than slope, wear and ambient allow.
    assert brightness.min() > 0.75 * brightness.max()


def test_corners_are_darker_than_open_table():
    world = thrown(2, count=1, steps=0)
    look = replace(plain_look(), lights=(), table=Surface((0.4, 0.4, 0.4), shine=0.0))
    image, views = picture(world, look)
    points, floor = views.points(), views.normals[..., 2] > 0.99
    floor &= np.abs(points[..., 2]) < 1e-4
    x, y = np.abs(points[..., 0] - 0.36), np.abs(points[..., 1])
    corner = image[floor & (x < 0.11) & (x > 0.10) & (y < 0.09) & (y > 0.08)].mean()
    outside = image[floor & (x > 0.18)].mean()
    assert corner < 0.9 * outside


def test_shiny_things_gleam():
    matt, shiny = Surface((0.1, 0.1, 0.1), shine=0.0), Surface((0.1, 0.1, 0.1), shine=0.8)
    brightest = []
    for surface in (matt, shiny):
        image, views = picture(on_table((single("sphere", (0.03,), surface), at(0, 0, 0.03))))
        brightest.append(int(image[views.visible_ids == 1].max()))
    assert brightest[1] > brightest[0] + 40


def test_exposure_brightens_and_white_balance_tints():
    world = on_table((single("box", BOX), at(0, 0, 0.01)))
    base = picture(world)[0].astype(float).mean(axis=(0, 1))
    brighter = picture(world, replace(plain_look(), exposure=1.3))[0].mean(axis=(0, 1))
    bluer = picture(world, replace(plain_look(), white_balance=(1.0, 1.0, 1.3)))[0].mean(axis=(0, 1))
    assert (brighter > base + 5).all()
    assert bluer[2] > base[2] + 5 and np.allclose(bluer[:2], base[:2])


def test_repetition_changes_nothing(rng):
    world, look = thrown(1), random_look(rng)
    first, _ = picture(world, look)
    assert np.array_equal(first, picture(world, look)[0])


def test_the_same_seed_gives_the_same_look():
    assert random_look(np.random.default_rng(4)) == random_look(np.random.default_rng(4))
    assert random_look(np.random.default_rng(4)) != random_look(np.random.default_rng(5))


def test_parts_and_geoms_must_match():
    world = on_table((single("box", BOX), at(0, 0, 0.01)))
    wrong = replace(world, objects={1: replace(world.objects[1], parts=world.objects[1].parts * 2)})
    with pytest.raises(SimulationError, match="parts"):
        list_surfaces(wrong, plain_look())


def test_a_sky_of_nothing_is_dark_and_finite():
    camera = overhead_camera(64, 48, look_at=(5.0, 5.0, 0.0))
    image, _ = picture(on_table((single("box", BOX), at(0, 0, 0.01))), camera=camera)
    assert image.max() < 110
