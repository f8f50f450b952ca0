"""Makes data, trains the shape network, exports it: `python -m training.run_shapes --out DIR`.

Processes make pictures of objects until the time for data is over; training begins earlier, on whatever there
is by then. What is done is written at once: log.txt, results.json, shapes.onnx, shapes.pt, checksums.json.
"""

import argparse
import copy
import hashlib
import itertools
import json
import multiprocessing
import threading
import time
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from pathlib import Path
from typing import Any

import torch

from training.averaging import open_log
from training.parts import halved
from training.shape_data import ShapeCrops, draw
from training.shape_network import ShapeNet, ShapeStore, calibrate, export, measure, train

FIRST_SEED = 70_000_000
"""Of the heaps: none of the standard splits."""

HELD_OUT = 16
"""One heap in so many is kept for measuring."""


class Factory:
    """Keeps all processes busy and takes what they made over; runs in a thread of its own."""

    def __init__(
        self, pool: ProcessPoolExecutor, stores: tuple[ShapeStore, ShapeStore], workers: int, until: float,
        seed: int,
    ) -> None:  # fmt: skip
        self.pool, self.stores, self.workers, self.until, self.seed = pool, stores, workers, until, seed
        self.failed: list[str] = []
        self.heaps = 0
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        running: dict[Future[ShapeCrops], bool] = {}
        seeds = itertools.count(FIRST_SEED + 1_000_000 * self.seed)
        while True:
            while len(running) < 2 * self.workers and time.monotonic() < self.until:
                seed = next(seeds)
                running[self.pool.submit(draw, seed)] = seed % HELD_OUT == 0
            if not running:
                return
            done, _ = wait(running, timeout=1.0, return_when=FIRST_COMPLETED)
            for each in done:
                held_out = running.pop(each)
                if (error := each.exception()) is not None:
                    self.failed.append(repr(error))
                else:
                    self.heaps += 1
                    self.stores[held_out].add(each.result())
            if time.monotonic() > self.until:
                for each in [each for each in running if each.cancel()]:
                    running.pop(each)


def finish(net: ShapeNet, held_out: ShapeStore, out: Path, version: str) -> dict[str, Any]:
    """Calibrates a network, measures it and writes it; returns what was measured."""
    calibrate(net, held_out)
    results = measure(net, held_out)
    results["differs"] = export(net, out / "shapes.onnx", version)
    torch.save(halved(copy.deepcopy(net).to("cpu")), out / "shapes.pt")
    sums = {"shapes.onnx": hashlib.sha256((out / "shapes.onnx").read_bytes()).hexdigest()}
    (out / "checksums.json").write_text(json.dumps(sums, indent=2) + "\n")
    (out / "results.json").write_text(json.dumps(results, indent=1) + "\n")
    return results


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--workers", type=int, default=10)
    parser.add_argument("--data-seconds", type=float, default=540.0, help="from the start")
    parser.add_argument("--first", type=float, default=280.0, help="seconds from the start to the training")
    parser.add_argument("--train-seconds", type=float, default=420.0)
    parser.add_argument("--seed", type=int, default=5)
    parser.add_argument("--capacity", type=int, default=400_000)
    parser.add_argument("--held-out", type=int, default=30_000)
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--version", default="2")
    asked = parser.parse_args()
    log, start = open_log(asked.out), time.monotonic()

    # Compiled here once, and had by all processes, which are forked before the GPU or a network is touched.
    log(f"compiled; {len(draw(FIRST_SEED - 1, ours=False).labels)} pictures of a first heap")
    with ProcessPoolExecutor(asked.workers, multiprocessing.get_context("fork")) as pool:
        pool.submit(int).result()
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        training, held_out = ShapeStore(asked.capacity, device), ShapeStore(asked.held_out, device)
        factory = Factory(pool, (training, held_out), asked.workers, start + asked.data_seconds, asked.seed)
        log(f"{asked.workers} processes, {device}")
        while time.monotonic() - start < asked.first or len(training) < 2 * asked.batch or not len(held_out):
            time.sleep(0.5)
            if not factory.thread.is_alive():
                break
            if factory.failed:
                log(f"a process failed: {factory.failed.pop()}")
        log(f"{len(training)} pictures to train on, {len(held_out)} held out, {factory.heaps} heaps")
        net = train(
            training, asked.train_seconds, log, lambda net: _note(net, held_out, asked, log), asked.batch
        )
        factory.thread.join(timeout=20.0)
        results = finish(net, held_out, asked.out, asked.version)
        results |= {"heaps": factory.heaps, "training pictures": training.added}
        (asked.out / "results.json").write_text(json.dumps(results, indent=1) + "\n")
        for name, figures in results.items():
            log(f"{name}: {figures}")
        log(f"done; {len(factory.failed)} failures {factory.failed[:2]}")
        pool.shutdown(wait=False, cancel_futures=True)


def _note(net: ShapeNet, held_out: ShapeStore, asked: argparse.Namespace, log: Any) -> None:
    results = finish(net, held_out, asked.out, asked.version)
    log(f"held out, as simulated, ours: {results['as simulated, ours masks']}")


if __name__ == "__main__":
    main()
