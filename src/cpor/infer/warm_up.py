"""Compile everything once, so that no later call waits for it."""

import numpy as np

from cpor.infer.decide import decide
from cpor.infer.explain import explain
from cpor.infer.graphs import sample_graphs
from cpor.relations import ObstructionPosterior


def warm_up() -> None:
    """Run each kernel on a tiny scene. The first time on a machine this compiles for about a minute.

    Call it before the first decision that has a deadline.
    """
    rng = np.random.default_rng(0)
    p = np.where(np.eye(3), 0.0, 0.4)
    small = ObstructionPosterior(range(3), 0, p)
    decide(small)
    decide(small, method="topk")
    decide(small, method="topk", deadline_ms=1e3)
    explain(small)
    sample_graphs(small, 1, rng)
    ring = np.zeros((14, 14))
    ring[np.arange(14), (np.arange(14) + 1) % 14] = 0.5
    decide(ObstructionPosterior(range(14), 0, ring))
    dense = np.where(np.eye(13), 0.0, 0.4)
    decide(ObstructionPosterior(range(13), 0, dense), deadline_ms=1.0)
    decide(ObstructionPosterior(range(13), 0, dense))
