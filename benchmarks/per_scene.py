"""Time a scene: our exact inference and Algorithm 1 beside brute force, HiGHS and ProbLog."""

import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple, TypeVar

from oracles.brute_force import enumerate_dags
from oracles.milp import milp_top_k
from oracles.problog_program import problog_scores
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from scenes import RawScene

import cpor
from cpor import Decision, ObstructionPosterior

T = TypeVar("T")

ROUNDS_A_TIME = 4
"""Rounds of the fast ones before the slow peers, between them and after: they see the same machine."""

SINGLE_ROUNDS = 3
"""How often each scene is timed by itself; the median of these enters the maximum over scenes."""

EXACT, TOPK, PREBUILT = "decide_many, exact", "decide_many, Algorithm 1", "decide, posterior given"
BUILT = "decide, posterior built from a mapping"
BRUTE, MILP, PROBLOG = "brute force", "HiGHS Top-K 20", "ProbLog (SDD)"


@dataclass
class Timing:
    """Times of one way of inference, in milliseconds; CPU times tell where the machine was busy."""

    scenes: int
    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    singles: list[float] = field(default_factory=list)

    def add(self, run: Callable[[], T], scenes: int = 1) -> T:
        """Run once over so many scenes and note wall and CPU time a scene."""
        cpu, wall = time.process_time(), time.perf_counter()
        result = run()
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        self.wall.append(1e3 * wall / scenes)
        self.cpu.append(1e3 * cpu / scenes)
        return result

    @property
    def mean_ms(self) -> float:
        """Mean a scene: the median over rounds, or over the one pass of a slow peer."""
        return self._mean(self.wall)

    @property
    def cpu_ms(self) -> float:
        """The same in CPU time."""
        return self._mean(self.cpu)

    @property
    def max_ms(self) -> float:
        """The slowest scene, each by itself."""
        return max(self.singles or self.wall)

    def as_json(self) -> dict[str, float]:
        """The figures under names that say their unit."""
        return {
            "scenes": self.scenes,
            "mean_ms": self.mean_ms,
            "mean_cpu_ms": self.cpu_ms,
            "max_ms": self.max_ms,
        }

    def _mean(self, values: list[float]) -> float:
        # A slow peer has one value a scene, ours one a round.
        one_pass = len(values) == self.scenes
        return statistics.fmean(values) if one_pass else statistics.median(values)


def measure(scenes: Sequence[RawScene], quick: bool, console: Console) -> tuple[dict[str, Timing], float]:
    """Every way over the scenes; and the largest disagreement of our exact scores with the peers'."""
    posteriors = [scene.build() for scene in scenes]
    every = 20 if quick else 1
    fast = _fast_ways(scenes, posteriors)
    timings = {name: Timing(len(scenes)) for name in fast}
    _warm_up(posteriors)
    decisions = cpor.decide_many(posteriors, method="exact", tau=0.0)
    gap = 0.0

    def rounds() -> None:
        for _ in range(ROUNDS_A_TIME):
            for name, (whole, _) in fast.items():
                timings[name].add(whole, len(scenes))

    rounds()
    for name, solve in _peers().items():
        timings[name] = Timing(len(posteriors[::every]))
        pairs = zip(posteriors[::every], decisions[::every], strict=True)
        with Progress(console=console, transient=True, auto_refresh=False) as progress:
            task = progress.add_task(name, total=timings[name].scenes)
            for k, (posterior, decision) in enumerate(pairs):
                scores = timings[name].add(partial(solve, posterior))
                progress.update(task, completed=k, refresh=k % 50 == 0)
                if scores is not None:
                    gap = max(gap, _disagreement(decision, scores))
        rounds()
    for name, (_, one) in fast.items():
        timings[name].singles.extend(_median_ms(partial(one, k)) for k in range(len(scenes)))
    return timings, gap


def _fast_ways(
    scenes: Sequence[RawScene], posteriors: list[ObstructionPosterior]
) -> dict[str, tuple[Callable[[], object], Callable[[int], object]]]:
    """For each of our ways: all scenes at once, and scene k by itself."""
    return {
        EXACT: (
            lambda: cpor.decide_many(posteriors, method="exact", tau=0.0),
            lambda k: cpor.decide_many((posteriors[k],), method="exact", tau=0.0),
        ),
        TOPK: (
            lambda: cpor.decide_many(posteriors, method="topk", tau=0.0),
            lambda k: cpor.decide_many((posteriors[k],), method="topk", tau=0.0),
        ),
        PREBUILT: (
            lambda: [cpor.decide(posterior) for posterior in posteriors],
            lambda k: cpor.decide(posteriors[k]),
        ),
        BUILT: (
            lambda: [cpor.decide(scene.build()) for scene in scenes],
            lambda k: cpor.decide(scenes[k].build()),
        ),
    }


def _peers() -> dict[str, Callable[[ObstructionPosterior], Sequence[float] | None]]:
    """The slow peers; each returns its scores where it computes them."""

    def top_k(posterior: ObstructionPosterior) -> None:
        milp_top_k(posterior, 20)

    return {
        BRUTE: lambda posterior: enumerate_dags(posterior).scores.tolist(),
        MILP: top_k,
        PROBLOG: lambda posterior: problog_scores(posterior)[1].tolist(),
    }


def _warm_up(posteriors: list[ObstructionPosterior]) -> None:
    """Compile, load and import everything once: none of it is what a scene costs."""
    for method in ("exact", "topk", "auto"):
        cpor.decide_many(posteriors, method=method, tau=0.0)
    for posterior in posteriors[:3]:
        for solve in _peers().values():
            solve(posterior)


def _median_ms(one: Callable[[], object]) -> float:
    timing = Timing(1)
    for _ in range(SINGLE_ROUNDS):
        timing.add(one)
    return statistics.median(timing.wall)


def _disagreement(decision: Decision, scores: Sequence[float]) -> float:
    return max(abs(q - score) for q, score in zip(decision.scores.values(), scores, strict=True))


def show(source: str, timings: dict[str, Timing], gap: float, console: Console) -> None:
    ours = timings[EXACT]
    table = Table(title=f"Time a scene in ms: {source}", title_justify="left")
    for heading in ("way", "scenes", "mean", "mean CPU", "max", "mean / ours", "CPU / ours"):
        table.add_column(heading, justify="left" if heading == "way" else "right")
    for name in (BRUTE, MILP, PROBLOG, TOPK, EXACT, PREBUILT, BUILT):
        t = timings[name]
        ratios = (f"{t.mean_ms / ours.mean_ms:,.1f}", f"{t.cpu_ms / ours.cpu_ms:,.1f}")
        table.add_row(name, f"{t.scenes:,}", _ms(t.mean_ms), _ms(t.cpu_ms), _ms(t.max_ms), *ratios)
    console.print(table)
    console.print(
        "'ours' is decide_many, exact. Our rows: median of rounds before, between and after the peers.\n"
        f"Largest difference between our exact scores and those of brute force and ProbLog: {gap:.1e}\n"
    )
    table = Table(title="Asked", title_justify="left")
    for heading in ("what", "asked", "measured", "in CPU time", "met"):
        table.add_column(heading, justify="left" if heading == "what" else "right")
    for row in targets(timings):
        table.add_row(row.what, row.asked, row.measured, row.measured_cpu, "yes" if row.met else "NO")
    console.print(table)


class Target(NamedTuple):
    """A figure that was asked for; `met` goes by wall time."""

    what: str
    asked: str
    measured: str
    measured_cpu: str
    met: bool


def targets(timings: dict[str, Timing]) -> list[Target]:
    """Each figure asked for, with what was measured."""
    exact = timings[EXACT]
    rows = []
    for name, least in ((PROBLOG, 300), (MILP, 1000), (TOPK, 1)):
        wall, cpu = timings[name].mean_ms / exact.mean_ms, timings[name].cpu_ms / exact.cpu_ms
        what = f"{name} / {EXACT}"
        rows.append(Target(what, f">= {least:,}", f"{wall:,.1f}", f"{cpu:,.1f}", wall >= least))
    for name, most in ((EXACT, 0.02), (PREBUILT, 0.1), (BUILT, 0.1)):
        t = timings[name]
        what = f"{name}, mean ms"
        rows.append(Target(what, f"<= {most}", _ms(t.mean_ms), _ms(t.cpu_ms), t.mean_ms <= most))
    return rows


def _ms(value: float) -> str:
    """Three digits, whatever the size."""
    if value >= 1000.0:
        return f"{value:,.0f}"
    digits = 2 - math.floor(math.log10(value)) if value > 0.0 else 0
    return f"{value:.{max(0, min(digits, 5))}f}"
