"""What is wrong with a frame is found, and an untouched one passes."""

from dataclasses import replace

import numpy as np
import pytest
from gate.noisy_table import Table, with_depth

from cpor.gate.check import Check
from cpor.gate.frame import check_frame
from cpor.scene import Observation


def seen() -> Observation:
    return Table().scene().observation


def states(frame: Observation, previous: Observation | None = None) -> dict[str, str]:
    return {check.name: check.state for check in check_frame(frame, previous)}


def test_an_untouched_frame_passes_every_check():
    checks = check_frame(seen(), Table(seed=1).scene().observation)
    assert {check.state for check in checks} == {"pass"}
    assert [check.name for check in checks] == [
        *("exposure", "channels", "depth_coverage", "depth_range", "depth_variation", "depth_steps"),
        *("depth_fits_picture", "fresh"),
    ]
    assert all(check.says.endswith(".") and not check.remedy for check in checks)


def test_a_check_that_does_not_pass_says_what_to_do():
    for check in check_frame(with_depth(seen(), seen().depth * 10.0)):
        assert bool(check.remedy) == (check.state != "pass")


def test_without_depth_nothing_is_promised_and_nothing_is_blocked():
    assert states(with_depth(seen(), None)) == {
        "exposure": "pass",
        "channels": "pass",
        "depth_coverage": "doubt",
    }


def test_depth_without_a_reading_fails():
    assert states(with_depth(seen(), np.zeros(seen().shape)))["depth_coverage"] == "fail"


def test_depth_that_covers_the_middle_alone_is_doubted():
    depth = seen().depth.copy()
    height, width = depth.shape
    depth[: height // 4], depth[-(height // 4) :] = np.nan, np.nan
    depth[:, : width // 8] = np.nan
    (coverage,) = (c for c in check_frame(with_depth(seen(), depth)) if c.name == "depth_coverage")
    assert coverage.state == "doubt" and "of the picture." in coverage.says


@pytest.mark.parametrize(("lost", "state"), [(0.3, "pass"), (0.5, "doubt"), (0.7, "fail")])
def test_holes_in_depth(lost, state):
    gone = np.random.default_rng(0).random(seen().shape) < lost
    assert states(with_depth(seen(), np.where(gone, np.nan, seen().depth)))["depth_coverage"] == state


@pytest.mark.parametrize("factor", [10.0, 0.1, 1000.0, 0.001])
def test_a_wrong_unit_fails_and_the_remedy_names_the_factor(factor):
    found = {check.name: check for check in check_frame(with_depth(seen(), seen().depth * factor))}
    assert found["depth_range"].state == "fail"
    assert f"A unit {1.0 / factor:g} times the given one" in found["depth_range"].remedy


def test_an_unusual_distance_is_doubted():
    assert states(with_depth(seen(), seen().depth * 4.0))["depth_range"] == "doubt"


def test_constant_depth_fails():
    assert states(with_depth(seen(), np.full(seen().shape, 0.7)))["depth_variation"] == "fail"


def test_coarse_steps_are_doubted_but_a_drawn_scene_is_not():
    coarse = np.round(seen().depth / 0.01) * 0.01
    assert states(with_depth(seen(), coarse))["depth_steps"] == "doubt"
    drawn = np.round(seen().depth / 0.05) * 0.05
    assert states(with_depth(seen(), drawn))["depth_steps"] == "pass"


@pytest.mark.parametrize("shift", [(5, 0), (0, -5), (4, 4)])
def test_shifted_depth_fails_and_the_shift_back_is_named(shift):
    found = check_frame(with_depth(seen(), np.roll(seen().depth, shift, (0, 1))))
    check = next(check for check in found if check.name == "depth_fits_picture")
    assert check.state == "fail"
    assert f"({-shift[1]}, {-shift[0]}) px" in check.says


def test_registration_off_by_a_pixel_passes():
    assert states(with_depth(seen(), np.roll(seen().depth, 1, 1)))["depth_fits_picture"] == "pass"


def test_depth_of_another_frame_fails():
    other = Table(move=(-12, 13), seed=3).scene().observation
    assert states(with_depth(seen(), other.depth))["depth_fits_picture"] == "fail"


def test_depth_without_edges_cannot_be_compared():
    tilted = np.tile(np.linspace(0.6, 0.9, seen().shape[1]), (seen().shape[0], 1))
    found = {check.name: check for check in check_frame(with_depth(seen(), tilted))}
    assert found["depth_fits_picture"] == Check(
        "depth_fits_picture", "pass", "Depth has too few edges to compare it with the picture."
    )


@pytest.mark.parametrize(
    ("gain", "offset", "state"), [(0.02, 0, "fail"), (1.0, 0, "pass"), (8.0, 0, "fail"), (0.01, 100, "fail")]
)
def test_exposure(gain, offset, state):
    rgb = np.clip(seen().rgb * gain + offset, 0, 255).astype(np.uint8)
    assert states(replace(seen(), rgb=rgb))["exposure"] == state


def test_colours_of_one_brightness_are_no_even_picture():
    rgb = np.full((96, 128, 3), 90, np.uint8)
    rgb[20:70, 20:90] = (210, 30, 30)
    assert states(Observation(rgb))["exposure"] == "pass"


def test_swapped_channels_are_doubted_where_blue_is_the_noisy_one():
    noise = np.random.default_rng(0).normal(0.0, 1.0, seen().rgb.shape) * [1.0, 1.0, 6.0]
    rgb = np.clip(seen().rgb + noise, 0, 255).astype(np.uint8)
    assert states(replace(seen(), rgb=rgb))["channels"] == "pass"
    assert states(replace(seen(), rgb=rgb[:, :, ::-1].copy()))["channels"] == "doubt"


def test_the_order_of_channels_cannot_be_told_without_noise():
    even = np.full_like(seen().rgb, 90)
    (check,) = (check for check in check_frame(replace(seen(), rgb=even)) if check.name == "channels")
    assert check.state == "pass" and "cannot be told" in check.says


def test_the_frame_before_again_fails_whole_or_half():
    other = Table(seed=1).scene().observation
    assert states(seen(), seen())["fresh"] == "fail"
    assert states(replace(other, depth=seen().depth), seen())["fresh"] == "fail"
    assert states(replace(other, rgb=seen().rgb), seen())["fresh"] == "fail"
    assert states(other, seen())["fresh"] == "pass"


def test_a_drawn_picture_may_come_again():
    """A camera without noise sees the same thing twice where nothing moved."""
    drawn = replace(seen(), rgb=(seen().rgb // 64 * 64).astype(np.uint8))
    assert states(drawn, drawn)["fresh"] == "doubt"


def test_frames_without_depth_are_compared_by_colour():
    alone = with_depth(seen(), None)
    assert states(alone, alone)["fresh"] == "fail"
    assert states(alone, with_depth(Table(seed=1).scene().observation, None))["fresh"] == "pass"


def test_json_has_every_field():
    assert Check("exposure", "doubt", "Dark.", "Light it.").to_json() == {
        "name": "exposure",
        "state": "doubt",
        "says": "Dark.",
        "remedy": "Light it.",
    }


@pytest.mark.parametrize("shape", [(1, 1), (3, 17), (40, 19), (19, 700)])
def test_frames_of_any_size_are_looked_at(shape):
    rng = np.random.default_rng(0)
    rgb = rng.integers(0, 255, (*shape, 3)).astype(np.uint8)
    frame = Observation(rgb, rng.uniform(0.5, 0.9, shape).astype(np.float32))
    assert {"exposure", "channels", "depth_coverage"} <= set(states(frame))
