"""Decisions where answers are missing: act only if nothing the missing answers could be would change it.

A missing answer about what has no mask needs no cases. No cycle runs through it, so an unknown u_i takes
the score of object i to anything from 0 to q_i and changes no other score, except that of the unseen itself,
which grows with every u: two solutions give all ranges.

A missing answer about a pair does. Every comparison the policy makes is between numbers that are linear in
each missing probability (with the others held): num_a(p) - num_b(p) and num_a(p) - tau Z(p). So the action is
the same for all values in [0, 1] exactly when it is the same at the corners, where each is 0 or 1, and the
range of a score is attained there too. Corners are met pair by pair, the likeliest to be reached from the
target first: what a 0 puts out of reach needs no value, and an arrow that would close a certain cycle is no
case.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from typing import TypeAlias

import numpy as np
from jaxtyping import Float

from cpor.decision import CERTIFIED, Action, Certificate, CertificateKind, Decision, Defer
from cpor.infer.bounds import local_score_bounds
from cpor.infer.certificate import Inference, choose, judge, narrow, settled_action, unseen_index
from cpor.infer.exact import SMALL, fill_ends
from cpor.infer.local import reachable
from cpor.infer.policy import Policy
from cpor.relations import ObstructionPosterior

MOST_CORNERS = 4096
"""Beyond this many corners the missing answers count as able to change the action …"""

MOST_LARGE_CORNERS = 512
"""… and beyond this many where each corner is a scene of more than SMALL objects."""

RANGE_CORNERS = 256
"""Up to this many corners all are looked at, so that the range of each score is known even when deferring."""

_BATCH = 64

FilledCase: TypeAlias = Float[np.ndarray, "n n"] | Inference
"""A matrix whose open answers are about the unseen, or bounds that settle the action."""

Solve: TypeAlias = Callable[[list[Float[np.ndarray, "n n"]], int], list[Inference] | None]
"""(matrices, how many are left with them) -> their scores, two where something of the unseen is unknown, or
None where a deadline has passed."""


def decide_unanswered(posterior: ObstructionPosterior, policy: Policy, solve: Solve) -> Decision:
    """Decide a scene in which answers are missing and no prior stands in for them.

    Args:
        posterior: The scene.
        policy: Thresholds, and whether to defer on uncertified scores.
        solve: Scores of matrices without missing answers.
    """
    p, target, tau = posterior.p_obstructs, posterior.target_index, policy.threshold
    members = reachable(np.where(np.isnan(p), 1.0, p), target)
    unseen = unseen_index(posterior)
    whole = not np.isnan(np.delete(p, unseen, axis=1)).any()
    if not np.isnan(p[members]).any():
        solved = solve([np.where(np.isnan(p), 0.0, p)], 1)
        if solved is None:
            return _decide_from_bounds(posterior, policy, "deadline")
        # What lies out of the target's reach has no known conflict while answers are missing there.
        known = solved[0] if whole else solved[0]._replace(mu=None)
        return judge(posterior, known, policy)
    if len(members) <= SMALL and len(_first(_cases(posterior, None))) > RANGE_CORNERS:
        # No ranges are told for so many cases: the first that disagree settle it.
        cases = _first(_cases(posterior, tau))
        if len(cases) > RANGE_CORNERS:
            solved, late = _solve_cases(posterior, cases, tau, solve)
            if len(solved) < len(cases):
                return _decide_from_bounds(posterior, policy, "deadline" if late else "k_max")
    own = np.isnan(p[target])
    own[unseen] = False
    most = MOST_CORNERS if len(members) <= SMALL else MOST_LARGE_CORNERS
    too_many = 2 ** int(own.sum()) > most
    cases = [] if too_many else list(islice(_cases(posterior, None), most + 1))
    if too_many or len(cases) > most:
        cases = list(islice(_cases(posterior, tau), most + 1))
    if len(cases) > most:
        return _decide_from_bounds(posterior, policy, "k_max")
    solved, late = _solve_cases(posterior, cases, tau, solve)
    if len(solved) < len(cases):
        return _decide_from_bounds(posterior, policy, "deadline" if late else "k_max")
    return _combine(posterior, solved, policy, whole)


def _cases(posterior: ObstructionPosterior, tau: float | None) -> Iterator[FilledCase]:
    """The scene with every missing answer that matters settled to 0 or 1, those about the unseen left open.

    Args:
        posterior: The scene.
        tau: Leave out cases where bounds on the scores settle the action whatever is still open, and give
            these bounds instead; None: none are left out.
    """
    p, target, unseen = posterior.p_obstructs, posterior.target_index, unseen_index(posterior)
    is_open = np.isnan(p)
    is_open[:, unseen] = False
    pairs = np.argwhere(is_open)
    likely = _reach_weights(np.where(np.isnan(p), 1.0, p), target)
    pairs = pairs[np.argsort(-likely[pairs[:, 0]], kind="stable")]
    todo = [p]
    while todo:
        p = todo.pop()
        is_near = np.zeros(len(p), dtype=bool)
        is_near[reachable(np.where(np.isnan(p), 1.0, p), target)] = True
        left = pairs[np.isnan(p[pairs[:, 0], pairs[:, 1]]) & is_near[pairs[:, 0]]]
        if not len(left):
            yield np.where(is_open & np.isnan(p), 0.0, p)
            continue
        if tau is not None:
            bounds = _bound(p, target, tau)
            if settled_action(posterior, bounds.low, bounds.high, tau)[0]:
                yield bounds
                continue
        blocked, blocker = left[0].tolist()
        for value in (1.0, 0.0):
            # An arrow against others taken for certain closes a cycle: that case has no share.
            if value and blocked in reachable(np.where(is_open & (p == 1.0), 1.0, 0.0), blocker):
                continue
            case = p.copy()
            case[blocked, blocker] = value
            todo.append(case)


def _first(cases: Iterator[FilledCase]) -> list[FilledCase]:
    """As many cases as have their ranges told, and one more where there are more."""
    return list(islice(cases, RANGE_CORNERS + 1))


def list_cases(posterior: ObstructionPosterior) -> list[Float[np.ndarray, "n n"]] | None:
    """Every case without open answers, those about the unseen at either end; None: too many."""
    cases = _first(_cases(posterior, None))
    if len(cases) > RANGE_CORNERS:
        return None
    settled = [case for case in cases if not isinstance(case, Inference)]
    return [end for case in settled for end in fill_ends(case)]


def _reach_weights(p: Float[np.ndarray, "n n"], target: int) -> Float[np.ndarray, " n"]:
    """Probability of the likeliest single path from the target to each object; 0 where there is none."""
    best = np.zeros(len(p))
    best[target] = 1.0
    while True:
        more = np.maximum(best, (best[:, None] * p).max(axis=0))
        if np.array_equal(more, best):
            return best
        best = more


def _bound(p: Float[np.ndarray, "n n"], target: int, tau: float) -> Inference:
    """What holds for the scores whatever the missing answers are."""
    least, most = (np.where(np.isnan(p), end, p) for end in (0.0, 1.0))
    nothing = np.zeros(len(p)).tolist()
    unknown = Inference(nothing, nothing, nothing, "k_max", 1.0, None, "exact", None, None, 0.0)
    return narrow(unknown, target, tau, *local_score_bounds(least, target, most=most))


def _solve_cases(
    posterior: ObstructionPosterior,
    cases: list[FilledCase],
    tau: float,
    solve: Solve,
) -> tuple[list[Inference], bool]:
    """Scores of the cases: not all where they disagree early or time is up. Also whether time was up."""
    solved: list[Inference] = []
    actions = set()
    for first in range(0, len(cases), _BATCH):
        batch = cases[first : first + _BATCH]
        matrices = [case for case in batch if not isinstance(case, Inference)]
        found = solve(matrices, 2 * (len(cases) - first)) if matrices else []
        if found is None:
            return solved, True
        results = iter(found)
        for case in batch:
            if isinstance(case, Inference):
                solved.append(case)
            else:
                solved.append(_span(posterior, [next(results) for _ in fill_ends(case)], tau))
            actions.add(_settle(posterior, solved[-1], tau))
        if len(cases) > RANGE_CORNERS and (len(actions) > 1 or None in actions):
            break
    return solved, False


def _span(posterior: ObstructionPosterior, ends: list[Inference], tau: float) -> Inference:
    """The solutions for no and for every open answer about the unseen, as one with intervals."""
    if len(ends) == 1:
        return ends[0]
    low = np.min([end.low for end in ends], axis=0).tolist()
    high = np.max([end.high for end in ends], axis=0).tolist()
    weakest = max(ends, key=_weakness)
    kind = weakest.kind
    if kind != "exact" and not settled_action(posterior, low, high, tau)[0]:
        kind = "tolerance"
    return weakest._replace(scores=low, low=low, high=high, kind=kind)


def _weakness(case: Inference) -> tuple[bool, float]:
    return case.kind not in CERTIFIED, case.epsilon


def _settle(posterior: ObstructionPosterior, case: Inference, tau: float) -> str | None:
    """The action in one case, as text; None where what is open there may change it."""
    if case.kind != "exact":  # its certificate says whether the intervals matter
        return repr(choose(posterior, case.low, tau))
    is_settled, action = settled_action(posterior, case.low, case.high, tau)
    return repr(action) if is_settled else None


def _combine(
    posterior: ObstructionPosterior, cases: list[Inference], policy: Policy, whole: bool
) -> Decision:
    """One decision for all cases: it acts where all agree, each with a certificate."""
    tau, blocker_threshold = policy.threshold, policy.blocker_threshold
    low = np.array([case.low for case in cases]).min(axis=0)
    high = np.array([case.high for case in cases]).max(axis=0)
    weakest = max(cases, key=_weakness)
    known = weakest if whole else weakest._replace(mu=None, mu_target=None)
    least = known._replace(scores=low.tolist(), low=low.tolist())
    decision = judge(posterior, least, policy)
    actions = {_settle(posterior, case, tau) for case in cases}
    settled = len(actions) == 1 and None not in actions
    epsilon = max(case.epsilon for case in cases)
    same_side = (low > blocker_threshold) | (high <= blocker_threshold)
    same_side[posterior.target_index] = True
    action: Action = Defer("no_evidence")
    if settled:
        action = judge(posterior, weakest, replace(policy, require_certificate=True)).action
    certificate = replace(decision.certificate, epsilon=epsilon, blockers_certified=bool(same_side.all()))
    ranges = zip(low.tolist(), high.tolist(), strict=True)
    return replace(
        decision,
        action=action,
        certificate=certificate,
        unanswered_range=dict(zip(posterior.objects, ranges, strict=True)),
        bounds=None,
    )


def _decide_from_bounds(posterior: ObstructionPosterior, policy: Policy, kind: CertificateKind) -> Decision:
    """Too many answers are missing, or too little time is left: what bounds on the scores say."""
    tau = policy.threshold
    bounds = _bound(posterior.p_obstructs, posterior.target_index, tau)
    is_settled, action = settled_action(posterior, bounds.low, bounds.high, tau)
    acts = is_settled and action is not None and not isinstance(action, Defer)
    return Decision(
        action if acts and action is not None else Defer("no_evidence"),
        dict(zip(posterior.objects, bounds.low, strict=True)),
        frozenset(),
        Certificate("action" if acts else kind, 1.0, None, False, False),
        "exact",
        tau,
        policy.blocker_threshold,
        None,
        None,
        dict(zip(posterior.objects, zip(bounds.low, bounds.high, strict=True), strict=True)),
    )
