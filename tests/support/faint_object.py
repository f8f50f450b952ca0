"""A simulated heap with an object that our segmenter sees too faintly to name it."""

from functools import cache

from cpor.scene import PixelPoint, Scene
from cpor.sim.dataset.make import plan_split, simulate_case
from cpor.sim.dataset.manifest import DatasetSettings
from cpor.sim.staged_run import deepest_point

FAINT = 3
"""Id of the object. Its score is 0.22, the threshold 0.42: no processor rounds that far."""


@cache
def faint_object() -> tuple[Scene, int, PixelPoint]:
    """The heap with its true masks, the object, and the point that lies deepest in what shows of it."""
    scene, _ = simulate_case(plan_split("dev").cases[138], DatasetSettings())
    point = deepest_point(scene.visible_ids, FAINT)
    assert point is not None
    return scene, FAINT, point
