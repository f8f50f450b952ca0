"""A simulated heap with an object that our segmenter sees too faintly to name it."""

import numpy as np
from scipy import ndimage

from cpor.scene import PixelPoint, Scene
from cpor.sim.dataset.case import simulate_case
from cpor.sim.dataset.make import DatasetSettings, plan_split


def faint_object() -> tuple[Scene, int, PixelPoint]:
    """The heap with its true masks, the object, and the point that lies deepest in what shows of it."""
    scene, entry = simulate_case(plan_split("dev").cases[86], DatasetSettings())
    depth = ndimage.distance_transform_edt(np.pad(scene.visible_ids == entry.target, 1))[1:-1, 1:-1]
    row, col = np.unravel_index(depth.argmax(), depth.shape)
    return scene, entry.target, PixelPoint(float(col), float(row))
