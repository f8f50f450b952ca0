"""Small scenes to send to the service."""

import numpy as np

from cpor.scene import DetectedObject, MaskCrop, Observation, Scene


def two_boxes(width=96, height=72, shift=0):
    """A scene whose masks tell it from any other: its boxes begin where nobody else's do."""
    ids = np.zeros((height, width), np.int32)
    ids[10 : height - 10, 8 + shift : 40 + shift] = 1
    ids[10 : height - 10, 40 + shift : 70] = 2
    colours = np.array([[90, 90, 90], [200, 40, 40], [40, 60, 200]], np.uint8)
    depth = np.where(ids == 0, 0.8, np.where(ids == 1, 0.76, 0.74)).astype(np.float32)
    objects = tuple(DetectedObject(k, MaskCrop.from_mask(ids == k)) for k in (1, 2))
    return Scene(Observation(colours[ids], depth), objects, ids)
