"""Processor time of all geometric evidence of a scene on one core, beside the time asked for.

Run: python benchmarks/bench_evidence.py [--json OUT.json]
"""

import argparse
import json
import platform
import time
from pathlib import Path

import numpy as np

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


def median_and_least_ms(scene: Scene) -> tuple[float, float]:
    geometric_evidence(scene)  # Compilation, or loading from the cache, is not what a frame pays.
    times = []
    for _ in range(REPEATS):
        start = time.process_time()
        geometric_evidence(scene)
        times.append(time.process_time() - start)
    return 1e3 * float(np.median(times)), 1e3 * min(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="also write the figures here")
    out = parser.parse_args().json
    rng = np.random.default_rng(0)
    results = []
    print(f"processor time of all evidence of a scene, {REPEATS} runs, one core")
    print(f"{'objects':>8} {'size':>12} {'median ms':>10} {'least ms':>9} {'asked ms':>9}")
    for n, height, width, asked in CASES:
        ms, least = median_and_least_ms(draw_pile(rng, n, height, width))
        row = {"objects": n, "width": width, "height": height, "median_ms": ms, "least_ms": least}
        results.append(row | {"asked_ms": asked})
        print(f"{n:>8} {f'{width}x{height}':>12} {ms:>10.2f} {least:>9.2f} {asked or '-':>9}")
    if out:
        out.write_text(json.dumps({"machine": platform.processor(), "results": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
