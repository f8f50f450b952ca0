"""Paired next-action comparisons under the same probabilities (Table paired): No-DAG and Single-MAP."""

import numpy as np
from jaxtyping import Bool, Float

from cpor.decision import Action, Defer
from cpor.errors import TooLargeError
from cpor.infer.certificate import choose
from cpor.infer.local import ZETA, cut_local, cyclic_parts, reachable
from cpor.paper._reach_kernel import fill_reached
from cpor.paper.graph_structure import FORCED
from cpor.relations import ObstructionPosterior

SUMMABLE = 31
"""Objects the target may reach up to which the product model is summed: one bit each."""

MOST_STATES = 1 << 20
"""States of one step up to which it is summed."""


MOST_LOST = 1e-6
"""Probability that may be left out of the sum."""

MOST_ORDERED = 16
"""Objects on one cycle up to which their best order is found: 2^16 sets."""

_EVEN = 0.5


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
    edges = [(int(i), int(j)) for i, j in np.argwhere(likeliest_graph(posterior.p_obstructs))]
    reached, todo = {posterior.target_index}, [posterior.target_index]
    while todo:
        here = todo.pop()
        above = [j for i, j in edges if i == here and j not in reached]
        reached.update(above)
        todo.extend(above)
    scores = np.zeros(len(posterior))
    scores[sorted(reached - {i for i, _ in edges})] = 1.0
    return scores


def likeliest_graph(p: Float[np.ndarray, "n n"]) -> Bool[np.ndarray, "n n"]:
    """Relations of the likeliest acyclic graph. Shape (n, n).

    Only relations that are likelier than not can be in it, and only those between objects that lie on a
    cycle of such relations compete. Of these the best order is found.

    Raises:
        TooLargeError: More than MOST_ORDERED objects compete.
    """
    likely = p > _EVEN
    gain = np.where(likely, np.log(np.maximum(p, ZETA)) - np.log(np.maximum(1.0 - p, ZETA)), 0.0)
    part = cyclic_parts(np.where(likely, p, 0.0))
    graph = likely & (part[:, None] != part[None, :])
    for number in np.flatnonzero(np.bincount(part) > 1):
        members = np.flatnonzero(part == number)
        size = len(members)
        if size > MOST_ORDERED:
            raise TooLargeError(f"{size} objects may lie on one cycle; at most {MOST_ORDERED} can be ordered")
        inner = gain[np.ix_(members, members)]
        kept = np.zeros((size, 1 << size))  # of relations from a set to each member
        for k in range(size):
            kept[:, 1 << k : 2 << k] = kept[:, : 1 << k] + inner[k][:, None]
        best, last = np.zeros(1 << size), np.zeros(1 << size, np.int64)
        for chosen in range(1, 1 << size):
            each = [k for k in range(size) if (chosen >> k) & 1]
            totals = [best[chosen ^ (1 << k)] + kept[k, chosen ^ (1 << k)] for k in each]
            best[chosen], last[chosen] = max(totals), each[int(np.argmax(totals))]
        chosen, before = (1 << size) - 1, np.ones(size, np.bool_)
        while chosen:
            k = int(last[chosen])
            before[k] = False
            graph[members[before], members[k]] = likely[members[before], members[k]]
            chosen ^= 1 << k
    return np.asarray(graph)


def forced_action(posterior: ObstructionPosterior, scores: Float[np.ndarray, " n"]) -> Action | None:
    """The action with the largest score; None where no score is above 0."""
    return choose(posterior, scores.tolist(), FORCED)


def is_right(action: Action | None, top_objects: frozenset[int]) -> bool:
    """Whether an action is one of the right next ones."""
    return action is not None and not isinstance(action, Defer) and action.obj in top_objects
