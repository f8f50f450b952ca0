"""From scores to a decision: the policy (eq. policy), its certificate (corollary), reasons to defer."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from cpor.decision import (
    ROUNDING,
    Action,
    Certificate,
    CertificateKind,
    Decision,
    Defer,
    DeferReason,
    Grasp,
    Method,
    Remove,
)
from cpor.infer.policy import Policy
from cpor.infer.subset import cyclic_mass
from cpor.infer.topk import TopKScores
from cpor.relations import ObstructionPosterior

CONFLICT = 0.5
"""Defer as `conflicting_evidence` when at least this much belief had to be discarded as cyclic."""

NEAR_TIE = 0.1
"""Defer as `near_tie` when the two best scores are closer than this."""


class Inference(NamedTuple):
    """Scores of one scene by either method, and the intervals that hold the exact ones.

    Attributes:
        scores: One for each object.
        low: No exact score is below this; the scores themselves when exact.
        high: No exact score is above this; the scores themselves when exact.
        kind: What ended the inference.
        epsilon: No score is further than this from its exact value.
        k: Graphs retained; None where none are listed.
        method: `exact`, `topk` or `milp`.
        mu: See `Decision`.
        mu_target: See `Decision`.
        conflict: The least that is known of mu_target, for the reason to defer.
    """

    scores: Sequence[float]
    low: Sequence[float]
    high: Sequence[float]
    kind: CertificateKind
    epsilon: float
    k: int | None
    method: Method
    mu: float | None
    mu_target: float | None
    conflict: float


def exact_inference(scores: Sequence[float], log_z: float, log_z_all: float) -> Inference:
    """Wrap exact scores; see `ExactScores`."""
    conflict, mu = cyclic_mass(log_z), None if math.isnan(log_z_all) else cyclic_mass(log_z_all)
    return Inference(scores, scores, scores, "exact", 0.0, None, "exact", mu, conflict, conflict)


def topk_inference(result: TopKScores, method: Method = "topk") -> Inference:
    """Wrap what Algorithm 1 found; proven exhaustion makes it exact.

    K and epsilon are returned all the same, as in the paper: the analytic bound need not vanish.
    """
    exact = result.kind == "exact"
    epsilon = 0.0 if exact else result.epsilon
    mu = min(max(-math.expm1(result.log_mass), 0.0), 1.0) if exact else None
    scores = result.scores.tolist()
    return Inference(
        scores,
        [max(score - epsilon, 0.0) for score in scores],
        [min(score + epsilon, 1.0) for score in scores],
        result.kind,
        result.epsilon,
        result.k,
        method,
        mu,
        None,
        -math.expm1(min(result.log_mass if exact else result.log_bound, 0.0)),
    )


def narrow(
    inference: Inference,
    target: int,
    tau: float,
    low: Float[np.ndarray, " n"],
    high: Float[np.ndarray, " n"],
) -> Inference:
    """Narrower intervals, with the scores moved into them; they may certify the action.

    The exact score is a mean of the retained graphs' score, with weight Z_K / Z >= 1 - epsilon, and of an
    unknown one in [0, 1]. Grasping the target is right only where removing another object is not.

    Args:
        inference: What Algorithm 1 said.
        target: X.
        tau: Threshold of the policy.
        low: No exact score is below this. Shape (n,).
        high: No exact score is above this. Shape (n,).
    """
    if inference.kind == "exact":
        return inference
    kept = (1.0 - inference.epsilon) * np.array(inference.scores)
    low, high = np.maximum(low, kept), np.minimum(high, kept + inference.epsilon)
    others = np.arange(len(low)) != target
    high[target] = min(high[target], 1.0 - low[others].max(initial=0.0))
    high[others] = np.minimum(high[others], 1.0 - low[target])
    high = np.maximum(high, low)  # where rounding crossed them
    scores = np.clip(inference.scores, low, high)
    best = int(low.argmax())
    kind = inference.kind
    if high.max() <= tau:
        kind = "defer"
    elif low[best] > tau + ROUNDING and low[best] > np.delete(high, best).max(initial=-1.0) + ROUNDING:
        kind = "action"
    return inference._replace(
        scores=scores.tolist(),
        low=low.tolist(),
        high=high.tolist(),
        kind=kind,
        epsilon=float(np.maximum(high - scores, scores - low).max()),
    )


def certify(
    inference: Inference, posterior: ObstructionPosterior, tau: float, blocker_threshold: float
) -> Certificate:
    """The certificate: tests (a), (b) were applied where the search ended; test (c) is applied here.

    The search takes what has no mask for an object like others; test (a) is applied anew without it.
    """
    if inference.kind == "exact":
        return Certificate("exact", inference.epsilon, inference.k, True, True)
    blockers_certified = all(
        low > blocker_threshold + ROUNDING or high < blocker_threshold - ROUNDING
        for o, (low, high) in enumerate(zip(inference.low, inference.high, strict=True))
        if o != posterior.target_index
    )
    kind = inference.kind
    if kind == "action" and (unseen := unseen_index(posterior)):
        low, high = (np.delete(np.asarray(side), unseen) for side in (inference.low, inference.high))
        best = int(low.argmax())
        acts = low[best] > max(tau, float(np.delete(high, best).max(initial=-1.0))) + ROUNDING
        grasps = posterior.target_index == int(np.delete(np.arange(len(posterior)), unseen)[best])
        is_sure = not grasps or inference.high[unseen[0]] < low[best] or inference.low[unseen[0]] > high[best]
        kind = "action" if (acts and is_sure) or high.max() <= tau else "tolerance"
    return Certificate(kind, inference.epsilon, inference.k, False, blockers_certified)


def choose(posterior: ObstructionPosterior, scores: Sequence[float], tau: float) -> Action | None:
    """The action of eq. policy; None is to defer.

    Given the lower ends of intervals, it acts only where the action is proven likely enough to be right.
    Ties (within rounding): grasping the target wins, then the smaller index; deferring wins at tau.

    What has no mask cannot be removed. Where another object is likely to be a right one to remove, that
    is done: both may be right. Where none is, or where grasping is less likely to be right than that
    something unseen has to go first, that is said.
    """
    unseen = unseen_index(posterior)
    known = {o: score for o, score in enumerate(scores) if o not in unseen}
    best = max(known.values())
    if best <= tau + ROUNDING:
        return Defer("unseen_blocker") if max(scores) > tau + ROUNDING else None
    enough = best - ROUNDING
    if scores[posterior.target_index] >= enough:
        return Defer("unseen_blocker") if best < max(scores) - ROUNDING else Grasp(posterior.target)
    return Remove(posterior.objects[next(o for o, score in known.items() if score >= enough)])


def settled_action(
    posterior: ObstructionPosterior, low: Sequence[float], high: Sequence[float], tau: float
) -> tuple[bool, Action | None]:
    """Whether `choose` gives one and the same for all scores within intervals, and what that is."""
    action = choose(posterior, low, tau)
    target, unseen = posterior.target_index, list(unseen_index(posterior))
    least, most = np.array(low), np.array(high)
    at_least: list[list[int]] = [[]]  # objects at the lower end while all others are at the upper one
    if not (action is None or isinstance(action, Defer)):
        at_least = [[posterior.index(action.obj)]]
    elif np.delete(most, unseen).max() > tau + ROUNDING:
        if action is None:
            return False, None
        # Grasping is best, and something unseen is likelier to be in the way: for either end of the target's.
        at_least = [unseen, [*unseen, target]]
    for where in at_least:
        end = most.copy()
        end[where] = least[where]
        if choose(posterior, end.tolist(), tau) != action:
            return False, action
    return True, action


def unseen_index(posterior: ObstructionPosterior) -> tuple[int, ...]:
    """Index of what has no mask, if it is there."""
    return () if posterior.unseen is None else (posterior.index(posterior.unseen),)


def reason_to_defer(
    posterior: ObstructionPosterior, scores: Sequence[float], conflict: float, undecided: bool = False
) -> DeferReason:
    """Why no action is likely enough to be right, by stated rules, the first that applies.

    Args:
        posterior: The scene.
        scores: One for each object; that of what has no mask is of no action.
        conflict: The least that is known of mu_target.
        undecided: Whether the intervals of the scores leave open what exact inference would do.
    """
    if conflict >= CONFLICT:
        return "conflicting_evidence"
    if undecided:
        return "not_proven"
    unseen = unseen_index(posterior)
    ranked = sorted((score for o, score in enumerate(scores) if o not in unseen), reverse=True)
    if len(ranked) > 1 and ranked[0] - ranked[1] < NEAR_TIE:
        return "near_tie"
    return "weak_evidence"


def judge(
    posterior: ObstructionPosterior, inference: Inference, policy: Policy, paper_rule: bool = False
) -> Decision:
    """The decision that scores, thresholds and certificate give.

    Args:
        posterior: The scene.
        inference: Its scores and their intervals.
        policy: Thresholds, and whether to defer where the action is not proven.
        paper_rule: Act on scores however wide their intervals are, as the paper does. For comparison only.
    """
    scores, tau, blocker_threshold = inference.scores, policy.threshold, policy.blocker_threshold
    relied_on = scores if paper_rule else inference.low
    certificate = certify(inference, posterior, tau, blocker_threshold)
    action = choose(posterior, relied_on, tau)
    if action is None or (policy.require_certificate and not certificate.certified):
        undecided = max(inference.high) > tau + ROUNDING
        action = Defer(reason_to_defer(posterior, scores, inference.conflict, undecided))
    objects = posterior.objects
    limit = blocker_threshold + ROUNDING
    named = {label for label, score in zip(objects, relied_on, strict=True) if score > limit}
    never = {posterior.target} if posterior.unseen is None else {posterior.target, posterior.unseen}
    bounds = None
    if not certificate.exact:
        bounds = dict(zip(objects, zip(inference.low, inference.high, strict=True), strict=True))
    return Decision(
        action,
        dict(zip(objects, scores, strict=True)),
        frozenset(named - never),
        certificate,
        inference.method,
        tau,
        blocker_threshold,
        inference.mu,
        inference.mu_target,
        bounds=bounds,
    )
