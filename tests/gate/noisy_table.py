"""A small noisy frame of boxes on a table, with the masks that belong to it."""

from dataclasses import dataclass, replace

import numpy as np

from cpor.scene import Camera, DetectedObject, Intrinsics, MaskCrop, Observation, Scene

SHAPE = (120, 160)
TABLE_M = 0.8
BOXES = ((20, 20, 34, 40), (30, 80, 40, 30), (70, 40, 34, 44), (64, 108, 40, 36))
"""Top, left, height and width. [px]"""


@dataclass(frozen=True)
class Table:
    """Boxes on a table.

    Attributes:
        move: How far the boxes lie from their place, down and right. [px]
        seed: Of the noise.
    """

    move: tuple[int, int] = (0, 0)
    seed: int = 0

    def scene(self) -> Scene:
        rng = np.random.default_rng(self.seed)
        rgb = np.full((*SHAPE, 3), 150.0)
        depth = np.full(SHAPE, TABLE_M) + 0.1 * np.linspace(0.0, 1.0, SHAPE[1])
        ids = np.zeros(SHAPE, np.int32)
        for k, (top, left, height, width) in enumerate(BOXES, start=1):
            box = np.s_[
                top + self.move[0] : top + self.move[0] + height,
                left + self.move[1] : left + self.move[1] + width,
            ]
            rgb[box] = np.array([60.0, 200.0, 120.0])[[k % 3, (k + 1) % 3, (k + 2) % 3]]
            depth[box] -= 0.04 + 0.02 * k
            ids[box] = k
        rgb += rng.normal(0.0, 2.0, rgb.shape)
        depth += rng.normal(0.0, 0.002, SHAPE)
        seen = Observation(
            np.clip(rgb, 0, 255).astype(np.uint8),
            depth.astype(np.float32),
            Camera(Intrinsics(140.0, 140.0, 80.0, 60.0)),
        )
        objects = (DetectedObject(k, MaskCrop.from_mask(ids == k)) for k in range(1, len(BOXES) + 1))
        return Scene(seen, tuple(objects), ids)


def with_depth(seen: Observation, depth: np.ndarray | None) -> Observation:
    return replace(seen, depth=None if depth is None else depth.astype(np.float32))
