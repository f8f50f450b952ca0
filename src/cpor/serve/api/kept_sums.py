"""The costly parts of a decision that decide nothing, kept for the scenes that people look at now.

None of them depends on tau, so nothing is summed again while that is dragged. What ends because the time is
up is given, but not kept: it may do better the next time.
"""

import time
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from cpor.errors import TooLargeError
from cpor.infer.allowance import Allowance
from cpor.infer.exact import WORK_LIMIT
from cpor.infer.explain import NO_ANSWER
from cpor.infer.graphs import GraphShare, edge_posteriors, likeliest_graphs
from cpor.infer.local import cyclic_parts
from cpor.relations import ObstructionPosterior

MOST_EDGES_FOR_POSTERIORS = 400
"""Relations up to which the posterior of each is computed: beyond, it takes longer than a person waits."""

_KEPT = 16


@dataclass(frozen=True)
class Sum:
    """A scene to be summed over; the same question however much time there is.

    Attributes:
        scene: The scene.
        until: Stop at this reading of `time.perf_counter`; None: no deadline. [s]
    """

    scene: ObstructionPosterior
    until: float | None = field(default=None, compare=False)

    @property
    def is_late(self) -> bool:
        """Whether the time is up."""
        return self.until is not None and time.perf_counter() >= self.until


def find_graphs(asked: Sum, k: int) -> tuple[tuple[GraphShare, ...], bool]:
    """The likeliest graphs of a scene without missing answers, and whether all that there are up to `k`.

    Fewer, the likeliest of them all the same, where the time is up.
    """
    if k == 0:
        return (), True
    if asked.is_late:
        return (), False
    try:
        return _find_all_graphs(asked, k), True
    except TooLargeError:
        return (), True  # as an answer lists none where finding them is too much work
    except _TimeIsUp as some:
        return some.graphs, False


def describe_edges(asked: Sum, prior: float | None) -> tuple[list[dict[str, object]], bool]:
    """Every candidate relation as `EdgeMessage` has it, and whether the time was enough for their posteriors.

    Args:
        asked: The scene.
        prior: Probability to assume where there was no answer.
    """
    try:
        return list(_describe_all_edges(asked, prior)), True
    except _TimeIsUp:
        return _edges(asked.scene, None), False


# A cache keeps what is returned only: this carries past it what is not to be kept.
class _TimeIsUp(Exception):  # noqa: N818
    def __init__(self, graphs: tuple[GraphShare, ...] = ()) -> None:
        super().__init__()
        self.graphs = graphs


@lru_cache(maxsize=_KEPT)
def _find_all_graphs(asked: Sum, k: int) -> tuple[GraphShare, ...]:
    allowance = Allowance(WORK_LIMIT, asked.until)
    graphs = likeliest_graphs(asked.scene, k, allowance=allowance)
    if allowance.late:
        raise _TimeIsUp(graphs)
    return graphs


@lru_cache(maxsize=_KEPT)
def _describe_all_edges(asked: Sum, prior: float | None) -> tuple[dict[str, object], ...]:
    posterior = asked.scene
    known = posterior.with_prior(prior)
    p_posterior: np.ndarray | None = None
    if not known.has_unanswered and np.count_nonzero(known.p_obstructs) <= MOST_EDGES_FOR_POSTERIORS:
        allowance = Allowance(until=asked.until)
        try:
            p_posterior = edge_posteriors(known, allowance=allowance)
        except TooLargeError:
            if allowance.late:
                raise _TimeIsUp from None
    return tuple(_edges(posterior, p_posterior))


def _edges(posterior: ObstructionPosterior, p_posterior: np.ndarray | None) -> list[dict[str, object]]:
    part = cyclic_parts(posterior.with_prior(NO_ANSWER).p_obstructs)
    index = {label: k for k, label in enumerate(posterior.objects)}
    edges: list[dict[str, object]] = []
    for blocked, blocker, p in posterior.relations():
        i, j = index[blocked], index[blocker]
        known_p = None if p_posterior is None else min(max(float(p_posterior[i, j]), 0.0), 1.0)
        in_cycle = bool(part[i] == part[j])
        edges.append(
            {"blocked": blocked, "blocker": blocker, "p": p, "p_posterior": known_p, "in_cycle": in_cycle}
        )
    return edges
