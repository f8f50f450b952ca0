"""Small scenes for scorers: coloured rectangles that overlap."""

import numpy as np

from cpor.scene import BlockedBy, DetectedObject, MaskCrop, Observation, Scene

BOXES = {"red": (0.1, 0.1, 0.5, 0.4), "green": (0.15, 0.4, 0.6, 0.8), "blue": (0.75, 0.1, 0.95, 0.3)}


def heap(n=4, shape=(96, 128), name=True):
    """Rectangles in a row, each on top of the one before."""
    rng = np.random.default_rng(n)
    rgb = np.full((*shape, 3), 200, np.uint8)
    visible = np.zeros(shape, np.int32)
    amodal = []
    width = shape[1] // (n + 1)
    for k in range(n):
        mask = np.zeros(shape, bool)
        left = 4 + k * width * 3 // 4
        mask[shape[0] // 4 : 3 * shape[0] // 4, left : left + width] = True
        rgb[mask] = rng.integers(30, 220, 3)
        visible[mask] = k + 1
        amodal.append(mask)
    objects = tuple(
        DetectedObject(k + 1, MaskCrop.from_mask(mask), f"box {k + 1}" if name else None)
        for k, mask in enumerate(amodal)
    )
    return Scene(Observation(rgb), objects, visible)


def three_boxes(ids=(4, 7, 9), names=(None, None, None), **more):
    """A red and a green box that touch, and a blue one apart."""
    rgb = np.full((120, 160, 3), 120, np.uint8)
    visible = np.zeros(rgb.shape[:2], np.int32)
    colours = ((200, 30, 30), (30, 160, 50), (30, 60, 200))
    for k, colour, (top, left, bottom, right) in zip(ids, colours, BOXES.values(), strict=True):
        box = np.s_[round(120 * top) : round(120 * bottom), round(160 * left) : round(160 * right)]
        rgb[box], visible[box] = colour, k
    objects = tuple(
        DetectedObject(k, MaskCrop.from_mask(visible == k), name) for k, name in zip(ids, names, strict=True)
    )
    return Scene(Observation(rgb), objects, visible, **more)


def grid_of_objects(n):
    """Many small objects side by side, for many pairs."""
    side = int(np.ceil(np.sqrt(n)))
    visible = np.zeros((side * 6, side * 6), np.int32)
    for k in range(n):
        row, column = divmod(k, side)
        visible[row * 6 : row * 6 + 5, column * 6 : column * 6 + 5] = k + 1
    rgb = (visible[..., None] * np.array([7, 13, 29]) % 256).astype(np.uint8)
    return Scene(Observation(rgb), tuple(DetectedObject(k + 1) for k in range(n)), visible)


def all_pairs(scene):
    return [BlockedBy(a, b) for a in scene.ids for b in scene.ids if a != b]
