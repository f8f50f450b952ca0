"""Dense scenes one after the other: whether all lie still, how deep they overlap, and what a scene costs.

Run: python benchmarks/bench_sim.py [--scenes 200] [--density dense] [--tier hard] [--json OUT.json]
"""

import argparse
import json
import platform
import time
from pathlib import Path

import numpy as np

from cpor.sim.camera.look import random_look
from cpor.sim.camera.photograph import photograph
from cpor.sim.camera.sensor import sensor_preset
from cpor.sim.physics.clutter import HeapSettings, make_heap
from cpor.sim.physics.settle import drift
from cpor.sim.physics.true_relations import has_cycle, sweep_relations


def measure(seed: int, settings: HeapSettings, watch: bool) -> dict[str, float]:
    """One scene with camera, occlusion and sweep truth; occlusion is found while heaping, for the tier."""
    rng = np.random.default_rng((seed, 0x100C))
    start = time.process_time()
    heap = make_heap(seed, settings)
    heaped = time.process_time()
    photograph(heap.world, heap.camera, random_look(rng), sensor_preset("default"), rng, views=heap.views)
    shot = time.process_time()
    sweep = sweep_relations(heap.world)
    done = time.process_time()
    return {
        "seconds": done - start,
        "heap_s": heaped - start,
        "camera_s": shot - heaped,
        "sweep_s": done - shot,
        "tries": heap.tries,
        "objects": len(heap.world.objects),
        "penetration_mm": 1e3 * heap.penetration_m,
        "drift_mm": 1e3 * drift(heap.world) if watch else float("nan"),
        "occlusions": len(heap.occlusion.pairs),
        "sweeps": len(sweep.pairs),
        "cyclic_occlusion": float(has_cycle(heap.occlusion)),
        "cyclic_sweep": float(has_cycle(sweep)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scenes", type=int, default=200)
    parser.add_argument("--first-seed", type=int, default=5_000_000, help="heaps nobody tuned anything on")
    parser.add_argument("--container", default="bin")
    parser.add_argument("--density", default="dense")
    parser.add_argument("--tier")
    parser.add_argument("--no-drift", action="store_true", help="skip watching each heap for another second")
    parser.add_argument("--json", type=Path, help="also write the figures here")
    asked = parser.parse_args()
    settings = HeapSettings(asked.container, asked.density, asked.tier)
    measure(10**6, settings, False)  # Compilation, or loading from the cache, is not what a scene pays.
    seeds = range(asked.first_seed, asked.first_seed + asked.scenes)
    rows = [measure(seed, settings, not asked.no_drift) for seed in seeds]
    print(f"{asked.scenes} scenes, {asked.density} {asked.container}, one core, processor time")
    print(f"{'':>18} {'median':>9} {'mean':>9} {'most':>9}")
    figures = {}
    for name in rows[0]:
        values = np.array([row[name] for row in rows])
        figures[name] = {
            "median": float(np.median(values)),
            "mean": float(values.mean()),
            "most": float(values.max()),
        }
        print(f"{name:>18} {np.median(values):9.3f} {values.mean():9.3f} {values.max():9.3f}")
    if asked.json:
        machine = f"{platform.machine()}, Python {platform.python_version()}"
        asked.json.write_text(
            json.dumps({"machine": machine, "scenes": asked.scenes, "figures": figures}, indent=1)
        )


if __name__ == "__main__":
    main()
