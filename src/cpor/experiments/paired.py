"""Paired next-action comparisons under the same probabilities (Table paired): No-DAG and Single-MAP."""

import numpy as np
from jaxtyping import Float

from cpor.decision import Action, Defer
from cpor.decoding.chains import ENUMERABLE, reach_and_acyclic, weigh_graphs
from cpor.errors import TooLargeError
from cpor.experiments.structure import FORCED
from cpor.inference.certificate import choose
from cpor.inference.local import ZETA, cut_local, reachable
from cpor.inference.topk import iterate_graphs
from cpor.relations import ObstructionPosterior


def product_scores(posterior: ObstructionPosterior) -> Float[np.ndarray, " n"]:
    """No-DAG: scores under independent relations, cyclic graphs included (eq. weight). Shape (n,).

    By listing every graph over the relations the target may reach.

    Raises:
        TooLargeError: More than ENUMERABLE relations matter to the target.
    """
    members = reachable(posterior.p_obstructs, posterior.target_index)
    p = cut_local(posterior.p_obstructs, members, ZETA).present
    edges = np.argwhere(p > 0.0)
    if len(edges) > ENUMERABLE:
        raise TooLargeError(
            f"{len(edges)} relations matter to the target; without acyclicity only {ENUMERABLE} can be summed"
        )
    graphs, weight = weigh_graphs(p, edges)
    reached, _ = reach_and_acyclic(graphs, edges, len(members))
    scores = np.zeros(len(posterior))
    for v, o in enumerate(members.tolist()):
        out = sum(1 << e for e, (i, _) in enumerate(edges.tolist()) if i == v)
        free = ((graphs & out) == 0) & ((reached >> v) & 1 == 1)
        scores[o] = weight[free].sum()
    return scores


def map_scores(posterior: ObstructionPosterior) -> Float[np.ndarray, " n"]:
    """Single-MAP: 1 for the objects that are free and on the chain in the likeliest graph. Shape (n,)."""
    edges = next(iterate_graphs(posterior.p_obstructs)).edges.tolist()
    reached, todo = {posterior.target_index}, [posterior.target_index]
    while todo:
        here = todo.pop()
        above = [j for i, j in edges if i == here and j not in reached]
        reached.update(above)
        todo.extend(above)
    scores = np.zeros(len(posterior))
    scores[sorted(reached - {i for i, _ in edges})] = 1.0
    return scores


def forced_action(posterior: ObstructionPosterior, scores: Float[np.ndarray, " n"]) -> Action | None:
    """The action with the largest score; None where no score is above 0."""
    return choose(posterior, scores.tolist(), FORCED)


def is_right(action: Action | None, top_objects: frozenset[int]) -> bool:
    """Whether an action is one of the right next ones."""
    return action is not None and not isinstance(action, Defer) and action.obj in top_objects
