"""The checks on photographs with sensor depth: untouched ones pass, and faults in them are found."""

from dataclasses import replace

import numpy as np
import pytest
from support.data import DATA

from cpor.gate.frame import check_frame
from cpor.gate.masks import check_masks
from cpor.io.scene_folder import read_scene_folder
from cpor.scene import Scene

NAMES = ("learn0", "learn7", "learn14", "learn29", "learn40")


@pytest.fixture(scope="module")
def scenes() -> dict[str, Scene]:
    folder = DATA / "osd_learn"
    if not folder.is_dir():
        pytest.skip("the photographs of osd_learn are not here; set CPOR_DATA")
    return {name: read_scene_folder(folder / name) for name in (*NAMES, "learn26")}


def worst(scene: Scene) -> set[str]:
    checks = (*check_frame(scene.observation), *check_masks(scene))
    return {check.name for check in checks if check.state != "pass"}


@pytest.mark.parametrize("name", NAMES)
def test_an_untouched_photograph_passes(scenes, name):
    assert worst(scenes[name]) == set()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("factor", [0.0, 10.0, 0.1, 1000.0])
def test_zero_depth_and_wrong_units_fail(scenes, name, factor):
    seen = scenes[name].observation
    checks = check_frame(replace(seen, depth=seen.depth * np.float32(factor)))
    assert any(check.state == "fail" for check in checks)


@pytest.mark.parametrize("name", NAMES)
def test_masks_of_the_next_photograph_are_found(scenes, name):
    other = scenes[NAMES[(NAMES.index(name) + 1) % len(NAMES)]]
    assert "masks_fit_picture" in worst(replace(other, observation=scenes[name].observation))


def test_a_photograph_labelled_with_the_masks_of_another_is_found(scenes):
    """The data set has it so: the outlines of learn26 lie beside its boxes."""
    assert worst(scenes["learn26"]) >= {"masks_fit_picture", "masks_fit_depth"}
