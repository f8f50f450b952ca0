"""Settles heaps for the training on all cores: `python -m training.make_data --out DIR --seconds 150`."""

import argparse
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np

from cpor.errors import CporError, SimulationError
from training.config import HeapConfig
from training.heaps import HeapArrays, join, make_heap_arrays, write_heaps

SHARD = 200
"""Heaps a file."""


def make_heaps(
    folder: Path, seconds: float, worker: int, seed: int, config: HeapConfig, shard: int = SHARD
) -> int:
    """Settles heaps until the time is up; returns how many were written.

    Heap k of a worker depends on (seed, worker, k) alone; how many there are depends on the machine.
    """
    end = time.monotonic() + seconds
    heaps: list[HeapArrays] = []
    made = k = 0
    try:
        while time.monotonic() < end:
            rng = np.random.default_rng((seed, worker, k))
            k += 1
            try:
                heaps.append(make_heap_arrays(rng, config))
            except (CporError, ValueError):
                # MuJoCo refuses a degenerate hull with a ValueError: draw another.
                continue
            if len(heaps) == shard:
                write_heaps(join(heaps), folder / f"heaps_{worker:02d}_{made:06d}.npz")
                made, heaps = made + len(heaps), []
    finally:
        if heaps:
            write_heaps(join(heaps), folder / f"heaps_{worker:02d}_{made:06d}.npz")
    return made + len(heaps)


def make_all(out: Path, seconds: float, workers: int, seed: int) -> int:
    """Runs the workers; returns how many heaps there are."""
    out.mkdir(parents=True, exist_ok=True)
    with ProcessPoolExecutor(workers) as pool:
        jobs = [
            pool.submit(make_heaps, out, seconds, worker, seed, HeapConfig()) for worker in range(workers)
        ]
    failures = [error for job in jobs if (error := job.exception()) is not None]
    if len(failures) == len(jobs):
        raise SimulationError(f"no worker made heaps: {failures[0]}") from failures[0]
    # A worker that died leaves what it had written: the rest is as good without it.
    count = sum(job.result() for job in jobs if job.exception() is None)
    lost = f"; {len(failures)} of {workers} workers died, the first of {failures[0]}" if failures else ""
    (out / "made.txt").write_text(f"{count} heaps{lost}\n")
    return count


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=150.0)
    parser.add_argument("--workers", type=int, default=16)
    parser.add_argument("--seed", type=int, default=7)
    asked = parser.parse_args()
    make_all(asked.out, asked.seconds, asked.workers, asked.seed)


if __name__ == "__main__":
    main()
