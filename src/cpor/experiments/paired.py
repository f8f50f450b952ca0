"""Paired next-action comparisons under the same probabilities (Table paired): No-DAG and Single-MAP."""

import numpy as np
from jaxtyping import Float

from cpor.decision import Action, Defer
from cpor.errors import TooLargeError
from cpor.experiments._reach_kernel import fill_scores
from cpor.experiments.structure import FORCED
from cpor.inference.certificate import choose
from cpor.inference.local import ZETA, cut_local, reachable
from cpor.inference.topk import iterate_graphs
from cpor.relations import ObstructionPosterior

SUMMABLE = 16
"""Objects the target may reach up to which the product model is summed: 3^16 steps, half a second."""


def product_scores(posterior: ObstructionPosterior) -> Float[np.ndarray, " n"]:
    """No-DAG: scores under independent relations, cyclic graphs included (eq. weight). Shape (n,).

    Raises:
        TooLargeError: The target may reach more than SUMMABLE objects.
    """
    members = reachable(posterior.p_obstructs, posterior.target_index)
    size = len(members)
    if size > SUMMABLE:
        raise TooLargeError(
            f"{size} objects matter to the target; without acyclicity only {SUMMABLE} can be summed"
        )
    local, found = cut_local(posterior.p_obstructs, members, ZETA), np.empty(size)
    fill_scores(local.absent, np.empty((size, 1 << size)), np.zeros(1 << size), found)
    scores = np.zeros(len(posterior))
    scores[members] = found
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
