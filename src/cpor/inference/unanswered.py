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

from cpor.decision import CERTIFIED, ROUNDING, Certificate, CertificateKind, Decision, Defer, Grasp
from cpor.inference.certificate import Inference, choose, judge
from cpor.inference.exact import SMALL
from cpor.inference.local import reachable
from cpor.relations import ObstructionPosterior

MOST_CORNERS = 4096
"""Beyond this many corners the missing answers count as able to change the action …"""

MOST_LARGE_CORNERS = 64
"""… and beyond this many where each corner is a scene of more than SMALL objects."""

RANGE_CORNERS = 256
"""Up to this many corners all are looked at, so that the range of each score is known even when deferring."""

_BATCH = 64

Solve = Callable[[list[Float[np.ndarray, "n n"]], int], list[Inference] | None]
"""(corners, how many are left with them) -> their scores, or None where a deadline has passed."""


def settle_irrelevant(
    p: Float[np.ndarray, "n n"], target: int
) -> tuple[Float[np.ndarray, "n n"], Bool[np.ndarray, "n n"], int]:
    """Set aside missing answers about objects that the target cannot reach, whatever they are.

    Returns:
        The probabilities with 0 at every missing answer, where the missing answers that matter are, and
        how many objects the target may reach.
    """
    missing = np.isnan(p)
    members = reachable(np.where(missing, 1.0, p), target)
    matters = np.zeros_like(missing)
    matters[members] = True
    return np.where(missing, 0.0, p), missing & matters, len(members)


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
    base, matters, size = settle_irrelevant(posterior.p_obstructs, posterior.target_index)
    if not matters.any():
        solved = solve([base], 1)
        if solved is None:
            return _decide_from_bounds(posterior, tau, blocker_threshold, "deadline")
        # What lies out of the target's reach has no known conflict while answers are missing there.
        known = solved[0]._replace(mu=None)
        return judge(posterior, known, tau, blocker_threshold, require_certificate)
    corners, late = _look_at_corners(posterior, base, matters, tau, size, solve)
    if len(corners) < 2 ** int(matters.sum()):
        return _decide_from_bounds(posterior, tau, blocker_threshold, "deadline" if late else "k_max")
    return _combine(posterior, corners, tau, blocker_threshold, require_certificate)


def _look_at_corners(
    posterior: ObstructionPosterior,
    base: Float[np.ndarray, "n n"],
    matters: Bool[np.ndarray, "n n"],
    tau: float,
    size: int,
    solve: Solve,
) -> tuple[list[Inference], bool]:
    """Scores at the corners: none where they are too many, not all where they disagree early or time is up.

    Also whether time was up.
    """
    count = 2 ** int(matters.sum())
    solved: list[Inference] = []
    if count > (MOST_CORNERS if size <= SMALL else MOST_LARGE_CORNERS):
        return solved, False
    for corners in _corners(base, matters):
        more = solve(corners, count - len(solved))
        if more is None:
            return solved, True
        solved += more
        if count > RANGE_CORNERS and len({choose(posterior, s.low, tau) for s in solved}) > 1:
            break
    return solved, False


def _combine(
    posterior: ObstructionPosterior,
    corners: list[Inference],
    tau: float,
    blocker_threshold: float,
    require_certificate: bool,
) -> Decision:
    """One decision for all corners: it acts where all agree, each with a certificate."""
    low = np.array([corner.low for corner in corners]).min(axis=0)
    high = np.array([corner.high for corner in corners]).max(axis=0)
    weakest = max(corners, key=lambda corner: (corner.kind not in CERTIFIED, corner.epsilon))
    least = weakest._replace(scores=low.tolist(), low=low.tolist(), mu=None, mu_target=None)
    decision = judge(posterior, least, tau, blocker_threshold, require_certificate)
    settled = len({choose(posterior, corner.low, tau) for corner in corners}) == 1
    epsilon = max(corner.epsilon for corner in corners)
    same_side = (low > blocker_threshold) | (high <= blocker_threshold)
    same_side[posterior.target_index] = True
    action = (
        judge(posterior, weakest, tau, blocker_threshold, True).action if settled else Defer("no_evidence")
    )
    certificate = replace(decision.certificate, epsilon=epsilon, blockers_certified=bool(same_side.all()))
    ranges = zip(low.tolist(), high.tolist(), strict=True)
    return replace(
        decision,
        action=action,
        certificate=certificate,
        unanswered_range=dict(zip(posterior.objects, ranges, strict=True)),
        bounds=None,
    )


def _decide_from_bounds(
    posterior: ObstructionPosterior, tau: float, blocker_threshold: float, kind: CertificateKind
) -> Decision:
    """Too many answers are missing, or too little time is left, for the corners: what is known for sure.

    Given acyclicity, no relation of the target is likelier to hold than before (Harris' inequality), so its
    score is at least the product of its gaps. Above a half no other score can be higher: the events exclude
    each other.
    """
    target = posterior.target_index
    gaps = 1.0 - np.where(np.isnan(posterior.p_obstructs), 1.0, posterior.p_obstructs)
    least = float(np.prod(gaps[target]))
    ranges = dict.fromkeys(posterior.objects, (0.0, 1.0 - least))
    ranges[posterior.target] = (least, 1.0)
    free = least > max(tau, 0.5) + ROUNDING
    return Decision(
        Grasp(posterior.target) if free else Defer("no_evidence"),
        {label: low for label, (low, _) in ranges.items()},
        frozenset(),
        Certificate("action" if free else kind, 1.0, None, False, False),
        "exact",
        tau,
        blocker_threshold,
        None,
        None,
        ranges,
    )


def _corners(base: Float[np.ndarray, "n n"], matters: Bool[np.ndarray, "n n"]) -> Iterator[list[np.ndarray]]:
    """Batches of matrices with every missing answer 0 or 1, the two extremes first."""
    where = np.flatnonzero(matters)
    count = 2 ** len(where)
    codes = [0, count - 1, *range(1, count - 1)]
    for first in range(0, len(codes), _BATCH):
        batch = []
        for code in codes[first : first + _BATCH]:
            corner = base.copy()
            corner.flat[where] = [(code >> position) & 1 for position in range(len(where))]
            batch.append(corner)
        yield batch
