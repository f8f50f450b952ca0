"""Speed of inference: time a scene beside peers, and growth of time and memory with the scene.

speed    All UNOBench scenes, or a generated look-alike where the data are absent: our exact inference and
         Algorithm 1 beside brute force, HiGHS and ProbLog. Ours are timed before, between and after the
         peers, so that they see the same machine.
growth   Scenes of 6 to 20 objects beside ProbLog, and scenes of 40 objects with and without a deadline.

Run: PYTHONPATH=tests python benchmarks/bench.py [--only speed,growth] [--quick]
"""

import math
import multiprocessing
import resource
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
from evidence_page import Row
from harness import DATA, measure_parts
from oracles.brute_force import enumerate_dags
from oracles.milp import milp_top_k
from oracles.problog_program import problog_scores

import cpor
from cpor import ObstructionPosterior
from cpor.paper.cases import read_scored
from cpor.paper.decoding import SHIFT

EXACT, TOPK, PREBUILT = "decide_many, exact", "decide_many, Algorithm 1", "decide, posterior given"
BUILT = "decide, posterior built from a mapping"
BRUTE, MILP, PROBLOG = "brute force", "HiGHS Top-K 20", "ProbLog (SDD)"
ROUNDS = 4
"""Rounds of the fast ways before, between and after the slow peers."""

SLOW_EVERY = 20
"""With `--quick` the slow peers see every so many scenes."""

SIZES, SCENES = (6, 8, 10, 12, 14, 16, 18, 20), 3
DENSE_EXACT = 16
"""Dense scenes beyond this many objects are left to `auto`, as a user would."""

PROBLOG_LIMIT_S = 20.0
PROBLOG_MEMORY = 6 << 30
"""Bytes of address space that ProbLog may take before it counts as out of memory."""

DEADLINE_MS, DEADLINE_RUNS = 20.0, 20


RELATIONS = {1: 346, 2: 269, 3: 251, 4: 163, 5: 126, 6: 96, 7: 75, 8: 51, 9: 37, 10: 55, 11: 23, 12: 25}
RELATIONS |= {13: 16, 14: 5, 15: 10, 17: 3, 19: 2}
"""How many of the 1,553 UNOBench scenes have how many candidate relations."""

Pairs = dict[tuple[int, int], float]
"""(blocked, blocker) -> probability."""


@dataclass(frozen=True)
class RawScene:
    """What a caller has before anything of ours is built."""

    objects: list[int]
    target: int
    pairs: Pairs

    def build(self) -> ObstructionPosterior:
        """The posterior, from the mapping."""
        return ObstructionPosterior(self.objects, self.target, self.pairs)


def load_scenes() -> tuple[str, list[RawScene]]:
    """The UNOBench scenes where the data are, a generated look-alike where they are not; and which."""
    if (DATA / "unobench" / "scores_synthetic.csv").is_file():
        return "UNOBench, scores_synthetic.csv", read_unobench(DATA / "unobench")
    return "generated look-alike of UNOBench", generate_scenes(np.random.default_rng(1553))


def read_unobench(folder: Path) -> list[RawScene]:
    """Scenes with at least one candidate relation, probabilities shifted; in order of sample_id."""
    cases = read_scored(folder / "scores_synthetic.csv", folder / "gt_synthetic.jsonl", SHIFT)
    known = [posterior for _, posterior in cases if posterior is not None]
    return [
        RawScene(list(each.objects), each.target, {(r.blocked, r.blocker): r.p for r in each.relations()})
        for each in known
    ]


def raw_scene(target: int, pairs: Pairs) -> RawScene:
    """A scene of the target and every object in a relation."""
    return RawScene(sorted({target, *(v for pair in pairs for v in pair)}), target, pairs)


def generate_scenes(rng: np.random.Generator) -> list[RawScene]:
    """As many scenes with as many relations as UNOBench; one pair in eighty is reciprocal."""
    sizes = rng.permutation([m for m, count in RELATIONS.items() for _ in range(count)])
    return [_generate_scene(rng, int(m)) for m in sizes]


def _generate_scene(rng: np.random.Generator, m: int) -> RawScene:
    # Measured on UNOBench: one object more than relations at first, about a dozen in the end.
    n = min(round(1.6 + 0.82 * m), 12)
    pairs: Pairs = {}
    while len(pairs) < m:
        below, above = sorted(int(v) for v in rng.choice(n, 2, replace=False))
        pair = (below, above) if rng.random() > 0.02 else (above, below)
        # The shifted scores: half above 0.83, a twentieth below 0.69.
        pairs.setdefault(pair, float(1.0 / (1.0 + math.exp(-rng.normal(1.7, 0.7)))))
        if len(pairs) < m and rng.random() < 1.0 / 80.0:
            pairs.setdefault(pair[::-1], float(rng.uniform(0.5, 0.95)))
    return raw_scene(int(rng.integers(n)), pairs)


def dense_scene(n: int, seed: int) -> ObstructionPosterior:
    """Every ordered pair a candidate."""
    p = np.random.default_rng([1, n, seed]).uniform(0.05, 0.95, (n, n))
    np.fill_diagonal(p, 0.0)
    return ObstructionPosterior(range(n), 0, p)


def sparse_scene(n: int, seed: int) -> ObstructionPosterior:
    """Points in the unit square; each object's 3 nearest are its candidate blockers."""
    rng = np.random.default_rng([2, n, seed])
    points = rng.random((n, 2))
    distance = np.linalg.norm(points[:, None] - points[None, :], axis=-1)
    np.fill_diagonal(distance, np.inf)
    p = np.zeros((n, n))
    for i, nearest in enumerate(np.argsort(distance, axis=1)[:, :3]):
        p[i, nearest] = rng.uniform(0.05, 0.95, 3)
    return ObstructionPosterior(range(n), widest_target(p), p)


def random_pairs_scene(n: int, m: int, seed: int) -> ObstructionPosterior:
    """m ordered pairs drawn uniformly are the candidates."""
    rng = np.random.default_rng([3, n, seed])
    p = np.zeros((n, n))
    off_diagonal = np.flatnonzero(~np.eye(n, dtype=bool))
    p.flat[rng.choice(off_diagonal, m, replace=False)] = rng.uniform(0.05, 0.95, m)
    return ObstructionPosterior(range(n), widest_target(p), p)


def widest_target(p: np.ndarray) -> int:
    """The object that reaches most others: with any other target, part of the scene would not count."""
    reached = (p > 0.0) | np.eye(len(p), dtype=bool)
    for _ in range(len(p).bit_length()):
        reached = reached @ reached
    return int(np.argmax(reached.sum(axis=1)))


def time_ms(run: Callable[[], Any]) -> tuple[float, Any]:
    """Wall time of a call and its result."""
    start = time.perf_counter()
    result = run()
    return 1e3 * (time.perf_counter() - start), result


def measure_speed(quick: bool = False) -> Iterator[Row]:
    """Mean and largest time a scene of each way, and the ratios that are asked for."""
    source, scenes = load_scenes()
    posteriors = [scene.build() for scene in scenes]
    fast: dict[str, Callable[[int | None], object]] = {  # all scenes at once, or one by itself
        EXACT: lambda k: cpor.decide_many(_some(posteriors, k), method="exact", tau=0.0),
        TOPK: lambda k: cpor.decide_many(_some(posteriors, k), method="topk", tau=0.0),
        PREBUILT: lambda k: [cpor.decide(posterior) for posterior in _some(posteriors, k)],
        BUILT: lambda k: [cpor.decide(scene.build()) for scene in _some(scenes, k)],
    }
    peers: dict[str, Callable[[ObstructionPosterior], object]] = {
        BRUTE: lambda posterior: enumerate_dags(posterior).scores,
        MILP: _top_k,
        PROBLOG: lambda posterior: problog_scores(posterior)[1],
    }
    for way in (*fast.values(), *(partial(_first_three, posteriors, solve) for solve in peers.values())):
        way(None)  # compilation and imports are not what a scene costs
    decisions = cpor.decide_many(posteriors, method="exact", tau=0.0)
    means: dict[str, list[float]] = {name: [] for name in fast}
    times: dict[str, list[float]] = {}
    gap = 0.0
    for name in (None, *peers):
        if name is not None:
            times[name] = []
            for posterior, decision in list(zip(posteriors, decisions, strict=True))[
                :: SLOW_EVERY if quick else 1
            ]:
                spent, scores = time_ms(partial(peers[name], posterior))
                times[name].append(spent)
                if scores is not None:
                    ours = decision.scores.values()
                    gap = max(gap, *(abs(a - b) for a, b in zip(ours, scores, strict=True)))
        for _ in range(ROUNDS):
            for way, run in fast.items():
                means[way].append(time_ms(partial(run, None))[0] / len(scenes))
    for way, run in fast.items():
        times[way] = [
            statistics.median(time_ms(partial(run, k))[0] for _ in range(3)) for k in range(len(scenes))
        ]
    mean = {name: statistics.fmean(spent) for name, spent in times.items()}
    mean |= {name: statistics.median(spent) for name, spent in means.items()}
    for name, spent in times.items():
        told = f"mean {mean[name]:.3g} ms, most {max(spent):.3g} ms ({len(spent)} scenes)"
        yield Row("fast", f"speed over {source}: {name}", "", told)
    yield Row("exact", f"{source}: largest difference from brute force and ProbLog", "<= 1e-8", f"{gap:.1e}")
    for name, least in ((PROBLOG, 300), (MILP, 1000), (TOPK, 1)):
        yield Row("fast", f"speed: {name} / {EXACT}", f">= {least:,}", f"{mean[name] / mean[EXACT]:,.1f}")
    for name, most in ((EXACT, 0.02), (PREBUILT, 0.1), (BUILT, 0.1)):
        yield Row("fast", f"speed: {name}, mean", f"<= {most} ms", f"{mean[name]:.4f} ms")


def _top_k(posterior: ObstructionPosterior) -> None:
    milp_top_k(posterior, 20)


def _some(items: list[Any], k: int | None) -> list[Any]:
    return items if k is None else items[k : k + 1]


def _first_three(posteriors: list[ObstructionPosterior], solve: Callable[..., object], _: None) -> None:
    for posterior in posteriors[:3]:
        solve(posterior)


def measure_growth() -> Iterator[Row]:
    """Times and certificates by size, memory, and scenes of 40 objects."""
    for family in (dense_scene, sparse_scene):
        for n in (5, 13):
            cpor.decide(family(n, 0), method="exact")
    cpor.decide(random_pairs_scene(40, 120, 99))
    for name, family in (("dense", dense_scene), ("sparse", sparse_scene)):
        peer = _ProbLog()
        for n in SIZES:
            scenes = [family(n, seed) for seed in range(SCENES)]
            method = "auto" if name == "dense" and n > DENSE_EXACT else "exact"
            spent, decisions = zip(*(_decide(scene, method=method) for scene in scenes), strict=True)
            told = f"{statistics.median(spent):.4g} ms, most {max(spent):.4g} ms; "
            epsilon = max(each.certificate.epsilon for each in decisions)
            told += f"{_bounded(epsilon)}; ProbLog {peer.median(scenes)}"
            asked = "<= 600 ms" if (name, n) == ("dense", DENSE_EXACT) else ""
            yield Row("fast", f"growth: {name} scene of {n} objects", asked, told)
        peer.stop()
    before, after = _in_child(_report_memory)
    told = f"{after - before:.4g} MB more, {after:.4g} MB the whole process"
    yield Row("fast", f"growth: memory, {DENSE_EXACT} objects", "<= 300 MB", told)
    for seed in range(SCENES):
        for kind, scene in (
            ("3 nearest", sparse_scene(40, seed)),
            ("pairs", random_pairs_scene(40, 120, seed)),
        ):
            spent, decision = _decide(scene)
            point = f"growth: 40 objects, {kind}, scene {seed}"
            told = f"{spent:.4g} ms, {_bounded(decision.certificate.epsilon)}"
            yield Row("fast", point, "<= 1000 ms", told)
            hurried = partial(cpor.decide, scene, deadline_ms=DEADLINE_MS)
            times, decisions = zip(*(time_ms(hurried) for _ in range(DEADLINE_RUNS)), strict=True)
            told = f"{max(times):.4g} ms at most, median {statistics.median(times):.4g} ms, "
            told += _bounded(decisions[-1].certificate.epsilon)
            yield Row("fast", f"{point}, with a deadline of {DEADLINE_MS:g} ms", "<= 30 ms", told)


def _bounded(epsilon: float) -> str:
    return "exact" if epsilon == 0 else f"scores known up to {epsilon:.3g}"


def _decide(scene: ObstructionPosterior, **settings: Any) -> tuple[float, cpor.Decision]:
    """Wall time, the median of up to five calls where they are short, and the decision."""
    times: list[float] = []
    while len(times) < 5 and sum(times) < 200.0:
        spent, decision = time_ms(partial(cpor.decide, scene, **settings))
        times.append(spent)
    return statistics.median(times), decision


class _ProbLog:
    """ProbLog in a child process, which is ended when a scene takes too long or too much."""

    def __init__(self) -> None:
        self._worker: tuple[Any, Connection] | None = None
        self._gave_up: str | None = None

    def median(self, scenes: list[ObstructionPosterior]) -> str:
        """Median time over scenes, or why there is none; larger sizes are not tried after that."""
        times: list[float] = []
        for scene in scenes:
            if self._gave_up is not None:
                return self._gave_up
            times.append(self._time(scene))
            if 2 * sum(map(math.isinf, times)) > len(scenes):
                self._gave_up = f"> {PROBLOG_LIMIT_S:.0f} s or > {PROBLOG_MEMORY >> 30} GB"
        return self._gave_up or f"{statistics.median(times):.4g} ms"

    def _time(self, scene: ObstructionPosterior) -> float:
        if self._worker is None:
            self._worker = _start_child(_serve_problog)
            self._worker[1].recv()
        pipe = self._worker[1]
        pipe.send(scene)
        try:
            if pipe.poll(PROBLOG_LIMIT_S):
                return float(pipe.recv())
        except EOFError:  # out of memory
            pass
        self.stop()
        return math.inf

    def stop(self) -> None:
        """End the child."""
        if self._worker is not None:
            self._worker[0].kill()
            self._worker[0].join()
            self._worker = None


def _start_child(target: Callable[[Connection], None]) -> tuple[Any, Connection]:
    # Spawned, not forked: the child must not inherit what numba has running here.
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=target, args=(there,), daemon=True)
    process.start()
    there.close()
    return process, here


def _in_child(target: Callable[[Connection], None]) -> Any:
    process, pipe = _start_child(target)
    found = pipe.recv()
    process.join()
    return found


def _serve_problog(pipe: Connection) -> None:
    # ProbLog walks its formulas recursively; Python's default limit is too low for larger scenes.
    sys.setrecursionlimit(100_000)
    resource.setrlimit(resource.RLIMIT_AS, (PROBLOG_MEMORY, PROBLOG_MEMORY))
    problog_scores(sparse_scene(5, 0))
    pipe.send("ready")
    while True:
        scene = pipe.recv()
        pipe.send(time_ms(partial(problog_scores, scene))[0])


def _report_memory(pipe: Connection) -> None:
    """Peak memory before and after a dense decision at DENSE_EXACT objects, in MB."""

    def peak() -> float:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3

    scene = dense_scene(DENSE_EXACT, 0)
    cpor.decide(dense_scene(13, 0), method="exact")
    switch = Path("/proc/self/clear_refs")
    if switch.exists():  # the peak starts from here: loading compiled code has a peak of its own
        switch.write_text("5", encoding="ascii")
    before = peak()
    cpor.decide(scene, method="exact")
    pipe.send((before, peak()))


if __name__ == "__main__":
    measure_parts({"speed": measure_speed, "growth": measure_growth}, __doc__)
