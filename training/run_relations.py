"""Makes data, trains both relation networks, exports them: `python -m training.run_relations --out DIR`.

Processes settle heaps and make views of them, which are left in `--views` for the segmenter's training; the
GPU draws others. Once the segmenter answers for these views, pairs are cut with its masks too, and the GPU
trains the scorer, then the geometry, on whatever there is by then. What is done is written at once: log.txt,
results.json, the networks (geometry.onnx, scorer.onnx) and checksums.json.
"""

import argparse
import hashlib
import json
import multiprocessing
import os
import queue
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
from training.relation_data import KINDS, Pairs, catalogue_case, view_pairs, wide_heap
from training.relation_network import RelationNet, Source
from training.relation_training import PairStore, measure, train
from training.view_files import ANSWERS, DEPTH_UNIT, store_depth, write_arrays

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
        views: Folder where views come to lie, and what the segmenter says of them.
        cases: How many catalogue heaps.
        looks: At each.
        seed: Of their plan.
    """

    def __init__(
        self, pool: ProcessPoolExecutor, training: PairStore, held_out: PairStore, workers: int, until: float,
        views: Path, cases: int, looks: int, seed: int = DATA_SEED,
    ) -> None:  # fmt: skip
        self.pool, self.stores, self.workers, self.until = pool, (training, held_out), workers, until
        self.views, self.looks = views, looks
        self.urgent: queue.SimpleQueue[Job] = queue.SimpleQueue()
        self.failed: list[str] = []
        self.cases = self.answered = 0
        self._plan = iter(enumerate(plan_dataset(cases, seed).cases))
        self._known: set[Path] = set()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _next(self) -> Job | None:
        """What is urgent, then catalogue heaps; None: nothing for now."""
        try:
            return self.urgent.get_nowait()
        except queue.Empty:
            pass
        for k, case in self._plan:
            self.cases += 1
            held_out = k % HELD_OUT == 0
            path = self.views / f"{'held' if held_out else 'catalogue'}_{k:06d}.npz"
            return catalogue_case, (case.seed, self.looks, path), held_out
        return None

    def _look_for_answers(self) -> None:
        """What the segmenter said since becomes urgent; held-out views have names of their own."""
        for path in sorted(set(self.views.glob(f"*{ANSWERS}")) - self._known):
            self._known.add(path)
            self.answered += 1
            views = str(path.with_suffix(".npz"))
            self.urgent.put((view_pairs, (views, "ours", self.answered), path.name.startswith("held")))

    def _run(self) -> None:
        running: dict[Future[Pairs], bool] = {}
        while time.monotonic() < self.until:
            self._look_for_answers()
            while len(running) < 2 * self.workers and (job := self._next()) is not None:
                running[self.pool.submit(job[0], *job[1])] = job[2]
            if not running:
                time.sleep(0.5)
                continue
            done, _ = wait(running, timeout=1.0, return_when=FIRST_COMPLETED)
            for each in done:
                held_out = running.pop(each)
                if (error := each.exception()) is not None:
                    self.failed.append(repr(error))
                else:
                    self.stores[held_out].add(each.result())
        for each in running:
            each.cancel()


def draw_wide(
    made: list[Wide], factory: Factory, seconds: float, views: int, device: torch.device, config: Config
) -> int:
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
        path = factory.views / f"{'held_wide' if held_out else 'wide'}_{drawn:06d}.npz"
        held = {"rgb": rgb, "ids": batch.ids, "amodal": batch.amodal}
        arrays = {name: value.cpu().numpy() for name, value in held.items()}
        arrays |= {"depth": store_depth(depth.cpu().numpy()), "sweep": sweep}
        write_arrays(path, kind=np.full(len(pick), KINDS.index("wide"), np.uint8), **arrays)
        factory.urgent.put((view_pairs, (str(path), "true", drawn), held_out))
        drawn += len(pick)
    return drawn


def finish(
    net: RelationNet, source: Source, out: Path, version: str, held_out: PairStore, results: dict[str, Any],
    log: Callable[[str], None],
) -> None:  # fmt: skip
    """Measures a network and writes it."""
    results[source] = measure(net, held_out)
    plain = net.to("cpu").float().to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]
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
    parser.add_argument("--cases", type=int, default=2000, help="most catalogue heaps")
    parser.add_argument("--looks", type=int, default=8, help="at each")
    parser.add_argument("--views", type=Path, help="folder for the views; one of its own by default")
    parser.add_argument(
        "--patience", type=float, default=900.0, help="seconds at most until the first answers"
    )
    parser.add_argument("--gather", type=float, default=30.0, help="seconds from there to the training")
    parser.add_argument(
        "--make-seconds", type=float, help="seconds from the start in which heaps are made; to the end"
    )
    parser.add_argument("--geometry-seconds", type=float, default=400.0)
    parser.add_argument("--scorer-seconds", type=float, default=150.0, help="0: none is trained")
    parser.add_argument("--stop", type=float, default=1500.0, help="seconds from the start to the end")
    parser.add_argument("--capacity", type=int, default=700_000)
    parser.add_argument("--held-out", type=int, default=40_000)
    parser.add_argument("--batch", type=int, default=1024)
    parser.add_argument("--version", default="6")
    parser.add_argument("--seed", type=int, default=DATA_SEED)
    parser.add_argument("--begin", type=Path, help="folder with geometry.onnx and scorer.onnx to go on from")
    asked = parser.parse_args()
    log, start = open_log(asked.out), time.monotonic()

    # Compiled here once, and had by all processes, which are forked before the GPU is touched.
    log(f"compiled; {len(catalogue_case(2**42, 2))} pairs of a first heap")
    views = asked.views or Path(tempfile.mkdtemp())
    views.mkdir(parents=True, exist_ok=True)
    results: dict[str, Any] = {}
    fork = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(asked.workers, fork, initializer=os.nice, initargs=(10,)) as pool:
        pool.submit(int).result()
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        training, held_out = PairStore(asked.capacity, device), PairStore(asked.held_out, device)
        log(f"{asked.workers} processes, {device}")
        first = asked.seed - DATA_SEED + 10_000
        seeds = range(first, first + asked.wide_heaps)
        settled = pool.map(wide_heap, seeds, chunksize=2)
        wide = [(k, heap, swept) for k, found in enumerate(settled) for heap, swept in found]
        log(f"{len(wide)} wide heaps, those after removals included")
        until = start + min(asked.make_seconds or asked.stop, asked.stop - 30.0)
        factory = Factory(
            pool, training, held_out, asked.workers, until, views, asked.cases, asked.looks, asked.seed
        )
        drawn = draw_wide(wide, factory, asked.wide_seconds, asked.wide_views, device, Config())
        log(f"{drawn} wide views drawn; {len(training)} pairs so far")
        while time.monotonic() - start < asked.patience and not factory.answered:
            time.sleep(0.5)
            if factory.failed:
                log(f"a process failed: {factory.failed.pop()}")
        log(f"{len(training)} pairs, {factory.cases} catalogue heaps before the segmenter answers")
        time.sleep(asked.gather)
        log(f"{len(training)} pairs to train on, {len(held_out)} held out, {factory.cases} catalogue cases")
        begin = {s: asked.begin / f"{s}.onnx" if asked.begin else None for s in ("scorer", "geometry")}
        if asked.scorer_seconds > 0.0:
            net = train("scorer", training, asked.scorer_seconds, log, asked.batch, begin=begin["scorer"])
            finish(net, "scorer", asked.out, asked.version, held_out, results, log)
        left = asked.stop - (time.monotonic() - start) - 20.0
        seconds = min(asked.geometry_seconds, left)
        net = train("geometry", training, seconds, log, asked.batch, begin=begin["geometry"])
        results["pairs"] = {"training": training.added, "held out": held_out.added, "cases": factory.cases}
        results["answered"] = factory.answered
        finish(net, "geometry", asked.out, asked.version, held_out, results, log)
        log(f"done; {results['pairs']}; {len(factory.failed)} failures {factory.failed[:2]}")
        pool.shutdown(wait=False, cancel_futures=True)


if __name__ == "__main__":
    main()
