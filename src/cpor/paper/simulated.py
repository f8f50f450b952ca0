"""Our simulated benchmark in the form of the released one: cases with paths, and a log of relation scores.

It is the test split of `cpor simulate` as `cpor experiment perception` logs it. Objects are named by what
they truly are, so that pieces of one object are one; background gets an id above 1000. The truth is
occlusion, which UNOBench labels, and the tier is the paper's: longest path of 1, 2, 3 or more objects. A
label says whether the relation holds; in the released log it says whether it lies on the target's paths.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from cpor.paper.pair_log import LoggedCase, PairRow
from cpor.paper.paths import maximal_paths
from cpor.paper.unobench import SOURCE_COLUMNS, FusedScores, UnobenchCase
from cpor.scene import BlockedBy
from cpor.truth import on_chain, right_actions

BACKGROUND = 1000
"""Ids of found objects that are none begin above."""

TIERS = ("Easy", "Medium", "Hard")


class Benchmark(NamedTuple):
    """Cases and the scores of their relations.

    Attributes:
        cases: The truth.
        scores: The log; raw scores, counts and geometry included.
        n_lost: Cases left out because the target was not found.
        n_cyclic: Cases left out because the true relations on the target's chain have a cycle.
    """

    cases: tuple[UnobenchCase, ...]
    scores: FusedScores
    n_lost: int
    n_cyclic: int

    def say_left_out(self) -> str:
        """What is not counted, and why."""
        return (
            f"{len(self.cases)} cases. Left out: {self.n_lost} whose target was not found, {self.n_cyclic} "
            "whose true relations have a cycle."
        )


def to_benchmark(logged: Sequence[LoggedCase], occlusion_only: bool = True) -> Benchmark:
    """The benchmark of a log of pairs; `p` is the raw score until a pipeline is fitted."""

    def holds(row: PairRow) -> bool:
        return row.label_occlusion if occlusion_only else row.label

    cases: list[UnobenchCase] = []
    rows: list[tuple[float, ...]] = []
    n_lost = n_cyclic = 0
    for number, log in enumerate(logged):
        if log.target is None:
            n_lost += 1
            continue
        true_id = {k: true if true >= 0 else BACKGROUND - true for k, true in log.identity().items()}
        target = true_id[log.target]
        truth = {
            BlockedBy(true_id[row.blocked], true_id[row.blocker])
            for row in log.rows
            if holds(row) and true_id[row.blocked] != true_id[row.blocker]
        }
        chain = on_chain(target, truth)
        if is_cyclic(chain):
            n_cyclic += 1
            continue
        paths = maximal_paths(target, chain)
        depth = min(max(map(len, paths)), len(TIERS))
        index = len(cases)
        cases.append(
            UnobenchCase(
                index, number, target, paths, frozenset(right_actions(target, truth)), TIERS[depth - 1]
            )
        )
        rows += [
            (
                index,
                true_id[row.blocked],
                true_id[row.blocker],
                row.prob_edge,
                holds(row),
                row.N_cand,
                row.p_geometry,
                0.0 if np.isnan(row.reliability) else row.reliability,
            )
            for row in log.rows
            if row.asked
        ]
    table = np.array(rows, np.float64).T
    case, blocked, blocker = table[:3].astype(np.int64)
    scores = FusedScores(
        case,
        blocked,
        blocker,
        table[3],
        table[4].astype(np.bool_),
        dict(zip(SOURCE_COLUMNS, table[[3, 5, 6, 7]], strict=True)),
    )
    return Benchmark(tuple(cases), scores, n_lost, n_cyclic)


def is_cyclic(chain: Iterable[BlockedBy]) -> bool:
    """Whether removing free objects over and over gets stuck."""
    left = set(chain)
    while left:
        obstructed = {blocked for blocked, _ in left}
        kept = {pair for pair in left if pair.blocker in obstructed}
        if kept == left:
            return True
        left = kept
    return False
