"""Another camera is told from the tested one, and then nothing is promised."""

from dataclasses import replace

import numpy as np
import pytest

from cpor.gate.setup import SETUP_FIGURES, setup_figures
from cpor.model import FittedModel, bundled_model
from cpor.promise import check_as_set_up
from cpor.scene import Camera, DetectedObject, Intrinsics, Observation, Scene


def seen(distance=0.6, tilt=0.0, sideways=0.0, fy=900.0, shape=(240, 320), noise=0.5e-3, lost=0.05, seed=0):
    """A plane, leaning by two angles in degrees, with one object, seen through a noisy sensor."""
    rng = np.random.default_rng(seed)
    across, along = np.tan(np.deg2rad([sideways, tilt]))
    y, x = (np.arange(size)[:, None] - size / 2 for size in shape)
    depth = distance / (1.0 + along * y / fy + across * x.T / fy) + noise * rng.standard_normal(shape)
    depth[rng.random(shape) < lost] = np.nan
    ids = np.zeros(shape, np.int32)
    ids[40:80, 60:100] = 1
    rgb = rng.integers(0, 255, (*shape, 3), np.uint8)
    camera = Camera(Intrinsics(fy, fy, shape[1] / 2, shape[0] / 2))
    return Scene(Observation(rgb, depth.astype(np.float32), camera), (DetectedObject(1),), ids)


@pytest.fixture(scope="module")
def model():
    tested = [setup_figures(seen(seed=k, distance=0.6 + 0.002 * k)) for k in range(20)]
    setup = {
        name: [None if np.isnan(each[name]) else each[name] for each in tested] for name in SETUP_FIGURES
    }
    return FittedModel.load(bundled_model("embedded")).model_copy(update={"setup": setup})


def test_figures_by_hand():
    figures = setup_figures(seen(distance=0.8, tilt=20.0, sideways=-10.0, fy=240.0, noise=0.0, lost=0.0))
    assert figures["width"] == 320.0 and figures["unread"] == 0.0
    assert figures["field_of_view"] == pytest.approx(2.0 * np.rad2deg(np.arctan(0.5)))
    assert figures["distance"] == pytest.approx(0.8, rel=0.01)
    along, across = np.tan(np.deg2rad(20.0)), np.tan(np.deg2rad(-10.0))
    length = np.sqrt(1.0 + along**2 + across**2)
    assert figures["height"] == pytest.approx(0.8 / length, abs=1e-3)
    assert figures["lean_along"] == pytest.approx(along / length, abs=1e-3)
    assert figures["lean_across"] == pytest.approx(across / length, abs=1e-3)
    assert figures["size"] == pytest.approx(40.0 / 320.0)
    blind = setup_figures(Scene(Observation(np.zeros((8, 8, 3), np.uint8))))
    assert np.isnan([blind[name] for name in ("distance", "height", "size", "grain", "field_of_view")]).all()


@pytest.mark.parametrize(
    "other",
    [
        {"tilt": 3.0}, {"tilt": -12.0}, {"sideways": 3.0}, {"sideways": -12.0}, {"sideways": 20.0},
        {"fy": 600.0}, {"distance": 0.45}, {"shape": (480, 640)}, {"lost": 0.2}, {"noise": 2e-3},
    ],
)  # fmt: skip
def test_another_camera_is_doubted(model, other):
    (check,) = check_as_set_up(model, setup_figures(seen(**{"distance": 0.62} | other)))
    assert check.state == "doubt" and "in the tested scenes it was" in check.says


def test_fewer_holes_are_no_reason_to_doubt_but_smoother_depth_is_that_of_another_sensor(model):
    assert check_as_set_up(model, setup_figures(seen(distance=0.62, lost=0.0)))[0].state == "pass"
    (check,) = check_as_set_up(model, setup_figures(seen(distance=0.62, noise=0.2e-3)))
    assert check.state == "doubt" and "unevenness of depth" in check.says


def test_the_tested_camera_passes_and_what_is_not_known_differs(model):
    scene = seen(distance=0.62, seed=99)
    assert check_as_set_up(model, setup_figures(scene))[0].state == "pass"
    level = model.model_copy(update={"setup": model.setup | {"lean_along": [0.0, 0.0]}})
    assert check_as_set_up(level, setup_figures(seen(distance=0.62, tilt=0.3)))[0].state == "pass"
    unknown = replace(scene, observation=replace(scene.observation, camera=Camera()))
    (check,) = check_as_set_up(model, setup_figures(unknown))
    assert check.state == "doubt" and "The field of view in degrees is not known" in check.says
    names = ("field_of_view", "height", "lean_across", "lean_along")
    some = model.model_copy(update={"setup": model.setup | {name: [0.5, None] for name in names}})
    assert check_as_set_up(some, setup_figures(unknown))[0].state == "pass"  # as in some tested scenes
    (check,) = check_as_set_up(model.model_copy(update={"setup": {}}), setup_figures(scene))
    assert check.state == "doubt" and check.says.startswith("The model does not say what the")
