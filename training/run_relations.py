"""Makes data, trains both relation networks, exports them: `python -m training.run_relations --out DIR`.

Processes make pictures of pairs all the time; the GPU draws the wide views first, then trains the scorer,
then the geometry, on whatever there is by then. What is done is written at once: log.txt, results.json, the
networks (geometry.onnx, scorer.onnx), their weights (.pt) and checksums.json.
"""

import argparse
import hashlib
import json
import multiprocessing
import queue
import shutil
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch

from cpor.sim.dataset.make import plan_dataset
from training.averaging import open_log
from training.buffer import ViewBuffer
from training.config import Config
from training.export import export_relations
from training.heaps import HeapArrays, join
from training.parts import halved
from training.relation_data import Pairs, catalogue_case, view_pairs, wide_heap
from training.relation_network import RelationNet, Source
from training.relation_training import PairStore, measure, train
from training.views import DEPTH_UNIT

DATA_SEED = 77_014
"""Of `plan_dataset`: neither of the standard splits."""

HELD_OUT = 16
"""One heap in so many is kept for measuring."""


Job: TypeAlias = tuple[Callable[..., Pairs], tuple[Any, ...], bool]
"""What to call, with what, and whether the pairs are held out."""

Wide: TypeAlias = tuple[int, HeapArrays, list[tuple[int, int]]]
"""Number of a heap, the heap, and its sweep relations."""


class Factory:
    """Keeps all processes busy and takes what they made over; runs in a thread of its own.

    Args:
        pool: The processes.
        training, held_out: Where pairs go.
        workers: How many processes.
        until: When the last job is begun, as `time.monotonic` tells it.
        cases: Most catalogue cases.
        seed: Of their plan.
    """

    def __init__(
        self, pool: ProcessPoolExecutor, training: PairStore, held_out: PairStore, workers: int, until: float,
        cases: int = 20_000, seed: int = DATA_SEED,
    ) -> None:  # fmt: skip
        self.pool, self.stores, self.workers, self.until = pool, (training, held_out), workers, until
        self.urgent: queue.SimpleQueue[Job] = queue.SimpleQueue()
        self.failed: list[str] = []
        self.cases = 0
        self._plan = iter(enumerate(plan_dataset(cases, seed).cases))
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _next(self) -> Job | None:
        """What is urgent, and one catalogue case after the other for every second job."""
        if time.monotonic() > self.until:
            return None
        if self._turn():
            try:
                return self.urgent.get_nowait()
            except queue.Empty:
                pass
        for k, case in self._plan:
            self.cases += 1
            return catalogue_case, (case.seed,), k % HELD_OUT == 0
        return None

    def _turn(self) -> bool:
        self._turns = getattr(self, "_turns", 0) + 1
        return self._turns % 3 != 0

    def _run(self) -> None:
        running: dict[Future[Pairs], bool] = {}
        while True:
            while len(running) < 2 * self.workers and (job := self._next()) is not None:
                running[self.pool.submit(job[0], *job[1])] = job[2]
            if not running:
                return
            done, _ = wait(running, timeout=1.0, return_when=FIRST_COMPLETED)
            for each in done:
                held_out = running.pop(each)
                if (error := each.exception()) is not None:
                    self.failed.append(repr(error))
                else:
                    self.stores[held_out].add(each.result())
            if time.monotonic() > self.until:
                for each in [each for each in running if each.cancel()]:
                    running.pop(each)


def draw_wide(
    made: list[Wide], factory: Factory, seconds: float, views: int, device: torch.device, scratch: Path,
    ours: float, config: Config,
) -> int:  # fmt: skip
    """Draws views of random heaps on the device and hands them to the processes to cut; says how many."""
    config = replace(config, corruption=replace(config.corruption, no_depth=0.0))
    buffer = ViewBuffer(join([heap for _, heap, _ in made]), config.views.batch, config, device, 11)
    rng = np.random.default_rng(5)
    is_held_out = np.array([number % HELD_OUT == 0 for number, _, _ in made])
    began, drawn = time.monotonic(), 0
    while drawn < views and time.monotonic() - began < seconds:
        held_out = bool(rng.random() < 1.0 / HELD_OUT) and bool(is_held_out.any())
        pick = rng.choice(np.flatnonzero(is_held_out == held_out), config.views.batch)
        with torch.no_grad():
            batch = buffer.maker.make(torch.as_tensor(pick, device=device))
            depth = buffer.corruption.depth(batch.depth.float() * DEPTH_UNIT, batch.rgb, batch.ids)
            rgb = buffer.corruption.colour(batch.rgb).to(torch.uint8)
        sweep = np.empty(len(pick), object)
        for k, p in enumerate(pick):
            sweep[k] = made[p][2]
        arrays = {"rgb": rgb, "depth": depth, "ids": batch.ids, "amodal": batch.amodal}
        path = scratch / f"views_{drawn:06d}.npz"
        held = {name: value.cpu().numpy() for name, value in arrays.items()}
        np.savez(path, allow_pickle=True, sweep=sweep, **held)
        factory.urgent.put((view_pairs, (str(path), ours, drawn), held_out))
        drawn += len(pick)
    return drawn


def finish(
    net: RelationNet, source: Source, out: Path, version: str, held_out: PairStore, results: dict[str, Any],
    log: Callable[[str], None],
) -> None:  # fmt: skip
    """Measures a network and writes it."""
    results[source] = measure(net, held_out)
    plain = net.to("cpu").float().to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]
    torch.save(halved(plain), out / f"{source}.pt")
    off = export_relations(plain, out / f"{source}.onnx", version)
    sums = out / "checksums.json"
    known = json.loads(sums.read_text()) if sums.is_file() else {}
    known[f"{source}.onnx"] = hashlib.sha256((out / f"{source}.onnx").read_bytes()).hexdigest()
    sums.write_text(json.dumps(known, indent=2) + "\n")
    (out / "results.json").write_text(json.dumps(results, indent=2) + "\n")
    log(f"{source}.onnx differs from torch by at most {off:.2g}")
    for name, figures in results[source].items():
        log(f"  {source}, {name}: {figures}")


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--workers", type=int, default=15)
    parser.add_argument("--wide-heaps", type=int, default=2600)
    parser.add_argument("--wide-views", type=int, default=5000)
    parser.add_argument("--wide-seconds", type=float, default=70.0)
    parser.add_argument("--ours", type=float, default=0.3, help="share of the wide views our segmenter sees")
    parser.add_argument("--first", type=float, default=110.0, help="seconds from the start to the training")
    parser.add_argument("--data-until", type=float, default=330.0, help="seconds from the start")
    parser.add_argument("--geometry-seconds", type=float, default=190.0)
    parser.add_argument("--scorer-seconds", type=float, default=130.0)
    parser.add_argument("--stop", type=float, default=500.0, help="seconds from the start to the end")
    parser.add_argument("--capacity", type=int, default=600_000)
    parser.add_argument("--held-out", type=int, default=40_000)
    parser.add_argument("--batch", type=int, default=1024)
    parser.add_argument("--version", default="4")
    parser.add_argument("--seed", type=int, default=DATA_SEED)
    parser.add_argument("--begin", type=Path, help="folder with geometry.pt and scorer.pt to go on from")
    asked = parser.parse_args()
    log, start = open_log(asked.out), time.monotonic()

    # Compiled here once, and had by all processes, which are forked before the GPU is touched.
    log(f"compiled; {len(catalogue_case(2**42, 2, ours=False))} pairs of a first heap")
    memory = Path("/dev/shm")
    roomy = memory.is_dir() and shutil.disk_usage(memory).free > 20 * 2**30
    scratch = Path(tempfile.mkdtemp(dir=memory if roomy else None))
    results: dict[str, Any] = {}
    with ProcessPoolExecutor(asked.workers, multiprocessing.get_context("fork")) as pool:
        pool.submit(int).result()
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        training, held_out = PairStore(asked.capacity, device), PairStore(asked.held_out, device)
        log(f"{asked.workers} processes, {device}")
        first = asked.seed - DATA_SEED + 10_000
        seeds = range(first, first + asked.wide_heaps)
        settled = pool.map(wide_heap, seeds, chunksize=2)
        wide = [(k, heap, swept) for k, found in enumerate(settled) for heap, swept in found]
        log(f"{len(wide)} wide heaps, those after removals included")
        factory = Factory(pool, training, held_out, asked.workers, start + asked.data_until, seed=asked.seed)
        drawn = draw_wide(
            wide, factory, asked.wide_seconds, asked.wide_views, device, scratch, asked.ours, Config()
        )
        log(f"{drawn} wide views drawn; {len(training)} pairs so far")
        while time.monotonic() - start < asked.first or len(training) < 2 * asked.batch:
            if not factory.thread.is_alive():
                break  # training says what is wrong where nothing was made
            time.sleep(0.5)
            if factory.failed:
                log(f"a process failed: {factory.failed.pop()}")
        log(f"{len(training)} pairs to train on, {len(held_out)} held out, {factory.cases} catalogue cases")
        begin = {s: asked.begin / f"{s}.pt" if asked.begin else None for s in ("scorer", "geometry")}
        net = train("scorer", training, asked.scorer_seconds, log, asked.batch, begin=begin["scorer"])
        finish(net, "scorer", asked.out, asked.version, held_out, results, log)
        left = asked.stop - (time.monotonic() - start) - 20.0
        seconds = min(asked.geometry_seconds, left)
        net = train("geometry", training, seconds, log, asked.batch, begin=begin["geometry"])
        factory.thread.join(timeout=20.0)
        results["pairs"] = {"training": training.added, "held out": held_out.added, "cases": factory.cases}
        finish(net, "geometry", asked.out, asked.version, held_out, results, log)
        log(f"done; {results['pairs']}; {len(factory.failed)} failures {factory.failed[:2]}")
        pool.shutdown(wait=False, cancel_futures=True)


if __name__ == "__main__":
    main()
