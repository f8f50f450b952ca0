"""Paired next-action comparisons under the same probabilities (Table paired): No-DAG and Single-MAP."""

import numpy as np
from jaxtyping import Float

from cpor.decision import Action, Defer
from cpor.errors import TooLargeError
from cpor.infer.certificate import choose
from cpor.infer.local import ZETA, cut_local, reachable
from cpor.infer.topk import iterate_graphs
from cpor.paper._reach_kernel import fill_reached
from cpor.paper.graph_structure import FORCED
from cpor.relations import ObstructionPosterior
from cpor.scene import BlockedBy
from cpor.truth import right_actions

SUMMABLE = 31
"""Objects the target may reach up to which the product model is summed: one bit each."""

MOST_STATES = 1 << 20
"""States of one step up to which it is summed."""

MOST_LOST = 1e-6
"""Probability that may be left out of the sum."""


def product_scores(posterior: ObstructionPosterior) -> Float[np.ndarray, " n"]:
    """No-DAG: scores under independent relations, cyclic graphs included (eq. weight). Shape (n,).

    Raises:
        TooLargeError: The target may reach more than SUMMABLE objects, or they touch too many others.
    """
    members = reachable(posterior.p_obstructs, posterior.target_index)
    size = len(members)
    if size > SUMMABLE:
        raise TooLargeError(
            f"{size} objects matter to the target; without acyclicity only {SUMMABLE} can be summed"
        )
    absent, reached = cut_local(posterior.p_obstructs, members, ZETA).absent, np.empty(size)
    if fill_reached(absent, MOST_STATES, reached) > MOST_LOST:
        raise TooLargeError(
            f"the {size} objects that matter to the target touch too many others to be summed"
        )
    scores = np.zeros(len(posterior))
    scores[members] = absent.prod(axis=1) * reached
    return scores


def map_scores(posterior: ObstructionPosterior) -> Float[np.ndarray, " n"]:
    """Single-MAP: 1 for the objects that are free and on the chain in the likeliest graph. Shape (n,)."""
    first = next(iterate_graphs(posterior.p_obstructs))
    relations = {BlockedBy(i, j) for i, j in first.edges.tolist()}
    scores = np.zeros(len(posterior))
    scores[sorted(right_actions(posterior.target_index, relations))] = 1.0
    return scores


def forced_action(posterior: ObstructionPosterior, scores: Float[np.ndarray, " n"]) -> Action | None:
    """The action with the largest score; None where no score is above 0."""
    return choose(posterior, scores.tolist(), FORCED)


def is_right(action: Action | None, top_objects: frozenset[int]) -> bool:
    """Whether an action is one of the right next ones."""
    return action is not None and not isinstance(action, Defer) and action.obj in top_objects
