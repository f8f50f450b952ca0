"""A camera that is not ours, for evidence_ros2.py: plain cyclonedds types, drops, garbage.

It shows a red box, for some seconds free and for some with a green one lying on it. Each frame is told on
standard output once it is on the wire: its stamp [ns], when it was sent [ns], what it shows, its garble.

Run: PYTHONPATH=src:tests python benchmarks/ros2_camera.py DOMAIN WIDTH HEIGHT
"""

import sys
import time

import numpy as np
from support.dds_peer import Camera

COLOR, DEPTH = "/camera/color/image_raw", "/camera/aligned_depth_to_color/image_raw"
HZ, SWITCH_S, TABLE_M = 15.0, 3.0, 0.8
TARGET = (0.42, 0.5)  # x and y of a point of the red box that always shows, of width and height
GARBLES = ("short", "encoding", "size", "noise")


def draw(free: bool, shape: tuple[int, int], rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Colours and millimetres of the table."""
    height, width = shape
    rgb = np.full((height, width, 3), (96, 96, 92), np.int16)
    depth = np.full(shape, TABLE_M)
    boxes = [
        ((0.35, 0.65), (0.38, 0.58), 0.05, (200, 40, 40)),
        ((0.1, 0.25), (0.1, 0.25), 0.05, (40, 60, 200)),
    ]
    boxes.append(((0.4, 0.6), (0.48, 0.75), 0.1, (40, 180, 60)) if not free else
                 ((0.4, 0.6), (0.8, 0.92), 0.05, (40, 180, 60)))  # fmt: skip
    for rows, columns, top, colour in boxes:
        part = np.s_[round(rows[0] * height) : round(rows[1] * height),
                     round(columns[0] * width) : round(columns[1] * width)]  # fmt: skip
        rgb[part], depth[part] = colour, TABLE_M - top
    rgb += rng.integers(-3, 4, rgb.shape, np.int16)
    steps = np.rint(1000 * depth + rng.normal(0.0, 0.7, shape))
    return np.clip(rgb, 0, 255).astype(np.uint8), steps.astype(np.uint16)


def main() -> None:
    """Publish until somebody ends it."""
    domain, width, height = map(int, sys.argv[1:4])
    rng = np.random.default_rng(time.time_ns() % 2**32)
    camera = Camera(domain, COLOR, DEPTH)
    due = time.monotonic()
    while True:
        due += 1.0 / HZ
        time.sleep(max(0.0, due - time.monotonic()))
        if rng.random() < 0.1:
            print("0 0 drop -", flush=True)
            continue
        free = int(time.time() / SWITCH_S) % 2 == 0
        garble = str(rng.choice(GARBLES)) if rng.random() < 0.3 else "-"
        rgb, steps = draw(free, (height, width), rng)
        if garble == "noise":
            rgb = rng.integers(0, 256, rgb.shape).astype(np.uint8)
            steps = rng.integers(300, 3000, steps.shape).astype(np.uint16)
        stamp = camera.send(rgb, steps, garble)
        print(stamp, time.time_ns(), "free" if free else "obstructed", garble, flush=True)


if __name__ == "__main__":
    main()
