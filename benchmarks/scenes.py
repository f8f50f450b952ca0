"""Scenes to measure with: those of UNOBench, a generated look-alike, and families of growing size."""

import csv
import json
import math
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cpor import ObstructionPosterior

SHIFT = 0.09
"""The released scores are shifted once before any inference, p' = sigmoid(logit p - logit SHIFT)."""

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
    root = Path(__file__).resolve().parents[1]
    places = [Path(os.environ["CPOR_DATA"])] if "CPOR_DATA" in os.environ else []
    for place in [*places, root.parent / "shared" / "data"]:
        folder = place / "unobench"
        if (folder / "scores_synthetic.csv").is_file() and (folder / "gt_synthetic.jsonl").is_file():
            return "UNOBench, scores_synthetic.csv", read_unobench(folder)
    return "generated look-alike of UNOBench", generate_scenes(np.random.default_rng(1553))


def read_unobench(folder: Path) -> list[RawScene]:
    """Scenes with at least one candidate relation, probabilities shifted; in order of sample_id."""
    with (folder / "gt_synthetic.jsonl").open(encoding="utf-8") as lines:
        targets = [int(json.loads(line)["query_object"]) for line in lines]
    scenes: dict[int, Pairs] = {}
    with (folder / "scores_synthetic.csv").open(newline="", encoding="utf-8") as rows:
        for row in csv.DictReader(rows):
            blocker, blocked = (int(name) for name in row["edge"].split("->"))
            if blocker != blocked:
                pairs = scenes.setdefault(int(row["sample_id"]), {})
                p = shift(float(row["edge_confidence"]))
                pairs[blocked, blocker] = max(p, pairs.get((blocked, blocker), 0.0))
    return [raw_scene(targets[k], pairs) for k, pairs in sorted(scenes.items())]


def shift(p: float) -> float:
    """sigmoid(logit p - logit SHIFT), with p kept off 0 and 1."""
    p = min(max(p, 1e-9), 1.0 - 1e-9)
    odds = p / (1.0 - p) * (1.0 - SHIFT) / SHIFT
    return odds / (1.0 + odds)


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
