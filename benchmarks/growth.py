"""How time and memory grow with the number of objects, beside ProbLog; and what happens at forty."""

import math
import multiprocessing
import resource
import statistics
import sys
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from oracles.problog_program import problog_scores
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from scenes import dense_scene, random_pairs_scene, sparse_scene

import cpor
from cpor import ObstructionPosterior

SIZES = (6, 8, 10, 12, 14, 16, 18, 20)
FAMILIES: dict[str, Callable[[int, int], ObstructionPosterior]] = {
    "dense": dense_scene,
    "sparse": sparse_scene,
}
DENSE_EXACT = 16
"""Dense scenes beyond this many objects are left to `auto`, as a user would."""
SCENES = 3
PROBLOG_LIMIT_S = 20.0
PROBLOG_MEMORY = 6 << 30
"""Bytes of address space that ProbLog may take before it counts as out of memory."""
DEADLINE_MS = 20.0
DEADLINE_RUNS = 20

_HEADINGS = (
    "candidates",
    "objects",
    "method",
    "certificate",
    "epsilon",
    "ours",
    "ours, max",
    "ProbLog",
    "ratio",
)


def measure(console: Console) -> dict[str, Any]:
    """All growth figures; times in milliseconds, memory in megabytes."""
    for family in FAMILIES.values():
        for n in (5, 13):
            cpor.decide(family(n, 0), method="exact")
    cpor.decide(random_pairs_scene(40, 120, 99))
    rows = []
    for name, family in FAMILIES.items():
        peer = _ProbLog()
        with Progress(console=console, transient=True, auto_refresh=False) as progress:
            task = progress.add_task(f"{name} scenes", total=len(SIZES))
            for k, n in enumerate(SIZES):
                progress.update(task, completed=k, refresh=True)
                rows.append(_measure_size(name, [family(n, seed) for seed in range(SCENES)], peer))
        peer.stop()
    return {"sizes": rows, "memory_mb": _measure_memory(), "forty": _measure_forty()}


def _measure_size(name: str, scenes: list[ObstructionPosterior], peer: "_ProbLog") -> dict[str, Any]:
    n = len(scenes[0])
    method = "auto" if name == "dense" and n > DENSE_EXACT else "exact"
    times, decisions = zip(*(_time_decision(scene, method=method) for scene in scenes), strict=True)
    return {
        "family": name,
        "objects": n,
        "method": method,
        "certificates": [decision.certificate.kind for decision in decisions],
        "epsilon": max(decision.certificate.epsilon for decision in decisions),
        "ours_ms": statistics.median(times),
        "ours_max_ms": max(times),
        "problog_ms": peer.median_ms(scenes),
    }


def _time_decision(scene: ObstructionPosterior, **settings: Any) -> tuple[float, cpor.Decision]:
    """Wall time, the median of up to five calls where they are short, and the decision."""
    times: list[float] = []
    while len(times) < 5 and sum(times) < 200.0:
        start = time.perf_counter()
        decision = cpor.decide(scene, **settings)
        times.append(1e3 * (time.perf_counter() - start))
    return statistics.median(times), decision


class _ProbLog:
    """ProbLog in a child process, which is ended when a scene takes too long or too much."""

    def __init__(self) -> None:
        self._worker: tuple[Any, Connection] | None = None
        self._gave_up: str | None = None

    def median_ms(self, scenes: list[ObstructionPosterior]) -> float | str:
        """Median over scenes, or why there is none; larger sizes are not tried after that."""
        times: list[float] = []
        failures = 0
        for scene in scenes:
            if self._gave_up is not None:
                return self._gave_up
            outcome = self._time(scene)
            if isinstance(outcome, float):
                times.append(outcome)
            else:
                failures += 1
                if 2 * failures > len(scenes):
                    self._gave_up = outcome
        return self._gave_up or statistics.median(times + [math.inf] * failures)

    def _time(self, scene: ObstructionPosterior) -> float | str:
        process, pipe = self._worker or self._start()
        pipe.send(scene)
        try:
            if pipe.poll(PROBLOG_LIMIT_S):
                return float(pipe.recv())
            reason = f"> {PROBLOG_LIMIT_S:.0f} s"
        except EOFError:
            reason = f"> {PROBLOG_MEMORY >> 30} GB"
        process.kill()
        process.join()
        self._worker = None
        return reason

    def _start(self) -> tuple[Any, Connection]:
        # Spawned, not forked: the child must not inherit what numba has running here.
        context = multiprocessing.get_context("spawn")
        here, there = context.Pipe()
        process = context.Process(target=_serve_problog, args=(there,), daemon=True)
        process.start()
        there.close()
        here.recv()
        self._worker = process, here
        return self._worker

    def stop(self) -> None:
        if self._worker is not None:
            process, pipe = self._worker
            process.kill()
            process.join()
            pipe.close()


def _serve_problog(pipe: Connection) -> None:
    # ProbLog walks its formulas recursively; Python's default limit is too low for larger scenes.
    sys.setrecursionlimit(100_000)
    resource.setrlimit(resource.RLIMIT_AS, (PROBLOG_MEMORY, PROBLOG_MEMORY))
    problog_scores(sparse_scene(5, 0))
    pipe.send("ready")
    while True:
        scene = pipe.recv()
        start = time.perf_counter()
        problog_scores(scene)
        pipe.send(1e3 * (time.perf_counter() - start))


def _measure_memory() -> dict[str, float]:
    """Peak memory of a dense decision at DENSE_EXACT objects, in a process of its own."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_report_memory, args=(there,), daemon=True)
    process.start()
    before, after = here.recv()
    process.join()
    return {"objects": DENSE_EXACT, "increase": after - before, "whole_process": after}


def _report_memory(pipe: Connection) -> None:
    scene = dense_scene(DENSE_EXACT, 0)
    cpor.decide(dense_scene(13, 0), method="exact")
    _forget_peak()
    before = _peak_mb()
    cpor.decide(scene, method="exact")
    pipe.send((before, _peak_mb()))


def _forget_peak() -> None:
    """Let the peak start from here, where the system can: loading compiled code has a peak of its own."""
    switch = Path("/proc/self/clear_refs")
    if switch.exists():
        switch.write_text("5", encoding="ascii")


def _peak_mb() -> float:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    # Kilobytes on Linux, bytes on macOS.
    return peak / (1e6 if sys.platform == "darwin" else 1e3)


def _measure_forty() -> list[dict[str, Any]]:
    """Scenes too large to count on exactness: how long, how far from exact, and whether deadlines hold."""
    rows = []
    for kind, scenes in (
        ("3 nearest", [sparse_scene(40, seed) for seed in range(SCENES)]),
        ("random pairs", [random_pairs_scene(40, 120, seed) for seed in range(SCENES)]),
    ):
        for seed, scene in enumerate(scenes):
            ms, decision = _time_decision(scene)
            timed = [_time_with_deadline(scene) for _ in range(DEADLINE_RUNS)]
            hurried = timed[-1][1].certificate
            rows.append(
                {
                    "candidates": kind,
                    "seed": seed,
                    "auto_ms": ms,
                    "certificate": decision.certificate.kind,
                    "epsilon": decision.certificate.epsilon,
                    "deadline_median_ms": statistics.median(t for t, _ in timed),
                    "deadline_max_ms": max(t for t, _ in timed),
                    "deadline_certificate": hurried.kind,
                    "deadline_epsilon": hurried.epsilon,
                }
            )
    return rows


def _time_with_deadline(scene: ObstructionPosterior) -> tuple[float, cpor.Decision]:
    start = time.perf_counter()
    decision = cpor.decide(scene, deadline_ms=DEADLINE_MS)
    return 1e3 * (time.perf_counter() - start), decision


def show(figures: dict[str, Any], console: Console) -> None:
    table = Table(title=f"Growth: one decision in ms, median of {SCENES} scenes", title_justify="left")
    for heading in _HEADINGS:
        table.add_column(heading, justify="left" if heading in ("candidates", "certificate") else "right")
    for row in figures["sizes"]:
        peer = row["problog_ms"]
        known = isinstance(peer, float)
        table.add_row(
            row["family"],
            str(row["objects"]),
            row["method"],
            ", ".join(sorted(set(row["certificates"]))),
            f"{row['epsilon']:.6g}",
            f"{row['ours_ms']:,.3f}",
            f"{row['ours_max_ms']:,.3f}",
            f"{peer:,.0f}" if known else peer,
            f"{peer / row['ours_ms']:,.0f}" if known else "-",
            end_section=row["objects"] == SIZES[-1],
        )
    console.print(table)
    memory = figures["memory_mb"]
    console.print(
        f"Memory of a dense decision at {memory['objects']} objects: {memory['increase']:.0f} MB above the "
        f"warm process, {memory['whole_process']:.0f} MB in all (asked: 300 MB).\n"
        "Asked: dense 16 within 600 ms; ahead of ProbLog at every size up to 16.\n"
    )
    forty = Table(title="40 objects, 120 candidate relations, method auto", title_justify="left")
    for heading in ("candidates", "ms", "certificate", "epsilon"):
        forty.add_column(heading, justify="left" if heading == "candidates" else "right")
    for heading in ("ms", "max ms", "certificate", "epsilon"):
        forty.add_column(f"deadline: {heading}", justify="right")
    for row in figures["forty"]:
        forty.add_row(
            row["candidates"],
            f"{row['auto_ms']:.1f}",
            row["certificate"],
            f"{row['epsilon']:.6g}",
            f"{row['deadline_median_ms']:.1f}",
            f"{row['deadline_max_ms']:.1f}",
            row["deadline_certificate"],
            f"{row['deadline_epsilon']:.6g}",
        )
    console.print(forty)
    console.print(
        f"Deadline of {DEADLINE_MS:.0f} ms: median and maximum of {DEADLINE_RUNS} calls.\n"
        "Asked: an answer within 1,000 ms; the deadline met within 30 ms."
    )
