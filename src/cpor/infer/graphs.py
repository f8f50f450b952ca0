"""The posterior over acyclic graphs itself: edge posteriors, exact samples, the likeliest graphs."""

from contextlib import suppress
from dataclasses import dataclass
from itertools import islice

import numpy as np
from jaxtyping import Bool, Float

from cpor.errors import InvalidSceneError, InvalidSettingError, TooLargeError
from cpor.infer.exact import WORK_LIMIT, log_acyclic_mass
from cpor.infer.local import ZETA, Allowance, LocalGraph, cut_local, restrict
from cpor.infer.subset import acyclic_table
from cpor.infer.topk import iterate_graphs
from cpor.relations import ObstructionPosterior, Relation


@dataclass(frozen=True)
class GraphShare:
    """One acyclic graph and its share of the posterior.

    Attributes:
        share: Its posterior probability; None where Z is out of reach.
        relations: The relations that hold in it; `p` is the probability each was given.
    """

    share: float | None
    relations: tuple[Relation, ...]


def edge_posteriors(
    posterior: ObstructionPosterior, zeta: float = ZETA, allowance: Allowance | None = None
) -> Float[np.ndarray, "n n"]:
    """P(e_ij = 1 | acyclic) for every candidate relation of a scene; 0 where there is none. Shape (n, n)."""
    return edge_posterior_matrix(posterior.p_obstructs, zeta, allowance)


def edge_posterior_matrix(
    p: Float[np.ndarray, "n n"], zeta: float = ZETA, allowance: Allowance | None = None
) -> Float[np.ndarray, "n n"]:
    """P(e_ij = 1 | acyclic) = p (1 - d log Z / d log(1 - p)), p where it is on no cycle. Shape (n, n).

    Args:
        p: Probability of each relation. Shape (n, n).
        zeta: Clipping of probabilities.
        allowance: Its deadline, where it has one, is looked at before each costly sum.

    Raises:
        TooLargeError: Where Z cannot be summed exactly within the usual limit, or in time.
    """
    from cpor.infer._kernels.gradient import acyclic_gradient

    allowance = allowance or Allowance()
    _refuse_unanswered(p)
    graph = cut_local(p, np.arange(len(p)), zeta)
    posterior = graph.present.copy()
    for part in graph.strong_parts():
        where = np.ix_(part.members, part.members)
        table = acyclic_table(part, allowance) if 3 ** len(part) <= WORK_LIMIT else None
        if table is not None and table[-1] > 0.0:
            gradient = np.zeros_like(part.absent)
            acyclic_gradient(part.absent, part.out_mask, part.in_mask, table, gradient)
            posterior[where] = np.clip(part.present * (1.0 - gradient), 0.0, 1.0)
            continue
        _refuse_late(allowance)
        log_z = log_acyclic_mass(part)
        for i, j in np.argwhere(part.present > 0.0).tolist():
            _refuse_late(allowance)
            log_with = log_acyclic_mass(with_edge(part, i, j, True))
            share = part.present[i, j] * np.exp(log_with - log_z)
            posterior[part.members[i], part.members[j]] = min(share, 1.0)
    return posterior


def with_edge(graph: LocalGraph, blocked: int, blocker: int, holds: bool) -> LocalGraph:
    """The graph given that a relation holds, or does not."""
    present, absent = graph.present.copy(), graph.absent.copy()
    present[blocked, blocker], absent[blocked, blocker] = (1.0, 0.0) if holds else (0.0, 1.0)
    changed = LocalGraph(graph.members, present, absent, graph.out_mask, graph.in_mask)
    return restrict(changed, np.arange(len(graph)))


def sample_graphs(
    posterior: ObstructionPosterior, size: int, rng: np.random.Generator, zeta: float = ZETA
) -> Bool[np.ndarray, "size n n"]:
    """Independent exact samples of the posterior over acyclic graphs (eq. graph-posterior).

    Relation by relation, each drawn given those before it and acyclicity; samples that agree so far
    share the work.

    Args:
        posterior: The scene; every candidate relation is drawn.
        size: How many samples.
        rng: Source of randomness.
        zeta: Clipping of probabilities.

    Returns:
        `samples[s, i, j]`: whether j obstructs i in sample s. Shape (size, n, n).
    """
    p = posterior.p_obstructs
    _refuse_unanswered(p)
    graph = cut_local(p, np.arange(len(p)), zeta)
    samples = rng.random((size, len(p), len(p))) < graph.present
    for part in graph.strong_parts():
        drawn = _sample_part(part, size, rng)
        # Samples that agree lie next to each other: shuffle, so that parts stay independent.
        samples[np.ix_(rng.permutation(size), part.members, part.members)] = drawn
    return samples


def _sample_part(part: LocalGraph, size: int, rng: np.random.Generator) -> Bool[np.ndarray, "size c c"]:
    drawn = np.zeros((size, len(part), len(part)), np.bool_)
    edges = np.argwhere(part.present > 0.0).tolist()
    todo: list[tuple[int, int, int, LocalGraph]] = [(0, size, 0, part)]
    while todo:
        first, last, e, graph = todo.pop()
        if first == last or e == len(edges):
            continue
        i, j = edges[e]
        with_it, without = with_edge(graph, i, j, True), with_edge(graph, i, j, False)
        log_odds = (
            np.log(part.present[i, j])
            - np.log(part.absent[i, j])
            + log_acyclic_mass(with_it)
            - log_acyclic_mass(without)
        )
        middle = first + int(rng.binomial(last - first, 1.0 / (1.0 + np.exp(-log_odds))))
        drawn[first:middle, i, j] = True
        todo += [(first, middle, e + 1, with_it), (middle, last, e + 1, without)]
    return drawn


def likeliest_graphs(
    posterior: ObstructionPosterior, k: int, zeta: float = ZETA, allowance: Allowance | None = None
) -> tuple[GraphShare, ...]:
    """The k most probable acyclic graphs over all candidate relations, likeliest first.

    Args:
        posterior: The scene.
        k: How many.
        zeta: Clipping of probabilities.
        allowance: Where it ends first, fewer are given; where its deadline has passed, without shares.
    """
    if k < 0:
        raise InvalidSettingError(f"k is {k}; give the number of graphs to list, 0 or more")
    p = posterior.p_obstructs
    _refuse_unanswered(p)
    allowance = allowance or Allowance(WORK_LIMIT)
    graphs = list(islice(iterate_graphs(p, zeta, allowance), k))
    log_z: float | None = None
    if graphs and not allowance.late:
        rest = Allowance(WORK_LIMIT, allowance.until)
        with suppress(TooLargeError):
            log_z = log_acyclic_mass(cut_local(p, np.arange(len(p)), zeta), rest)
        allowance.late = rest.late
    objects = posterior.objects
    return tuple(
        GraphShare(
            None if log_z is None else min(float(np.exp(graph.log_weight - log_z)), 1.0),
            tuple(Relation(objects[i], objects[j], float(p[i, j])) for i, j in graph.edges),
        )
        for graph in graphs
    )


def _refuse_late(allowance: Allowance) -> None:
    if allowance.chunk() == 0:
        raise TooLargeError("the time is up before the posteriors of all relations are summed")


def _refuse_unanswered(p: Float[np.ndarray, "n n"]) -> None:
    if np.isnan(p).any():
        raise InvalidSceneError(
            "some relations have no answer; give them a probability (a prior will do) to ask for graphs"
        )
