"""A simulated lab that is unlike ours: the camera leans by 45 degrees, a worse sensor, no bin.

Each scene is written as a person labels it: true masks, true relations. Stopped, it goes on where it was.

Run: python benchmarks/lab_scenes.py [--scenes 300] [--out out/lab]
"""

import argparse
from dataclasses import replace
from pathlib import Path

from cpor.errors import SimulationError
from cpor.io.scene_folder import write_scene_folder
from cpor.scene import Scene
from cpor.sim.camera.views import overhead_camera
from cpor.sim.dataset.make import photograph_heap
from cpor.sim.dataset.manifest import DatasetSettings
from cpor.sim.physics.clutter import HeapSettings, make_heap

SETTINGS = DatasetSettings(container="table", density="dense", sensor="harsh")
FIRST_SEED = 770_000
"""No seed of the standard splits."""


def lab_scene(seed: int) -> Scene:
    """One scene of the lab with its truth."""
    camera = overhead_camera(tilt_deg=45.0, distance=0.75)
    heap = make_heap(seed, HeapSettings(container="table", density="dense", tier=None, camera=camera))
    return replace(photograph_heap(heap, SETTINGS), request=None, true_sweep=None)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--scenes", type=int, default=300)
    parser.add_argument("--out", type=Path, default=Path("out/lab"))
    asked = parser.parse_args()
    for k in range(asked.scenes):
        folder = asked.out / f"lab_{k:04d}"
        if folder.is_dir():
            continue
        try:
            scene = lab_scene(FIRST_SEED + k)
        except SimulationError as problem:
            print(f"{folder.name}: {problem}")
            continue
        draft = asked.out / f".draft_{k}"
        write_scene_folder(scene, draft, overwrite=True)
        draft.rename(folder)


if __name__ == "__main__":
    main()
