"""Decisions where answers are missing: act only if nothing the missing answers could be would change it.

Every comparison the policy makes is between numbers that are linear in each missing probability (with
the others held): num_a(u) - num_b(u) and num_a(u) - tau Z(u). So the action is the same for all values
in [0, 1] exactly when it is the same at the corners, where each missing probability is 0 or 1, and the
range of a score is attained there too.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
from jaxtyping import Bool, Float

from cpor.decision import Decision, Defer
from cpor.inference.certificate import Inference, choose, judge
from cpor.inference.exact import reachable
from cpor.relations import ObstructionPosterior

MOST_CORNERS = 4096
"""Beyond this many corners the missing answers count as able to change the action."""

RANGE_CORNERS = 256
"""Up to this many corners all are looked at, so that the range of each score is known even when deferring."""

_BATCH = 64

Solve = Callable[[list[Float[np.ndarray, "n n"]]], list[Inference]]


def settle_irrelevant(
    p: Float[np.ndarray, "n n"], target: int
) -> tuple[Float[np.ndarray, "n n"], Bool[np.ndarray, "n n"]]:
    """Set aside missing answers about objects that the target cannot reach, whatever they are.

    Returns:
        The probabilities with 0 at every missing answer, and where the missing answers that matter are.
    """
    missing = np.isnan(p)
    possible = np.where(missing, 1.0, p)
    matters = np.zeros_like(missing)
    matters[reachable(possible, target)] = True
    return np.where(missing, 0.0, p), missing & matters


def decide_unanswered(
    posterior: ObstructionPosterior,
    tau: float,
    blocker_threshold: float,
    require_certificate: bool,
    solve: Solve,
) -> Decision:
    """Decide a scene in which answers are missing and no prior stands in for them.

    Args:
        posterior: The scene.
        tau: Threshold of the policy.
        blocker_threshold: Threshold of the blocker set.
        require_certificate: Defer on uncertified scores.
        solve: Scores of matrices without missing answers.
    """
    base, matters = settle_irrelevant(posterior.p_obstructs, posterior.target_index)
    if not matters.any():
        return judge(posterior, solve([base])[0], tau, blocker_threshold, require_certificate)
    count = 2 ** int(matters.sum())
    solved: list[Inference] = []
    for corners in _corners(base, matters):
        solved += solve(corners)
        if count > RANGE_CORNERS and len({choose(posterior, s.scores, tau) for s in solved}) > 1:
            break
    complete = len(solved) == count
    settled = complete and len({choose(posterior, s.scores, tau) for s in solved}) == 1
    table = np.array([s.scores for s in solved])
    low, high = table.min(axis=0), table.max(axis=0)
    if not complete:
        low, high = np.zeros_like(low), np.ones_like(high)
    weakest = max(solved, key=lambda s: (s.epsilon, s.kind != "exact"))
    least = replace(weakest, scores=low.tolist(), mu=None, mu_target=None)
    decision = judge(posterior, least, tau, blocker_threshold, require_certificate)
    certified = (
        decision.certificate.blockers_certified
        and settled
        and bool(np.all((low > blocker_threshold) == (high > blocker_threshold)))
    )
    return replace(
        decision,
        action=judge(posterior, weakest, tau, blocker_threshold, require_certificate).action
        if settled
        else Defer("no_evidence"),
        certificate=replace(decision.certificate, blockers_certified=certified),
        unanswered_range=dict(
            zip(posterior.objects, zip(low.tolist(), high.tolist(), strict=True), strict=True)
        ),
    )


def _corners(base: Float[np.ndarray, "n n"], matters: Bool[np.ndarray, "n n"]) -> Iterator[list[np.ndarray]]:
    """Batches of matrices with every missing answer 0 or 1; the two extremes first, alone if too many."""
    where = np.flatnonzero(matters)
    count = 2 ** len(where)
    codes = [0, count - 1, *range(1, count - 1)] if count <= MOST_CORNERS else [0, count - 1]
    for first in range(0, len(codes), _BATCH):
        batch = []
        for code in codes[first : first + _BATCH]:
            corner = base.copy()
            corner.flat[where] = [(code >> position) & 1 for position in range(len(where))]
            batch.append(corner)
        yield batch
