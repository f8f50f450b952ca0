"""Processor time of all geometric evidence of a scene on one core, beside the time asked for.

Run: python benchmarks/bench_evidence.py [--dry]
"""

import time
from collections.abc import Iterator

import numpy as np
from evidence_page import Row
from harness import measure_parts

from cpor.evidence import geometric_evidence
from cpor.scene import DetectedObject, MaskCrop, Observation, Scene

# (objects, height, width, asked milliseconds or None)
CASES = ((20, 480, 640, 15.0), (20, 1200, 1944, 80.0), (300, 480, 640, None), (300, 1200, 1944, None))
REPEATS = 20


def draw_pile(rng: np.random.Generator, n: int, height: int, width: int) -> Scene:
    """Printed ellipses in a heap, each up to a third of the image across; a tenth of the depth is lost."""
    rows, cols = np.indices((height, width), dtype=np.float32)
    visible = np.zeros((height, width), dtype=np.int32)
    depth = np.full((height, width), 0.9, dtype=np.float32)
    masks = []
    for k in range(1, n + 1):
        r, c = rng.uniform(0.15, 0.85, 2) * (height, width)
        a, b = rng.uniform(0.04, 0.17, 2) * width
        mask = ((rows - r) / a) ** 2 + ((cols - c) / b) ** 2 <= 1.0
        visible[mask] = k
        depth[mask] = 0.9 - 0.3 * k / n
        masks.append(mask)
    depth += rng.normal(0.0, 0.003, depth.shape).astype(np.float32)
    depth[rng.random(depth.shape) < 0.1] = np.nan
    turn = rng.uniform(0.0, np.pi, n + 1)[visible]
    stripes = rng.uniform(0.0, 40.0, n + 1)[visible] * np.sign(
        np.sin((rows * np.cos(turn) + cols * np.sin(turn)) / 8.0)
    )
    rgb = rng.uniform(40.0, 215.0, (n + 1, 3))[visible] + stripes[..., None]
    rgb += rng.normal(0.0, 2.0, rgb.shape)
    objects = tuple(DetectedObject(k, MaskCrop.from_mask(m)) for k, m in enumerate(masks, start=1))
    return Scene(Observation(rgb.clip(0, 255).astype(np.uint8), depth), objects, visible)


def geometry_speed() -> Iterator[Row]:
    """All geometric evidence of a scene, on one core."""
    rng = np.random.default_rng(0)
    for n, height, width, asked in CASES:
        scene, times = draw_pile(rng, n, height, width), []
        geometric_evidence(scene)  # Compilation, or loading from the cache, is not what a frame pays.
        for _ in range(REPEATS):
            start = time.process_time()
            geometric_evidence(scene)
            times.append(1e3 * (time.process_time() - start))
        point = f"all geometric evidence, {n} objects at {width}x{height}, median"
        limit = f"<= {asked:g} ms" if asked else ""
        yield Row("fast", point, limit, f"{np.median(times):.1f} ms of one processor")


if __name__ == "__main__":
    measure_parts({"geometry_speed": geometry_speed}, __doc__)
